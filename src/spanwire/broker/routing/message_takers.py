"""Ports of the message router.

Certain parts of the broker take messages in place of a destination.
"""

from __future__ import annotations

from typing import Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import Transaction
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.model.message import Message


class DelayedSender(Protocol):
    """Takes messages for later delivery."""

    def concerns(self, message: Message) -> bool:
        """Return True if ``message`` asks for later delivery, or is a request to the scheduler."""
        ...

    def take(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take ``message`` in place of `MessageRouter.send`, with the same result."""
        ...

    def destination_of(self, state: ConnectionState, message: Message) -> BrokerDestination | None:
        """Return the destination that keeps ``message`` until the commit.

        Returns None if the message takes no part in the transaction.
        """
        ...

    def keep(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take a message after a wait for room."""
        ...


class ControlTaker(Protocol):
    """Takes requests to the control destination."""

    def take(self, state: ConnectionState, message: Message, transaction: Transaction | None) -> None:
        """Carry out, or begin, the request of ``message`` and answer it.

        Raises:
            JmsError: no answer can be sent.
        """
        ...
