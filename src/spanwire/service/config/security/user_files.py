"""Reads user files: those of ActiveMQ's PropertiesLoginModule, and jetty-realm.properties.

users.properties name=password the password may be in ENC(…) groups.properties group=name,name a group and its members

The files of a TextFileCertificateLoginModule have the same groups, and ``name=CN=orders, O=Example`` for each user.

jetty-realm.properties ``name: password, role, role``; the password may be ``OBF:…``, obfuscated, or ``MD5:…``, a digest
(Jetty, HashLoginService).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.model import CertifiedConfiguration, UserConfiguration
from spanwire.service.config.readers.properties import read_properties
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import read_text_file

MAX_USERS: Final = 100_000  # users of one file; bounds the memory
MAX_REALM_USERS: Final = 1_000  # people with a login to a console; the file is read while the broker waits
OBFUSCATED: Final = "OBF:"
DIGEST: Final = "MD5:"
CRYPT: Final = "CRYPT:"


@dataclass(frozen=True, slots=True)
class UserFiles:
    """A users file and a groups file. With ``reload``, a running broker reads changed files again."""

    users: Path
    groups: Path
    reload: bool
    decryption: Decryption = field(repr=False, compare=False)

    def read(self) -> tuple[UserConfiguration, ...]:
        """Return all users; raises `ConfigurationError` with the file and the user at fault."""
        members = _members(_properties(self.groups))
        users = []
        for name, value in _properties(self.users).items():
            try:
                password = Secret(self.decryption.plain(value))
            except ConfigurationError as error:
                raise ConfigurationError(f"{self.users}: the password of user {name[:60]!r}: {error}") from error
            if password.is_empty():
                raise ConfigurationError(f"{self.users}: user {name[:60]!r} has no password; write one behind the =")
            users.append(UserConfiguration(name, password, frozenset(members.get(name, ()))))
        if len(users) > MAX_USERS:
            raise ConfigurationError(f"{self.users}: more than {MAX_USERS} users")
        return tuple(users)

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the files; raises `ConfigurationError` if one is missing."""
        return _stamp(self.users, self.groups)


@dataclass(frozen=True, slots=True)
class RealmFile:
    """A file of Jetty's HashLoginService; a running broker reads the changed file again."""

    path: Path
    reload: bool = True

    def read(self) -> tuple[UserConfiguration, ...]:
        """Return all users with their roles as groups; raises `ConfigurationError` with the file and the user."""
        users = []
        for name, value in _properties(self.path).items():
            password, *roles = (part.strip() for part in value.split(","))
            where = f"{self.path}: user {name[:60]!r}"
            if password.startswith(CRYPT):
                raise ConfigurationError(
                    f"{where}: CRYPT: passwords are too weak to count; write {OBFUSCATED} or {DIGEST}"
                )
            if password.startswith(OBFUSCATED):
                try:
                    password = _plain(password.removeprefix(OBFUSCATED))
                except ValueError:
                    raise ConfigurationError(f"{where}: the password behind {OBFUSCATED} is not obfuscated") from None
            if not password:
                raise ConfigurationError(f"{where} has no password; write one behind the :")
            users.append(UserConfiguration(name, Secret(password), frozenset(filter(None, roles))))
        if len(users) > MAX_REALM_USERS:
            raise ConfigurationError(f"{self.path}: more than {MAX_REALM_USERS} users")
        return tuple(users)

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the file; raises `ConfigurationError` if the file is missing."""
        return _stamp(self.path)


def _plain(obfuscated: str) -> str:
    """Return a password in Jetty's obfuscation: four digits of base 36 for a byte, five above 127.

    Raises `ValueError`.
    """
    octets = bytearray()
    at = 0
    while at < len(obfuscated):
        is_wide = obfuscated[at] == "U"
        at += is_wide
        number = int(obfuscated[at : at + 4], 36)
        high, low = divmod(number, 256)
        octets.append(high if is_wide else (high + low - 254) // 2)
        at += 4
    return octets.decode("utf-8")


@dataclass(frozen=True, slots=True)
class CertifiedFiles:
    """The two files of a TextFileCertificateLoginModule. With ``reload``, changed files are read again."""

    users: Path
    groups: Path
    reload: bool

    def read(self) -> tuple[CertifiedConfiguration, ...]:
        """Return all users; raises `ConfigurationError` with the file."""
        return read_certified(self.users, self.groups)

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the files; raises `ConfigurationError` if one is missing."""
        return _stamp(self.users, self.groups)


def read_certified(users: Path, groups: Path) -> tuple[CertifiedConfiguration, ...]:
    """Return the users of a TextFileCertificateLoginModule; raises `ConfigurationError` with the file."""
    members = _members(_properties(groups))
    users_by_subject: dict[str, CertifiedConfiguration] = {}
    for name, subject in _properties(users).items():
        if "=" not in subject:
            raise ConfigurationError(f"{users}: user {name[:60]!r} has no distinguished name; write {name[:60]}=CN=…")
        if subject in users_by_subject:
            raise ConfigurationError(
                f"{users}: users {users_by_subject[subject].name[:60]!r} and {name[:60]!r} have one name"
            )
        users_by_subject[subject] = CertifiedConfiguration(name, subject, frozenset(members.get(name, ())))
    if not users_by_subject:
        raise ConfigurationError(f"{users}: names no user")
    if len(users_by_subject) > MAX_USERS:
        raise ConfigurationError(f"{users}: more than {MAX_USERS} users")
    return tuple(users_by_subject.values())


def _stamp(*paths: Path) -> tuple[tuple[int, int, int], ...]:
    stamps = []
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
        stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


def _properties(path: Path) -> dict[str, str]:
    try:
        return read_properties(read_text_file(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: is not in UTF-8") from error


def _members(groups: dict[str, str]) -> dict[str, set[str]]:
    groups_by_member: dict[str, set[str]] = {}
    for group, names in groups.items():
        for name in names.split(","):
            if name.strip():
                groups_by_member.setdefault(name.strip(), set()).add(group)
    return groups_by_member
