"""Who is there, as far as beacons tell."""

from __future__ import annotations

import pytest

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.beacon import Beacon
from spanwire.discovery.groups.sightings import MAX_SIGHTINGS, Sightings

URI = "tcp://a:61616"
HERE = Beacon("default", URI)
GONE = Beacon("default", URI, alive=False)


class Listener:
    def __init__(self) -> None:
        self.news: list[str] = []

    def on_found(self, uri: str) -> None:
        self.news.append(f"found {uri}")

    def on_lost(self, uri: str) -> None:
        self.news.append(f"lost {uri}")

    def take(self) -> list[str]:
        news, self.news = self.news, []
        return news


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def sightings(listener: Listener) -> Sightings:
    return Sightings(listener, 0.5)


def test_a_broker_is_found_once_however_often_it_speaks(sightings: Sightings, listener: Listener) -> None:
    for tenth in range(20):
        sightings.on_beacon(HERE, tenth / 2)
        sightings.expire(tenth / 2)
    assert listener.take() == [f"found {URI}"]


def test_a_broker_that_says_farewell_is_lost_at_once_and_found_when_it_comes_back(
    sightings: Sightings, listener: Listener
) -> None:
    sightings.on_beacon(HERE, 0)
    sightings.on_beacon(GONE, 0.1)
    sightings.on_beacon(GONE, 0.2)
    sightings.on_beacon(HERE, 0.3)
    assert listener.take() == [f"found {URI}", f"lost {URI}", f"found {URI}"]


@pytest.fixture
def doubtful(listener: Listener) -> Sightings:
    return Sightings(listener, 0.5, doubts_farewells=True)


def test_s38_a_farewell_in_the_name_of_a_broker_that_goes_on_speaking_is_false(
    doubtful: Sightings, listener: Listener
) -> None:
    for half in range(100):
        now = half / 2
        doubtful.on_beacon(HERE, now)
        for tenth in range(4):
            doubtful.on_beacon(GONE, now + 0.1 + tenth / 10)
        doubtful.expire(now + 0.49)
    assert listener.take() == [f"found {URI}"]


def test_who_is_silent_after_a_farewell_is_lost_after_three_beacons_and_found_when_it_comes_back(
    doubtful: Sightings, listener: Listener
) -> None:
    doubtful.on_beacon(HERE, 0)
    doubtful.on_beacon(GONE, 0.1)
    doubtful.on_beacon(GONE, 1.5)
    doubtful.expire(1.5)
    assert listener.take() == [f"found {URI}"]
    doubtful.expire(1.6)
    assert listener.take() == [f"lost {URI}"]
    doubtful.on_beacon(HERE, 1.7)
    assert listener.take() == [f"found {URI}"]


def test_a_link_that_ends_after_a_farewell_shows_that_it_was_true(doubtful: Sightings, listener: Listener) -> None:
    doubtful.on_beacon(HERE, 0)
    doubtful.on_beacon(GONE, 0.1)
    doubtful.on_failure(URI, 0.2, 60.0)
    assert listener.take() == [f"found {URI}", f"lost {URI}"]
    doubtful.on_beacon(HERE, 0.3)
    assert listener.take() == [f"found {URI}"]


def test_a_broker_is_lost_after_ten_missed_beacons(sightings: Sightings, listener: Listener) -> None:
    sightings.on_beacon(HERE, 0)
    sightings.expire(5.0)
    assert listener.take() == [f"found {URI}"]
    sightings.expire(5.1)
    assert listener.take() == [f"lost {URI}"]


def test_a_broker_does_not_find_itself(sightings: Sightings, listener: Listener) -> None:
    sightings.own.add(URI)
    sightings.on_beacon(HERE, 0)
    assert listener.take() == []


def test_what_could_not_be_used_is_told_again_after_five_seconds_if_it_still_speaks(
    sightings: Sightings, listener: Listener
) -> None:
    sightings.on_beacon(HERE, 0)
    sightings.on_failure(URI, 1)
    sightings.on_failure(URI, 1.1)
    sightings.on_beacon(HERE, 5.9)
    assert listener.take() == [f"found {URI}", f"lost {URI}"]
    sightings.on_beacon(HERE, 6.0)
    assert listener.take() == [f"found {URI}"]


def test_what_could_not_be_used_and_fell_silent_is_not_lost_twice(sightings: Sightings, listener: Listener) -> None:
    sightings.on_beacon(HERE, 0)
    sightings.on_failure(URI, 1)
    sightings.expire(60)
    assert listener.take() == [f"found {URI}", f"lost {URI}"]


def test_made_up_brokers_beyond_the_limit_are_ignored(
    sightings: Sightings, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MAX_SIGHTINGS + 50):
        sightings.on_beacon(Beacon("default", f"tcp://h:{number}"), 0)
    assert len(listener.take()) == MAX_SIGHTINGS
    assert len(caplog.records) == 1


def test_an_address_that_turns_out_to_be_this_broker_itself_is_never_found_again(
    sightings: Sightings, listener: Listener
) -> None:
    sightings.on_beacon(HERE, 0)
    sightings.ignore(URI)
    sightings.on_beacon(GONE, 1)
    sightings.on_beacon(HERE, 2)
    assert listener.take() == [f"found {URI}", f"lost {URI}"]


def test_of_own_addresses_only_so_many_are_remembered_and_the_rest_stays_away(
    sightings: Sightings, listener: Listener
) -> None:
    for number in range(MAX_SIGHTINGS):
        sightings.ignore(f"tcp://own:{number}")
    sightings.on_beacon(HERE, 0)
    sightings.ignore(URI)
    sightings.on_beacon(HERE, 1000)
    assert len(sightings.own) == MAX_SIGHTINGS
    assert listener.take() == [f"found {URI}"]


def test_after_a_new_beginning_everybody_is_found_again_but_oneself(sightings: Sightings, listener: Listener) -> None:
    sightings.ignore("tcp://own:1")
    sightings.on_beacon(HERE, 0)
    sightings.clear()
    sightings.on_beacon(HERE, 1)
    sightings.on_beacon(Beacon("default", "tcp://own:1"), 1)
    assert listener.take() == [f"found {URI}", f"found {URI}"]


def test_only_use_counts_as_life(listener: Listener) -> None:
    retry = ReconnectSettings(initial_delay_ms=1_000, exponential=True)
    sightings = Sightings(listener, 0.5, retry)
    found: list[float] = []
    for second in range(40):
        before = len(listener.news)
        sightings.on_beacon(HERE, second)
        if len(listener.news) > before:
            found.append(second)
            sightings.on_failure(URI, second, 0.0)
    assert found == [0, 1, 3, 7, 15, 31]
