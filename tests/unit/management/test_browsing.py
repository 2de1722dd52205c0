"""What the control socket shows of a queue: from memory and from the store, chosen and bounded."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.broker.queue.queue import Queue
from spanwire.management import browsing
from spanwire.management.browsing import QueueAges, QueueBrowsing
from spanwire.model.destination import QUEUE as QUEUE_KIND
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, InvalidSelectorError
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import Stage

QUEUE = "queue://Q"


class Look:
    def __init__(self, messages: int) -> None:
        self.stage = Stage()
        producer = self.stage.peer("p")
        for number in range(messages):
            producer.sends(QUEUE, f"m{number}", properties={"n": number})
        self.browsing = QueueBrowsing(self.stage.broker, self.read)

    async def read(self, destination: Destination, sequences: list[int]) -> list[Message | None]:
        return [None for _ in sequences]

    def shows(self, **arguments: object) -> dict[str, object]:
        return asyncio.run(self.browsing.browse({"destination": "Q", **arguments}))


def numbers(found: dict[str, object]) -> list[object]:
    rows = found["messages"]
    assert isinstance(rows, list)
    return [row["properties"]["n"] for row in rows]


def test_waiting_messages_are_shown_and_stay() -> None:
    look = Look(3)
    found = look.shows()
    assert numbers(found) == [0, 1, 2]
    assert (found["waiting"], found["in_flight"], found["looked"]) == (3, 0, 3)
    assert look.stage.view(QUEUE).pending == 3


def test_a_selector_and_a_limit_choose() -> None:
    look = Look(200)
    found = look.shows(selector="n >= 120", limit=2)
    assert numbers(found) == [120, 121]
    assert found["looked"] == 122
    assert len(numbers(look.shows(limit=10_000))) == 200


def test_a_queue_is_browsed_page_by_page_beyond_the_most_of_one_answer() -> None:
    look = Look(1_000)
    found, seen = look.shows(), [0]
    while seen[-1] < 1_000:
        assert numbers(found)[0] == seen[-1]
        behind = found["next"]
        assert isinstance(behind, int) and behind > seen[-1]
        seen.append(behind)
        found = look.shows(skip=behind)
    assert seen == [0, 400, 800, 1_000]
    assert numbers(found) == []
    assert numbers(look.shows(selector="n > 950", skip=900, limit=1)) == [951]


def test_the_backlog_of_a_durable_subscription_is_shown_and_stays() -> None:
    look = Look(0)
    subscriber = look.stage.peer("c", client_id="billing")
    subscriber.consumes("topic://T", durable="invoices", prefetch=1)
    subscriber.leaves()
    producer = look.stage.peer("sender")
    for number in range(3):
        producer.sends("topic://T", f"m{number}", properties={"n": number})

    def shows(**arguments: object) -> dict[str, object]:
        return asyncio.run(look.browsing.browse_subscription({"client_id": "billing", "name": "invoices", **arguments}))

    assert numbers(shows()) == [0, 1, 2]
    assert numbers(shows(selector="n > 0", limit=1)) == [1]
    assert (shows()["waiting"], shows()["in_flight"]) == (3, 0)
    for arguments in ({"client_id": "other"}, {"name": "other"}, {"name": None}, {"client_id": 7}):
        with pytest.raises(ConfigurationError, match="has no durable subscription"):
            shows(**arguments)


@pytest.mark.parametrize("returned", [0, 3])
def test_messages_are_skipped_without_a_list_of_them(returned: int) -> None:
    look = Look(1_000)
    look.stage.peer("c").consumes(QUEUE, prefetch=returned + 1)
    queue = look.stage.broker.find_destination(Destination(QUEUE_KIND, "Q"))
    assert isinstance(queue, Queue)
    everything = queue.oldest(2_000)
    for skip in (0, 1, 49, 50, 51, 127, 128, 500, 990, 1_000, 2_000):
        assert queue.oldest(10, skip) == everything[skip : skip + 10]


def test_users_who_may_only_look_see_no_bodies_unless_the_configuration_shows_them() -> None:
    look = Look(1)
    hidden = asyncio.run(look.browsing.headers({"destination": "Q"}))
    assert (numbers(hidden), hidden["bodies"], "m0" in str(hidden)) == ([0], False, False)
    shows = QueueBrowsing(look.stage.broker, look.read, viewers_see_bodies=True)
    assert "m0" in str(asyncio.run(shows.headers({"destination": "Q"})))


def test_what_consumers_hold_is_counted_and_not_shown() -> None:
    look = Look(2)
    look.stage.peer("c").consumes(QUEUE, prefetch=1)
    found = look.shows()
    assert (numbers(found), found["waiting"], found["in_flight"]) == ([1], 1, 1)


def test_each_queue_with_messages_has_the_time_of_its_oldest_one() -> None:
    look = Look(0)
    producer, consumer = look.stage.peer("q"), look.stage.peer("c")
    for name, times in {"WAITING": (70, 50), "OUT": (60, 90), "UNTIMED": (0,), "TOPIC": (5,)}.items():
        kind = "topic" if name == "TOPIC" else "queue"
        for time_ms in times:
            producer.sends(f"{kind}://{name}", "x", timestamp_ms=time_ms)
    consumer.consumes("queue://OUT", prefetch=1)
    rows = asyncio.run(QueueAges(look.stage.broker.overview, look.read).ages({}))
    assert rows == [
        {"destination": "queue://OUT", "oldest_ms": 60},
        {"destination": "queue://WAITING", "oldest_ms": 70},
    ]


def test_a_message_that_is_too_large_is_named_only() -> None:
    look = Look(0)
    look.stage.peer("big").sends(QUEUE, "x" * (browsing.MAX_MESSAGE_BYTES + 1))
    rows = look.shows()["messages"]
    assert isinstance(rows, list)
    (row,) = rows
    assert "too many to be shown" in row["fault"]
    assert "body" not in row


@pytest.mark.parametrize(
    ("name", "part"),
    [("NONE", "there is no queue NONE"), ("topic://T", "only queues"), ("", "only queues"), (3, "only")],
)
def test_what_is_no_queue_is_refused(name: object, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part):
        Look(0).shows(destination=name)


def test_a_wrong_selector_is_refused() -> None:
    with pytest.raises(InvalidSelectorError):
        Look(1).shows(selector="n = = 1")


def test_one_look_shows_so_many_messages_and_tries_a_selector_on_so_many() -> None:
    look = Look(browsing.MAX_SCANNED + 1)
    assert len(numbers(look.shows())) == browsing.MAX_SHOWN
    assert numbers(look.shows(selector=f"n = {browsing.MAX_SCANNED - 1}")) == [browsing.MAX_SCANNED - 1]
    found = look.shows(selector=f"n = {browsing.MAX_SCANNED}")
    assert (numbers(found), found["looked"]) == ([], browsing.MAX_SCANNED)
