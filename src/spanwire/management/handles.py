"""Handles of logged-in operators: a user logs in with name and password and gets a handle with a role.

The web process has no rights of its own. It passes each request on with the handle of the caller; the broker looks up
the role of the command (`COMMAND_ROLES`) and writes the user into the audit log. A command without a role is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from spanwire.broker.ports import Authenticator
from spanwire.management.tables.operation_table import COMMAND_ROLES, Role
from spanwire.model.errors import AuthenticationError, ConfigurationError, SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.transports.awaited_login import LoginBroker, awaited_login
from spanwire.transports.base import Clock

LIFETIME_S: Final = 60  # seconds; a changed password or group counts after this time at most
MAX_HANDLES: Final = 1_000  # handles; the oldest one ends when there are more
HANDLE_BYTES: Final = 32  # random bytes of a handle
PROTOCOL: Final = "http"
OPERATOR: Final = "operator"  # the argument in which operations find the holder of the handle
ANONYMOUS: Final = "anonymous"


# Groups of the broker's users, as in ActiveMQ's examples, and the role of their members.
GROUP_ROLES: Final[dict[str, Role]] = {
    "viewers": Role.VIEW,
    "operators": Role.OPERATE,
    "admins": Role.ADMIN,
    "admin": Role.ADMIN,
}


# Roles in Jetty's realm (ActiveMQ, conf/jetty-realm.properties): "user" sees the console, "admin" also operates.
REALM_ROLES: Final[dict[str, Role]] = {**GROUP_ROLES, "user": Role.VIEW}


class UnknownHandleError(SpanwireError):
    """Raised for an ended or unknown handle."""


class ForbiddenError(SpanwireError):
    """Raised if the role of a user is too low for a command."""


class Realm(Authenticator, Protocol):
    """Users of the web process alone."""

    def names(self, user: str | None) -> bool:
        """Return True if the realm has the user."""
        ...


@dataclass(frozen=True, slots=True)
class Operator:
    """The holder of a handle; ``ends`` is a time in monotonic seconds."""

    user: str
    address: str
    role: Role
    ends: float
    groups: frozenset[str] = frozenset()


class Handles:
    """Makes and checks handles. The broker's login checks the credentials and counts failures."""

    def __init__(
        self,
        broker: LoginBroker,
        clock: Clock,
        is_open: Callable[[], bool],
        new_token: Callable[[], str] = lambda: secrets.token_urlsafe(HANDLE_BYTES),
        realm: Realm | None = None,
    ) -> None:
        """``is_open`` returns True for a broker without authentication.

        All users may view such a broker, but with a ``realm`` the users of the realm alone.
        """
        self._broker: Final = broker
        self._clock: Final = clock
        self._is_open: Final = is_open
        self._new_token: Final = new_token
        self._realm: Final = realm
        self._operators: Final[dict[str, Operator]] = {}

    async def login(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Log ``user`` with ``password`` at ``address`` in.

        Returns:
            ``handle``, ``role``, ``user`` and ``lifetime_s``.

        Raises:
            AuthenticationError: the credentials are not valid
            ResourceAllocationError: a directory does not answer
            ForbiddenError: the user is in no group with a role
        """
        user, password, address = arguments.get("user"), arguments.get("password"), arguments.get("address")
        if not all(value is None or isinstance(value, str) for value in (user, password, address)):
            raise ConfigurationError("user, password and address are texts")
        now = self._clock.now()
        realm = self._realm
        info = ConnectionInfo(
            "",
            user_name=None if user is None else str(user),
            password=None if password is None else str(password),
            remote_address=str(address or ""),
            protocol=PROTOCOL,
        )
        if realm is not None and (self._is_open() or realm.names(info.user_name)):
            principal = self._broker.log_in(info, now, realm)
            name, role, groups = principal.name, role_of(principal.groups, REALM_ROLES), principal.groups
        elif self._is_open():
            name, role, groups = ANONYMOUS, Role.VIEW, frozenset[str]()
        else:
            principal = await awaited_login(self._broker, info, self._clock)
            now = self._clock.now()
            name, role, groups = principal.name, role_of(principal.groups), principal.groups
        if role is Role.NONE:
            raise ForbiddenError(f"user {name[:80]} is in no group with a role: {', '.join(GROUP_ROLES)}")
        while len(self._operators) >= MAX_HANDLES:
            del self._operators[next(iter(self._operators))]
        handle = self._new_token()
        self._operators[handle] = Operator(name, str(address or ""), role, now.monotonic + LIFETIME_S, groups)
        return {"handle": handle, "role": role.name.lower(), "user": name, "lifetime_s": LIFETIME_S}

    def checked(self, handle: object, command: str) -> Operator:
        """Return the holder of a handle who may use a command.

        Raises:
            UnknownHandleError: the handle has ended
            ForbiddenError: the role is too low
        """
        operator = self._operators.get(handle) if isinstance(handle, str) else None
        if operator is None or operator.ends <= self._clock.now().monotonic:
            raise UnknownHandleError("the login has ended; log in again")
        needed = COMMAND_ROLES.get(command)
        if needed is None:
            raise ForbiddenError(f"no role allows the command {command[:40]}")
        if operator.role < needed:
            raise ForbiddenError(
                f"user {operator.user[:80]} has the role {operator.role.name.lower()}; {command} needs "
                f"{needed.name.lower()}"
            )
        return operator


def role_of(groups: frozenset[str], roles: Mapping[str, Role] = GROUP_ROLES) -> Role:
    """Return the highest role of some groups."""
    return max((roles.get(group, Role.NONE) for group in groups), default=Role.NONE)


# Codes of refusals in answers of the control socket, for programs.
UNAUTHENTICATED: Final = "unauthenticated"
FORBIDDEN: Final = "forbidden"
REFUSED: Final = "refused"


def code_of(error: SpanwireError) -> str:
    """Return the code of a refusal."""
    if isinstance(error, (UnknownHandleError, AuthenticationError)):
        return UNAUTHENTICATED
    return FORBIDDEN if isinstance(error, ForbiddenError) else REFUSED
