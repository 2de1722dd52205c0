"""Ports of the providers.

A source receives, a target sends, and a `LocalTransaction` does both in one transaction of one broker. `XaSource`
and `XaTarget` take part in a distributed transaction. All methods raise `JmsError` for a lost connection or a refusal.
After an error the object is closed and never used again.
`spanwire.bridges.providers` implements the ports; one conformance suite tests every provider. The classes at the end
refuse what a provider does not promise; no build compiles bridges, so they may be bases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, runtime_checkable

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.model.destination import Destination
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.model.ids import XaTransactionId


class WrongConnectionError(JmsError):
    """A connection factory can never connect as it is configured."""


class MessageRefusedError(JmsError):
    """The target can never take the message ``index`` of a batch.

    No message of the batch is stored, and the target can be used further.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index: Final[int] = index


class PartlySentError(MessageRefusedError):
    """The target can never take the message ``index``, has stored the messages before, and none behind."""


class MessageSource(Protocol):
    """A consumer; the messages stay at the broker until `acknowledge`."""

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Wait for the first message, then take all messages at hand.

        ``max_messages`` and ``max_bytes`` bound the result. The list is empty after ``wait_s`` seconds without a
        message. A cancelled call takes no message.
        """
        ...

    async def acknowledge(self) -> None:
        """Acknowledge all received messages, and wait until the broker has stored the acknowledgement."""
        ...

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message without an acknowledgement to the broker as a dead letter.

        The message is in the dead-letter destination before it leaves the source.
        """
        ...

    async def send_reply(self, message: BridgeMessage, destination: Destination) -> None:
        """Send a reply to a destination of the source's broker, and wait until the reply is stored."""
        ...

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        ...

    async def close(self) -> None:
        """Close, without raising. Unacknowledged messages return to the broker."""
        ...


class MessageTarget(Protocol):
    """A producer for one destination."""

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send messages, and wait until the broker has stored all of them.

        After an error the broker has stored all messages or no message, and the caller cannot know. Without
        `ProviderDescription.atomic_batches` the broker may have stored some of the messages. Raises
        `MessageRefusedError` if one of the messages is at fault.
        """
        ...

    async def open_reply_queue(self, on_reply: Callable[[BridgeMessage], Awaitable[None]]) -> Destination:
        """Create a temporary queue for replies. The replies go to ``on_reply``, one at a time."""
        ...

    async def close_reply_queue(self, queue: Destination) -> None:
        """Remove a queue of `open_reply_queue`."""
        ...

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        ...

    async def close(self) -> None:
        """Close, without raising."""
        ...


@runtime_checkable
class EagerSource(MessageSource, Protocol):
    """A source able to receive further messages before the storage of an acknowledgement."""

    def acknowledge_soon(self) -> Callable[[], Awaitable[None]]:
        """Acknowledge all received messages. Returns a function for awaiting the broker's storage."""
        ...

    def acknowledge_later(self) -> Callable[[], Awaitable[None]]:
        """Return a function that acknowledges the messages received so far, and waits for the broker's storage.

        Messages received after this call are not acknowledged by the function.
        """
        ...


@runtime_checkable
class WindowedSource(Protocol):
    """A source whose broker stops at a number of messages that changes with the sizes of the messages.

    Local and distributed transactions are such sources, too.
    """

    def is_exhausted(self) -> bool:
        """Return True if received messages have no acknowledgement, and no further message comes before one."""
        ...


