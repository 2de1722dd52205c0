"""The steps of a route as operations on single messages, without input or output."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from spanwire.bridges.engine.changed_messages import (
    copy_of,
    storable,
    text_of,
    typed,
    with_id,
    with_property,
    with_text,
)
from spanwire.bridges.engine.message_values import WRITERS, Condition, Value, header, set_header
from spanwire.bridges.engine.route_calls import Calls
from spanwire.bridges.engine.route_state import (
    Change,
    Completed,
    Gathered,
    KeyForgotten,
    KeySeen,
    RouteState,
    Undo,
)
from spanwire.bridges.engine.xpath import XPathExpression
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import append_message_id
from spanwire.model.environment import Time
from spanwire.model.errors import MessageFormatError
from spanwire.routes.model import JOINED, JSON_ARRAY, LATEST, TOKENIZE, XPATH, Expression, Gather, SplitBody
from spanwire.routes.simple import shown

MAX_PARTS: Final = 10_000  # messages that split makes of one; more would exceed a batch's memory
MAX_KEY: Final = 1_000  # characters of a key that is remembered; a longer one is remembered as its hash
MAX_LINE: Final = 1_000  # characters of a line of the step log
ALL: Final = "[*]"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the step log."""

    level: str
    name: str
    text: str


@dataclass(slots=True)
class Outcome:
    """The effects of one message: copies for targets, lines, changes of the state, earliest time to send."""

    now: Time
    state: RouteState
    sends: list[tuple[int, BridgeMessage]] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    dead: list[tuple[BridgeMessage, str]] = field(default_factory=list)  # messages of a group at fault, with the cause
    not_before: float = 0.0  # monotonic seconds
    repeated: list[tuple[KeySeen, BridgeMessage]] = field(default_factory=list)  # messages whose key was known
    calls: Calls = field(default_factory=Calls)
    releases: list[Undo] = field(default_factory=list)  # take back what the message has taken of throttles
    _undos: list[Undo] = field(default_factory=list)

    def change(self, change: Change) -> None:
        """Change the state."""
        self._undos.append(self.state.apply(change))
        self.changes.append(change)

    def roll_back(self, changes: int = 0, sends: int = 0, lines: int = 0) -> None:
        """Take back all but so many changes, messages and lines."""
        while len(self._undos) > changes:
            self._undos.pop()()
        del self.changes[changes:], self.sends[sends:], self.lines[lines:]

    def suspend(self) -> None:
        """Take back all effects, because the message passes the steps anew."""
        self.roll_back()
        while self.releases:
            self.releases.pop()()


class Operation(Protocol):
    """One step."""

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the messages that go on to the next step. Raises `MessageFormatError` for a message at fault."""
        ...


Operations = list[Operation]
Parts = Callable[[BridgeMessage], list[str]]


def run(operations: Operations, message: BridgeMessage, outcome: Outcome) -> None:
    """Take a message through operations. Raises `MessageFormatError`."""
    for position, operation in enumerate(operations):
        following = operation.apply(message, outcome)
        if len(following) == 1:
            message = following[0]
            continue
        for part in following:
            run(operations[position + 1 :], part, outcome)
        return


@dataclass(frozen=True, slots=True)
class FilterOperation:
    """Keeps messages, or takes copies through inner steps."""

    condition: Condition
    inner: Operations | None

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message if it goes on."""
        holds = self.condition(message)
        if self.inner is None:
            return (message,) if holds else ()
        if holds:
            run(self.inner, copy_of(message), outcome)
        return (message,)


@dataclass(frozen=True, slots=True)
class HeaderOperation:
    """Sets a JMS header or a property."""

    name: str
    value: Value

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message with the header."""
        value = self.value(message)
        if self.name in WRITERS:
            set_header(message, self.name, value)
        else:
            with_property(message, self.name, None if value is None else typed(value))
        return (message,)


@dataclass(frozen=True, slots=True)
class RemoveOperation:
    """Removes a property, clears a JMS header, or removes all properties with a common prefix.

    The prefix is ``name`` before a star.
    """

    name: str

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message without the header."""
        if self.name in WRITERS:
            set_header(message, self.name, None)
            return (message,)
        start, is_open = self.name.removesuffix("*"), self.name.endswith("*")
        kept = {
            name: value
            for name, value in message.property_values().items()
            if not (name.startswith(start) if is_open else name == self.name)
        }
        message.properties = kept
        return (message,)


