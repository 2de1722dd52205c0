"""Links of bridges: the open connections of one attempt."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from spanwire.bridges.completing import Completing
from spanwire.bridges.model.definition import BatchLimits, BridgeDefinition, Quality
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.provider_description import MAX_CREDIT
from spanwire.bridges.model.qualities import ARTEMIS_SPOILED, adds_duplicate_ids
from spanwire.bridges.ports import (
    EagerSource,
    EagerTarget,
    LocalTransaction,
    MessageSource,
    MessageTarget,
    NamingTarget,
    Provider,
    SpoiledTarget,
    WindowedSource,
)
from spanwire.bridges.running.convertors import NO_CONVERTORS, Conversion, Convertors
from spanwire.bridges.running.replies import ReplyProxies, reply_proxies
from spanwire.model.errors import ConfigurationError


class Link(Protocol):
    """An open source and an open target. Methods raise `JmsError`, except for `close`."""

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive from the source."""
        ...

    async def acknowledge(self) -> None:
        """Acknowledge at the source."""
        ...

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send to the target."""
        ...

    async def commit(self) -> None:
        """Commit the transaction of source and target."""
        ...

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the source's broker as a dead letter."""
        ...

    def check(self) -> None:
        """Raise `JmsError` if a connection is lost."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class PairLink:
    """A source and a target with a connection each."""

    def __init__(
        self,
        source: MessageSource,
        target: MessageTarget,
        replies: ReplyProxies | None = None,
        conversion: Conversion | None = None,
        is_eager: bool = False,
    ) -> None:
        """``is_eager`` lets messages cross while the brokers store the batch before.

        An eager source stores the acknowledgement meanwhile. With an eager target, too, the batches are handed over:
        the target stores the batch before, and the source its acknowledgement then. The target stores no batch before
        the acknowledgement of the batch before, so a failure doubles one batch at most.
        """
        self._source: Final[MessageSource] = source
        self._target: Final[MessageTarget] = target
        self._windowed: Final = source if isinstance(source, WindowedSource) else None
        self._replies: Final[ReplyProxies | None] = replies
        self._conversion: Final[Conversion | None] = conversion
        self._eager_source: Final = source if is_eager and isinstance(source, EagerSource) else None
        self._eager_target: Final = (
            target if self._eager_source is not None and isinstance(target, EagerTarget) else None
        )
        self._sent: Callable[[], Awaitable[None]] | None = None  # waits until the target has stored the last batch
        self._completing: Final = Completing()
        self.incomplete = ""  # why the last batch was not completed before the link closed

    @property
    def is_handed_over(self) -> bool:
        """Return True if batches are completed by `hand_over` instead of `acknowledge`."""
        return self._eager_target is not None

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive from the source. Ends with an error as soon as the batch before cannot be completed."""
        return await self._completing.received(self._source.receive(max_messages, max_bytes, wait_s))

    def is_exhausted(self) -> bool:
        """Return True if the source hands over no further message before an acknowledgement."""
        return self._windowed is not None and self._windowed.is_exhausted()

    async def acknowledge(self) -> None:
        """Acknowledge at the source."""
        if self._eager_source is None:
            await self._source.acknowledge()
        else:
            self._completing.begin(_call(self._eager_source.acknowledge_soon()))

    def hand_over(self, on_completed: Callable[[], None]) -> None:
        """Complete the batch behind the next calls: wait for the target, and acknowledge then.

        ``on_completed`` is called before the next `send` ends. An error is raised by the next call.
        """
        stored, self._sent = self._sent, None
        assert stored is not None and self._eager_source is not None, "a batch is sent before it is handed over"
        acknowledged = self._eager_source.acknowledge_later()
        self._completing.begin(_complete(stored, acknowledged, on_completed))

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send to the target."""
        if self._replies is not None:
            await self._replies.replace(messages)
        if self._conversion is not None:
            messages = await self._conversion.convert(messages)
        if self._eager_target is not None:
            self._sent = await self._eager_target.send_soon(messages, self._completing.settle)
        else:
            await self._completing.settle()
            await self._target.send(messages)

    def sent_ids(self, target: int, count: int) -> list[str]:
        """Return the ids of the last sent messages at the target; an empty list if unknown."""
        return last_ids(self._target, count)

    async def commit(self) -> None:
        """Fail: two connections have no common transaction."""
        raise AssertionError("two connections have no common transaction")

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the source's broker as a dead letter."""
        await self._completing.settle()
        await self._source.dead_letter(cause)

    def check(self) -> None:
        """Raise `JmsError` if a connection is lost, or the batch before cannot be completed."""
        self._completing.check()
        self._target.check()
        self._source.check()

    async def close(self) -> None:
        """Complete the batch before, and close the source first, so that the messages return to the broker soon."""
        async with contextlib.AsyncExitStack() as closing:  # what fails to close leaves nothing else open
            closing.push_async_callback(self._target.close)
            closing.push_async_callback(self._source.close)
            self.incomplete = await self._completing.close()


