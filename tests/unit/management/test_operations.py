"""Purge and retry as the control socket asks for them: names, patterns, what is refused, and when the answer comes."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.broker.admin.selective_walk import OperationObserver
from spanwire.management.operations.operations import MAX_NAMES, NO_LIMIT, QueueOperations
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, InvalidDestinationError, InvalidSelectorError


class Clock:
    def now(self) -> Time:
        return Time(1.0, 2)


class Queues:
    """Duck-typed to `spanwire.management.operations.operations.OperatedQueues`; has the queues A.1, A.2 and B."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None, int]] = []

    def queues(self, pattern: Destination) -> list[Destination]:
        names = ("A.1", "A.2", "B")
        found = [name for name in names if name == pattern.name or (pattern.is_pattern and name.startswith("A."))]
        return [Destination(QUEUE, name) for name in found]

    def remove(
        self, destination: Destination, selector: str | None, observer: OperationObserver, limit: int, now: Time
    ) -> None:
        if selector == "bad":
            raise InvalidSelectorError("bad")
        self.asked.append(("remove", destination.name, selector, limit))
        observer.on_finished(3, 0)

    def retry(
        self,
        destination: Destination,
        selector: str | None,
        observer: OperationObserver,
        limit: int,
        now: Time,
        lifetime_ms: int = -1,
    ) -> None:
        self.asked.append(("retry", destination.name, selector, limit if lifetime_ms < 0 else lifetime_ms))
        observer.on_finished(2, 1)
        observer.on_finished(9, 9)  # only the first word counts

    def transfer(
        self,
        destination: Destination,
        target: Destination,
        keeps: bool,
        selector: str | None,
        observer: OperationObserver,
        limit: int,
        now: Time,
    ) -> None:
        self.asked.append((f"{'copy' if keeps else 'move'} to {target.name}", destination.name, selector, limit))
        observer.on_finished(4, 1)

    def pause(self, destination: Destination, pause: bool, now: Time) -> int:
        self.asked.append(("pause" if pause else "resume", destination.name, None, 0))
        return 7


class Stage:
    def __init__(self) -> None:
        self.queues = Queues()
        self.woken = 0
        self.operations = QueueOperations(self.queues, Clock(), self.wake)

    def wake(self) -> None:
        self.woken += 1

    def purges(self, **arguments: object) -> list[dict[str, object]]:
        return asyncio.run(self._run("purge", arguments))

    def retries(self, **arguments: object) -> list[dict[str, object]]:
        return asyncio.run(self._run("retry", arguments))

    async def _run(self, what: str, arguments: dict[str, object]) -> list[dict[str, object]]:
        operate = getattr(self.operations, what)
        found: list[dict[str, object]] = await operate(arguments)
        return found


def test_each_named_queue_is_purged_once_and_the_broker_is_woken() -> None:
    stage = Stage()
    assert stage.purges(destinations=["B", "queue://A.>", "A.1"], selector="n = 1") == [
        {"destination": "queue://B", "removed": 3},
        {"destination": "queue://A.1", "removed": 3},
        {"destination": "queue://A.2", "removed": 3},
    ]
    assert stage.queues.asked == [("remove", name, "n = 1", NO_LIMIT) for name in ("B", "A.1", "A.2")]
    assert stage.woken == 3


def test_a_retry_tells_what_it_left() -> None:
    stage = Stage()
    assert stage.retries(destinations=["B"], limit=5) == [{"destination": "queue://B", "retried": 2, "left": 1}]
    assert stage.queues.asked == [("retry", "B", None, 5)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "destinations is no list"),
        ({"destinations": []}, "destinations is no list"),
        ({"destinations": "B"}, "destinations is no list"),
        ({"destinations": ["B"] * (MAX_NAMES + 1)}, "destinations is no list"),
        ({"destinations": [""]}, "a destination has no name"),
        ({"destinations": [1]}, "a destination has no name"),
        ({"destinations": ["topic://B"]}, "topic://B is no queue"),
        ({"destinations": ["C"]}, "there is no queue C; spanwire dstat queues lists them"),
        ({"destinations": ["B"], "selector": 1}, "the selector is no text"),
        ({"destinations": ["B"], "limit": -1}, "the limit is no whole number"),
        ({"destinations": ["B"], "limit": True}, "the limit is no whole number"),
        ({"destinations": ["B"], "limit": "1"}, "the limit is no whole number"),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_done(arguments: dict[str, object], words: str) -> None:
    stage = Stage()
    with pytest.raises(ConfigurationError, match=words):
        stage.purges(**arguments)
    assert stage.queues.asked == []


def test_what_the_broker_refuses_is_passed_on() -> None:
    with pytest.raises(InvalidSelectorError):
        Stage().purges(destinations=["B"], selector="bad")


@pytest.mark.parametrize("what", ["pause", "resume"])
def test_queues_are_paused_and_resumed_by_name_and_pattern(what: str) -> None:
    stage = Stage()
    rows = asyncio.run(stage._run(what, {"destinations": ["B", "A.>"]}))
    assert [(row["destination"], row["paused"], row["waiting"]) for row in rows] == [
        (f"queue://{name}", what == "pause", 7) for name in ("B", "A.1", "A.2")
    ]
    assert [asked[:2] for asked in stage.queues.asked] == [(what, name) for name in ("B", "A.1", "A.2")]
    assert stage.woken == 1
    with pytest.raises(ConfigurationError, match="there is no queue"):
        asyncio.run(stage._run(what, {"destinations": ["C"]}))


def test_a_queue_that_is_named_in_another_form_is_told_how() -> None:
    stage = Stage()
    with pytest.raises(InvalidDestinationError, match="did you mean queue://B"):
        stage.purges(destinations=["/queue/B"])
    assert stage.queues.asked == []


@pytest.mark.parametrize(("what", "key"), [("move", "moved"), ("copy", "copied")])
def test_messages_are_moved_and_copied_to_a_target(what: str, key: str) -> None:
    stage = Stage()
    arguments: dict[str, object] = {"destinations": ["A.>"], "target": "C", "selector": "n = 1", "limit": 9}
    rows = asyncio.run(stage._run(what, arguments))
    assert rows == [{"destination": f"queue://A.{number}", key: 4, "left": 1} for number in (1, 2)]
    assert stage.queues.asked == [(f"{what} to C", f"A.{number}", "n = 1", 9) for number in (1, 2)]
    with pytest.raises(ConfigurationError, match="target is the queue or topic"):
        asyncio.run(stage._run(what, {"destinations": ["B"]}))
