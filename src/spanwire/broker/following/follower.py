"""Follows the marked messages of one broker from step to step."""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.dispatch.broker_context import MessageFollower, StepReceiver, StepSource
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.history.departures import (
    DUPLICATE,
    DUPLICATE_ID,
    EXPIRED,
    KINDS,
    REMOVED,
    SECOND_COPY,
    DepartureListener,
)
from spanwire.broker.dispatch.history.departures import SENT_NOWHERE as NOWHERE
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.explanation.verdicts import consumer_text
from spanwire.broker.following.cursor_steps import note_cursor_step
from spanwire.broker.following.mark import MAX_COPIES, MAX_LOCATIONS, OVER, Mark, Marked, MarkSettings
from spanwire.broker.following.mark_observer import DispatchTap, MarkObserver, Watching
from spanwire.broker.following.observations import (
    ACCEPTED,
    ACKNOWLEDGED,
    DISPATCHED,
    FORWARDED,
    FOUND,
    SENT_ON,
    STORED,
    WRITTEN,
)
from spanwire.broker.persistence.unsynced_bytes import SyncListener
from spanwire.broker.ports import MessageStore
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import TEMP_TOPIC, TOPIC, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.ledger import ACKNOWLEDGED as BY_CONSUMER
from spanwire.model.ledger import FORWARDED as OVER_LINK
from spanwire.model.ledger import WAY_MASK
from spanwire.model.message import Message

MAX_MARKS: Final = 8  # active marks of one broker; each message of a marked destination is compared with all
MAX_KEPT: Final = 8  # ended marks whose observations can still be read
MAX_WATCHED: Final = 1_000  # destinations of all marks together
MAX_TAPS: Final = 10_000  # consumers whose dispatches are shown; some hundred bytes each
LATE_S: Final = 1.0  # seconds after the end of a mark in which bridges report its last steps; they do each half second
MAX_UNSYNCED: Final = 10_000  # marked messages on their way to the disk; further ones have no step `STORED`
TOPICS: Final = (TOPIC, TEMP_TOPIC)
UNSEEN: Final = (DUPLICATE, SECOND_COPY, DUPLICATE_ID, NOWHERE)  # departures of messages that did not come before