class TransactionLink:
    """A consumer and a producer in one local transaction."""

    def __init__(self, transaction: LocalTransaction) -> None:
        self._transaction: Final[LocalTransaction] = transaction
        self._windowed: Final = transaction if isinstance(transaction, WindowedSource) else None

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive in the transaction."""
        return await self._transaction.receive(max_messages, max_bytes, wait_s)

    def is_exhausted(self) -> bool:
        """Return True if the source hands over no further message before a commit."""
        return self._windowed is not None and self._windowed.is_exhausted()

    async def acknowledge(self) -> None:
        """Fail: the commit acknowledges."""
        raise AssertionError("the commit of the transaction acknowledges")

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction."""
        await self._transaction.send(messages)

    def sent_ids(self, target: int, count: int) -> list[str]:
        """Return the ids of the last sent messages at the target; an empty list if unknown."""
        return last_ids(self._transaction, count)

    async def commit(self) -> None:
        """Commit receipts and sends at once."""
        await self._transaction.commit()

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the broker as a dead letter."""
        await self._transaction.dead_letter(cause)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._transaction.check()

    async def close(self) -> None:
        """Close the connection and roll back."""
        await self._transaction.close()


async def _call(wait: Callable[[], Awaitable[None]]) -> None:
    await wait()


async def _complete(
    stored: Callable[[], Awaitable[None]], acknowledged: Callable[[], Awaitable[None]], on_completed: Callable[[], None]
) -> None:
    """Acknowledge a batch once the target has stored the batch."""
    await stored()
    await acknowledged()
    on_completed()


def last_ids(target: object, count: int) -> list[str]:
    """Return the ids of the last messages sent to a target; an empty list if the target does not know them."""
    return target.sent_ids(count) if isinstance(target, NamingTarget) else []


def credit_of(batch: BatchLimits, source: Provider, receivers: int = 1) -> int:
    """Return the messages that the source's broker may dispatch ahead to each of some receivers.

    A source whose credit ends with the batch gets the next batch ahead and no more, so ``maxBatchSize`` bounds the
    memory.
    """
    if source.describe().largest_batch is None:
        return MAX_CREDIT // receivers  # so that the first receiver does not take what is for all
    return min(MAX_CREDIT, 2 * batch.size)


async def open_link(
    definition: BridgeDefinition, source: Provider, target: Provider, convertors: Convertors = NO_CONVERTORS
) -> Link:
    """Open a link without distributed transactions.

    Connect to the target first, so that no message waits at the bridge for an unreachable target.

    Raises:
        JmsError: a broker is not reachable, or refuses.
        ConfigurationError: a file of a key or trust store, or a message convertor, cannot be read, or duplicate ids
            would spoil the batches of the target.
    """
    credit = credit_of(definition.batch, source, definition.consumers.most)
    if definition.quality is Quality.ONCE_AND_ONLY_ONCE:
        return TransactionLink(await source.open_transaction(definition.source, definition.target, credit))
    conversion = convertors.conversion(definition)
    open_target = await target.open_target(definition.target)
    try:
        if adds_duplicate_ids(definition) and _is_spoiled(open_target):
            raise ConfigurationError(ARTEMIS_SPOILED)
        open_source = await source.open_source(definition.source, credit)
    except BaseException:
        await open_target.close()
        raise
    replies = reply_proxies(definition, open_source, open_target)
    return PairLink(open_source, open_target, replies, conversion, definition.quality is Quality.DUPLICATES_OK)


def _is_spoiled(target: MessageTarget) -> bool:
    return isinstance(target, SpoiledTarget) and target.is_spoiled_by_duplicates()
