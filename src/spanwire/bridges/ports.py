"""Ports of the providers.

A source receives, a target sends, and a `LocalTransaction` does both in one transaction of one broker. All methods
raise `JmsError` for a lost connection or a refusal. After an error the object is closed and never used again.
`spanwire.bridges.providers` implements the ports; one conformance suite tests every provider.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.model.errors import JmsError


class MessageRefusedError(JmsError):
    """The target can never take the message ``index`` of a batch.

    No message of the batch is stored, and the target can be used further.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index: Final[int] = index


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
        """Hand the only received message without an acknowledgement to the broker as a dead letter."""
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

        After an error the broker has stored either all messages or no message, and the caller cannot know. Raises
        `MessageRefusedError` if one of the messages is at fault.
        """
        ...

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        ...

    async def close(self) -> None:
        """Close, without raising."""
        ...


class LocalTransaction(Protocol):
    """A consumer and a producer in one transaction of one broker."""

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive in the transaction, with the credit of `MessageSource.receive`."""
        ...

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction. Raises `MessageRefusedError` if one of the messages is at fault."""
        ...

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the broker as a dead letter, and roll the sends back."""
        ...

    async def commit(self) -> None:
        """Acknowledge and send all at once. After an error all is committed, or nothing."""
        ...

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        ...

    async def close(self) -> None:
        """Close and roll back, without raising."""
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
        """Connect and consume. The broker may dispatch ``credit`` messages before an acknowledgement."""
        ...

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect and produce."""
        ...

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect once, consume and produce. Only for a provider with local transactions."""
        ...
