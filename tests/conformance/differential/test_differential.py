"""The same scenario on ActiveMQ Classic and on Spanwire has the same outcome: messages, flags, counters, exceptions.

What differs stands in `not_yet.py` with its reason, and is checked there, too: a scenario that has become equal must be
taken off the list.
"""

from __future__ import annotations

import pytest

from tests.conformance.differential.brokers import ClassicBroker, SpanwireBroker
from tests.conformance.differential.not_yet import DEVIATIONS, NOT_YET, NotYet
from tests.conformance.differential.playing import MODULES, Scenario, play, scenarios, unlike
from tests.conformance.differential.stage import SLOW
from tests.support.java import JavaProcess

SCENARIOS = scenarios(*MODULES)
MISSING_PATIENCE_MS = 700  # for a message that a missing feature would have brought
SMOKE_EVERY = 20  # scenarios that are not slow: one in so many runs on both builds
QUICK = [name for name in SCENARIOS if name not in SLOW]
SMOKE = frozenset(QUICK[::SMOKE_EVERY])


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        pytest.param(
            name,
            scenario,
            id=name,
            marks=pytest.mark.long if name in SLOW else pytest.mark.smoke if name in SMOKE else [],
        )
        for name, scenario in SCENARIOS.items()
    ],
)
def test_a_java_client_sees_what_it_sees_on_classic(
    name: str,
    scenario: Scenario,
    remote: JavaProcess,
    played_on_classic: ClassicBroker,
    played_on_spanwire: SpanwireBroker,
    take: int,
) -> None:
    classics = play(remote, played_on_classic, name, scenario, take)
    if name in NOT_YET:
        ours = play(remote, played_on_spanwire, name, scenario, take, MISSING_PATIENCE_MS)
        is_refused_or_told(NOT_YET[name], ours, classics, played_on_spanwire.log)
        return
    ours = play(remote, played_on_spanwire, name, scenario, take)
    lines = unlike(ours, classics)
    if name not in DEVIATIONS:
        assert not lines, "\n".join(["Classic (-) and Spanwire (+) differ:", *lines])
        return
    added = [line for line in lines if line.startswith("+ ")]
    expected = DEVIATIONS[name].lines
    assert len(added) == len(expected), "\n".join(lines)
    for line, end in zip(added, expected, strict=True):
        assert line.endswith(end), "\n".join(lines)


def is_refused_or_told(later: NotYet, ours: list[str], classics: list[str], log: list[str]) -> None:
    """What is not there yet differs, and the user learns of it."""
    assert unlike(ours, classics), f"it is as on Classic now: take it off the list ({later.reason})"
    told = [line for line in log if "skipped" in line]
    if later.refusal:
        assert any(later.refusal in line for line in ours if "✗" in line), "\n".join(ours)
    elif later.configured:
        assert any(later.configured in line for line in told), "\n".join(told)
    else:
        assert later.silent


def test_the_lists_name_scenarios_that_exist() -> None:
    assert set(NOT_YET) <= set(SCENARIOS)
    assert set(DEVIATIONS) <= set(SCENARIOS) - set(NOT_YET)
    assert len(SCENARIOS) >= 130


def test_every_kind_of_scenario_has_some_that_are_not_left_out_for_their_time() -> None:
    assert SLOW <= {*SCENARIOS, *scenarios("variants")}
    assert {name.partition(".")[0] for name in QUICK} == set(MODULES)