@runtime_checkable
class EagerTarget(MessageTarget, Protocol):
    """A target with a broker that takes further messages before the storage of a batch."""

    async def send_soon(
        self, messages: list[BridgeMessage], condition: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Send messages, and ask for the storage of all of them after the return of ``condition``.

        The broker stores no message earlier. Raises `MessageRefusedError` as `MessageTarget.send`. Returns a function
        for awaiting the storage. That function raises other errors of `MessageTarget.send`, and never
        `MessageRefusedError`: the bridge has left the batch then, and could not take a message out of it.
        """
        ...


@runtime_checkable
class SpoiledTarget(MessageTarget, Protocol):
    """A target whose broker may roll a whole batch back because of one duplicate, as ActiveMQ Artemis does."""

    def is_spoiled_by_duplicates(self) -> bool:
        """Return True if a known duplicate id rolls the batch back."""
        ...


@runtime_checkable
class NamingTarget(Protocol):
    """A target that knows the ids of messages at its broker."""

    def sent_ids(self, count: int) -> list[str]:
        """Return the ids of the last ``count`` sent messages, in order; fewer if fewer were sent."""
        ...


class LocalTransaction(Protocol):
    """A consumer and a producer in one transaction of one broker."""

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive in the transaction, with the credit of `MessageSource.receive`."""
        ...

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction. Raises `MessageRefusedError` for a message at fault."""
        ...

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the broker as a dead letter, and roll the sends back."""
        ...

    async def commit(self) -> None:
        """Acknowledge and send all at once. After an error all is committed, or no part."""
        ...

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        ...

    async def close(self) -> None:
        """Close and roll back, without raising."""
        ...


class XaBranches(Protocol):
    """The branches of one side of a bridge, at one broker.

    Methods raise `XaError` or `TransactionRolledBackError` for an answer of the broker about the branch.
    """

    async def prepare(self, branch: XaTransactionId) -> bool:
        """End the work in a branch, and prepare it. Returns False if the branch needs no commit."""
        ...

    async def commit(self, branch: XaTransactionId) -> None:
        """Commit a prepared branch, and wait until the broker has stored the commit."""
        ...

    async def roll_back(self, branch: XaTransactionId) -> None:
        """Roll back a prepared branch."""
        ...

    async def forget(self, branch: XaTransactionId) -> None:
        """Let the broker forget a branch with a heuristic outcome."""
        ...

    async def prepared_branches(self) -> list[XaTransactionId]:
        """Return the prepared branches of all programs."""
        ...

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        ...

    async def close(self) -> None:
        """Close, without raising. The broker rolls back unprepared branches."""
        ...


class XaSource(XaBranches, Protocol):
    """A consumer whose receipts belong to the next prepared branch."""

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive with the credit of `MessageSource.receive`; the first call begins to consume."""
        ...

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the broker as a dead letter."""
        ...


@runtime_checkable
class BegunXaSource(XaSource, Protocol):
    """A source whose receipts belong to a branch that has begun before them, as JTA has it."""

    def begin(self, branch: XaTransactionId) -> None:
        """Name the branch of all receipts until its prepare or a dead letter."""
        ...


class XaTarget(XaBranches, Protocol):
    """A producer for one destination."""

    async def send(self, branch: XaTransactionId, messages: list[BridgeMessage]) -> None:
        """Begin a branch, and send in the branch.

        Raises `MessageRefusedError` for a message at fault; the branch is rolled back then.
        """
        ...


class Provider(Protocol):
    """A way to reach brokers."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        ...

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a source that can never be opened."""
        ...

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a target that can never be opened."""
        ...

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and consume. The broker may dispatch ``credit`` messages before an acknowledgement.

        With `ProviderDescription.largest_batch` no more than ``credit`` messages are received without one, and fewer
        from a `WindowedSource`.
        """
        ...

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect and produce."""
        ...

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect once, consume and produce. Only for a provider with local transactions."""
        ...

    async def open_xa_source(self, source: Source, credit: int) -> XaSource:
        """Connect, and consume at the first `XaSource.receive`. Only for a provider with XA."""
        ...

    async def open_xa_target(self, target: Target) -> XaTarget:
        """Connect and produce. Only for a provider with XA."""
        ...


class RefusingProvider:
    """The transactions of a provider whose description promises none; a provider overrides those that it has."""

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Fail: the description promises no local transactions."""
        raise IllegalStateError(f"{type(self).__name__} has no local transactions")

    async def open_xa_source(self, source: Source, credit: int) -> XaSource:
        """Fail: the description promises no distributed transactions."""
        raise IllegalStateError(f"{type(self).__name__} has no distributed transactions")

    async def open_xa_target(self, target: Target) -> XaTarget:
        """Fail: the description promises no distributed transactions."""
        raise IllegalStateError(f"{type(self).__name__} has no distributed transactions")


class SourceWithoutReplies:
    """The replies of a source whose provider promises none."""

    async def send_reply(self, message: BridgeMessage, destination: Destination) -> None:
        """Fail: the description promises no replies."""
        raise IllegalStateError(f"{type(self).__name__} sends no replies")


class TargetWithoutReplies:
    """The replies of a target whose provider promises none."""

    async def open_reply_queue(self, on_reply: Callable[[BridgeMessage], Awaitable[None]]) -> Destination:
        """Fail: the description promises no replies."""
        raise IllegalStateError(f"{type(self).__name__} has no queues for replies")

    async def close_reply_queue(self, queue: Destination) -> None:
        """Fail: the description promises no replies."""
        raise IllegalStateError(f"{type(self).__name__} has no queues for replies")
