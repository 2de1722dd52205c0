"""All moves of one broker: start, cancel, continuation, undo, and recovery after a restart."""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.admin.selective_walk import OperationObserver, SelectiveWalk
from spanwire.broker.admin.transfers import Deliveries, Delivering, Restraint, Retrying, Transferring, check_target
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import MOVES
from spanwire.broker.moves.move import CANCELLED, DONE, FAILED, RUNNING, Move
from spanwire.broker.moves.move_order import COPY, RETRY, UNDO, MoveOrder, decoded_order, unreadable_move
from spanwire.broker.moves.pace import Pace
from spanwire.broker.moves.previewing import Previewing
from spanwire.broker.moves.undoing import Undoing
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.security.audit_log import of_user
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, InvalidDestinationError, JmsError
from spanwire.selector.expression import Selector
from spanwire.selector.parser import parse_selector

audit: Final = logging.getLogger("spanwire.audit")

MAX_MOVES: Final = 100  # moves that are kept, those that have ended among them; the oldest of these makes room
MAX_RUNNING: Final = 10  # moves at the same time: each has a slice in a turn of the broker
KEPT_MS: Final = 24 * 3_600 * 1_000  # milliseconds after its end in which a move is shown and can be undone
MAX_ALL_RUNS: Final = 200_000  # runs of all moves, 64 bytes each; the oldest ended moves make room
MAX_OUT: Final = 10_000  # messages in flight that an undo counts


class MoveRun(OperationObserver):
    """Walks over the sources of one move, one after the other."""

    def __init__(self, moves: Moves, move: Move, selector: Selector | None) -> None:
        self._moves: Final[Moves] = moves
        self._move: Final[Move] = move
        self._selector: Final[Selector | None] = selector
        self._before = move.count  # messages of the current source in former runs

    def begin(self) -> None:
        """Begin with the next source, or end the move."""
        move = self._move
        while len(move.results) < len(move.order.sources) and not move.is_cancelled:
            if self._moves.walk(move, self._selector, self):
                return
            self._end_source()
        self._moves.finish(move)

    def may_go_on(self, count: int) -> bool:
        """Return False for a cancelled move."""
        return not self._move.is_cancelled

    def on_finished(self, count: int, passed: int) -> None:
        """Take the end of a walk."""
        move = self._move
        move.passed = passed
        if move.walk is not None:
            move.looks_before += move.walk.looks
            move.walk = None
        if not move.is_cancelled:
            self._end_source()
        self.begin()

    def _end_source(self) -> None:
        move = self._move
        move.results.append((move.count, move.passed))
        move.count = 0
        move.passed = 0
        move.copied = None


