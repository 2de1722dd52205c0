"""Waits for the answer of a directory in a login without a client's connection.

Such logins are those of operators, and of links of brokers.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from spanwire.broker.ports import Authenticator, LoginObserver, Principal
from spanwire.model.environment import Time
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from spanwire.transports.base import Clock

ANSWER_DEADLINE_S: Final = 15.0  # seconds; a directory has less, so this ends a login whose directory went away


class LoginBroker(Protocol):
    """The part of the broker used here (``broker/admin/administration.py``)."""

    def must_wait(self, asker: object, info: ConnectionInfo, observer: LoginObserver, now: Time) -> bool:
        """Return True if a directory has to answer before `log_in`."""
        ...

    def forget_login(self, asker: object) -> None:
        """Drop a waiting login."""
        ...

    def log_in(
        self, info: ConnectionInfo, now: Time, authenticator: Authenticator | None = None, asker: object = None
    ) -> Principal:
        """Return the principal of a user. Raises `AuthenticationError` or `ResourceAllocationError`."""
        ...


class _Decision:
    """Wakes the task of a login. Has the shape of `spanwire.broker.ports.LoginObserver`."""

    def __init__(self) -> None:
        self.reached: Final = asyncio.Event()

    def on_login_decided(self) -> None:
        self.reached.set()


async def awaited_login(broker: LoginBroker, info: ConnectionInfo, clock: Clock) -> Principal:
    """Return the principal of ``info``, after the answers of directories.

    Raises:
        AuthenticationError: the credentials are wrong, or too many were wrong before.
        ResourceAllocationError: a directory does not answer, or too many logins wait for directories.
    """
    decision = _Decision()
    try:
        if broker.must_wait(decision, info, decision, clock.now()):
            await asyncio.wait_for(decision.reached.wait(), ANSWER_DEADLINE_S)
        return broker.log_in(info, clock.now(), asker=decision)
    except TimeoutError:
        raise ResourceAllocationError(f"no directory has answered within {ANSWER_DEADLINE_S:g} s") from None
    finally:
        broker.forget_login(decision)
