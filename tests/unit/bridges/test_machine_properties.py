"""The state machine of a bridge against a source and a target that fail at any action."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Acknowledged,
    Action,
    Commit,
    Committed,
    Connect,
    Connected,
    DeadLetter,
    DeadLettered,
    Disconnect,
    Disconnected,
    Elapsed,
    Event,
    Failed,
    Interrupt,
    Interrupted,
    Pause,
    Receive,
    Received,
    Refused,
    Send,
    Sent,
    Start,
    Stop,
    Wait,
)
from spanwire.bridges.model.definition import Quality
from spanwire.bridges.model.message import BridgeMessage
from tests.support.bridge_dialogue import BridgeDialogue, definition, text_messages

COUNT: Final = 20
MAX_TURNS: Final = 2_000
OK, FAIL_BEFORE, FAIL_AFTER = "ok", "fail before", "fail after"  # before or after the broker has done it
OUTCOMES: Final = st.lists(st.sampled_from([OK, OK, OK, FAIL_BEFORE, FAIL_AFTER]), max_size=60)
COMMANDS: Final = st.lists(st.sampled_from([None, None, None, Pause(), Start()]), max_size=60)


class World:
    """A source and a target that store, and a link that can be lost."""

    def __init__(self, poisonous: frozenset[str] = frozenset()) -> None:
        self.poisonous = poisonous  # ids of messages that the target refuses
        self.dead: list[str] = []
        self.pending = text_messages(COUNT)
        self.unacknowledged: list[BridgeMessage] = []
        self.uncommitted: list[BridgeMessage] = []
        self.arrived: list[BridgeMessage] = []
        self.is_open = False
        self.acknowledged_before_send = 0

    def perform(self, action: Action, outcome: str) -> Event:
        if isinstance(action, Connect):
            assert not self.is_open
            if outcome != OK:
                return Failed("no broker")
            self.is_open = True
            return Connected()
        if isinstance(action, Disconnect):
            self.is_open = False
            self.pending = self.unacknowledged + self.pending
            self.unacknowledged, self.uncommitted = [], []
            return Disconnected()
        if isinstance(action, Wait):
            return Elapsed()
        assert self.is_open
        if outcome == FAIL_BEFORE:
            return Failed("lost")
        if isinstance(action, Send):
            for index, message in enumerate(action.messages):
                if message.message_id in self.poisonous:
                    return Refused(index, "too large")
        event = self._done(action)
        return Failed("lost") if outcome == FAIL_AFTER else event

    def _done(self, action: Action) -> Event:
        if isinstance(action, Receive):
            assert action.max_messages > 0 and action.max_bytes > 0 and action.wait_s >= 0
            taken, self.pending = self.pending[: action.max_messages], self.pending[action.max_messages :]
            self.unacknowledged += taken
            return Received(taken)
        if isinstance(action, Acknowledge):
            self.unacknowledged = []
            return Acknowledged()
        if isinstance(action, DeadLetter):
            (message,) = self.unacknowledged
            self.dead.append(message.message_id)
            self.unacknowledged = []
            return DeadLettered()
        if isinstance(action, Send):
            self.uncommitted = list(action.messages)
            return Sent()
        assert isinstance(action, Commit)
        self.arrived += self.uncommitted
        self.unacknowledged, self.uncommitted = [], []
        return Committed()


class StoringWorld(World):
    """A target that stores each send at once, without a common transaction."""

    def _done(self, action: Action) -> Event:
        if isinstance(action, Send):
            self.arrived += action.messages
            return Sent()
        return super()._done(action)


def play(
    quality: Quality,
    size: int,
    outcomes: list[str],
    commands: list[Event | None],
    poisonous: frozenset[str] = frozenset(),
) -> tuple[World, int]:
    """Run a bridge until its source is empty. Returns the world, and the number of failures."""
    world = World(poisonous) if quality is Quality.ONCE_AND_ONLY_ONCE else StoringWorld(poisonous)
    bridge = BridgeDialogue(definition(quality, size), ends_when_empty=True)
    actions = bridge.hears(Start())
    later = iter(outcomes)
    orders: Iterator[Event | None] = iter(commands)
    for _ in range(MAX_TURNS):
        assert len(actions) <= 1, "two actions at once"
        if not actions:
            if bridge.state == "stopped":
                return world, bridge.machine.counters.failures
            assert bridge.state == "paused"
            actions = bridge.hears(Start())
            continue
        action = actions[0]
        order = next(orders, None)
        told = [] if order is None else bridge.hears(order)
        if told == [Interrupt()] and isinstance(action, (Connect, Receive, Wait)):
            actions = bridge.hears(Interrupted())
            continue
        assert told == []
        bridge.now += 0.01
        actions = bridge.hears(world.perform(action, next(later, OK)))
    raise AssertionError("the bridge does not end")


@given(st.integers(1, 7), OUTCOMES, COMMANDS)
def test_duplicates_ok_loses_nothing_and_doubles_at_most_a_batch_per_failure(
    size: int, outcomes: list[str], commands: list[Event | None]
) -> None:
    world, failures = play(Quality.DUPLICATES_OK, size, outcomes, commands)
    ids = [message.message_id for message in world.arrived]
    assert len(set(ids)) == COUNT
    assert len(ids) - COUNT <= size * failures


@given(st.integers(1, 7), OUTCOMES, COMMANDS)
def test_at_most_once_doubles_nothing_and_loses_at_most_a_batch_per_failure(
    size: int, outcomes: list[str], commands: list[Event | None]
) -> None:
    world, failures = play(Quality.AT_MOST_ONCE, size, outcomes, commands)
    ids = [message.message_id for message in world.arrived]
    assert len(set(ids)) == len(ids)
    assert COUNT - len(ids) <= size * failures


@given(st.integers(1, 7), OUTCOMES, COMMANDS)
def test_once_and_only_once_loses_and_doubles_nothing(
    size: int, outcomes: list[str], commands: list[Event | None]
) -> None:
    world, _ = play(Quality.ONCE_AND_ONLY_ONCE, size, outcomes, commands)
    assert sorted(message.message_id for message in world.arrived) == sorted(f"ID:{n}" for n in range(COUNT))


@pytest.mark.parametrize("quality", list(Quality))
@given(st.integers(1, 7), OUTCOMES, st.frozensets(st.integers(0, COUNT - 1), max_size=4))
def test_refused_messages_stop_no_other_message(
    quality: Quality, size: int, outcomes: list[str], numbers: frozenset[int]
) -> None:
    poisonous = frozenset(f"ID:{number}" for number in numbers)
    world, failures = play(quality, size, outcomes, [], poisonous)
    ids = {message.message_id for message in world.arrived}
    assert not ids & poisonous
    if quality is Quality.AT_MOST_ONCE:
        assert COUNT - len(poisonous) - len(ids) <= size * failures and world.dead == []
    else:
        assert len(ids) == COUNT - len(poisonous)
        assert sorted(world.dead) == sorted(poisonous)


@pytest.mark.parametrize("quality", list(Quality))
@given(data=st.data(), retries=st.integers(0, 4))
def test_a_bridge_whose_broker_never_answers_fails_after_its_retries(
    quality: Quality, data: st.DataObject, retries: int
) -> None:
    bridge = BridgeDialogue(definition(quality, max_retries=retries))
    actions = bridge.hears(Start())
    attempts = 0
    while actions:
        action = actions[0]
        attempts += isinstance(action, Connect)
        accepted = isinstance(action, Connect) and data.draw(st.booleans())
        event: Event = Connected() if accepted else Failed("refused")
        if isinstance(action, Disconnect):
            event = Disconnected()
        elif isinstance(action, Wait):
            event = Elapsed()
        actions = bridge.hears(event)
    assert bridge.state == "failed"
    assert attempts == retries + 1


@given(st.lists(st.sampled_from([Start(), Pause(), Stop()]), max_size=20))
def test_the_last_command_decides_the_state(commands: list[Event]) -> None:
    bridge = BridgeDialogue(definition())
    world = StoringWorld()
    actions: list[Action] = []
    for command in commands:
        told = bridge.hears(command)
        actions = told if told and told != [Interrupt()] else actions
    for _ in range(100):
        if not actions or (isinstance(actions[0], Receive) and not world.pending):
            break
        actions = bridge.hears(world.perform(actions[0], OK))
    started = [command for command in commands if not isinstance(command, Pause)]
    if not started or isinstance(started[-1], Stop):
        assert bridge.state == "stopped"
    else:
        paused = isinstance(commands[-1], Pause)
        assert bridge.state == ("paused" if paused else "running")
