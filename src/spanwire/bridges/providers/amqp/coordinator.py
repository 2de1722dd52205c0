"""Transactions of one broker, over a link to the coordinator (OASIS AMQP 1.0, part 4).

Transactions are declared and discharged over the link.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.providers.amqp.codec import BINARY, BOOLEAN, LIST, NULL, described, write
from spanwire.bridges.providers.amqp.connection import AmqpConnection
from spanwire.bridges.providers.amqp.links import SenderLink
from spanwire.bridges.providers.amqp.sections import VALUE
from spanwire.model.errors import JmsError, TransactionRolledBackError

DECLARE: Final = 0x31
DISCHARGE: Final = 0x32
LOCAL: Final = "amqp:local-transactions"


class Coordinator:
    """Begins and ends transactions, with one transaction open at a time."""

    def __init__(self, connection: AmqpConnection) -> None:
        """Describe the link."""
        self._link = SenderLink(connection, None, LOCAL)

    async def attach(self) -> None:
        """Open the link. Raises `JmsError` if the broker has no transactions."""
        await self._link.attach()

    async def begin(self) -> bytes:
        """Return the id of a new transaction."""
        body = described(DECLARE, write((LIST, [(NULL, None)])))
        (outcome,) = await self._link.send([_value(body)])
        found = outcome.data[0] if isinstance(outcome.data, list) and outcome.data else None
        if outcome.reason or not isinstance(found, (bytes, memoryview)):
            raise JmsError(f"the broker begins no transaction: {outcome.reason or 'the answer has no id'}")
        return bytes(found)

    async def end(self, transaction: bytes, roll_back: bool = False) -> None:
        """Commit, and wait until the broker has stored that, or roll back.

        Raises `TransactionRolledBackError` if the broker has rolled back.
        """
        body = described(DISCHARGE, write((LIST, [(BINARY, transaction), (BOOLEAN, roll_back)])))
        (outcome,) = await self._link.send([_value(body)])
        if outcome.reason:
            raise TransactionRolledBackError(f"the broker rolled the transaction back: {outcome.reason}")


def _value(octets: bytes) -> bytes:
    """Return a message whose body is an encoded value."""
    return described(VALUE, octets)
