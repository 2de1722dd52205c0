"""Steps of single messages through bridges, for an operator of the broker who follows them (``spanwire trace``).

The broker names a followed message when it dispatches the message to a consumer, and the name comes through a pipe. The
message may come through its connection sooner. So the process keeps the steps of the last messages of all bridges
while somebody follows messages, and reports those of the named ones. At other times it keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, runtime_checkable

from spanwire.bridges.engine.dialogue import (
    Acknowledged,
    Action,
    Commit,
    Committed,
    Completed,
    DeadLetter,
    DeadLettered,
    Disconnected,
    Event,
    Failed,
    HandedOver,
    Received,
    Refused,
    Send,
    Sent,
)
from spanwire.bridges.model.definition import Quality
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.route_diagram import target_text

MAX_RECENT: Final = 20_000  # messages whose steps wait for their names: a fast bridge's of a quarter of a second; 8 MB
MAX_FOLLOWED: Final = 16_000  # named messages: of the marks of a broker, and of as many that have just ended
MAX_STEPS: Final = 50  # unnamed steps of one message, which a bridge may try again and again
MAX_REPORT: Final = 5_000  # steps of one report; the next has further ones
MAX_UNREPORTED: Final = 40_000  # steps that wait for a report; later ones are not kept
MAX_TEXT: Final = 300  # characters of a location or cause

# steps
TAKEN: Final = "taken"
BRIDGED: Final = "bridged"
REFUSED: Final = "refused"
FAILED: Final = "failed"
LOST: Final = "lost"
NOT_SENT: Final = "not-sent"

MAYBE: Final = "the target may have it nevertheless, and it comes again"

Step = tuple[str, str, str, str, str, int]  # message id, step, location, cause, id there, milliseconds since 1970


@runtime_checkable
class NamingLink(Protocol):
    """A link that knows the ids of sent messages at a target."""

    def sent_ids(self, target: int, count: int) -> list[str]:
        """Return the ids of the last ``count`` messages sent to a target, in order; an empty list if unknown."""
        ...


class FollowedMessages:
    """The steps of the last messages of all bridges of a process, while the broker follows messages."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self.is_active = False
        self._wall_ms: Final = wall_ms
        self._recent: Final[dict[str, list[Step]]] = {}  # by message id, the oldest first
        self._followed: Final[dict[str, None]] = {}
        self._unreported: list[Step] = []

    def follow(self, is_active: bool) -> None:
        """Begin to keep steps, or end and forget all."""
        self.is_active = is_active
        if not is_active:
            self._recent.clear()
            self._followed.clear()

    def name(self, message_ids: Iterable[str]) -> None:
        """Report the steps of these messages, those before and those to come."""
        for message_id in message_ids:
            if self.is_active and message_id not in self._followed and len(self._followed) < MAX_FOLLOWED:
                self._followed[message_id] = None
                for step in self._recent.pop(message_id, ()):
                    self._report(step)

    def forget(self, message_ids: Iterable[str]) -> None:
        """Report no more steps of these messages."""
        for message_id in message_ids:
            self._followed.pop(message_id, None)

    def note(self, message_id: str, step: str, location: str, cause: str = "", there: str = "") -> None:
        """Keep a step of a message; ``there`` is its id at the target."""
        if not message_id:
            return  # of a source whose messages have no ids
        noted = (message_id, step, location[:MAX_TEXT], cause[:MAX_TEXT], there[:MAX_TEXT], self._wall_ms())
        if message_id in self._followed:
            self._report(noted)
            return
        recent = self._recent.get(message_id)
        if recent is not None:
            if len(recent) < MAX_STEPS:
                recent.append(noted)
            return
        if len(self._recent) >= MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[message_id] = [noted]

    def take(self) -> list[Step]:
        """Return the steps for the next report."""
        taken, self._unreported = self._unreported[:MAX_REPORT], self._unreported[MAX_REPORT:]
        return taken

    def _report(self, step: Step) -> None:
        if len(self._unreported) < MAX_UNREPORTED:
            self._unreported.append(step)


