"""Routes message by message: what each step does, and what failures at any action lose or double."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.engine.dialogue import Action, Event, Receive, Send
from spanwire.bridges.engine.route_processor import CAUSE, Plan, RouteProcessor
from spanwire.bridges.engine.route_state import RouteState
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.running.process import check_bridge
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.message_view import INT_VALUE, OBJECT, STRING_VALUE, TEXT, PropertyValue
from tests.support.bridge_dialogue import Content, text_messages
from tests.support.route_world import FAIL_AFTER, FAIL_BEFORE, OK, RouteWorld, route

HOUR_MS: Final = 3_600_000
FAULTS: Final = st.lists(st.sampled_from([OK, OK, OK, FAIL_BEFORE, FAIL_AFTER]), max_size=60)


def message(number: int, text: str | None = None, **properties: object) -> BridgeMessage:
    typed: dict[str, PropertyValue] = {
        name: (INT_VALUE if isinstance(value, int) else STRING_VALUE, value) for name, value in properties.items()
    }
    content = Content(f"text {number}" if text is None else text, typed)
    return BridgeMessage(f"ID:{number}", TEXT, content, 100)


def texts_after(steps: str, *messages: BridgeMessage, dead_letter: str = "") -> list[str]:
    world = RouteWorld(route(steps, dead_letter), list(messages))
    world.play()
    return world.texts()


TO: Final = "{to: 'far:queue:B'}"


def test_a_filter_keeps_the_messages_that_its_selector_or_condition_wants() -> None:
    messages = [message(1, region="us", price=5), message(2, region="de", price=50), message(3)]
    assert texts_after("{filter: {selector: \"region = 'us'\"}}, " + TO, *messages) == ["text 1"]
    assert texts_after("{filter: {simple: '${header.price} > 15'}}, " + TO, *messages) == ["text 2"]
    inner = "{filter: {simple: \"${header.region} == 'us'\", steps: [" + TO + "]}}"
    assert texts_after(f"{inner}, {TO}", *messages) == ["text 1", "text 1", "text 2", "text 3"]


def test_headers_are_set_and_removed() -> None:
    steps = (
        "{setHeader: {name: JMSPriority, constant: '7'}}, {setHeader: {name: copy, simple: '${header.n}'}}, "
        "{setHeader: {name: both, simple: '${header.n}/${body}'}}, {removeHeaders: {pattern: 'old*'}}, " + TO
    )
    world = RouteWorld(route(steps), [message(1, n=4, old1="x", old2="y")])
    world.play()
    (sent,) = world.sent[0]
    assert sent.priority == 7
    assert sent.property_values() == {
        "n": (INT_VALUE, 4),
        "copy": (INT_VALUE, 4),
        "both": (STRING_VALUE, "4/text 1"),
    }


def test_a_branch_changes_nothing_for_what_follows() -> None:
    steps = "{multicast: {steps: [{pipeline: {steps: [{setBody: {constant: changed}}, " + TO + "]}}]}}, " + TO
    assert sorted(texts_after(steps, message(1))) == ["changed", "text 1"]


def test_a_choice_takes_the_first_branch_that_wants_the_message() -> None:
    steps = (
        "{choice: {when: [{simple: '${header.n} > 1', steps: [{setBody: {simple: 'many ${body}'}}, "
        + TO
        + "]}], otherwise: {steps: ["
        + TO
        + "]}}}"
    )
    assert texts_after(steps, message(1, n=1), message(2, n=2)) == ["text 1", "many text 2"]


@pytest.mark.parametrize(
    ("step", "body", "parts"),
    [
        ("{split: {tokenize: ','}}", "a,b,,c", ["a", "b", "c"]),
        (r"{split: {tokenize: '\n'}}", "a\nb\n", ["a", "b"]),
        ("{split: {jsonpath: '$.items'}}", '{"items": ["a", {"n": 1}]}', ["a", '{"n": 1}']),
        ("{split: {jsonpath: '$.items[*].n'}}", '{"items": [{"n": 1}, {}, {"n": "x"}]}', ["1", "x"]),
    ],
)
def test_split_makes_a_message_of_each_part(step: str, body: str, parts: list[str]) -> None:
    assert texts_after(f"{step}, {TO}", message(1, body)) == parts


GATHER: Final = (
    "{aggregate: {correlationExpression: {header: k}, %s, aggregationStrategy: joined, delimiter: '+'}}, " + TO
)


def test_a_group_is_complete_by_size() -> None:
    messages = [message(1, "a", k="x"), message(2, "b", k="y"), message(3, "c", k="x")]
    assert texts_after(GATHER % "completionSize: 2", *messages, dead_letter="near:queue:D") == ["a+c"]


def test_a_group_is_complete_by_time_and_survives_a_restart_before() -> None:
    definition = route(GATHER % "completionTimeout: 1500", "near:queue:D")
    world = RouteWorld(definition, [message(1, "a", k="x"), message(2, "b", k="x")])
    world.play()  # ends while the group waits
    assert world.texts() == []
    again = RouteWorld(definition, [message(3, "c", k="x")])
    again.kept.extend(world.kept)
    again.play(seconds=0.9)
    assert again.texts() == ["a+b+c"]


def test_the_strategies_of_aggregate() -> None:
    messages = [message(1, "a", k="x"), message(2, "b", k="x")]
    for strategy, text in (("latest", "b"), ("json", '["a", "b"]')):
        words = f"correlationExpression: {{header: k}}, completionSize: 2, aggregationStrategy: {strategy}"
        steps = f"{{aggregate: {{{words}}}}}"
        assert texts_after(f"{steps}, {TO}", *messages, dead_letter="near:queue:D") == [text]


def test_any_kind_of_message_is_gathered_where_its_text_is_not_needed() -> None:
    step = "{aggregate: {correlationExpression: {header: k}, completionSize: 1}}, "
    gathered = BridgeMessage("ID:1", OBJECT, Content("x", {"k": (STRING_VALUE, "\ud800")}), 100)
    world = RouteWorld(route(step + TO, "near:queue:D"), [gathered])
    world.play()
    assert [one.kind for one in world.sent[0]] == [OBJECT]
    assert world.kept[0].changes[1].key == "?"  # half of a surrogate pair, which no database stores


def test_an_idempotent_consumer_keeps_the_first_message_of_each_key_within_its_size() -> None:
    messages = [message(number, key, k=key) for number, key in enumerate("aabab")]
    assert texts_after("{idempotentConsumer: {header: k}}, " + TO, *messages) == ["a", "b"]
    again = [message(number, key, k=key) for number, key in enumerate("abca")]
    assert texts_after("{idempotentConsumer: {header: k, cacheSize: 2}}, " + TO, *again) == ["a", "b", "c", "a"]


def test_delay_and_throttle_hold_a_batch() -> None:
    world = RouteWorld(route("{delay: 2000}, " + TO), text_messages(3))
    world.play()
    assert world.held == [2.0]
    world = RouteWorld(route("{throttle: 2}, " + TO), text_messages(5))
    world.play()
    assert [len(world.sent[0]), len(world.held)] == [5, 2]
    assert sum(world.held) == pytest.approx(2.0, abs=0.2)  # five messages, two in a second


def test_the_step_log_writes_after_the_batch_is_done(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = RouteWorld(route("{log: 'got ${body}'}, " + TO), [message(1, "a\nb")])
    world.play([OK, OK, FAIL_AFTER])
    lines = [record.getMessage() for record in caplog.records if "got" in record.getMessage()]
    assert lines == ["route r: got a\\u000ab"]


def test_a_message_at_fault_goes_to_the_dead_letter_endpoint_with_its_cause() -> None:
    broken = BridgeMessage("ID:2", OBJECT, Content("x"), 100)
    world = RouteWorld(
        route("{setBody: {simple: '${body}!'}}, " + TO, "near:queue:D"), [message(1), broken, message(3)]
    )
    world.play()
    assert world.texts() == ["text 1!", "text 3!"]
    (dead,) = world.sent[1]
    assert dead.property_values()[CAUSE] == (STRING_VALUE, "the body is no text")
    assert world.machine.counters.dead_letters == 1


def test_without_the_endpoint_the_sources_broker_takes_a_message_at_fault() -> None:
    broken = BridgeMessage("ID:2", OBJECT, Content("x"), 100)
    world = RouteWorld(route("{setBody: {simple: '${body}!'}}, " + TO), [message(1), broken, message(3)])
    world.play()
    assert world.texts() == ["text 1!", "text 3!"]
    assert [one.message_id for one in world.dead] == ["ID:2"]


def test_a_message_that_a_target_refuses_doubles_nothing_at_the_others() -> None:
    definition = route("{to: 'far:queue:B'}, {to: 'far:queue:C'}", "near:queue:D")
    world = RouteWorld(definition, text_messages(4))
    world.poisonous = frozenset({"ID:2"})
    world.play()
    assert world.texts(0) == ["text 0", "text 1", "text 3"]
    assert world.texts(1) == ["text 0", "text 1", "text 2", "text 3"]
    assert world.texts(2) == ["text 2"]


def test_a_failed_message_leaves_its_key_unknown() -> None:
    steps = "{idempotentConsumer: {header: k}}, {setHeader: {name: JMSPriority, simple: '${header.p}'}}, " + TO
    world = RouteWorld(route(steps, "near:queue:D"), [message(1, k="x", p="high"), message(2, k="x", p="7")])
    world.play()
    assert world.texts() == ["text 2"]


@given(FAULTS)
def test_failures_at_any_action_lose_nothing_at_any_target(outcomes: list[str]) -> None:
    world = RouteWorld(route("{to: 'far:queue:B'}, {wireTap: 'far:queue:C'}"), text_messages(20))
    failures = world.play(outcomes)
    for target in (0, 1):
        counts = Counter(world.texts(target))
        assert len(counts) == 20
        assert max(counts.values()) <= 1 + failures


@given(FAULTS)
def test_failures_at_any_action_double_no_key_that_is_stored(outcomes: list[str]) -> None:
    messages = [message(number, str(number), k=str(number % 7)) for number in range(20)]
    world = RouteWorld(route("{idempotentConsumer: {header: k}}, " + TO), messages)
    failures = world.play(outcomes)
    counts = Counter(world.texts())
    assert set(counts) == {str(number) for number in range(7)}
    assert max(counts.values()) <= 1 + failures


@given(FAULTS)
def test_failures_at_any_action_put_each_message_into_one_group(outcomes: list[str]) -> None:
    messages = [message(number, f"{number:02}", k="x") for number in range(21)]
    definition = route(GATHER % "completionSize: 3", "near:queue:D")
    world = RouteWorld(definition, messages)
    world.play(outcomes)
    groups = set(world.texts())  # a group may be sent twice, as the same group
    assert sorted(part for group in groups for part in group.split("+")) == [f"{number:02}" for number in range(21)]


def test_after_the_state_is_stored_a_failure_doubles_nothing() -> None:
    world = RouteWorld(route("{idempotentConsumer: {header: k}}, " + TO), [message(1, k="x")])
    assert world.play([OK, OK, OK, OK, FAIL_BEFORE]) == 1  # connect, receive, send, keep, acknowledge
    assert world.texts() == ["text 1"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("{setHeader: {name: JMSMessageID, constant: x}}, " + TO, "JMSMessageID is set by the broker"),
        (GATHER % "completionSize: 2", "aggregate needs a deadLetter of the route"),
    ],
)
def test_steps_that_cannot_work_are_refused_at_the_start(steps: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        RouteProcessor(route(steps))


@pytest.mark.parametrize("steps", ["{log: x}, {to: 'near:queue:A'}", "{wireTap: 'far:queue:B'}, {to: 'near:queue:A'}"])
def test_a_route_to_its_own_source_is_refused(steps: str) -> None:
    with pytest.raises(ConfigurationError, match="each message of queue://A would go round to itself"):
        check_bridge(route(steps))


def test_the_oldest_group_is_completed_when_the_state_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = RouteProcessor(route(GATHER % "completionSize: 100", "near:queue:D"))
    state = RouteState()
    monkeypatch.setattr("spanwire.bridges.engine.route_state.MAX_GATHERED", 2)
    plan = Plan()
    processor.process([message(1, "a", k="x"), message(2, "b", k="y")], Time(0.0, 1), state, plan)
    assert [one.content.neutral_body() for one in plan.sends[0]] == [b"a"]
    assert list(state.groups) == [(1, "y")]


def test_each_part_of_a_message_has_an_id_of_its_own() -> None:
    steps = (
        "{multicast: {steps: [{pipeline: {steps: [{split: {tokenize: ','}}, " + TO + "]}}, "
        "{pipeline: {steps: [{split: {tokenize: ','}}, " + TO + "]}}]}}"
    )
    world = RouteWorld(route(steps), [message(1, "a,b")])
    world.play()
    assert [one.message_id for one in world.sent[0]] == ["ID:1-1", "ID:1-2", "ID:1-2.1", "ID:1-2.2"]


def test_groups_that_one_message_completes_have_different_ids() -> None:
    steps = "{split: {tokenize: ','}}, " + GATHER.replace("header: k", "simple: '${body}'") % "completionSize: 2"
    world = RouteWorld(route(steps, "near:queue:D"), [message(1, "a,b"), message(2, "a,b")])
    world.play()
    assert [one.message_id for one in world.sent[0]] == ["ID:2-1-group1", "ID:2-2-group1"]


def test_messages_without_an_id_are_not_taken_for_one_another() -> None:
    messages = [BridgeMessage("", TEXT, Content(key, {"k": (STRING_VALUE, key)}), 100) for key in "ab"]
    definition = route("{idempotentConsumer: {header: k}}, " + TO)
    world = RouteWorld(definition, messages[:1])
    world.play()
    again = RouteWorld(definition, messages[1:])
    again.kept.extend(world.kept)
    again.play()
    assert again.texts() == ["b"]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_corrected_message_passes_after_its_key_failed_without_a_dead_letter_endpoint(is_refused: bool) -> None:
    steps = "{idempotentConsumer: {header: k}}, {setHeader: {name: JMSPriority, simple: '${header.p}'}}, " + TO
    world = RouteWorld(route(steps), [message(1, k="x", p="6" if is_refused else "high"), message(2, k="x", p="7")])
    world.poisonous = frozenset({"ID:1"} if is_refused else ())
    world.play()
    assert (world.texts(), [one.message_id for one in world.dead]) == (["text 2"], ["ID:1"])


CORRECTED: Final = "{idempotentConsumer: {header: k}}, " + TO


def test_a_corrected_message_passes_after_a_target_refused_its_key() -> None:
    definition = route(CORRECTED, "near:queue:D")
    world = RouteWorld(definition, [message(1, k="x"), message(2, k="y")])
    world.poisonous = frozenset({"ID:1"})
    world.play()
    assert (world.texts(0), world.texts(1)) == (["text 2"], ["text 1"])
    again = RouteWorld(definition, [message(3, k="x"), message(4, k="y"), message(5, k="x")])
    again.kept.extend(world.kept)
    again.play()
    assert again.texts() == ["text 3"]


def test_a_corrected_message_in_the_batch_of_the_refused_one_passes() -> None:
    world = RouteWorld(route(CORRECTED, "near:queue:D"), [message(1, k="x"), message(2, k="x"), message(3, k="z")])
    world.poisonous = frozenset({"ID:1"})
    world.play()
    assert (world.texts(0), world.texts(1)) == (["text 2", "text 3"], ["text 1"])


def test_a_part_with_the_key_of_a_refused_part_is_a_dead_letter_too() -> None:
    steps = "{split: {tokenize: ','}}, {idempotentConsumer: {simple: '${header.k}'}}, " + TO
    world = RouteWorld(route(steps, "near:queue:D"), [message(1, "a,b", k="x")])
    world.poisonous = frozenset({"ID:1-1"})
    world.play()
    assert (world.texts(0), world.texts(1)) == ([], ["a", "b"])


def test_a_group_is_complete_by_time_while_messages_never_cease() -> None:
    definition = route(GATHER % "completionTimeout: 1000", "near:queue:D")
    definition = replace(definition, batch=replace(definition.batch, size=1))
    world = RouteWorld(definition, [message(number, str(number), k=str(number)) for number in range(100)])
    perform = world.perform

    def steady(action: Action, outcome: str) -> Event:
        assert not (isinstance(action, Receive) and not world.pending), "the source was quiet"
        return perform(action, outcome)

    world.perform = steady  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="the source was quiet"):
        world.play(seconds=0.1)
    assert world.texts()[:2] == ["0", "1"] and len(world.texts()) > 80


class SetBack(RouteWorld):
    """A world whose clock is set back by an hour after some seconds."""

    set_back_at = 1.0

    def _time(self) -> Time:
        now = super()._time()
        return Time(now.monotonic, now.wall_ms - (HOUR_MS if self.now >= self.set_back_at else 0))


def test_a_clock_that_is_set_back_holds_no_group() -> None:
    definition = route(GATHER % "completionTimeout: 1500", "near:queue:D")
    definition = replace(definition, batch=replace(definition.batch, size=1))
    world = SetBack(definition, [message(number, str(number), k=str(number)) for number in range(100)])
    world.play(seconds=0.1)
    assert world.texts()[:2] == ["0", "1"] and len(world.texts()) > 80


def test_a_clock_that_is_set_back_between_two_runs_holds_no_group() -> None:
    definition = route(GATHER % "completionTimeout: 1500", "near:queue:D")
    world = RouteWorld(definition, [message(1, "a", k="x")])
    world.play()  # ends while the group waits
    again = SetBack(definition, [message(2, "b", k="x")])
    again.set_back_at = 0.0
    again.kept.extend(world.kept)
    again.play(seconds=0.9)
    assert again.texts() == ["a+b"]


def test_a_complete_group_ends_a_batch_that_waits_for_more() -> None:
    definition = route(GATHER % "completionTimeout: 1500", "near:queue:D")
    world = RouteWorld(definition, [message(1, "a", k="x")])
    world.play()  # ends while the group waits
    waiting = replace(definition, batch=replace(definition.batch, quiet_ms=60_000))
    again = RouteWorld(waiting, [message(2, "b", k="y")])
    again.kept.extend(world.kept)
    again.play(seconds=0.2)
    assert again.texts()[0] == "a" and again.now < 10


def test_a_batch_whose_parts_are_too_many_is_taken_singly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanwire.bridges.engine.route_processor.MAX_PLANNED", 4)
    world = RouteWorld(route("{split: {tokenize: ','}}, " + TO), [message(number, "a,b,c") for number in range(4)])
    sizes: list[int] = []
    perform = world.perform

    def measured(action: Action, outcome: str) -> Event:
        sizes.extend([len(action.messages)] if isinstance(action, Send) else [])
        return perform(action, outcome)

    world.perform = measured  # type: ignore[method-assign]
    world.play()
    assert (sizes, len(world.sent[0])) == ([3, 3, 3, 3], 12)


def test_a_long_key_is_remembered_as_its_hash() -> None:
    messages = [message(number, key[-1], k=key) for number, key in enumerate("x" * 5_000 + end for end in "aba")]
    world = RouteWorld(route("{idempotentConsumer: {header: k}}, " + TO), messages)
    world.play()
    assert world.texts() == ["a", "b"]
    assert max(len(change.key) for changes in world.kept for change in changes.changes) <= 1_000