@dataclass(frozen=True, slots=True)
class BodyOperation:
    """Replaces the body by a text."""

    value: Value

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message with the text."""
        value = self.value(message)
        return (with_text(message, None if value is None else shown(value)),)


@dataclass(frozen=True, slots=True)
class ProcessOperation:
    """Has a function of the operator change the message."""

    number: int
    name: str

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the changed message; no message before the function's answer."""
        answer = outcome.calls.answer(self.number, self.name, message)
        if isinstance(answer, str):
            raise MessageFormatError(answer)
        return () if answer is None else (copy_of(answer),)


@dataclass(frozen=True, slots=True)
class AppendIdOperation:
    """Appends the message id to the list of ids in a property."""

    name: str

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message with the longer list."""
        append_message_id(message, self.name)
        return (message,)


@dataclass(frozen=True, slots=True)
class ChoiceOperation:
    """Takes a copy through the first branch with a true condition."""

    branches: list[tuple[Condition, Operations]]
    otherwise: Operations

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message unchanged."""
        chosen = next((branch for condition, branch in self.branches if condition(message)), self.otherwise)
        run(chosen, copy_of(message), outcome)
        return (message,)


@dataclass(frozen=True, slots=True)
class MulticastOperation:
    """Takes a copy through each branch."""

    branches: list[Operations]

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message unchanged."""
        for branch in self.branches:
            run(branch, copy_of(message), outcome)
        return (message,)


@dataclass(frozen=True, slots=True)
class SendOperation:
    """Sends a copy to a target, with the quality of service of the endpoint."""

    target: int
    persistent: bool | None
    priority: int | None
    time_to_live_ms: int
    drops_temporary: bool

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message unchanged."""
        sent = copy_of(message)
        if self.persistent is not None:
            sent.persistent = self.persistent
        if self.priority is not None:
            sent.priority = self.priority
        if self.time_to_live_ms:
            sent.expiration_ms = outcome.now.wall_ms + self.time_to_live_ms
        if self.drops_temporary and sent.reply_to is not None and sent.reply_to.is_temporary:
            sent.reply_to = None
        outcome.sends.append((self.target, sent))
        return (message,)


@dataclass(frozen=True, slots=True)
class SplitOperation:
    """Makes a message of each part of the body.

    The parts of the route's first split have the id of the message with ``-1``, ``-2`` and so on; those of split
    ``number`` with ``-NUMBER.1`` and so on, so that no two parts of a message have one id.
    """

    number: int
    parts: Parts
    inner: Operations | None

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the parts, or the message after its parts went through the inner steps."""
        parts = self.parts(message)
        if len(parts) > MAX_PARTS:
            raise MessageFormatError(f"split makes {len(parts)} messages, more than {MAX_PARTS}")
        prefix = "" if self.number == 1 else f"{self.number}."
        messages = [
            with_id(with_text(message, part), f"{prefix}{position}") for position, part in enumerate(parts, start=1)
        ]
        if self.inner is None:
            return messages
        for part in messages:
            run(self.inner, part, outcome)
        return (message,)


@dataclass(slots=True)
class GatherOperation:
    """Gathers messages by key; ``following`` are the steps for a complete group."""

    number: int
    step: Gather
    key: Value
    following: Operations

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message of a complete group, or no message."""
        key = _key(self.key(message))
        self._check(message)
        at = (self.number, key)
        group = outcome.state.groups.get(at)
        first_ms = outcome.now.wall_ms if group is None else group.first_ms
        outcome.change(Gathered(self.number, key, first_ms, copy_of(message)))
        if self.step.size is not None and len(outcome.state.groups[at].messages) >= self.step.size:
            self.complete(key, outcome)
        return (message,) if self.step.is_branch else ()

    def _check(self, message: BridgeMessage) -> None:
        """Raise `MessageFormatError` for a message unfit for a group; the message alone is at fault then."""
        message.property_values()
        if self.step.strategy == LATEST:
            message.content.neutral_body()
        else:
            text_of(message)

    def complete(self, key: str, outcome: Outcome) -> None:
        """Take the message of a group through the following steps.

        At a fault all messages of the group are dead.
        """
        messages = outcome.state.groups[(self.number, key)].messages
        outcome.change(Completed(self.number, key))
        before = len(outcome.changes), len(outcome.sends), len(outcome.lines)
        try:
            run(self.following, with_id(combined(self.step, messages), f"group{self.number}"), outcome)
        except MessageFormatError as error:
            outcome.roll_back(*before)
            outcome.dead += [(message, str(error)) for message in messages]

    def deadline_ms(self, first_ms: int) -> int | None:
        """Return the completion time of a group, in milliseconds since 1970."""
        return None if self.step.timeout_ms is None else first_ms + self.step.timeout_ms


