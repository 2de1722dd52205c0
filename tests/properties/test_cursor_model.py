"""Cursors against a model of lists: what waits, what each cursor holds, in which order, through restarts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.seeds import share

Q = "queue://Q"
NAMES = ("c", "d")


class ModelCursor:
    """What a cursor is to hold: ``first`` is its oldest number."""

    def __init__(self) -> None:
        self.epoch = 0
        self.first = 0
        self.held: list[str] = []
        self.released = True


class CursorMachine(RuleBasedStateMachine):
    """``places`` are where messages stand in the line, or stood."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.peers = 0
        self.program = Program(self.stage)
        self.sent = 0
        self.runs = 0
        self.places: dict[str, int] = {}
        self.waiting: list[str] = []
        self.cursors = {name: ModelCursor() for name in NAMES}
        self.send(20)
        for name in NAMES:
            self.open(name)
            self.reserve(name, 5)

    def peer_name(self) -> str:
        self.peers += 1
        return f"peer{self.peers}"

    def opened(self, name: str) -> ModelCursor | None:
        cursor = self.cursors[name]
        return None if cursor.released else cursor

    @rule(count=st.integers(1, 40))
    def send(self, count: int) -> None:
        texts = [f"m{number}" for number in range(self.sent, self.sent + count)]
        for place, text in enumerate(texts, self.sent):
            self.places[text] = place
        self.sent += count
        self.stage.peer(self.peer_name()).sends(Q, *texts)
        self.stage.settle()
        self.waiting += texts

    @rule(count=st.integers(1, 30), stays=st.booleans())
    def consume(self, count: int, stays: bool) -> None:
        """Another consumer takes some; it acknowledges them, or gives them back."""
        if not self.stage.has(Q):
            return
        listener = self.stage.peer(self.peer_name()).consumes(Q, prefetch=count)
        self.stage.settle()
        taken = listener.takes()
        assert taken == self.waiting[:count]
        if stays and taken:
            listener.acknowledges(taken[-1], count=len(taken))
            more = listener.takes()
            assert more == self.waiting[count : 2 * count]
            del self.waiting[: len(taken)]
        listener.peer.leaves()
        self.stage.settle()

    @rule(name=st.sampled_from(NAMES))
    def open(self, name: str) -> None:
        self.runs += 1
        cursor = self.cursors[name]
        cursor.epoch += 1
        cursor.released = False
        assert self.program.opens(name, run=f"r{self.runs}") == cursor.epoch

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 50))
    def reserve(self, name: str, count: int) -> None:
        cursor = self.opened(name)
        if cursor is None:
            return
        more = max(0, count - len(cursor.held))
        cursor.held += self.waiting[:more]
        del self.waiting[:more]
        found = self.program.reserves(count, name, cursor.epoch)
        assert found == (cursor.first, cursor.first + len(cursor.held))

    @rule(name=st.sampled_from(NAMES), share=st.integers(0, 4))
    def acknowledge(self, name: str, share: int) -> None:
        cursor = self.opened(name)
        if cursor is None:
            return
        count = len(cursor.held) * share // 4
        cursor.first += count
        del cursor.held[:count]
        self.program.asks("acknowledge", cursor=name, epoch=cursor.epoch, to=cursor.first)

    @rule(name=st.sampled_from(NAMES), opens=st.booleans())
    def release(self, name: str, opens: bool) -> None:
        cursor = self.opened(name)
        if cursor is None:
            return
        found = self.program.asks("release", cursor=name, epoch=cursor.epoch)
        assert found == {"epoch": cursor.epoch + 1, "released": len(cursor.held)}
        self.stage.settle()
        self.waiting = sorted(self.waiting + cursor.held, key=lambda text: self.places[text])
        cursor.epoch += 1
        cursor.first += len(cursor.held)
        cursor.held = []
        cursor.released = True
        if opens:
            self.open(name)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """What cursors hold stood before the rest then."""
        self.stage.settle()
        self.stage = self.stage.restarts(clean)
        self.program = Program(self.stage, self.peer_name())
        self.waiting.sort(key=lambda text: int(text[1:]))
        held = [text for name in sorted(NAMES, key=self._made) for text in self.cursors[name].held]
        self.places.update({text: place for place, text in enumerate(held, -len(held))})
        self.places.update({text: int(text[1:]) for text in self.waiting})

    def _made(self, name: str) -> int:
        names = list(self.stage.store.metadata.get(5, {}))
        return names.index(name.encode()) if name.encode() in names else -1

    @precondition(lambda self: hasattr(self, "stage"))
    @invariant()
    def ranges_are_what_is_held(self) -> None:
        for name in NAMES:
            cursor = self.opened(name)
            if cursor is not None and cursor.held:
                end = cursor.first + len(cursor.held)
                assert self.program.reads(cursor.first, end, name, cursor.epoch) == cursor.held

    @precondition(lambda self: hasattr(self, "stage") and self.stage.has(Q))
    @invariant()
    def everything_is_counted(self) -> None:
        held = sum(len(cursor.held) for cursor in self.cursors.values())
        view = self.stage.view(Q)
        assert (view.pending, view.in_flight) == (len(self.waiting) + held, held)


TestCursors = CursorMachine.TestCase
TestCursors.settings = settings(max_examples=share(40), stateful_step_count=30, deadline=None)
