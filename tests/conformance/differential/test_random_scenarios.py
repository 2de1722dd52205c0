"""Some random scenarios are the same on both brokers, and a planted fault is found. `make soak` plays more of them."""

from __future__ import annotations

import pytest

from tests.conformance.differential.brokers import ClassicBroker, SpanwireBroker
from tests.soak.differential import Comparison, Lines, first_difference
from tests.soak.random_scenarios import scenario_of
from tests.soak.scenario_player import play
from tests.soak.vocabulary import Scenario
from tests.support.java import JavaProcess

SEEDS = (1, 2, 3)
SENDS: Scenario = [
    ("connection", 1, ""),
    ("session", 2, 1, "auto"),
    *[("send", 2, "queue://{s}.Q", number, {}) for number in (1, 2, 3)],
    ("end",),
    ("left", "queue://{s}.Q"),
]
LOST = 3  # the step whose message one broker does not get
NOTHING = ("stop", 0)  # a step about what was not made


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_scenario_is_the_same_on_both(
    seed: int, remote: JavaProcess, played_on_classic: ClassicBroker, played_on_spanwire: SpanwireBroker, take: int
) -> None:
    numbers = iter(range(100_000 * take + 1_000 * seed, 1_000_000))

    def play_both(scenario: Scenario) -> tuple[Lines, Lines]:
        number = next(numbers)
        return play(remote, played_on_classic, scenario, number), play(remote, played_on_spanwire, scenario, number)

    found = Comparison(play_both).find(scenario_of(seed))
    assert found is None, str(found)


def test_a_send_that_one_broker_does_not_get_is_found_in_what_is_left(
    remote: JavaProcess, played_on_classic: ClassicBroker, played_on_spanwire: SpanwireBroker, take: int
) -> None:
    number = 100_000 * take
    classic = play(remote, played_on_classic, SENDS, number)
    ours = play(remote, played_on_spanwire, [*SENDS[:LOST], NOTHING, *SENDS[LOST + 1 :]], number)
    assert ours.pop(LOST) == []
    ours.insert(LOST, classic[LOST])
    found = first_difference(SENDS, classic, ours)
    assert found is not None
    assert found.at == len(SENDS) - 1
    assert '"body": "m2"' in str(found)
