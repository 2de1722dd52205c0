"""The rows of one partition into the broker, transaction by transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import EncodedText, Serialized
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import WriteOptions

SENT_AT_ONCE: Final = 64  # messages; of a KiB each they are what the client writes at once
MAX_SENT_OCTETS: Final = 1024 * 1024  # of what is in memory for that; the message that reaches it is the last
OTHER_OCTETS: Final = 8  # of a number in a map


class MessageSink(Protocol):
    """A producer in a transacted session."""

    def send(self, messages: list[Outgoing]) -> None:
        """Add messages to the transaction. Raises `JmsError`."""
        ...

    def commit(self) -> None:
        """What was sent counts, all of it, and is stored when this returns. Raises `JmsError`."""
        ...

    def close(self) -> None:
        """What was not committed is forgotten. Raises nothing."""
        ...


def portions(messages: Iterable[Outgoing], limit: int) -> Iterator[list[Outgoing]]:
    """The messages in lists to be sent at once; one ends at each multiple of ``limit``, and where its messages are
    large enough.
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
    """How much memory a body or properties take, about."""
    if isinstance(value, (EncodedText, Serialized)):
        return len(value.octets or b"")
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(len(name) + size_of(inner) for name, inner in value.items())
    return sum(map(size_of, value)) if isinstance(value, list) else OTHER_OCTETS


def send_all(options: WriteOptions, connect: Callable[[], MessageSink], messages: Iterable[Outgoing]) -> int:
    """Send all of them; gives their number. Nothing is connected for none.

    Raises `JmsError` when the broker does not take them; the last transaction is not committed then.
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
    """What the ids of a stream's batch begin with, from what Spark tells the task of it.

    Raises `ConfigurationError` when Spark tells nothing: all batches would have the same ids, and a consumer that drops
    doubles would drop messages.
    """
    if not query or not batch:
        raise ConfigurationError(
            "spanwire: this version of Spark does not tell a sink which batch it writes; "
            'use another one, or .option("duplicateIdProperty", "") and consumers that stand doubles'
        )
    return f"{query}/{batch}"
