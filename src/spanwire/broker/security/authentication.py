"""Who a connection acts for: users with passwords and groups, and what becomes of clients without (ActiveMQ's
``simpleAuthenticationPlugin`` and the properties and guest login modules of its JAAS realm).

A `LoginStack` asks its `LoginModule`s in order, with the flags of javax.security.auth.login.Configuration: all that are
``required`` or ``requisite`` must accept, one that is ``sufficient`` ends the search when it accepts.
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
    """A user of the configuration. The password is kept as its digest, so that comparing takes the same time for all
    lengths.
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
        """The principal of a connection, or None when these credentials do not hold here."""
        ...


class UsersModule(LoginModule):
    """Known users by name and password."""

    def __init__(self, users: list[User]) -> None:
        self._users: Final[dict[str, User]] = {}
        self._nobody: Final[bytes] = digest_of("")
        self.replace(users)

    def replace(self, users: list[User]) -> None:
        """These users from now on. Connections that are logged in stay who they are."""
        self._users.clear()
        for user in users:
            self._users[user.principal.name] = user

    def login(self, info: ConnectionInfo) -> Principal | None:
        """The user of this name if the password is his; it takes as long for an unknown name as for a wrong
        password.
        """
        user = None if info.user_name is None else self._users.get(info.user_name)
        expected = self._nobody if user is None else user.digest
        equal = hmac.compare_digest(expected, digest_of(info.password or ""))
        if user is None or info.password is None or not equal:
            return None
        return user.principal


class CertificatesModule(LoginModule):
    """Known users by the name in their TLS certificate, which the connector has verified; passwords are not looked at
    (ActiveMQ's TextFileCertificateLoginModule).
    """

    def __init__(self, principals: dict[str, Principal]) -> None:
        """``principals`` by distinguished name, as `ConnectionInfo.certificate_subject` has it."""
        self._principals: dict[str, Principal] = principals

    def replace(self, principals: dict[str, Principal]) -> None:
        """These users from now on. Connections that are logged in stay who they are."""
        self._principals = principals

    def login(self, info: ConnectionInfo) -> Principal | None:
        """The user to whom the certificate is made out."""
        subject = info.certificate_subject
        return None if subject is None else self._principals.get(subject)


class GuestModule(LoginModule):
    """One identity for whoever comes. ``without_credentials`` only: a client that gives a name or password must log in
    elsewhere.
    """

    def __init__(self, principal: Principal, without_credentials: bool) -> None:
        self._principal: Final[Principal] = principal
        self._without_credentials: Final[bool] = without_credentials

    def login(self, info: ConnectionInfo) -> Principal | None:
        """The guest."""
        if self._without_credentials and (info.password is not None or info.user_name is not None):
            return None
        return self._principal


class StackEntry:
    """A login module and its flag."""

    __slots__ = ("flag", "module")

    def __init__(self, flag: str, module: LoginModule) -> None:
        self.flag: Final[str] = flag
        self.module: Final[LoginModule] = module


class LoginStack(Authenticator):
    """Decides by its modules. Counting failures is left to `Logins`."""

    def __init__(self, entries: list[StackEntry]) -> None:
        self._entries: Final[list[StackEntry]] = entries

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """The principal: the first name that was accepted, with the groups of all modules that accepted."""
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
        """What the modules gave; nothing when the whole is refused."""
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
    """One way to log in inside TLS, another one outside (ActiveMQ's ``jaasDualAuthenticationPlugin``). An encrypted
    connection without a client certificate is one inside TLS.
    """

    def __init__(self, plain: LoginStack, encrypted: LoginStack) -> None:
        self._plain: Final[LoginStack] = plain
        self._encrypted: Final[LoginStack] = encrypted

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """What the stack of this kind of connection says."""
        return self._encrypted.authenticate(info) if info.encrypted else self._plain.authenticate(info)


def simple_authenticator(users: list[User], anonymous: Principal | None) -> LoginStack:
    """Users, and ``anonymous`` for clients that give neither name nor password; None refuses those."""
    entries: list[StackEntry] = []
    if anonymous is not None:
        entries.append(StackEntry(SUFFICIENT, GuestModule(anonymous, without_credentials=True)))
    entries.append(StackEntry(SUFFICIENT, UsersModule(users)))
    return LoginStack(entries)


def digest_of(password: str) -> bytes:
    """SHA-256 of a password, for comparing only: it lives in memory and is never stored."""
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
