"""Builds authentication and authorization from a configuration, and reloads changed user files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from spanwire import registry
from spanwire.broker.ports import Principal
from spanwire.broker.security.authentication import (
    CertificatesModule,
    DirectoryModule,
    DualLogin,
    GuestModule,
    LoginModule,
    LoginStack,
    StackEntry,
    User,
    UsersModule,
)
from spanwire.broker.security.authorization_map import AuthorizationMap
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import (
    BrokerConfiguration,
    CertifiedConfiguration,
    LoginModuleConfiguration,
    UserConfiguration,
)
from spanwire.service.directories.refreshed_rights import RefreshedRights, no_rights

if TYPE_CHECKING:
    from spanwire.ldap.settings import LoginSettings, RightsSettings
    from spanwire.service.directories.questions import DirectoryQuestions

    OpenLogins = Callable[[LoginSettings, BrokerConfiguration, Callable[[], None]], DirectoryQuestions]
    OpenRights = Callable[[RightsSettings, BrokerConfiguration, Callable[[AuthorizationMap], None]], RefreshedRights]

RELOAD_SECONDS: Final = 2.0  # seconds between two checks of user files; ActiveMQ checks at each login
# Passwords of ActiveMQ's examples and of tutorials. A user's own name counts as well known, too.
WELL_KNOWN_PASSWORDS: Final = frozenset(
    {"activemq", "admin", "changeit", "changeme", "default", "guest", "manager", "password", "secret", "user"}
)

Users = TypeVar("Users", list[User], dict[str, Principal])
Stamp = Callable[[], tuple[tuple[int, int, int], ...]]

logger = logging.getLogger(__name__)


class Security:
    """Authentication and authorization of one configuration."""

    def __init__(self, configuration: BrokerConfiguration, wake: Callable[[], None] = lambda: None) -> None:
        """``wake`` ends the turn of the broker, because a directory has answered."""
        self._configuration = configuration
        self._wake: Final = wake
        self._questions: list[DirectoryQuestions] = []
        self._rights: RefreshedRights | None = None
        self._use: Callable[[AuthorizationMap], None] | None = None
        self._watched: list[_UserFiles] = []
        self._watch: asyncio.Task[None] | None = None

    def authenticator(self) -> LoginStack | DualLogin | None:
        """Return the authenticator; None if every client may log in."""
        authentication = self._configuration.authentication
        if authentication is None:
            return None
        plain = self._stack(authentication.modules)
        return plain if authentication.encrypted is None else DualLogin(plain, self._stack(authentication.encrypted))

    def authorizer(self) -> AuthorizationMap | None:
        """Return the authorizer; None if every user has all rights. Rights of a directory come with `begin`."""
        authorization = self._configuration.authorization
        if authorization is None:
            return None
        if authorization.directory is not None:
            return no_rights()
        return AuthorizationMap(list(authorization.entries), authorization.temporary, authorization.default)

    def change_users(self, configuration: BrokerConfiguration) -> LoginStack | DualLogin | None:
        """Return the authenticator of another configuration, and watch the new user files instead.

        Raises:
            ConfigurationError: a user file is missing; nothing has changed.
        """
        before, watched, questions = self._configuration, self._watched, self._questions
        self._configuration, self._watched, self._questions = configuration, [], []
        try:
            authenticator = self.authenticator()
        except ConfigurationError:
            self._configuration, self._watched, self._questions = before, watched, questions
            raise
        for asked in questions:
            asked.close()
        self._stop_watching()
        self.start()
        return authenticator

    async def change_rights(self, configuration: BrokerConfiguration) -> AuthorizationMap | None:
        """Return the authorizer of another configuration; None for rights in a directory, after a read.

        For an unreadable directory, no user has rights until a successful read: the rights of the old configuration
        end.
        """
        self._configuration = configuration
        authorization = configuration.authorization
        self._stop_reading()
        if authorization is None or authorization.directory is None:
            return self.authorizer()
        await self._start_reading()
        return None if self._rights is not None and self._rights.is_read else no_rights()

    @property
    def is_open(self) -> bool:
        """True if no authentication is configured."""
        return self._configuration.authentication is None

    def obstacle(self) -> str | None:
        """Return the reason against connectors open to other machines; None with a required password."""
        authentication = self._configuration.authentication
        if authentication is None:
            return "without authentication: bind 127.0.0.1, add a simpleAuthenticationPlugin"
        if authentication.lets_anybody_in:
            return "to clients without a password: bind 127.0.0.1, turn anonymous and guest access off"
        users = [user for module in authentication.all_modules for user in module.users]
        weak = [user.name for user in users if is_well_known(user.name, user.password.reveal())]
        if weak:
            names = ", ".join(f"{name[:60]!r}" for name in weak[:5])
            return f"with well-known passwords: bind 127.0.0.1, change the password of {names}"
        return None

    def exposure(self, *, has_realm: bool) -> dict[str, object]:
        """Return the guard of the web port: the reason against an open port, or the guarding realm."""
        is_guarded = has_realm and self.is_open
        return {"obstacle": None if is_guarded else self.obstacle(), "realm": is_guarded}

    async def begin(self, use: Callable[[AuthorizationMap], None]) -> None:
        """Read the rights of a directory, and start checking for changes; ``use`` takes a changed map."""
        self._use = use
        await self._start_reading()
        self.start()

    def start(self) -> None:
        """Start checking the user files for changes."""
        if self._watched:
            self._watch = asyncio.get_running_loop().create_task(self._check_periodically())

    def stop(self) -> None:
        """Stop checking, and asking directories."""
        self._stop_watching()
        self._stop_reading()
        for asked in self._questions:
            asked.close()
        self._questions = []

    async def _start_reading(self) -> None:
        authorization = self._configuration.authorization
        if authorization is not None and authorization.directory is not None and self._use is not None:
            read = cast("OpenRights", registry.load(registry.REFRESHED_RIGHTS))
            self._rights = read(authorization.directory, self._configuration, self._take_rights)
            await self._rights.start()

    def _take_rights(self, rights: AuthorizationMap) -> None:
        assert self._use is not None
        self._use(rights)
        self._wake()

    def _stop_reading(self) -> None:
        if self._rights is not None:
            self._rights.stop()
            self._rights = None

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _stack(self, modules: tuple[LoginModuleConfiguration, ...]) -> LoginStack:
        return LoginStack([StackEntry(module.flag, self._module(module)) for module in modules])

    def _module(self, module: LoginModuleConfiguration) -> LoginModule:
        if module.guest is not None:
            return GuestModule(Principal(module.guest, module.guest_groups), module.without_credentials)
        if module.directory is not None:
            ask = cast("OpenLogins", registry.load(registry.LOGIN_QUESTIONS))
            questions = ask(module.directory, self._configuration, self._wake)
            self._questions.append(questions)
            return DirectoryModule(questions)
        if module.certified:
            return self._certificates(module)
        users = UsersModule(_users(module.users))
        files = module.files
        if files is not None and files.reload:
            self._watched.append(_WatchedFiles(files.stamp, lambda: _users(files.read()), users.replace))
        return users

    def _certificates(self, module: LoginModuleConfiguration) -> CertificatesModule:
        certificates = CertificatesModule(_principals(module.certified))
        files = module.certified_files
        if files is not None and files.reload:
            self._watched.append(_WatchedFiles(files.stamp, lambda: _principals(files.read()), certificates.replace))
        return certificates

    async def check_files(self) -> None:
        """Apply the changes of user files."""
        for watched in self._watched:
            await watched.check()

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await self.check_files()


class _UserFiles(Protocol):
    """A pair of watched user files."""

    async def check(self) -> None: ...


class _WatchedFiles(Generic[Users]):
    """A pair of user files, with the reading function and the login module."""

    def __init__(self, stamp: Stamp, read: Callable[[], Users], replace: Callable[[Users], None]) -> None:
        self._read_stamp: Final = stamp
        self._read: Final[Callable[[], Users]] = read
        self._replace: Final[Callable[[Users], None]] = replace
        self._stamp = stamp()

    async def check(self) -> None:
        """Apply changed files; unreadable files leave the users unchanged."""
        try:
            stamp = await asyncio.to_thread(self._read_stamp)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            users = await asyncio.to_thread(self._read)
        except ConfigurationError as error:
            logger.warning("users stay as they were: %s", error)
            return
        self._replace(users)
        logger.info("users read again: %d", len(users))


def _users(configured: tuple[UserConfiguration, ...]) -> list[User]:
    return [User(user.name, user.password, user.groups) for user in configured]


def _principals(configured: tuple[CertifiedConfiguration, ...]) -> dict[str, Principal]:
    return {user.subject: Principal(user.name, user.groups) for user in configured}


def is_well_known(user: str, password: str) -> bool:
    """Return True for a password among the first guesses of an attacker."""
    return password.lower() in WELL_KNOWN_PASSWORDS or password.lower() == user.lower()
