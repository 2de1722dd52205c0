"""Sends the rows of one partition to the broker, one transaction after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import EncodedText, Serialized
from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.pipeline.options import WriteOptions

SENT_AT_ONCE: Final = 64  # messages; of 1 KiB each they fill one write of the client
MAX_SENT_OCTETS: Final = MIB  # octets; bounds the memory of messages sent at once
OTHER_OCTETS: Final = 8  # octets; size of a number in a map


class MessageSink(Protocol):
    """A producer in a transacted session."""

    def send(self, messages: list[Outgoing]) -> None:
        """Send messages in the transaction.

        Raises:
            JmsError: the broker refuses a message, or the connection is lost.
        """
        ...

    def commit(self) -> None:
        """Commit the transaction, and wait until the broker has stored the commit.

        Raises:
            JmsError: the broker has not confirmed the commit.
        """
        ...

    def close(self) -> None:
        """Close the producer and roll back the transaction. Raises nothing."""
        ...


def portions(messages: Iterable[Outgoing], limit: int) -> Iterator[list[Outgoing]]:
    """Yield the messages in lists to send at once.

    A list ends after `SENT_AT_ONCE` messages or `MAX_SENT_OCTETS` octets, and at each multiple of ``limit`` messages.
    """
    portion: list[Outgoing] = []
    remaining = limit
    octets = 0
    for message in messages:
        portion.append(message)
        octets += size_of(message.body) + size_of(message.properties)
        count = len(portion)
        if count >= SENT_AT_ONCE or count >= remaining or octets >= MAX_SENT_OCTETS:
            yield portion
            remaining = remaining - count or limit
            portion = []
            octets = 0
    if portion:
        yield portion


def size_of(value: object) -> int:
    """Return the approximate size of a body or properties in octets."""
    if isinstance(value, (EncodedText, Serialized)):
        return len(value.octets or b"")
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(len(name) + size_of(inner) for name, inner in value.items())
    return sum(map(size_of, value)) if isinstance(value, list) else OTHER_OCTETS


def send_all(options: WriteOptions, connect: Callable[[], MessageSink], messages: Iterable[Outgoing]) -> int:
    """Send all messages in transactions and return their number; connect only if there is a message.

    Raises:
        JmsError: the broker refuses a message or is lost; the last transaction is rolled back.
    """
    count = 0
    sink: MessageSink | None = None
    try:
        for portion in portions(messages, options.max_transaction_rows):
            if sink is None:
                sink = connect()
            sink.send(portion)
            count += len(portion)
            if count % options.max_transaction_rows == 0:
                sink.commit()
        if sink is not None and count % options.max_transaction_rows:
            sink.commit()
    finally:
        if sink is not None:
            sink.close()
    return count


def batch_name(query: str | None, batch: str | None) -> str:
    """Return the prefix of the duplicate ids of a stream's batch, from Spark's task properties.

    Raises:
        ConfigurationError: Spark passes no query or batch. All batches would have the same ids, and consumers would
            drop messages as duplicates.
    """
    if not query or not batch:
        raise ConfigurationError(
            "spanwire: this version of Spark does not pass the batch to a sink; "
            'use another one, or .option("duplicateIdProperty", "") and consumers that tolerate duplicates'
        )
    return f"{query}/{batch}"