class Moves:
    """The moves of one broker. Each is a job with slices, and has order, state and positions in the store."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        formats: MessageFormats,
        unsynced: UnsyncedBytes,
        flow: FlowControl,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._flow: Final[FlowControl] = flow
        self._deliveries: Final[Deliveries] = Deliveries(context, destinations, unsynced)
        self._moves: Final[dict[int, Move]] = {}
        self._last = 0

    def all(self) -> list[Move]:
        """Return the kept moves, oldest first."""
        self._forget_old()
        return list(self._moves.values())

    def start(self, order: MoveOrder, now: Time) -> Move:
        """Begin a move.

        Raises:
            JmsError: the selector, a source or the target is refused, or too many moves are running.
        """
        self._context.begin_request(now)
        chooser = self._checked(order)
        self._make_room(order.undoes)
        units = self._context.units
        order.marks = [units.next_sequence(source) - 1 for source in order.sources]
        move = Move(self._last + 1, order, self._formats, now.wall_ms)
        units.append_unit([], [], [move.order_record(), move.state_record()])
        self._last = move.number
        self._moves[move.number] = move
        self._run(move, chooser)
        return move

    def _checked(self, order: MoveOrder) -> Selector | None:
        """Check an order and return the selector. Creates the target."""
        selector = order.selector
        chooser = parse_selector(selector) if selector is not None and selector.strip() else None
        for source in order.sources:
            if order.verb != UNDO and self._map.queue(source) is None:
                raise InvalidDestinationError(f"there is no queue {source.name}")
            if order.target is not None:
                check_target(source, order.target)
        if order.target is not None:
            self._destinations.ensure_own(order.target)
        return chooser

    def preview(self, order: MoveOrder, index: int, observer: OperationObserver, now: Time) -> Previewing:
        """Count the effects of a move on the messages of one source, without a change.

        Raises:
            JmsError: the selector, the source or the target is refused.
        """
        self._context.begin_request(now)
        source = order.sources[index]
        queue = self._map.queue(source)
        if queue is None:
            raise InvalidDestinationError(f"there is no queue {source.name}")
        if order.target is not None:
            check_target(source, order.target)
        selector = order.selector
        chooser = parse_selector(selector) if selector is not None and selector.strip() else None
        disposal = Previewing(self._delivering(order, None, None))
        self._schedule(queue, chooser, order.limit, disposal, observer)
        return disposal

    def cancel(self, move_id: str, now: Time) -> Move:
        """End a move after its next slice.

        Raises:
            JmsError: there is no such move, or the move has ended.
        """
        self._context.begin_request(now)
        move = self.find(move_id)
        if not move.is_running:
            raise IllegalStateError(f"the task {move.id} is {move.state}")
        move.is_cancelled = True
        if move.walk is not None:
            self._context.schedule(move.walk)  # which may wait for a disk without room
        return move

    def resume(self, move_id: str, now: Time) -> Move:
        """Go on with a cancelled or failed move after the last slice.

        Raises:
            JmsError: there is no such move, or the move runs, or is done.
        """
        self._context.begin_request(now)
        move = self.find(move_id)
        if move.state != CANCELLED and move.state != FAILED:
            raise IllegalStateError(f"the task {move.id} is {move.state}: only a cancelled or failed one is resumed")
        if move.undone_by > 0:
            raise IllegalStateError(f"the task {move.id} was undone by M{move.undone_by}: start it again")
        self._check_continuation(move)
        chooser = self._checked(move.order)
        self._check_running()
        move.state, move.error, move.ended_ms, move.is_cancelled = RUNNING, "", 0, False
        self._keep_state(move)
        self._continue(move, chooser)
        return move

    def undo(self, move_id: str, user: str, now: Time) -> Move:
        """Begin to bring back the messages of a move.

        Raises:
            JmsError: there is no such move, or the move runs, or cannot be undone.
        """
        self._context.begin_request(now)
        self._forget_old()
        undone = self.find(move_id)
        if undone.is_running:
            raise IllegalStateError(f"the task {undone.id} is running: cancel it before")
        if undone.order.verb == UNDO:
            raise IllegalStateError(f"the task {undone.id} is an undo, which is not undone")
        if undone.reaches_topic:
            raise IllegalStateError(f"the task {undone.id} sent messages to a topic: its subscribers have them")
        earlier = self._moves.get(undone.undone_by)
        if earlier is not None and earlier.is_running:
            raise IllegalStateError(f"the task {earlier.id} is undoing {undone.id} already")
        targets = undone.runs.targets()
        if not targets:
            raise IllegalStateError(f"the task {undone.id} has moved no message that could go back")
        order = MoveOrder(UNDO, targets, rate=undone.order.rate, user=user, undoes=undone.number)
        move = self.start(order, now)
        undone.undone_by = move.number
        self._keep_state(undone)
        return move

    def find(self, move_id: str) -> Move:
        """Return a move by id.

        Raises:
            IllegalStateError: there is no such move.
        """
        digits = move_id[1:]
        move = self._moves.get(int(digits)) if digits.isdecimal() and len(digits) < 19 else None
        if move is None or move_id[:1] != "M":
            raise IllegalStateError(f"there is no task {move_id[:40]}")
        return move

    def undoable(self, move: Move) -> int:
        """Return the number of messages for a further undo of ``move`` to look for.

        After a complete undo these are the messages that were at consumers.
        """
        latest = self._moves.get(move.undone_by)
        if latest is not None and latest.state == DONE:
            return latest.in_use
        return max(0, move.undoable - self._brought_back(move))

    def _brought_back(self, undone: Move) -> int:
        """Return the number of messages that all undos of a move have brought back."""
        return sum([other.processed for other in self._moves.values() if other.order.undoes == undone.number])

    # The work

    def walk(self, move: Move, selector: Selector | None, run: MoveRun) -> bool:
        """Begin the walk over the next source. Return False if the queue is gone."""
        index = len(move.results)
        source = move.order.sources[index]
        queue = self._map.queue(source)
        if queue is None:
            return False
        assert move.pace is not None
        disposal = self._delivering(move.order, move.pace, move, source)
        if move.is_continued and move.order.verb == COPY:
            move.copied = move.runs.copied_from(source)
        move.walk = self._schedule(queue, selector, move.order.limit - move.count, disposal, run)
        return True

    def _delivering(
        self, order: MoveOrder, pace: Restraint | None, move: Move | None, source: Destination | None = None
    ) -> Delivering:
        if order.verb == RETRY:
            return Retrying(self._context, self._formats, self._deliveries, order.lifetime_ms, pace, move)
        undone = self._moves.get(order.undoes)
        if order.verb == UNDO and undone is not None and move is not None and source is not None and pace is not None:
            return Undoing(
                self._context, self._destinations, self._formats, self._deliveries, undone, source, pace, move
            )
        assert order.target is not None
        return Transferring(self._formats, self._deliveries, order.target, order.verb == COPY, pace, move)

    def _schedule(
        self,
        queue: Queue,
        selector: Selector | None,
        limit: int,
        disposal: Delivering | Previewing,
        observer: OperationObserver,
    ) -> SelectiveWalk:
        values = MessageEvaluationContext(self._formats)
        walk = SelectiveWalk(queue, selector, limit, disposal, self._unsynced, values, self._context, observer)
        self._context.schedule(walk)
        return walk

    def _run(self, move: Move, selector: Selector | None) -> None:
        order = move.order
        waiting = 0
        for source in order.sources[len(move.results) :]:
            queue = self._map.queue(source)
            waiting += 0 if queue is None else queue.waiting()
        move.total = move.looks_before + waiting
        move.began = self._context.monotonic
        move.pace = Pace(self._context, self._map, self._flow, self._unsynced, order.rate, order.follows)
        MoveRun(self, move, selector).begin()

    def _continue(self, move: Move, selector: Selector | None) -> None:
        move.is_continued = True
        self._run(move, selector)

    def finish(self, move: Move) -> None:
        """Record the end of a move."""
        move.state = CANCELLED if move.is_cancelled else DONE
        move.ended_ms = self._context.wall_ms
        move.pace = None
        undone = self._moves.get(move.order.undoes)
        if undone is not None:
            move.in_use = self._in_use(undone)
            if move.state == DONE:
                move.gone = max(0, undone.runs.count - self._brought_back(undone) - move.in_use)
        self._keep_state(move)
        audit.info(
            "task %s%s: %s %s, %d messages",
            move.id, of_user(move.order.user), move.order.verb, move.state, move.processed,
        )  # fmt: skip

    def _in_use(self, undone: Move) -> int:
        """Return the number of moved messages at consumers of the targets."""
        count = 0
        for target in undone.runs.targets():
            queue = self._map.queue(target)
            if queue is None:
                continue
            for reference in queue.out(MAX_OUT):
                if reference.sequence > 0:
                    count += undone.runs.holds(target, reference.sequence)
                elif undone.runs.transient_origin(target, reference.message) is not None:
                    count += 1
        return count

    # What is kept

    def _keep_state(self, move: Move) -> None:
        record = move.state_record()
        self._context.metadata.put_metadata(record.table, record.key, record.value or b"")

    def _check_running(self) -> None:
        if sum([move.is_running for move in self._moves.values()]) >= MAX_RUNNING:
            raise IllegalStateError(f"{MAX_RUNNING} moves are running: wait for one, or cancel one")

    def _make_room(self, undone: int) -> None:
        """Forget old moves, but not the one with the number ``undone``."""
        self._forget_old()
        self._check_running()
        while len(self._moves) >= MAX_MOVES or self._all_runs() > MAX_ALL_RUNS:
            oldest = self._oldest_ended(undone)
            if oldest is None:
                break
            self._forget(oldest)

    def _all_runs(self) -> int:
        return sum([len(move.runs) for move in self._moves.values()])

    def _oldest_ended(self, undone: int) -> Move | None:
        in_use = {move.order.undoes for move in self._moves.values() if move.is_running} | {undone}
        for move in self._moves.values():
            if not move.is_running and move.number not in in_use:
                return move
        return None

    def _forget_old(self) -> None:
        for move in list(self._moves.values()):
            if not move.is_running and move.ended_ms + KEPT_MS <= self._context.wall_ms:
                undoing = self._moves.get(move.undone_by)
                if undoing is None or not undoing.is_running:
                    self._forget(move)

    def _forget(self, move: Move) -> None:
        del self._moves[move.number]
        for key in move.record_keys():
            self._context.metadata.discard_metadata(MOVES, key)

    def recover(self, metadata: dict[bytes, bytes]) -> None:
        """Restore the moves of the last run, and go on with unfinished moves.

        Raises:
            StoreError: a record is unreadable.
        """
        parts: dict[int, dict[str, bytes]] = {}
        for key, value in metadata.items():
            digits, _, part = key.decode("ascii", "replace").partition("/")
            if not digits.isdecimal():
                raise unreadable_move(ValueError(f"key {key!r}"))
            parts.setdefault(int(digits), {})[part] = value
        for number in sorted(parts):
            self._last = max(self._last, number)
            found = parts[number]
            if "order" not in found or "state" not in found:  # a crash between the first two records
                for part in found:
                    self._context.metadata.discard_metadata(MOVES, f"{number}/{part}".encode("ascii"))
                continue
            move = Move(number, decoded_order(found["order"]), self._formats, 0)
            move.restore_state(found["state"])
            move.runs.restore([found.get(f"runs/{chunk}", b"") for chunk in range(len(found) - 2)])
            self._moves[number] = move
        for move in list(self._moves.values()):
            if move.is_running:
                move.is_recovered = True
                try:
                    chooser = self._checked_again(move)
                except JmsError as error:
                    move.state, move.error, move.ended_ms = FAILED, str(error), self._context.wall_ms
                    self._keep_state(move)
                    continue
                self._continue(move, chooser)

    def _check_continuation(self, move: Move) -> None:
        """Check that the rest of a move can be told from the finished part.

        Raises:
            IllegalStateError: the rest cannot be told.
        """
        order = move.order
        if order.verb == UNDO and order.undoes not in self._moves:
            raise IllegalStateError(f"the task M{order.undoes}, which was being undone, is forgotten")
        if order.verb == COPY and move.runs.untraced > 0:
            raise IllegalStateError(
                f"the task {move.id} has copied {move.runs.untraced} messages whose places are not kept, and would copy"
                " them again: copy the others by a selector"
            )

    def _checked_again(self, move: Move) -> Selector | None:
        order = move.order
        if order.target is not None:
            self._destinations.ensure_own(order.target)
        self._check_continuation(move)
        return parse_selector(order.selector) if order.selector is not None and order.selector.strip() else None
