"""Authentication: users with passwords, certificates and groups, and guests.

The modules are those of ActiveMQ: ``simpleAuthenticationPlugin``, and the properties, certificate and guest login
modules of its JAAS realm. A `LoginStack` asks its `LoginModule`s in order, with the flags of
javax.security.auth.login.Configuration: each ``required`` or ``requisite`` module must accept, a ``sufficient`` module
ends the search when it accepts.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Protocol

from spanwire.broker.ports import Authenticator, Principal
from spanwire.model.errors import AuthenticationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.secret import Secret

REQUIRED: Final = "required"
REQUISITE: Final = "requisite"
SUFFICIENT: Final = "sufficient"
OPTIONAL: Final = "optional"

MAX_SHOWN_NAME: Final = 256  # characters of a user name that an error repeats


class User:
    """A user of the configuration.

    Only a digest of the password is kept, so that comparison takes equal time.
    """

    __slots__ = ("digest", "principal")

    def __init__(self, name: str, password: Secret, groups: frozenset[str]) -> None:
        self.principal: Final[Principal] = Principal(name, groups)
        self.digest: Final[bytes] = digest_of(password.reveal())

    def __repr__(self) -> str:
        return f"User({self.principal.name})"


class LoginModule(Protocol):
    """One way to log in."""

    def login(self, info: ConnectionInfo) -> Principal | None:
        """Return the principal of a connection, None if the credentials are not valid here."""
        ...


class UsersModule(LoginModule):
    """Users with passwords."""

    def __init__(self, users: list[User]) -> None:
        self._users: Final[dict[str, User]] = {}
        self._nobody: Final[bytes] = digest_of("")
        self.replace(users)

    def replace(self, users: list[User]) -> None:
        """Replace all users. Existing connections keep their principals."""
        self._users.clear()
        for user in users:
            self._users[user.principal.name] = user

    def login(self, info: ConnectionInfo) -> Principal | None:
        """Return the user if the password is right. An unknown name takes as long as a wrong password."""
        user = None if info.user_name is None else self._users.get(info.user_name)
        expected = self._nobody if user is None else user.digest
        equal = hmac.compare_digest(expected, digest_of(info.password or ""))
        if user is None or info.password is None or not equal:
            return None
        return user.principal


class CertificatesModule(LoginModule):
    """Users by the distinguished name of a TLS client certificate.

    ActiveMQ has TextFileCertificateLoginModule for such users.

    The connector has verified the certificate. Passwords are ignored.
    """

    def __init__(self, principals: dict[str, Principal]) -> None:
        """Take ``principals`` by distinguished name, in the form of `ConnectionInfo.certificate_subject`."""
        self._principals: dict[str, Principal] = principals

    def replace(self, principals: dict[str, Principal]) -> None:
        """Replace all users. Existing connections keep their principals."""
        self._principals = principals

    def login(self, info: ConnectionInfo) -> Principal | None:
        """Return the user of the certificate."""
        subject = info.certificate_subject
        return None if subject is None else self._principals.get(subject)


class GuestModule(LoginModule):
    """One principal for all clients.

    With ``without_credentials`` only clients without name and password get the principal.
    """

    def __init__(self, principal: Principal, without_credentials: bool) -> None:
        self._principal: Final[Principal] = principal
        self._without_credentials: Final[bool] = without_credentials

    def login(self, info: ConnectionInfo) -> Principal | None:
        """Return the guest."""
        if self._without_credentials and (info.password is not None or info.user_name is not None):
            return None
        return self._principal


class StackEntry:
    """A login module with its flag."""

    __slots__ = ("flag", "module")

    def __init__(self, flag: str, module: LoginModule) -> None:
        self.flag: Final[str] = flag
        self.module: Final[LoginModule] = module


class LoginStack(Authenticator):
    """Authenticates by login modules. `Logins` counts failures."""

    def __init__(self, entries: list[StackEntry]) -> None:
        self._entries: Final[list[StackEntry]] = entries

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """Return the first accepted name with the groups of all modules that accepted.

        Raises:
            AuthenticationError: the credentials are not valid.
        """
        accepted = self._accepted(info)
        if not accepted:
            name = "null" if info.user_name is None else info.user_name[:MAX_SHOWN_NAME]
            raise AuthenticationError(f"User name [{name}] or password is invalid.")
        if len(accepted) == 1:
            return accepted[0]
        groups: set[str] = set()
        for principal in accepted:
            groups.update(principal.groups)
        return Principal(accepted[0].name, frozenset(groups))

    def _accepted(self, info: ConnectionInfo) -> list[Principal]:
        """Return the principals of all modules that accepted; empty if the login fails."""
        accepted: list[Principal] = []
        refused = False
        for entry in self._entries:
            principal = entry.module.login(info)
            if principal is not None:
                accepted.append(principal)
                if entry.flag == SUFFICIENT and not refused:
                    break
            elif entry.flag == REQUISITE:
                return []
            elif entry.flag == REQUIRED:
                refused = True
        return [] if refused else accepted


class DualLogin(Authenticator):
    """One login stack for TLS connections and one for others.

    ActiveMQ has ``jaasDualAuthenticationPlugin``.

    A TLS connection without a client certificate uses the stack for TLS as well.
    """

    def __init__(self, plain: LoginStack, encrypted: LoginStack) -> None:
        self._plain: Final[LoginStack] = plain
        self._encrypted: Final[LoginStack] = encrypted

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """Return the principal from the stack for this kind of connection."""
        return self._encrypted.authenticate(info) if info.encrypted else self._plain.authenticate(info)


def simple_authenticator(users: list[User], anonymous: Principal | None) -> LoginStack:
    """Return a stack of ``users``, with ``anonymous`` for clients without name and password.

    None refuses such clients.
    """
    entries: list[StackEntry] = []
    if anonymous is not None:
        entries.append(StackEntry(SUFFICIENT, GuestModule(anonymous, without_credentials=True)))
    entries.append(StackEntry(SUFFICIENT, UsersModule(users)))
    return LoginStack(entries)


def digest_of(password: str) -> bytes:
    """Return the SHA-256 digest of a password, for comparison in memory; never stored."""
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
