"""Reads users.properties and groups.properties of ActiveMQ's PropertiesLoginModule.

users.properties name=password the password may be in ENC(…) groups.properties group=name,name a group and its members

The files of a TextFileCertificateLoginModule have the same groups, and ``name=CN=orders, O=Example`` for each user.
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
