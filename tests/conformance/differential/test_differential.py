"""The same scenario on ActiveMQ Classic and on Spanwire has the same outcome: messages, flags, counters, exceptions.

What differs stands in `not_yet.py` with its reason, and is checked there, too: a scenario that has become equal must be
taken off the list.
"""

from __future__ import annotations

import pytest

from tests.conformance.differential.brokers import ClassicBroker, SpanwireBroker
from tests.conformance.differential.not_yet import DEVIATIONS, NOT_YET
from tests.conformance.differential.playing import MODULES, Scenario, play, scenarios, unlike
from tests.support.java import JavaProcess

SCENARIOS = scenarios(*MODULES)
MISSING_PATIENCE_MS = 700  # for a message that a missing feature would have brought
EQUAL = [pytest.param(name, scenario, id=name) for name, scenario in SCENARIOS.items() if name not in NOT_YET]
LATER = [pytest.param(name, SCENARIOS[name], id=name) for name in NOT_YET]


@pytest.mark.parametrize(("name", "scenario"), EQUAL)
def test_a_java_client_sees_what_it_sees_on_classic(
    name: str,
    scenario: Scenario,
    remote: JavaProcess,
    played_on_classic: ClassicBroker,
    played_on_spanwire: SpanwireBroker,
) -> None:
    classics = play(remote, played_on_classic, name, scenario)
    ours = play(remote, played_on_spanwire, name, scenario)
    lines = unlike(ours, classics)
    if name not in DEVIATIONS:
        assert not lines, "\n".join(["Classic (-) and Spanwire (+) differ:", *lines])
        return
    added = [line for line in lines if line.startswith("+ ")]
    expected = DEVIATIONS[name].lines
    assert len(added) == len(expected), "\n".join(lines)
    for line, end in zip(added, expected, strict=True):
        assert line.endswith(end), "\n".join(lines)


@pytest.mark.parametrize(("name", "scenario"), LATER)
def test_what_is_not_there_yet_is_refused_or_told(
    name: str,
    scenario: Scenario,
    remote: JavaProcess,
    played_on_classic: ClassicBroker,
    played_on_spanwire: SpanwireBroker,
) -> None:
    later = NOT_YET[name]
    classics = play(remote, played_on_classic, name, scenario)
    ours = play(remote, played_on_spanwire, name, scenario, MISSING_PATIENCE_MS)
    assert unlike(ours, classics), f"{name} is as on Classic now: take it off the list ({later.reason})"
    told = [line for line in played_on_spanwire.log if "skipped" in line]
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
