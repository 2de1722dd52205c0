"""``changes`` of the control socket: series, bad arguments, slices, and what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import pytest

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.management.destination_feed import SLICE, DestinationFeed
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError


class Clock:
    def now(self) -> Time:
        return Time(1.0, 5_000)


class Changes:
    """Duck-typed to `spanwire.broker.admin.destination_changes.DestinationChanges`; each destination has changed."""

    def __init__(self, count: int = 2) -> None:
        self.revision = 0
        self.count = count
        self.slices: list[int] = []
        self.forgotten = 0
        self.is_scanning = False

    def begin(self) -> list[BrokerDestination]:
        assert not self.is_scanning
        self.is_scanning = True
        self.revision += 1
        return cast(list[BrokerDestination], [f"queue://{number}" for number in range(self.count)])

    def is_complete(self, since: int) -> bool:
        return since <= self.forgotten

    def scan(self, destinations: list[BrokerDestination], since: int) -> list[list[object]]:
        self.slices.append(len(destinations))
        return [[name, since] for name in destinations]

    def end(self, since: int) -> list[str]:
        self.is_scanning = False
        return ["queue://gone"]


Ask = Callable[[object], Awaitable[list[object]]]


def played(scene: Callable[[Ask, DestinationFeed], Awaitable[None]], *changes: Changes) -> None:
    made = iter(changes)
    feed = DestinationFeed(lambda: next(made), Clock())

    async def ask(since: object) -> list[object]:
        answer: Iterator[object] = await feed.changes({"since": since})
        return list(answer)

    asyncio.run(scene(ask, feed))  # type: ignore[arg-type]


def test_the_first_answer_is_complete_and_the_next_one_has_changes() -> None:
    async def scene(ask: Ask, feed: DestinationFeed) -> None:
        header, *rows = await ask(None)
        assert isinstance(header, dict)
        assert (header["complete"], header["removed"], header["since"]) == (True, 0, [5_000, 1])
        assert rows == [["queue://0", 0], ["queue://1", 0]]
        header, *rows = await ask(header["since"])
        assert isinstance(header, dict)
        assert (header["complete"], header["removed"], header["since"]) == (False, 1, [5_000, 2])
        assert rows == ["queue://gone", ["queue://0", 1], ["queue://1", 1]]

    played(scene, Changes())


@pytest.mark.parametrize("since", [[4_999, 1], [5_000, 99], [5_000, 0], [0, 0]])
def test_a_reader_of_another_series_gets_all(since: object) -> None:
    async def scene(ask: Ask, feed: DestinationFeed) -> None:
        await ask(None)
        header, *_ = await ask(since)
        assert isinstance(header, dict)
        assert header["complete"]

    played(scene, Changes())


@pytest.mark.parametrize("since", [1, "x", [1], [1, 2, 3], [1, "2"], [-1, 2], [1.0, 2], [True, 1], {}])
def test_a_bad_argument_is_refused(since: object) -> None:
    async def scene(ask: Ask, feed: DestinationFeed) -> None:
        with pytest.raises(ConfigurationError, match="since is null"):
            await ask(since)

    played(scene, Changes())


def test_many_destinations_are_scanned_over_several_turns_and_scans_do_not_mix() -> None:
    changes = Changes(2 * SLICE + 1)

    async def scene(ask: Ask, feed: DestinationFeed) -> None:
        await asyncio.gather(ask(None), ask(None))

    played(scene, changes)
    assert changes.slices == [SLICE, SLICE, 1] * 2


def test_what_nobody_reads_is_forgotten() -> None:
    first, second = Changes(), Changes()

    async def scene(ask: Ask, feed: DestinationFeed) -> None:
        header, *_ = await ask(None)
        assert isinstance(header, dict)
        feed._forget()
        again, *_ = await ask(header["since"])
        assert isinstance(again, dict)
        assert again["complete"]
        assert again["since"] != header["since"]

    played(scene, first, second)
    assert (first.revision, second.revision) == (1, 1)
