"""Rows of destinations that have changed: what a reader keeps together with them is what the views show."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.broker.admin.destination_changes import MAX_REMOVED
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.management.destination_feed import DestinationFeed
from spanwire.management.views import DESTINATION_FIELDS
from tests.support.dialogue.broker_dialogue import Stage, destination

QUEUE = "queue://Q"
RUNNER = asyncio.Runner()


class Reader:
    """Keeps the rows of one series of answers."""

    def __init__(self, feed: DestinationFeed) -> None:
        self.feed = feed
        self.since: object = None
        self.rows: dict[object, dict[str, object]] = {}

    def reads(self) -> tuple[list[object], list[object]]:
        """Read once. Returns the names of changed and of removed destinations."""
        header, *entries = RUNNER.run(self.feed.changes({"since": self.since}))
        assert isinstance(header, dict)
        if header["complete"]:
            self.rows.clear()
        removed, rows = entries[: header["removed"]], entries[header["removed"] :]
        for name in removed:
            self.rows.pop(name, None)
        for row in rows:
            assert isinstance(row, list)
            self.rows[row[0]] = dict(zip(header["columns"], row, strict=True))
        self.since = header["since"]
        return [row[0] for row in rows if isinstance(row, list)], removed

    def is_right(self, stage: Stage) -> bool:
        """Whether the rows are those of the views."""
        shown = {
            view.destination: {name: getattr(view, name) for name in DESTINATION_FIELDS}
            for view in stage.broker.destination_views()
        }
        return shown == self.rows


def reader(stage: Stage) -> Reader:
    return Reader(DestinationFeed(stage.broker.overview.destination_changes, stage.environment))


def test_a_reader_gets_rows_of_changed_destinations_alone() -> None:
    stage = Stage()
    producer, consumer = stage.peer("p"), stage.peer("c")
    for name in ("queue://Q", "queue://R", "topic://T"):
        producer.sends(name, "first")
    one = reader(stage)
    assert set(one.reads()[0]) == {"queue://Q", "queue://R", "topic://T"}
    assert one.is_right(stage)
    assert one.reads() == ([], [])
    producer.sends("topic://T", "second")
    assert one.reads() == (["topic://T"], [])
    listener = consumer.consumes(QUEUE)
    stage.syncs()
    assert one.reads() == (["queue://Q"], [])
    listener.acknowledges_one("first")
    stage.syncs()
    assert one.reads() == (["queue://Q"], [])
    assert one.is_right(stage)


@pytest.mark.parametrize("paused", [True, False])
def test_what_is_no_counter_is_a_change_as_well(paused: bool) -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "text")
    one = reader(stage)
    one.reads()
    if paused:
        stage.broker.operations.pause(destination(QUEUE), True, stage.now)
    else:
        stage.broker.administration.reset_statistics(destination(QUEUE), stage.now)
    assert one.reads() == ([QUEUE], [])
    assert one.is_right(stage)


def test_messages_that_wait_for_a_durable_subscription_count_at_its_topic() -> None:
    stage = Stage()
    subscriber = stage.peer("c", client_id="c")
    listener = subscriber.consumes("topic://T", durable="s")
    one = reader(stage)
    one.reads()
    listener.leaves()
    stage.peer("p").sends("topic://T", "text")
    stage.syncs()
    assert one.reads()[0] == ["topic://T"]
    assert one.rows["topic://T"]["pending"] == 1
    assert one.is_right(stage)


def test_a_removed_destination_is_named_and_comes_back_as_a_new_one() -> None:
    stage = Stage()
    for name in ("queue://Q", "queue://R"):
        stage.broker.administration.create_destination(destination(name), stage.now)
    one = reader(stage)
    one.reads()
    late = Reader(one.feed)
    late.reads()
    stage.broker.administration.remove_destination(destination(QUEUE), stage.now)
    assert one.reads() == ([], [QUEUE])
    stage.broker.administration.create_destination(destination(QUEUE), stage.now)
    assert one.reads() == ([QUEUE], [])
    assert late.reads() == ([QUEUE], [QUEUE])
    assert one.is_right(stage)
    assert late.is_right(stage)


def test_a_reader_that_has_missed_very_many_removals_gets_all_rows() -> None:
    stage = Stage()
    names = [f"queue://Q.{number}" for number in range(MAX_REMOVED + 1)]
    for name in [*names, "queue://R"]:
        stage.broker.administration.create_destination(destination(name), stage.now)
    one = reader(stage)
    one.reads()
    late = Reader(one.feed)
    late.reads()
    for name in names:
        stage.broker.administration.remove_destination(destination(name), stage.now)
    for each in (one, late):
        assert each.reads() == (["queue://R"], [])
        assert each.is_right(stage)
        assert each.reads() == ([], [])


def test_other_policies_are_a_change_of_every_destination() -> None:
    stage = Stage()
    stage.broker.administration.create_destination(destination("queue://DEAD"), stage.now)
    one = reader(stage)
    one.reads()
    assert one.rows["queue://DEAD"]["dead_letters"] is False
    strategy = DeadLetterStrategy(queue_name="DEAD")
    stage.broker.reconfiguration.use_policies([PolicyEntry(destination("queue://>"), dead_letter=strategy)])
    one.reads()
    assert one.rows["queue://DEAD"]["dead_letters"] is True
    assert one.is_right(stage)
