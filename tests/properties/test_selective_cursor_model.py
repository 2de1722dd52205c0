"""Cursors with selectors on one queue against a model: who may have which message, through power cuts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.seeds import share

Q = "queue://Q"
SELECTORS = {"a": "kind = 'a'", "b": "kind = 'b'", "few": "n > 20 AND kind <> 'c'", "all": ""}


class ModelCursor:
    """What a cursor holds: ``first`` is its oldest number."""

    def __init__(self) -> None:
        self.epoch = 0
        self.first = 0
        self.held: list[str] = []
        self.released = True


class SelectiveCursorMachine(RuleBasedStateMachine):
    """``returned`` has messages that somebody had before: their place in the line is not part of the model."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.program = Program(self.stage)
        self.names = 0
        self.sent = 0
        self.kinds: dict[str, str] = {}
        self.waiting: list[str] = []
        self.returned: set[str] = set()
        self.cursors = {name: ModelCursor() for name in SELECTORS}

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def suits(self, name: str, text: str) -> bool:
        number = int(text[1:])
        kind = self.kinds[text]
        return {"a": kind == "a", "b": kind == "b", "few": number > 20 and kind != "c", "all": True}[name]

    @rule(kinds=st.lists(st.sampled_from("abc"), min_size=1, max_size=60))
    def send(self, kinds: list[str]) -> None:
        producer = self.stage.peer(self.name())
        for kind in kinds:
            text = f"m{self.sent}"
            producer.sends(Q, text, properties={"kind": kind, "n": self.sent})
            self.kinds[text] = kind
            self.waiting.append(text)
            self.sent += 1
        producer.leaves()
        self.stage.settle()

    @rule(count=st.integers(1, 30), keeps=st.booleans())
    def consume(self, count: int, keeps: bool) -> None:
        """Another consumer takes the oldest; it acknowledges them, or gives them back."""
        if not self.stage.has(Q):
            return
        listener = self.stage.peer(self.name()).consumes(Q, prefetch=count)
        self.stage.settle()
        taken = listener.takes()
        assert len(taken) == min(count, len(self.waiting))
        self.check_order(taken, self.waiting)
        if keeps and taken:
            listener.acknowledges(taken[-1], count=len(taken))
            self.waiting = [text for text in self.waiting if text not in taken]
            taken = listener.takes()
        self.returned.update(taken)
        listener.peer.leaves()
        self.stage.settle()

    def check_order(self, taken: list[str], among: list[str]) -> None:
        """Of what nobody had before, the oldest is taken first."""
        fresh = [text for text in taken if text not in self.returned]
        assert fresh == [text for text in among if text not in self.returned][: len(fresh)]

    @rule(name=st.sampled_from(sorted(SELECTORS)))
    def open(self, name: str) -> None:
        cursor = self.cursors[name]
        cursor.epoch += 1
        cursor.released = False
        found = self.program.asks("open", cursor=name, queue="Q", run=self.name(), selector=SELECTORS[name])
        assert found["epoch"] == cursor.epoch

    @rule(name=st.sampled_from(sorted(SELECTORS)), count=st.integers(1, 80))
    def reserve(self, name: str, count: int) -> None:
        cursor = self.cursors[name]
        if cursor.released:
            return
        suiting = [text for text in self.waiting if self.suits(name, text)]
        more = min(max(0, count - len(cursor.held)), len(suiting))
        found = self.program.asks("reserve", cursor=name, epoch=cursor.epoch, messages=count)
        end = cursor.first + len(cursor.held) + more
        assert (found["from"], found["to"]) == (cursor.first, end)
        if more == len(suiting) and len(cursor.held) + more < count:
            assert found["waiting"] == 0
        if end > cursor.first:
            whole = self.program.reads(cursor.first, end, name, cursor.epoch)
            assert whole[: len(cursor.held)] == cursor.held
            new = whole[len(cursor.held) :]
            assert len(set(new)) == len(new)
            assert set(new) <= set(suiting)
            self.check_order(new, suiting)
            self.waiting = [text for text in self.waiting if text not in new]
            cursor.held = whole

    @rule(name=st.sampled_from(sorted(SELECTORS)), part=st.integers(0, 4))
    def acknowledge(self, name: str, part: int) -> None:
        cursor = self.cursors[name]
        if cursor.released:
            return
        count = len(cursor.held) * part // 4
        cursor.first += count
        del cursor.held[:count]
        self.program.asks("acknowledge", cursor=name, epoch=cursor.epoch, to=cursor.first)

    @rule(name=st.sampled_from(sorted(SELECTORS)))
    def release(self, name: str) -> None:
        cursor = self.cursors[name]
        if cursor.released:
            return
        found = self.program.asks("release", cursor=name, epoch=cursor.epoch)
        assert found == {"epoch": cursor.epoch + 1, "released": len(cursor.held)}
        self.stage.settle()
        self.returned.update(cursor.held)
        self.waiting = sorted(self.waiting + cursor.held, key=lambda text: int(text[1:]))
        cursor.epoch += 1
        cursor.first += len(cursor.held)
        cursor.held = []
        cursor.released = True

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """All that waits is on the disk then, in the order in which it was sent."""
        self.stage.settle()
        self.stage = self.stage.restarts(clean)
        self.program = Program(self.stage, self.name())
        self.returned -= set(self.waiting)

    @rule(name=st.sampled_from(sorted(SELECTORS)), turns=st.integers(0, 4))
    def power_cut_amid_a_search(self, name: str, turns: int) -> None:
        """No answer came, so nothing of it is held."""
        cursor = self.cursors[name]
        if cursor.released:
            return
        self.stage.settle()
        self.program.begins_to_ask("reserve", cursor=name, epoch=cursor.epoch, messages=500)
        for _ in range(turns):
            self.stage.runs()
            if self.stage.store.reads:
                self.stage.store.answer(self.stage.broker, self.stage.now)
        self.stage = self.stage.restarts()
        self.program = Program(self.stage, self.name())
        self.returned -= set(self.waiting)

    @precondition(lambda self: hasattr(self, "stage") and self.stage.has(Q))
    @invariant()
    def everything_is_counted(self) -> None:
        held = sum(len(cursor.held) for cursor in self.cursors.values())
        view = self.stage.view(Q)
        assert (view.pending, view.in_flight) == (len(self.waiting) + held, held)


TestSelectiveCursors = SelectiveCursorMachine.TestCase
TestSelectiveCursors.settings = settings(max_examples=share(40), stateful_step_count=30, deadline=None)