class MessageSteps:
    """Sees the steps of the messages of one bridge or route in the actions and events of its machine."""

    def __init__(self, definition: Definition, followed: FollowedMessages) -> None:
        self._followed: Final = followed
        is_route = isinstance(definition, RouteDefinition)
        targets = definition.targets if isinstance(definition, RouteDefinition) else [definition.target]
        self._label: Final = f"{'route' if is_route else 'bridge'} {definition.name}"
        self._targets: Final = [target_text(target) for target in targets]
        self._is_route: Final = is_route
        self._commits: Final = definition.quality is Quality.ONCE_AND_ONLY_ONCE and not is_route
        self._acknowledges_first: Final = definition.quality is Quality.AT_MOST_ONCE and not is_route
        self._batch: Final[dict[str, bool]] = {}  # messages on their way, True if one was sent
        self._uncommitted: list[tuple[str, str, str, str]] = []  # message id, location, cause, id there
        self._handed: list[tuple[str, str, str, str]] = []  # the same of the batch that the link completes
        self._is_acknowledged = False

    def on_event(self, action: Action, event: Event, link: object) -> None:
        """Take the outcome of an action; ``link`` is the open link of the bridge."""
        if not self._followed.is_active:
            if self._batch or self._handed:
                self._end_batch()
                self._handed = []
        elif isinstance(event, Received):
            for message in event.messages:
                self._batch[message.message_id] = False
                self._followed.note(message.message_id, TAKEN, self._label)
        elif isinstance(event, Sent) and isinstance(action, Send):
            self._on_sent(action, link, event.is_stored)
        elif isinstance(event, Refused) and isinstance(action, Send):
            self._on_refused(action, event)
        else:
            self._on_other_event(action, event)

    def _on_other_event(self, action: Action, event: Event) -> None:
        if isinstance(event, Acknowledged):
            self._on_acknowledged()
        elif isinstance(event, Committed):
            self._note_bridged(self._uncommitted)
            self._end_batch()
        elif isinstance(event, HandedOver):
            self._handed = self._uncommitted
            self._end_batch()
        elif isinstance(event, Completed):
            self._note_bridged(self._handed)
            self._handed = []
        elif isinstance(event, DeadLettered) and isinstance(action, DeadLetter):
            for message_id in self._batch:
                self._followed.note(message_id, REFUSED, self._label, f"it becomes a dead letter: {action.cause}")
            self._end_batch()
        elif isinstance(event, Failed):
            self._on_failed(action, event)
        elif isinstance(event, Disconnected):
            self._end_batch()
            cause = f"{MAYBE}: {event.reason}" if event.reason else MAYBE
            self._note_failed([message_id for message_id, *_ in self._handed], cause)
            self._handed = []

    def _note_bridged(self, messages: list[tuple[str, str, str, str]]) -> None:
        for message_id, location, cause, there in messages:
            self._followed.note(message_id, BRIDGED, location, cause, there)

    def _note_failed(self, message_ids: Iterable[str], cause: str, step: str = FAILED) -> None:
        for message_id in message_ids:
            self._followed.note(message_id, step, self._label, cause)

    def _on_acknowledged(self) -> None:
        if self._acknowledges_first:
            self._is_acknowledged = True
            return
        for message_id, was_sent in self._batch.items():
            if self._is_route and not was_sent:
                cause = "a step has dropped it, or holds it in a group"
                self._followed.note(message_id, NOT_SENT, self._label, cause)
        self._end_batch()

    def _on_refused(self, action: Send, event: Refused) -> None:
        self._uncommitted = []
        location = self._targets[action.target]
        if event.is_prefix_stored:
            self._note_sent(action.messages[: event.index], location, [], is_stored=True)
        message_id = self._known(action.messages[event.index])[0]
        if not self._is_acknowledged:
            self._followed.note(message_id, REFUSED, location, event.reason)
            return
        self._followed.note(message_id, LOST, location, event.reason)
        for message in action.messages[0 if event.is_prefix_stored else event.index : event.index + 1]:
            self._batch.pop(self._known(message)[0], None)  # a failure of the rest does not concern it

    def _on_sent(self, action: Send, link: object, is_stored: bool) -> None:
        ids: list[str] = []
        if isinstance(link, NamingLink):
            ids = link.sent_ids(action.target, len(action.messages))
        self._note_sent(action.messages, self._targets[action.target], ids, is_stored)
        if self._acknowledges_first:
            self._end_batch()

    def _note_sent(self, messages: list[BridgeMessage], location: str, ids: list[str], is_stored: bool) -> None:
        for index, message in enumerate(messages):
            message_id, part = self._known(message)
            if message_id in self._batch:
                self._batch[message_id] = True
            name = f"by {self._label}" + (f", part {part}" if part else "")
            there = ids[index] if index < len(ids) else ""
            cause = f"{name}, as message {there}" if there else f"{name}, its id there is unknown"
            if self._commits or not is_stored:
                self._uncommitted.append((message_id, location, cause, there))
            else:
                self._followed.note(message_id, BRIDGED, location, cause, there)

    def _on_failed(self, action: Action, event: Failed) -> None:
        step, cause = FAILED, event.reason
        if self._is_acknowledged:
            step = LOST
        elif isinstance(action, (Send, Commit)):
            cause = f"{MAYBE}: {cause}"
        self._note_failed(self._batch, cause, step)
        self._end_batch()

    def _known(self, message: BridgeMessage) -> tuple[str, str]:
        """Return the id at the source of a message to send, and the suffix of the part into which a step divided it."""
        message_id = message.message_id
        if message_id not in self._batch:
            whole, _, part = message_id.rpartition("-")
            if whole in self._batch:
                return whole, part
        return message_id, ""

    def _end_batch(self) -> None:
        self._batch.clear()
        self._uncommitted = []
        self._is_acknowledged = False
