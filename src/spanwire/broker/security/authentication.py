"""Authentication: users with passwords, certificates and groups, and guests.

The modules are ActiveMQ's: ``simpleAuthenticationPlugin``, and the properties, certificate, guest and LDAP login
modules of its JAAS realm. A `LoginStack` asks its `LoginModule`s in order, with the flags of
javax.security.auth.login.Configuration: each ``required`` or ``requisite`` module must accept, a ``sufficient`` module
ends the search by accepting.

A `DirectoryModule` cannot answer at once. `LoginAttempt` stops there and goes on with the answer; `Logins` keeps the
waiting attempts.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Protocol

from spanwire.broker.ports import Authenticator, Directory, Principal
from spanwire.model.errors import AuthenticationError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.secret import Secret

REQUIRED: Final = "required"
REQUISITE: Final = "requisite"
SUFFICIENT: Final = "sufficient"
OPTIONAL: Final = "optional"

MAX_SHOWN_NAME: Final = 256  # characters of a user name that an error repeats


class User:
    """A user of the configuration.

    The digest of the password is for comparison in equal time.
    """

    __slots__ = ("digest", "password", "principal")

    def __init__(self, name: str, password: Secret, groups: frozenset[str]) -> None:
        self.principal: Final[Principal] = Principal(name, groups)
        self.password: Final[Secret] = password
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

    def password_of(self, name: str) -> Secret | None:
        """Return the password of a user, None for an unknown user."""
        user = self._users.get(name)
        return None if user is None else user.password


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
        self.without_credentials: Final[bool] = without_credentials

    def login(self, info: ConnectionInfo) -> Principal | None:
        """Return the guest."""
        if self.without_credentials and (info.password is not None or info.user_name is not None):
            return None
        return self._principal


class DirectoryModule(LoginModule):
    """Users of a directory outside of the process."""

    def __init__(self, directory: Directory) -> None:
        self.directory: Final[Directory] = directory

    def login(self, info: ConnectionInfo) -> Principal | None:
        """Return None: only an answer of the directory accepts a user, see `LoginAttempt`."""
        return None


class StackEntry:
    """A login module with a flag."""

    __slots__ = ("flag", "module")

    def __init__(self, flag: str, module: LoginModule) -> None:
        self.flag: Final[str] = flag
        self.module: Final[LoginModule] = module


class LoginAttempt:
    """One login at the modules of a stack. It stops at each directory, and goes on with the answer."""

    def __init__(self, entries: list[StackEntry], info: ConnectionInfo) -> None:
        self.info: Final[ConnectionInfo] = info
        self._entries: Final[list[StackEntry]] = entries
        self._next = 0
        self._accepted: Final[list[Principal]] = []
        self._is_refused = False  # by a required or requisite module
        self._is_available = True  # False once a directory has not answered

    def next_directory(self) -> Directory | None:
        """Ask the modules up to the next directory, and return the directory; None for a decided login.

        A directory is never asked about an empty name or password: a bind with an empty password succeeds for every
        name (RFC 4513, "Unauthenticated Authentication Mechanism of Simple Bind").
        """
        info = self.info
        while self._next < len(self._entries):
            module = self._entries[self._next].module
            if isinstance(module, DirectoryModule) and info.user_name and info.password:
                return module.directory
            self._take(module.login(info))
        return None

    def add_answer(self, principal: Principal | None, is_available: bool) -> None:
        """Go on behind the directory that `next_directory` has returned."""
        if not is_available:
            self._is_available = False
        self._take(principal)

    def principal(self) -> Principal:
        """Return the first accepted name with the groups of all accepting modules.

        Raises:
            AuthenticationError: the credentials are not valid.
            ResourceAllocationError: a directory did not answer, so the login stays undecided.
        """
        accepted = self._accepted
        if self._is_refused or not accepted:
            name = "null" if self.info.user_name is None else self.info.user_name[:MAX_SHOWN_NAME]
            if not self._is_available:
                raise ResourceAllocationError(f"The login of [{name}] cannot be checked now: no answer of a directory.")
            raise AuthenticationError(f"User name [{name}] or password is invalid.")
        if len(accepted) == 1:
            return accepted[0]
        groups: set[str] = set()
        for principal in accepted:
            groups.update(principal.groups)
        return Principal(accepted[0].name, frozenset(groups))

    def _take(self, principal: Principal | None) -> None:
        """Apply the flag of the next module to its answer."""
        flag = self._entries[self._next].flag
        self._next += 1
        if principal is not None:
            self._accepted.append(principal)
            if flag == SUFFICIENT and not self._is_refused:
                self._next = len(self._entries)
        elif flag == REQUISITE:
            self._is_refused = True
            self._next = len(self._entries)
        elif flag == REQUIRED:
            self._is_refused = True


class LoginStack(Authenticator):
    """Authenticates by login modules. `Logins` counts failures."""

    def __init__(self, entries: list[StackEntry]) -> None:
        self._entries: Final[list[StackEntry]] = entries
        asks = False
        for entry in entries:
            asks = asks or isinstance(entry.module, DirectoryModule)
        self.asks: Final[bool] = asks

    def modules(self) -> list[LoginModule]:
        """Return the modules in order."""
        return [entry.module for entry in self._entries]

    def attempt(self, info: ConnectionInfo) -> LoginAttempt:
        """Begin a login."""
        return LoginAttempt(self._entries, info)

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """Return the principal if no directory has to be asked.

        Raises:
            AuthenticationError: the credentials are not valid.
            ResourceAllocationError: a directory has to be asked, and this login cannot wait.
        """
        attempt = self.attempt(info)
        if attempt.next_directory() is not None:
            raise ResourceAllocationError("This login cannot wait for the answer of a directory; try again later.")
        return attempt.principal()


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
        return self.stack(encrypted=info.encrypted).authenticate(info)

    def stack(self, *, encrypted: bool) -> LoginStack:
        """Return the stack for connections that are ``encrypted`` or not."""
        return self._encrypted if encrypted else self._plain


def waiting_attempt(authenticator: Authenticator, info: ConnectionInfo) -> LoginAttempt | None:
    """Return a login waiting for a directory; None if ``authenticator`` decides at once."""
    stack = authenticator.stack(encrypted=info.encrypted) if isinstance(authenticator, DualLogin) else authenticator
    if not isinstance(stack, LoginStack) or not stack.asks:
        return None
    attempt = stack.attempt(info)
    return None if attempt.next_directory() is None else attempt


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
