from __future__ import annotations

from collections.abc import Iterator

import pytest

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import EncodedText
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.link.batch_sender import MAX_SENT_OCTETS, batch_name, portions


def test_a_batch_is_named_by_its_query_and_number() -> None:
    assert batch_name("5f0c", "0") == "5f0c/0"


@pytest.mark.parametrize(("query", "batch"), [(None, "0"), ("5f0c", None), ("", ""), (None, None)])
def test_batches_that_cannot_be_told_apart_are_not_sent_with_the_same_ids(query: str | None, batch: str | None) -> None:
    with pytest.raises(ConfigurationError, match="duplicateIdProperty"):
        batch_name(query, batch)


HALF = bytes(MAX_SENT_OCTETS // 2)


@pytest.mark.parametrize(
    "message",
    [
        Outgoing(HALF),
        Outgoing(EncodedText(HALF)),
        Outgoing(HALF.decode()),
        Outgoing({"k": [HALF, 1]}),
        Outgoing([{"k": HALF.decode()}]),
        Outgoing(None, HALF),
        Outgoing(None, {"k": HALF.decode()}),
    ],
)
def test_large_messages_are_sent_a_few_at_a_time_and_never_more_are_taken(message: Outgoing) -> None:
    taken: list[Outgoing] = []

    def messages() -> Iterator[Outgoing]:
        for _ in range(5):
            taken.append(message)
            yield message

    assert [(len(portion), len(taken)) for portion in portions(messages(), 100)] == [(2, 2), (2, 4), (1, 5)]


def test_a_transaction_ends_at_its_limit_whatever_the_size_of_what_it_has() -> None:
    sizes = [len(portion) for portion in portions((Outgoing(HALF) for _ in range(7)), 3)]
    assert sizes == [2, 1, 2, 1, 1]
