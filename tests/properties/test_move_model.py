"""Moves, copies and undos against a model of lists, through restarts: what each queue has, and what an undo counts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spanwire.broker.moves.move import DONE
from spanwire.broker.moves.move_order import COPY, MOVE, NO_LIMIT, MoveOrder
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import text_of
from tests.support.seeds import share

QUEUES = ("queue://A", "queue://B", "queue://C")


class Entry:
    """A message in one place. A move makes a new entry of it."""

    def __init__(self, number: int, place: str) -> None:
        self.number = number
        self.place: str | None = place  # None once it is gone


class ModelMove:
    """The entries that a move has made, with the sources of those it took away."""

    def __init__(self, move_id: str, verb: str) -> None:
        self.move_id = move_id
        self.verb = verb
        self.made: list[tuple[Entry, str]] = []
        self.returned = 0


class MoveMachine(RuleBasedStateMachine):
    """``lines`` has the entries of each queue in their order."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.lines: dict[str, list[Entry]] = {queue: [] for queue in QUEUES}
        self.moves: list[ModelMove] = []
        self.sent = 0
        self.peers = 0
        for queue in QUEUES:
            self.send(queue, 5)

    def peer_name(self) -> str:
        self.peers += 1
        return f"peer{self.peers}"

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 20))
    def send(self, queue: str, count: int) -> None:
        peer = self.stage.peer(self.peer_name())
        for number in range(self.sent, self.sent + count):
            peer.sends(queue, f"{number}", properties={f"m{part}": number % part for part in (2, 3, 4)})
            self.lines[queue].append(Entry(number, queue))
        self.sent += count
        self.stage.settle()
        peer.leaves()

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 10))
    def consume(self, queue: str, count: int) -> None:
        listener = self.stage.peer(self.peer_name()).consumes(queue, prefetch=count)
        self.stage.settle()
        taken = listener.takes()
        line = self.lines[queue]
        assert taken == [f"{entry.number}" for entry in line[:count]]
        for text in taken:
            listener.acknowledges(text, count=1)
            line.pop(0).place = None
        listener.peer.leaves()
        self.stage.settle()

    @rule(
        verb=st.sampled_from([MOVE, COPY]), queues=st.permutations(QUEUES), selected=st.integers(2, 4),
        limit=st.sampled_from([1, 3, NO_LIMIT]), position=st.floats(0, 1), crashes=st.booleans(),
    )  # fmt: skip
    def move(self, verb: str, queues: list[str], selected: int, limit: int, position: float, crashes: bool) -> None:
        """A move of every ``selected``-th message, with a crash at one of its writes."""
        source, target = queues[:2]
        order = MoveOrder(verb, [destination(source)], destination(target), f"m{selected} = 0", limit, 20)
        move = self.stage.broker.moves.start(order, self.stage.now)
        first = self.stage.store.position()  # the order is kept
        self.goes_on()
        if crashes:
            last = self.stage.store.position()
            self.stage = self.stage.restarts(position=first + round(position * (last - first)))
            self.goes_on()
            move = self.stage.broker.moves.find(move.id)
        assert move.state == DONE
        model = ModelMove(move.id, verb)
        for entry in [entry for entry in self.lines[source] if entry.number % selected == 0][:limit]:
            made = Entry(entry.number, target)
            self.lines[target].append(made)
            model.made.append((made, source))
            if verb == MOVE:
                self.lines[source].remove(entry)
                entry.place = None
        assert (move.processed, move.undoable) == (len(model.made), len(model.made))
        self.moves.append(model)

    @precondition(lambda self: any(move.made for move in self.moves))
    @rule(choice=st.integers(0, 100), position=st.floats(0, 1), crashes=st.booleans())
    def undo(self, choice: int, position: float, crashes: bool) -> None:
        """An undo, with a crash at one of its writes."""
        chosen = [move for move in self.moves if move.made]
        model = chosen[choice % len(chosen)]
        undo = self.stage.broker.moves.undo(model.move_id, "", self.stage.now)
        first = self.stage.store.position()
        self.goes_on()
        if crashes:
            last = self.stage.store.position()
            self.stage = self.stage.restarts(position=first + round(position * (last - first)))
            self.goes_on()
            undo = self.stage.broker.moves.find(undo.id)
        there = [(entry, source) for entry, source in model.made if entry.place is not None]
        for entry, source in there:
            assert entry.place is not None
            self.lines[entry.place].remove(entry)
            entry.place = None
            if model.verb == MOVE:
                self.lines[source].append(Entry(entry.number, source))
        model.returned += len(there)
        gone = len(model.made) - model.returned
        assert (undo.state, undo.processed, undo.gone, undo.in_use) == (DONE, len(there), gone, 0)

    @rule()
    def restart(self) -> None:
        self.stage = self.stage.restarts(position=self.stage.store.position())

    def goes_on(self) -> None:
        for _ in range(1_000):
            self.stage.settle()
            if not any(move.is_running for move in self.stage.broker.moves.all()):
                return
            self.stage.waits(0.5)
        raise AssertionError("a move does not end")

    @invariant()
    def each_queue_has_what_the_model_has(self) -> None:
        if not hasattr(self, "lines"):
            return
        for queue, line in self.lines.items():
            kept = [text_of(message) for message in self.stage.store.kept(destination(queue))]
            assert kept == [f"{entry.number}" for entry in line], queue


MoveMachine.TestCase.settings = settings(max_examples=share(40), stateful_step_count=25, deadline=None)
TestMoves = MoveMachine.TestCase
