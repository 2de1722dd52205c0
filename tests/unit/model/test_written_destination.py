"""Destinations as people write them: what is refused, and what the error suggests."""

from __future__ import annotations

import pytest

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.written_destination import STOMP_FORMS, check_form, written_destination


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/queue/ORDERS", "queue://ORDERS"),
        ("/topic/NEWS", "topic://NEWS"),
        ("/topics/NEWS", "topic://NEWS"),
        ("/temp-queue/A", "temp-queue://A"),
        ("queue:/ORDERS", "queue://ORDERS"),
        ("queue:ORDERS", "queue://ORDERS"),
        ("Queue://ORDERS", "queue://ORDERS"),
        ("topic:/NEWS?consumer.prefetchSize=1", "topic://NEWS"),
        ("activemq:queue:ORDERS", "queue://ORDERS"),
        ("jms:topic:NEWS", "topic://NEWS"),
        ("queue://A,/queue/B", "queue://B"),
        ("queue://A, queue:/B", "queue://B"),
        ("kafka://A", "queue://A or topic://A"),
        ("x://", "queue://NAME or topic://NAME"),
        ("//A", "queue://A"),
        ("/ORDERS", "queue://ORDERS"),
    ],
)
def test_a_text_of_another_form_is_refused_with_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(InvalidDestinationError) as refused:
        written_destination(text)
    assert f"did you mean {meant}?" in str(refused.value)


def test_a_url_of_a_broker_is_told_from_a_destination() -> None:
    with pytest.raises(InvalidDestinationError, match=r"that of a broker's URL") as refused:
        written_destination("tcp://me:secret@host:61616")
    assert "secret" not in str(refused.value)


def test_a_slash_before_a_topic_suggests_the_topic() -> None:
    with pytest.raises(InvalidDestinationError, match="did you mean topic://NEWS"):
        written_destination("/NEWS", TOPIC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ORDERS", Destination(QUEUE, "ORDERS")),
        ("orders:new", Destination(QUEUE, "orders:new")),
        ("a/b", Destination(QUEUE, "a/b")),
        ("queue", Destination(QUEUE, "queue")),
        ("queue.ORDERS", Destination(QUEUE, "queue.ORDERS")),
        ("topic://NEWS.>", Destination(TOPIC, "NEWS.>")),
        ("queue:///queue/ORDERS", Destination(QUEUE, "/queue/ORDERS")),
        ("queue://kafka://A", Destination(QUEUE, "kafka://A")),
        ("queue://A?consumer.exclusive=true", Destination(QUEUE, "A")),
        ("A,topic://B", Destination(QUEUE, "A,topic://B")),
    ],
)
def test_a_name_and_a_full_form_are_taken_literally(text: str, found: Destination) -> None:
    assert written_destination(text) == found


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("queue://ORDERS", "/queue/ORDERS"),
        ("topic:NEWS", "/topic/NEWS"),
        ("/topics/NEWS", "/topic/NEWS"),
        ("kafka://A", "/queue/A or /topic/A"),
    ],
)
def test_the_suggestion_has_the_form_of_the_protocol(text: str, meant: str) -> None:
    with pytest.raises(InvalidDestinationError) as refused:
        check_form(text, STOMP_FORMS)
    assert f"did you mean {meant}?" in str(refused.value)
