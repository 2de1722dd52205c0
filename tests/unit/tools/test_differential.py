"""Random scenarios are the same for a seed, and a broker that does something else is found out, with few steps."""

from __future__ import annotations

import pytest

from tests.soak.differential import Comparison, Lines, first_difference, run
from tests.soak.random_scenarios import scenario_of
from tests.soak.vocabulary import LIFE_MS, STOMP_WEIGHTS, WEIGHTS, Scenario, Step
from tests.support import histories


def seen(step: Step) -> list[str]:
    """What a client of the false broker sees of a step."""
    return [" ".join(map(str, step))] if step[0] in ("send", "browse", "rollback") else []


def honest(scenario: Scenario) -> tuple[Lines, Lines]:
    """Two brokers that do the same."""
    return [seen(step) for step in scenario], [seen(step) for step in scenario]


def forgetful(scenario: Scenario) -> tuple[Lines, Lines]:
    """The second broker shows a browser nothing after a rollback."""
    theirs, mine = honest(scenario)
    words = [step[0] for step in scenario]
    for at, word in enumerate(words):
        if word == "browse" and "rollback" in words[:at]:
            mine[at] = ["nothing"]
    return theirs, mine


class Moody:
    """The second broker does something else at one play of three."""

    def __init__(self) -> None:
        self.plays = 0

    def __call__(self, scenario: Scenario) -> tuple[Lines, Lines]:
        self.plays += 1
        theirs, mine = honest(scenario)
        return theirs, [[], *mine[1:]] if self.plays % 3 else mine


def seed_with(*words: str) -> int:
    """The first seed whose scenario has these words in this order."""
    for seed in range(1000):
        remaining = iter(step[0] for step in scenario_of(seed))
        if all(word in remaining for word in words):
            return seed
    raise AssertionError(words)


def test_a_seed_is_one_scenario() -> None:
    assert scenario_of(17) == scenario_of(17)
    assert scenario_of(17) != scenario_of(18)


def test_every_kind_of_step_is_in_some_of_the_first_scenarios() -> None:
    words = {step[0].replace(" ", "_") for seed in range(300) for step in scenario_of(seed)}
    assert words == {
        *({*WEIGHTS, *STOMP_WEIGHTS} - {"expire", "stomp", "close_consumer", "close_session", "close_connection"}),
        *("close", "pass", "end", "left", "dead_letters", "stomp_connect"),
    }


def test_a_broker_that_forgets_is_found_with_the_two_steps_that_show_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(histories, "DIRECTORY", tmp_path_factory.mktemp("histories"))
    seed = seed_with("rollback", "browse")
    assert run([seed], forgetful) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[:2]] == ["rollback", ">"]
    assert "+ nothing" in said
    assert said[-2:] == [
        f"seed {seed}: step 2 of 2 differs",
        f"python -m tests.soak.differential --first {seed} --count 1",
    ]
    (history,) = histories.DIRECTORY.iterdir()
    assert len(history.read_text().splitlines()) == 3


def test_brokers_that_do_the_same_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(range(40, 45), honest) == 0
    assert capsys.readouterr().out.startswith("5 scenarios from seed 40 on, the same")


def test_a_difference_that_does_not_come_again_is_counted_and_passes() -> None:
    comparison = Comparison(Moody())
    assert comparison.find([("browse", 1)]) is None
    assert comparison.counts == {"played": 1, "passing": 1}


@pytest.mark.parametrize(
    ("classic", "ours"),
    [
        (['a → {"body": "m1", "priority": 9}'], ['a → {"body": "m1"}']),
        (["counters of queue://A → {\"size\": 1}"], ["counters of queue://A → {\"size\": 0}"]),
        (['a → {"deliveries": 2}'], ['a → {"deliveries": 3}']),
        (["a ✗ IllegalStateException"], ["a → null"]),
        ([], ["a → null"]),
    ],
)  # fmt: skip
def test_what_a_client_or_the_counters_show_differs(classic: list[str], ours: list[str]) -> None:
    assert first_difference([("commit", 1)], [classic], [ours]) is not None


def test_counters_of_a_destination_that_is_not_there_yet_are_not_compared() -> None:
    absent, there = "counters of queue://A → {}", 'counters of queue://A → {"size": 0}'
    assert first_difference([("counts", "A")], [[absent]], [[there]]) is None


def test_counters_are_compared_at_the_end_alone_when_messages_expire() -> None:
    expiring: Scenario = [("send", 1, "A", 1, {"ttl": LIFE_MS}), ("counts", "A"), ("left", "A")]
    noticed, not_yet = 'counters of A → {"size": 0}', 'counters of A → {"size": 1}'
    assert first_difference(expiring, [[], [noticed], [noticed]], [[], [not_yet], [noticed]]) is None
    assert first_difference(expiring, [[], [noticed], [noticed]], [[], [noticed], [not_yet]]) is not None


def test_deliveries_that_a_client_makes_again_by_itself_are_not_compared() -> None:
    again: Scenario = [("rollback", 1), ("receive", 2, 1)]
    assert first_difference(again, [[], ['a → {"deliveries": 2}']], [[], ['a → {"deliveries": 3}']]) is None


def test_the_order_of_competing_consumers_is_free_but_not_what_they_get() -> None:
    competing: Scenario = [("consumer", 1, 1, "A", None, False), ("consumer", 2, 1, "A", None, False)]
    one, other = [["a → m1"], ["b → m2"]], [["b → m2"], ["a → m1"]]
    assert first_difference(competing, one, other) is None
    seen, otherwise = (
        ['s browses A → [{"body": "m1"}, {"body": "m2"}]'],
        ['s browses A → [{"body": "m2"}, {"body": "m1"}]'],
    )
    assert first_difference(competing, [[], seen], [[], otherwise]) is None
    back: Scenario = [*competing[:1], ("rollback", 1), *competing[1:]]
    first, second = '{"deliveries": 2, "to": "A"}', '{"body": "m2", "properties": {"n": "Integer 2"}}'
    ours = [[], [], [f"s browses A → [{second}, {first}]"]]
    assert first_difference(back, [[], [], [f"s browses A → [{first}, {second}]"]], ours) is None
    assert first_difference(competing, one, [["b → m1"], ["a → m2"]]) is not None
    assert first_difference([competing[0], ("commit", 1)], one, other) is not None
