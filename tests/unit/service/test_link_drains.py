"""The drain of a link: held until what is on its way has an answer, and released without one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.network.connector.link import Link
from spanwire.service.administration import link_drains
from spanwire.service.administration.link_drains import PATIENCE_S, drain_links


@dataclass
class Demand:
    """Notes whether messages are taken."""

    held: list[bool] = field(default_factory=list)

    def hold(self, is_held: bool, now: Time) -> None:
        self.held.append(is_held)


class Clock:
    """Each look takes a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Time:
        self.seconds += 1.0
        return Time(self.seconds, 0)


class Linked:
    """A link with messages on their way, one of which is answered at each look."""

    def __init__(self, in_flight: int, answers: bool = True) -> None:
        self.demand = Demand()
        self.bridge = SimpleNamespace(forwarder=SimpleNamespace(local=self.demand))
        self._left = in_flight
        self._answers = answers

    def view(self) -> Any:
        self._left -= self._answers and self._left > 0
        return SimpleNamespace(in_flight=self._left)


def drained(link: Linked, clock: Clock) -> None:
    asyncio.run(drain_links([cast("Link", link)], cast("Any", clock), lambda: None))


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_drains, "POLL_S", 0.0)


def test_a_link_is_held_until_nothing_is_on_its_way() -> None:
    link = Linked(5)
    drained(link, Clock())
    assert (link.demand.held, link.view().in_flight) == ([True], 0)


def test_a_link_without_answers_goes_on_after_its_drain() -> None:
    link, clock = Linked(5, answers=False), Clock()
    with pytest.raises(ConfigurationError, match="there was no answer for 5 messages, so the link goes on"):
        drained(link, clock)
    assert link.demand.held == [True, False]
    assert clock.seconds > PATIENCE_S


def test_a_link_that_does_not_run_is_drained_at_once() -> None:
    link = Linked(0)
    link.bridge = cast("Any", None)
    drained(link, Clock())
    assert link.demand.held == []
