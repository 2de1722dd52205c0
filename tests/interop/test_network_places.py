"""A row of three brokers with ActiveMQ Classic at each of its places, over two one-way links between neighbours or over
duplex links that the first and the middle one open; both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from spanwire.client import blocking
from tests.interop.network_rows import PATIENCE_S, ROWS, STATIC, ClassicRows, Consumer, Place, Row, send
from tests.support.peers import require

NUMBERS = count(1)  # each test has destinations of its own
DIRECTIONS = pytest.mark.parametrize("backwards", [False, True], ids=["forth", "back"])


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassicRows]:
    require("activemq-broker")
    with ClassicRows(tmp_path_factory.mktemp("rows")) as made:
        yield made


@pytest.fixture(
    scope="module",
    params=ROWS,
    ids=[f"classic at {'ABC'[place]}, {'duplex' if both else 'pairs'}" for place, both in ROWS],
)
def row(rows: ClassicRows, request: pytest.FixtureRequest) -> Iterator[Row]:
    place, duplex = request.param
    with rows.row(place, duplex) as made:
        yield made


def fresh(kind: str = "queue") -> str:
    """A destination that nobody has used."""
    return f"/{kind}/ROW.{next(NUMBERS)}"


def knows(near: Place, *far: Place) -> None:
    """Until ``near`` has heard of all consumers that there are at the ``far`` brokers: what is told comes in order, so
    that of a later consumer comes after them.
    """
    for place in far:
        destination = fresh()
        with Consumer(place, destination) as probe:
            send(near, destination, ["probe"])
            probe.waits_for(1)


@DIRECTIONS
def test_messages_wait_at_one_end_for_a_late_consumer_at_the_other(row: Row, backwards: bool) -> None:
    near, far = row.ends(backwards)
    destination = fresh()
    texts = [f"m{number}" for number in range(10)]
    send(near, destination, texts)
    with Consumer(far, destination) as consumer:
        consumer.waits_for(10)
        send(near, destination, ["last"])
        consumer.waits_for_text("last")
        assert consumer.texts == [*texts, "last"]


@pytest.mark.parametrize(("messages", "share"), [(30, [15, 15]), (30, [10, 10, 10]), (12, [4, 4, 4])])
def test_consumers_at_several_brokers_share_equally_what_is_sent_in_the_middle(
    row: Row, messages: int, share: list[int]
) -> None:
    destination = fresh()
    places = [row.a, row.c, row.b][: len(share)]
    with ExitStack() as stack:
        consumers = [stack.enter_context(Consumer(place, destination)) for place in places]
        knows(row.b, row.a, row.c)
        send(row.b, destination, [f"m{number}" for number in range(messages)])
        for consumer, expected in zip(consumers, share, strict=True):
            consumer.waits_for(expected)
        assert [len(consumer.texts) for consumer in consumers] == share
        assert len({text for consumer in consumers for text in consumer.texts}) == messages


@DIRECTIONS
def test_two_consumers_at_the_end_share_what_one_in_the_middle_gets(row: Row, backwards: bool) -> None:
    _, far = row.ends(backwards)
    destination = fresh()
    with ExitStack() as stack:
        consumers = [stack.enter_context(Consumer(place, destination)) for place in (row.b, far, far)]
        knows(row.b, far)
        send(row.b, destination, [f"m{number}" for number in range(12)])
        for consumer, expected in zip(consumers, (6, 3, 3), strict=True):
            consumer.waits_for(expected)
        assert [len(consumer.texts) for consumer in consumers] == [6, 3, 3]


def test_static_destinations_spread_from_the_middle_without_a_consumer(row: Row) -> None:
    send(row.b, f"/queue/{STATIC}", [f"m{number}" for number in range(10)])
    with Consumer(row.a, f"/queue/{STATIC}") as at_a, Consumer(row.c, f"/queue/{STATIC}") as at_c:
        at_a.waits_for(5)
        at_c.waits_for(5)
        assert (len(at_a.texts), len(at_c.texts), len({*at_a.texts, *at_c.texts})) == (5, 5, 10)


@DIRECTIONS
def test_a_topic_message_comes_once_to_each_broker_on_its_way(row: Row, backwards: bool) -> None:
    near, far = row.ends(backwards)
    destination = fresh("topic")
    with ExitStack() as stack:
        consumers = [stack.enter_context(Consumer(place, destination)) for place in (near, row.b, far, far)]
        knows(near, row.b, far)
        send(near, destination, ["one", "two", "last"], persistent=False)
        for consumer in consumers:
            consumer.waits_for_text("last")
            assert consumer.texts == ["one", "two", "last"]


@DIRECTIONS
def test_a_durable_subscriber_two_hops_away_gets_what_was_sent_while_it_was_gone(row: Row, backwards: bool) -> None:
    near, far = row.ends(backwards)
    destination = fresh("topic")
    name = f"durable{next(NUMBERS)}"
    with Consumer(far, destination, name=name):
        knows(near, far)
        knows(row.b, far)
    texts = [f"m{number}" for number in range(5)]
    send(near, destination, texts)
    with Consumer(far, destination, name=name) as consumer:
        consumer.waits_for(5)
        assert consumer.texts == texts


@DIRECTIONS
def test_replies_to_a_temporary_queue_come_back_over_two_hops(row: Row, backwards: bool) -> None:
    near, far = row.ends(backwards)
    name = fresh().removeprefix("/queue/")
    with ExitStack() as stack:
        asking = stack.enter_context(blocking.connect(f"tcp://127.0.0.1:{near.openwire_port}"))
        serving = stack.enter_context(blocking.connect(f"tcp://127.0.0.1:{far.openwire_port}"))
        ours, theirs = stack.enter_context(asking.session()), stack.enter_context(serving.session())
        replies = ours.create_temporary_queue()
        inbox = ours.create_consumer(replies)
        requests = theirs.create_consumer(f"queue://{name}")
        answers = theirs.create_producer(None)
        producer = ours.create_producer(f"queue://{name}")
        for number in range(3):
            producer.send(f"q{number}", reply_to=replies)
            request = requests.receive(PATIENCE_S)
            assert request is not None and request.reply_to is not None
            answers.send(f"re: {request.body}", destination=request.reply_to)
            reply = inbox.receive(PATIENCE_S)
            assert reply is not None and reply.body == f"re: q{number}"


@DIRECTIONS
def test_a_queue_that_listens_to_a_virtual_topic_two_hops_away_gets_each_message_once(
    row: Row, backwards: bool
) -> None:
    near, far = row.ends(backwards)
    name = f"VirtualTopic.ROW{next(NUMBERS)}"
    with Consumer(far, f"/queue/Consumer.X.{name}") as consumer:
        knows(near, far)
        send(near, f"/topic/{name}", ["one", "two", "last"])
        consumer.waits_for_text("last")
        assert consumer.texts == ["one", "two", "last"]


@DIRECTIONS
def test_a_consumer_of_a_composite_destination_gets_each_part_once_over_two_hops(row: Row, backwards: bool) -> None:
    near, far = row.ends(backwards)
    one, other = fresh(), fresh()
    with Consumer(far, f"{one},{other}") as consumer:
        knows(near, far)
        send(near, one, ["one"])
        send(near, other, ["other"])
        consumer.waits_for(2)
        send(near, one, ["last"])
        consumer.waits_for_text("last")
        assert sorted(consumer.texts[:2]) == ["one", "other"] and len(consumer.texts) == 3


@DIRECTIONS
def test_a_message_sent_to_a_composite_destination_goes_to_the_consumers_of_its_parts(
    row: Row, backwards: bool
) -> None:
    near, far = row.ends(backwards)
    one, other = fresh(), fresh()
    with Consumer(far, one) as first, Consumer(row.b, other) as second:
        knows(near, row.b, far)
        send(near, f"{one},{other}", ["both"])
        for consumer, part in ((first, one), (second, other)):
            consumer.waits_for_text("both")
            send(near, part, ["last"])
            consumer.waits_for_text("last")
            assert consumer.texts == ["both", "last"]