@dataclass(frozen=True, slots=True)
class IdempotentOperation:
    """Keeps the first message of each key."""

    number: int
    key: Value
    size: int
    inner: Operations | None

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message for a new key."""
        key = _key(self.key(message))
        is_new = not outcome.state.knows(self.number, key)
        if not is_new:
            outcome.repeated.append((KeySeen(self.number, key), message))
        else:
            oldest = outcome.state.oldest_key(self.number, self.size)
            if oldest is not None:
                outcome.change(KeyForgotten(self.number, oldest))
            outcome.change(KeySeen(self.number, key))
        if self.inner is None:
            return (message,) if is_new else ()
        if is_new:
            run(self.inner, copy_of(message), outcome)
        return (message,)


class ThrottleOperation:
    """Lets so many messages pass in each period."""

    def __init__(self, count: int, period_ms: int) -> None:
        self.count: Final[int] = count
        self._period_s: Final[float] = period_ms / 1000
        self._passed: Final[deque[float]] = deque(maxlen=count)  # monotonic seconds of the last messages

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message; it may be sent when the message so many before is a period old."""
        at = outcome.now.monotonic
        if len(self._passed) == self.count:
            at = max(at, self._passed[0] + self._period_s)
        oldest = self._passed[0] if len(self._passed) == self.count else None
        self._passed.append(at)
        outcome.releases.append(lambda: self._take_back(oldest))
        outcome.not_before = max(outcome.not_before, at)
        return (message,)

    def _take_back(self, oldest: float | None) -> None:
        self._passed.pop()
        if oldest is not None:
            self._passed.appendleft(oldest)


@dataclass(frozen=True, slots=True)
class DelayOperation:
    """Lets a message pass some time after its arrival."""

    delay_ms: int

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message."""
        outcome.not_before = max(outcome.not_before, outcome.now.monotonic + self.delay_ms / 1000)
        return (message,)


@dataclass(frozen=True, slots=True)
class LogOperation:
    """Writes a line."""

    level: str
    name: str
    value: Value

    def apply(self, message: BridgeMessage, outcome: Outcome) -> Sequence[BridgeMessage]:
        """Return the message unchanged."""
        outcome.lines.append(LogLine(self.level, self.name, shown(self.value(message))[:MAX_LINE]))
        return (message,)


def combined(step: Gather, messages: list[BridgeMessage]) -> BridgeMessage:
    """Return one message for a group: the latest one, with a body by the strategy of the step."""
    latest = copy_of(messages[-1])
    if step.strategy == JOINED:
        return with_text(latest, step.delimiter.join(text_of(message) or "" for message in messages))
    if step.strategy == JSON_ARRAY:
        return with_text(latest, json.dumps([text_of(message) for message in messages], ensure_ascii=False))
    return latest


def _key(value: object) -> str:
    if value is None or value == "":
        raise MessageFormatError("the message has no key for aggregate or idempotentConsumer")
    key = storable(shown(value))
    return key if len(key) <= MAX_KEY else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def parts_of(step: SplitBody) -> Parts:
    """Return the function for the parts of a body. Raises `ConfigurationError` for a wrong XPath."""
    if step.language == XPATH:
        path = XPathExpression(Expression(step.location, XPATH, step.text, step.options), text_of, header)
        return lambda message: path.parts(message, MAX_PARTS)
    return lambda message: _parts(step, text_of(message) or "")


def _parts(step: SplitBody, text: str) -> list[str]:
    if step.language == TOKENIZE:
        return [part for part in text.split(step.text) if part]
    try:
        values: list[object] = [json.loads(text)]
    except (ValueError, RecursionError):
        raise MessageFormatError("the body is no JSON") from None
    for word in step.text.replace(ALL, f".{ALL}").split(".")[1:]:
        values = [inner for value in values for inner in _children(value, word)]
    if not step.text.endswith(ALL):
        values = [inner for value in values for inner in (value if isinstance(value, list) else [value])]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]


def _children(value: object, word: str) -> list[object]:
    if word == ALL:
        return list(value) if isinstance(value, list) else []
    return [value[word]] if isinstance(value, dict) and word in value else []