class Follower(Watching, DepartureListener, MessageFollower, StepReceiver):
    """Puts observers before the destinations of marks and taps before the consumers, until the end."""

    def __init__(self, parts: BrokerAssembly, formats: MessageFormats) -> None:
        self._parts: Final[BrokerAssembly] = parts
        self._values: Final[MessageEvaluationContext] = MessageEvaluationContext(formats)
        self.marks: Final[dict[str, Mark]] = {}
        self._kept: Final[dict[str, Mark]] = {}
        self._watched: Final[dict[BrokerDestination, MarkObserver]] = {}
        self._taps: Final[dict[Subscription, DispatchTap]] = {}
        self._syncs: Final[Syncs] = Syncs(parts.context.store, self)
        self._end: Final[MarkEnd] = MarkEnd(self)
        self._late: Final[deque[Mark]] = deque()  # ended marks with steps that bridges may still report
        self._step_source: StepSource | None = None  # one that was asked to report steps

    def begin(self, settings: MarkSettings, now: Time) -> Mark:
        """Activate a mark; an active mark of the same id goes on.

        Raises:
            ConfigurationError: too many marks are active.
        """
        context = self._parts.context
        context.begin_request(now)
        self.end_old()
        known = self.marks.get(settings.mark_id)
        if known is not None:
            return known
        if len(self.marks) >= MAX_MARKS:
            raise ConfigurationError(f"{MAX_MARKS} traces are active already: end one, or wait until its time is over")
        mark = Mark(settings, now.monotonic + settings.seconds, self._values)
        self.marks[settings.mark_id] = mark
        self._kept.pop(settings.mark_id, None)
        context.departures.listener = self
        context.follower = self
        self._reach_source()
        self._parts.unsynced.listener = self._syncs
        self._look_for(mark)
        context.wake_at(self._end, mark.until)
        return mark

    def find(self, mark_id: str) -> Mark | None:
        """Return an active mark, or a mark that ended lately."""
        return self.marks.get(mark_id) or self._kept.get(mark_id)

    def all(self) -> list[Mark]:
        """Return all marks with readable observations, the ended ones first."""
        return [*self._kept.values(), *self.marks.values()]

    def end(self, mark_id: str, reason: str) -> bool:
        """End an active mark; the observations stay readable. Return False without such a mark."""
        mark = self.marks.pop(mark_id, None)
        if mark is None:
            return False
        mark.ended = mark.ended or reason
        mark.is_closed = True
        mark.ended_at = self._parts.context.monotonic
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[mark_id] = mark
        if self._step_source is not None:
            self._late.append(mark)
            self._parts.context.wake_at(self._end, mark.ended_at + LATE_S)
        for destination in list(self._watched):
            if destination.removed or not any(one.wants(destination.name) for one in self.marks.values()):
                self._leave(destination)
        if not self.marks:
            self._go()
        return True

    def end_old(self) -> None:
        """End the marks after their time, and the marks with too dear a selector."""
        monotonic = self._parts.context.monotonic
        for mark_id, mark in list(self.marks.items()):
            if mark.ended or mark.until <= monotonic:
                self.end(mark_id, OVER)
        self._end_late(monotonic)

    def _end_late(self, monotonic: float) -> None:
        """Give back the names of the messages of marks whose last steps have come; without a mark follow no more."""
        late, source = self._late, self._step_source
        while late and late[0].ended_at + LATE_S <= monotonic:
            names = late.popleft().by_text
            others = [*self.marks.values(), *late]
            free = [name for name in names if not any(name in one.by_text for one in others)]
            if source is not None and free:
                source.forget(free)
        if source is not None and not late and not self.marks:
            source.follow(None)
            self._step_source = None

    def came(self, destination: Destination, message: Message, sequence: int) -> None:
        """Note the arrival of a message at a destination."""
        for mark in self.marks.values():
            if not mark.wants(destination):
                continue
            known = mark.take(message, message.redelivery_count)
            if known is None:
                continue
            name = destination.qualified_name
            known.locations[name] = None
            known.consumer = ""
            if sequence > 0:
                known.sequences[name] = sequence
                self._syncs.await_sync(mark, known, name)
            self._note(mark, known, ACCEPTED, name, "", "persistent" if sequence > 0 else "", message.redelivery_count)
            if destination.kind in TOPICS:
                self._look_for_durables(destination)

    def went(self, destination: Destination, message: Message, way: int) -> None:
        """Note an acknowledgement. Other ways out are departures with a cause."""
        cause = way & WAY_MASK
        if cause != BY_CONSUMER and cause != OVER_LINK:
            return
        for mark in self.marks.values():
            known = mark.find(message)
            if known is not None:
                name = destination.qualified_name
                known.locations.pop(name, None)
                step = ACKNOWLEDGED if cause == BY_CONSUMER else FORWARDED
                self._note(mark, known, step, name, known.consumer, "", message.redelivery_count)

    def cursor_step(self, step: str, cursor: str, destination: Destination, sequences: list[int], first: int) -> None:
        """Note a step of marked messages of a cursor."""
        name = destination.qualified_name
        note_cursor_step(self.marks.values(), step, cursor, name, sequences, first, self.note)

    def numbered(self, destination: Destination, message: Message, sequence: int) -> None:
        """Remember by which sequence a cursor knows a marked message."""
        for mark in self.marks.values():
            known = mark.find(message)
            if known is not None:
                known.sequences[destination.qualified_name] = sequence

    def written(self, destination: Destination, message: Message, sink: str, batch: int) -> None:
        """Mark a message of a sink's batch, and note the batch."""
        for mark in self.marks.values():
            known = mark.take(message, message.redelivery_count) if mark.wants(destination) else None
            if known is not None:
                self.note(mark, known, WRITTEN, destination.qualified_name, f"sink {sink}", f"batch {batch}")

    def joined(self, destination: Destination, subscription: Subscription) -> None:
        """Tap a new consumer."""
        self._tap(subscription)

    def dispatched(self, subscription: Subscription, message: Message, redelivery_count: int) -> None:
        """Note a dispatch, and mark a message from before the mark."""
        if subscription.info.browser:
            return
        destination = message.destination
        references = subscription.in_flight.references
        if references and references[-1].message is message:
            destination = references[-1].destination.name
        source = self._reach_source()
        for mark in self.marks.values():
            known = mark.find(message)
            name = destination.qualified_name
            if known is None:
                if not mark.wants(destination):
                    continue
                known = mark.take(message, redelivery_count)
                if known is None:
                    continue
                self._note(mark, known, FOUND, name, "", "it came before the trace", redelivery_count)
            network = subscription.network_filter
            step = DISPATCHED if network is None else SENT_ON
            location = consumer_text(subscription) if network is None else network.target_broker_id
            if destination.kind not in TOPICS:
                known.consumer = location
            known.origin = name
            self._note(mark, known, step, name, location, "", redelivery_count)
            if network is None and source is not None:
                source.name(known.text)

    def step_outside(self, message_id: str, step: str, location: str, cause: str, there: str, wall_ms: int) -> None:
        """Note a step of a message that a bridge has taken; it may come after the end of the mark."""
        for mark in self.all():
            known = mark.by_text.get(message_id)
            if known is not None:
                if there and len(mark.copies) < MAX_COPIES:
                    mark.copies[there] = known
                mark.observations.add(step, known.text, known.origin, location, cause, known.hops, 0, wall_ms)

    def departed(
        self, message: Message, kind: int, destination: Destination, target: Destination | None, detail: str
    ) -> None:
        """Note a departure without an acknowledgement, and follow the message to its target."""
        for mark in self.marks.values():
            known = mark.find(message)
            if known is None and kind in UNSEEN and mark.wants(destination):
                known = mark.take(message, message.redelivery_count)
            if known is None:
                continue
            name = destination.qualified_name
            known.locations.pop(name, None)
            location = "" if target is None else target.qualified_name
            self._note(mark, known, KINDS[kind], name, location, detail, message.redelivery_count)
            if target is not None and mark.want(target):
                found = self._parts.map.find(target)
                if found is not None:
                    self._watch(found)

    def swept(self, kind: int, destination: Destination, count: int) -> None:
        """Note the marked messages among many unread departures: all pending or all expired messages."""
        found = self._parts.map.find(destination)
        if kind == REMOVED and (found is None or found.waiting() != count):
            return  # nobody knows which ones
        if kind not in (REMOVED, EXPIRED):
            return
        name, wall_ms = destination.qualified_name, self._parts.context.wall_ms
        for mark in self.marks.values():
            for known in mark.marked.values():
                if name not in known.locations or known.consumer:
                    continue
                if kind == EXPIRED and not 0 < known.expiration_ms <= wall_ms:
                    continue
                known.locations.pop(name)
                self._note(mark, known, KINDS[kind], name, "", f"with {count - 1} others", 0)

    def destination_added(self, destination: BrokerDestination) -> None:
        """Watch a new destination if a mark waits for the name, and the targets of its route."""
        for mark in self.marks.values():
            if mark.wants(destination.name):
                self._watch(destination)
                if destination.route is not None:
                    self._want_targets(mark, destination)
                    self._watch_all(mark)

    def note(self, mark: Mark, known: Marked, step: str, name: str, location: str = "", detail: str = "") -> None:
        """Note a step at a destination."""
        self._note(mark, known, step, name, location, detail, 0)

    def _note(
        self, mark: Mark, known: Marked, step: str, name: str, location: str, detail: str, deliveries: int
    ) -> None:
        mark.observations.add(
            step, known.text, name, location, detail, known.hops, deliveries, self._parts.context.wall_ms
        )  # fmt: skip

    def _look_for(self, mark: Mark) -> None:
        """Watch the destinations of a new mark, with the targets of their routes."""
        found = self._parts.map.find(mark.settings.destination)
        if found is not None:
            self._want_targets(mark, found)
            if isinstance(found, Topic):
                self._look_for_durables(found.name)
        self._watch_all(mark)

    def _watch_all(self, mark: Mark) -> None:
        """Watch all existing destinations of a mark."""
        if any(one.is_pattern for one in mark.wanted.values()):
            for destination in self._parts.map.all():
                if mark.wants(destination.name):
                    self._watch(destination)
            return
        for name in list(mark.wanted.values()):
            destination_found = self._parts.map.find(name)
            if destination_found is not None:
                self._watch(destination_found)

    def _want_targets(self, mark: Mark, destination: BrokerDestination) -> None:
        """Look for the messages of a virtual destination at the targets of its route, too."""
        route = destination.route
        if route is None:
            return
        for rule in route.listeners:
            mark.want(rule.pattern)
        for forward in route.forwards:
            mark.want(forward.destination)

    def _look_for_durables(self, topic: Destination) -> None:
        """Watch the durable subscriptions of a topic; one may be new."""
        found = self._parts.map.find(topic)
        if isinstance(found, Topic):
            for durable in found.durables[:MAX_LOCATIONS]:
                if durable.queue not in self._watched:
                    for mark in self.marks.values():
                        if mark.wants(topic):
                            mark.want(durable.queue.name)
                    self._watch(durable.queue)

    def _watch(self, destination: BrokerDestination) -> None:
        if destination in self._watched or len(self._watched) >= MAX_WATCHED:
            return
        if isinstance(destination, Queue):
            observer = MarkObserver(destination.observer, destination.name, self)
            destination.observer = observer
        elif isinstance(destination, Topic):
            observer = MarkObserver(destination.observer, destination.name, self)
            destination.observer = observer
        else:
            return
        self._watched[destination] = observer
        for subscription in destination.attached():
            self._tap(subscription)

    def _leave(self, destination: BrokerDestination) -> None:
        observer = self._watched.pop(destination)
        if isinstance(destination, Queue):
            assert destination.observer is observer
            destination.observer = observer.inner
        elif isinstance(destination, Topic):
            assert destination.observer is observer
            destination.observer = observer.inner

    def _tap(self, subscription: Subscription) -> None:
        if subscription in self._taps:
            return
        if len(self._taps) >= MAX_TAPS:
            for gone in [one for one in self._taps if one.removed]:
                del self._taps[gone]
            if len(self._taps) >= MAX_TAPS:
                return
        tap = DispatchTap(subscription.consumer, subscription, self)
        subscription.consumer = tap
        self._taps[subscription] = tap

    def _reach_source(self) -> StepSource | None:
        """Return the source, which an operator may have added after the beginning of the mark."""
        source = self._parts.context.step_source
        if source is not None and source is not self._step_source:
            self._step_source = source
            source.follow(self)
        return source

    def _go(self) -> None:
        """Take away all observers and taps."""
        context = self._parts.context
        context.departures.listener = None
        context.follower = None
        self._parts.unsynced.listener = None
        for destination in list(self._watched):
            self._leave(destination)
        for subscription, tap in self._taps.items():
            if subscription.consumer is tap:  # not of a removed subscription
                subscription.consumer = tap.inner
        self._taps.clear()
        self._syncs.forget()


class Syncs(SyncListener):
    """Marked messages on their way to the disk."""

    def __init__(self, store: MessageStore | None, follower: Follower) -> None:
        self._store: Final[MessageStore | None] = store
        self._follower: Final[Follower] = follower
        self._waiting: Final[deque[tuple[int, Mark, Marked, str]]] = deque()

    def await_sync(self, mark: Mark, known: Marked, name: str) -> None:
        """Remember a message just taken by the store."""
        store = self._store
        if store is not None and len(self._waiting) < MAX_UNSYNCED:
            self._waiting.append((store.position(), mark, known, name))

    def stored(self, position: int) -> None:
        """Note the messages now safe from a power failure."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            _, mark, known, name = waiting.popleft()
            if not mark.ended and name in known.locations:
                self._follower.note(mark, known, STORED, name)

    def forget(self) -> None:
        """Forget all messages."""
        self._waiting.clear()


class MarkEnd(Alarm):
    """Alarm at the end of marks."""

    def __init__(self, follower: Follower) -> None:
        self._follower: Final[Follower] = follower

    def wake(self) -> None:
        """End the marks after their time."""
        self._follower.end_old()
