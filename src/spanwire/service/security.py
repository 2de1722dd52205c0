"""Builds the broker's door from a configuration, and looks after user files that change while it runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from spanwire.broker.authentication import (
    CertificatesModule,
    GuestModule,
    LoginModule,
    LoginStack,
    StackEntry,
    User,
    UsersModule,
)
from spanwire.broker.authorization_map import AuthorizationMap
from spanwire.broker.ports import Principal
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration, LoginModuleConfiguration, UserConfiguration, UserSource

RELOAD_SECONDS: Final = 2.0  # between two looks at user files; ActiveMQ looks at each login
# Passwords of ActiveMQ's own examples and of a hundred tutorials; beside these, a user's own name is one.
WELL_KNOWN_PASSWORDS: Final = frozenset(
    {"activemq", "admin", "changeit", "changeme", "default", "guest", "manager", "password", "secret", "user"}
)

logger = logging.getLogger(__name__)


class Security:
    """Who may log in and who may do what, as one configuration says."""

    def __init__(self, configuration: BrokerConfiguration) -> None:
        self._configuration: Final = configuration
        self._watched: Final[list[_Watched]] = []
        self._watch: asyncio.Task[None] | None = None

    def authenticator(self) -> LoginStack | None:
        """None when nothing is configured: everybody may log in."""
        authentication = self._configuration.authentication
        if authentication is None:
            return None
        return LoginStack([StackEntry(module.flag, self._module(module)) for module in authentication.modules])

    def authorizer(self) -> AuthorizationMap | None:
        """None when nothing is configured: everybody may do everything."""
        authorization = self._configuration.authorization
        if authorization is None:
            return None
        return AuthorizationMap(list(authorization.entries), authorization.temporary, authorization.default)

    def obstacle(self) -> str | None:
        """Why connectors must not be reachable from other machines; None when a password is between."""
        authentication = self._configuration.authentication
        if authentication is None:
            return "without authentication: bind 127.0.0.1, add a simpleAuthenticationPlugin"
        if authentication.lets_anybody_in:
            return "to clients without a password: bind 127.0.0.1, turn anonymous and guest access off"
        weak = [user.name for module in authentication.modules for user in module.users if _is_well_known(user)]
        if weak:
            names = ", ".join(f"{name[:60]!r}" for name in weak[:5])
            return f"with well-known passwords: bind 127.0.0.1, change the password of {names}"
        return None

    def start(self) -> None:
        """Look at the user files from now on, if some may change."""
        if self._watched:
            self._watch = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _module(self, module: LoginModuleConfiguration) -> LoginModule:
        if module.guest is not None:
            return GuestModule(Principal(module.guest, module.guest_groups), module.without_credentials)
        if module.certified:
            return CertificatesModule({user.subject: Principal(user.name, user.groups) for user in module.certified})
        users = UsersModule(_users(module.users))
        if module.files is not None and module.files.reload:
            self._watched.append(_Watched(module.files, users))
        return users

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            for watched in self._watched:
                await watched.look()


class _Watched:
    """One pair of user files and the module that knows their users."""

    def __init__(self, files: UserSource, module: UsersModule) -> None:
        self._files: Final = files
        self._module: Final = module
        self._stamp = files.stamp()

    async def look(self) -> None:
        """Take over what changed; files that cannot be read leave everything as it was."""
        try:
            stamp = await asyncio.to_thread(self._files.stamp)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            users = await asyncio.to_thread(lambda: _users(self._files.read()))
        except ConfigurationError as error:
            logger.warning("users stay as they were: %s", error)
            return
        self._module.replace(users)
        logger.info("users read again: %d", len(users))


def _users(configured: tuple[UserConfiguration, ...]) -> list[User]:
    return [User(user.name, user.password, user.groups) for user in configured]


def _is_well_known(user: UserConfiguration) -> bool:
    password = user.password.reveal().lower()
    return password in WELL_KNOWN_PASSWORDS or password == user.name.lower()
