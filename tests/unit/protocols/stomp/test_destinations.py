"""STOMP's names of destinations."""

from __future__ import annotations

import pytest

from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError, ResourceAllocationError
from spanwire.protocols.stomp.destinations import (
    MAX_RESOLVED_NAMES,
    MAX_TEMPORARY_NAMES,
    DestinationNames,
    destination_text,
    read_destination,
)


@pytest.mark.parametrize(
    ("text", "qualified"),
    [
        ("/queue/DA", "queue://DA"),
        ("/queue/D.B?consumer.prefetchSize=1", "queue://D.B"),
        ("/topic/DT", "topic://DT"),
        ("/queue/D/E", "queue://D/E"),
        ("queue/DX", "queue://queue/DX"),
        ("DQ", "queue://DQ"),
        ("/odd/X", "queue:///odd/X"),
        ("/queue/queue://D.URL", "queue://queue://D.URL"),
        ("/remote-temp-queue/ID:x:1", "temp-queue://ID:x:1"),
        ("/temp-topic/T", "temp-topic://ID:c:1"),
    ],
)
def test_a_name_is_a_destination(text: str, qualified: str) -> None:
    assert DestinationNames("ID:c").resolve(text).qualified_name == qualified


@pytest.mark.parametrize(
    "text",
    [
        "queue://D.URL",
        "topic:D",
        "kafka://D",
        "/queue/A,queue://B",
        "",
        "/queue/",
        "/topic/?x=y",
        "/temp-queue/",
        "/queue/a\nb",
        "/queue/A,",
        ",",
        "/queue/ A",
    ],
)
def test_a_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidDestinationError):
        DestinationNames("ID:c").resolve(text)


def test_a_composite_keeps_the_kind_and_literal_name_of_each_part() -> None:
    parts = read_destination("/queue/A, /topic/B,/queue/queue://C,/queue/D").parts()
    assert parts == [
        Destination(QUEUE, "A"), Destination(TOPIC, "B"), Destination(QUEUE, "queue://C"), Destination(QUEUE, "D"),
    ]  # fmt: skip
    with pytest.raises(InvalidDestinationError):
        read_destination(",".join(["/queue/A"] * 65))


def test_temporary_destinations_have_one_name_inside_the_connection_and_another_outside() -> None:
    names = DestinationNames("ID:c")
    queue = names.resolve("/temp-queue/foo")
    topic = names.resolve("/temp-topic/foo")
    assert names.take_fresh() == [Destination(TEMP_QUEUE, "ID:c:1"), Destination(TEMP_TOPIC, "ID:c:2")]
    assert names.resolve("/temp-queue/foo") is queue
    assert names.take_fresh() == []
    assert (names.text(queue), destination_text(queue)) == ("/temp-queue/foo", "/remote-temp-queue/ID:c:1")
    assert DestinationNames("ID:d").text(topic) == "/remote-temp-topic/ID:c:2"


def test_a_connection_cannot_name_temporary_destinations_without_end() -> None:
    names = DestinationNames("ID:c")
    for number in range(MAX_TEMPORARY_NAMES):
        names.resolve(f"/temp-queue/{number}")
    with pytest.raises(ResourceAllocationError):
        names.resolve("/temp-queue/one-more")


def test_the_names_of_the_last_messages_are_parsed_once() -> None:
    names = DestinationNames("ID:c")
    texts = [f"/queue/{number}" for number in range(MAX_RESOLVED_NAMES)]
    first = [names.resolve(text) for text in texts]
    assert all(names.resolve(text) is destination for text, destination in zip(texts, first, strict=True))
    assert names.resolve("/queue/one-more") == Destination(QUEUE, "one-more")
    assert names.resolve(texts[0]) is not first[0], "names are kept without end"


def test_a_destination_line_has_the_escapes_of_its_own_destination() -> None:
    names = DestinationNames("ID:c")
    lines = [names.line(names.resolve(text)) for text in ("/queue/A", "/queue/A", "/topic/B:C", "/queue/A")]
    assert lines == [b"destination:/queue/A\n"] * 2 + [b"destination:/topic/B\\cC\n", b"destination:/queue/A\n"]
