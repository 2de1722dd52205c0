"""A route, and a source, targets and a store for it that fail at any action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Acknowledged,
    Action,
    CallFunctions,
    Connect,
    Connected,
    DeadLetter,
    DeadLettered,
    Disconnect,
    Disconnected,
    Elapsed,
    Event,
    Failed,
    Hold,
    Keep,
    Kept,
    Receive,
    Received,
    Refused,
    Returned,
    Send,
    Sent,
    Start,
    Wait,
)
from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.engine.route_calls import Answer
from spanwire.bridges.engine.route_state import Changes, RouteState
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import RouteDefinition
from spanwire.model.environment import Time
from spanwire.routes.model import EMBEDDED
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

OK, FAIL_BEFORE, FAIL_AFTER = "ok", "fail before", "fail after"  # before or after the world has done it
MAX_TURNS: Final = 3_000
BROKERS: Final = {"near": "tcp://near:61616", "far": "tcp://far:61616"}
WALL_MS: Final = 1_700_000_000_000


def route(steps: str, dead_letter: str = "", uri: str = "near:queue:A") -> RouteDefinition:
    """Return the definition of a route with these steps, in YAML's short form."""
    words = f", deadLetter: '{dead_letter}'" if dead_letter else ""
    text = f"- route: {{id: r{words}, from: {{uri: '{uri}', steps: [{steps}]}}}}\n"
    file = read_routes(text.encode(), "r.yaml", Placeholders({}, {}), BROKERS)
    (definition,) = bridges_of(file.only(EMBEDDED).routes)
    assert isinstance(definition, RouteDefinition)
    return definition


class RouteWorld:
    """A source and targets that store each send at once. ``sent`` has what each target has."""

    def __init__(self, definition: RouteDefinition, messages: list[BridgeMessage]) -> None:
        self.machine = BridgeMachine(definition, ends_when_empty=True)
        self.now = 0.0
        self.pending: Final = list(messages)
        self.unacknowledged: list[BridgeMessage] = []
        self.sent: Final[list[list[BridgeMessage]]] = [[] for _ in definition.targets]
        self.dead: list[BridgeMessage] = []
        self.kept: Final[list[Changes]] = []
        self.poisonous: frozenset[str] = frozenset()
        self.held: Final[list[float]] = []
        self.calls: Final[list[list[str]]] = []
        self.functions: dict[str, Callable[[BridgeMessage], Answer]] = {}

    def texts(self, target: int = 0) -> list[str]:
        """Return the bodies that a target has."""
        return [(message.content.neutral_body() or b"").decode() for message in self.sent[target]]

    def play(self, outcomes: list[str] | None = None, seconds: float = 0.01) -> int:
        """Run the route until its source is empty. Returns the number of failures."""
        later = iter(outcomes or [])
        actions = self.machine.handle(Start(), self._time())
        for _ in range(MAX_TURNS):
            if not actions:
                assert self.machine.state.value == "stopped", self.machine.status()
                return self.machine.counters.failures
            self.now += seconds
            actions = self.machine.handle(self.perform(actions[0], next(later, OK)), self._time())
        raise AssertionError("the route does not end")

    def _time(self) -> Time:
        return Time(self.now, WALL_MS + int(self.now * 1000))

    def perform(self, action: Action, outcome: str) -> Event:
        """Perform an action, or fail before or after it."""
        if isinstance(action, Connect):
            return Connected(self._stored()) if outcome == OK else Failed("no broker")
        if isinstance(action, Disconnect):
            self.pending[:0] = self.unacknowledged
            self.unacknowledged = []
            return Disconnected()
        if isinstance(action, (Wait, Hold)):
            if isinstance(action, Hold):
                self.held.append(action.seconds)
            self.now += action.seconds
            return Elapsed()
        if outcome == FAIL_BEFORE:
            return Failed("lost")
        event = self._done(action)
        return Failed("lost") if outcome == FAIL_AFTER and not isinstance(event, Refused) else event

    def _done(self, action: Action) -> Event:
        if isinstance(action, Receive):
            taken = self.pending[: action.max_messages]
            del self.pending[: action.max_messages]
            self.unacknowledged += taken
            if not taken:
                self.now += action.wait_s
            return Received(taken)
        if isinstance(action, Send):
            for index, message in enumerate(action.messages):
                if message.message_id in self.poisonous and action.target == 0:
                    return Refused(index, "too large")
            self.sent[action.target] += action.messages
            return Sent()
        if isinstance(action, CallFunctions):
            self.calls.append([call.name for call in action.calls])
            return Returned([self.functions[call.name](call.message) for call in action.calls])
        if isinstance(action, Keep):
            self.kept.append(action.changes)
            return Kept()
        if isinstance(action, DeadLetter):
            self.dead += self.unacknowledged
            self.unacknowledged = []
            return DeadLettered()
        assert isinstance(action, Acknowledge), action
        self.unacknowledged = []
        return Acknowledged()

    def _stored(self) -> RouteState:
        state = RouteState()
        for changes in self.kept:
            for change in changes.changes:
                state.apply(change)
            state.remember(changes.recent)
        return state
