"""A replay of an archive: its batches, pace and progress, and what is sent when it is killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.replay import FULL_PAUSE_S, MAX_BATCH, Progress, Replay
from spanwire.pipeline.archive.replay_note import ReplayNote, read_note
from spanwire.pipeline.sink.batch_sink import BatchSink
from spanwire.pipeline.sink.control_sink import ControlSink
from tests.support.fake_control import FakeControl
from tests.support.fake_ledger import FakeBroker, KilledError

B = Destination(QUEUE, "B")


class Numbers:
    """Messages whose bodies are their numbers, in files of some messages each."""

    def __init__(self, file: int = 2000) -> None:
        self.file = file
        self.ids: list[str] = []

    def end_of(self, number: int) -> int:
        return (number // self.file + 1) * self.file

    def rows(self, first: int, until: int, ids: str) -> Iterator[Outgoing]:
        self.ids.append(ids)
        return (Outgoing(number, None, B) for number in range(first, until))


class Clock:
    """A clock that waits alone move."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now_s += seconds
        return False


class Busy:
    """A receiver that has enough for some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def waits_for(self, rows: list[Outgoing]) -> str:
        self.looks -= 1
        return "consumers of queue://B" if self.looks >= 0 else ""


def begun(tmp_path: Path, total: int) -> ReplayNote:
    """A note on the disk."""
    note = ReplayNote(tmp_path / "replay.json", {}, "run", total)
    note.save()
    return note


def sink(broker: FakeBroker | FakeControl) -> BatchSink:
    """The sink of a new process, at ActiveMQ or at Spanwire."""
    return broker.sink() if isinstance(broker, FakeBroker) else ControlSink(broker, "queue://B", 0, lambda: None)


def go_on(tmp_path: Path, broker: FakeBroker | FakeControl, numbers: Numbers) -> int:
    """Run the same command again, in a process of its own."""
    note = read_note(tmp_path / "replay.json")
    assert note is not None
    clock = Clock()
    return Replay(note, numbers, sink(broker), 8).run(clock.now, clock.wait, lambda progress: None)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("kind", [FakeBroker, FakeControl])
def test_killed_at_any_step_and_started_again_it_sends_each_message_once(
    tmp_path: Path, kind: type[FakeBroker | FakeControl], is_done: bool
) -> None:
    kills = 0
    for step in itertools.count(1):
        directory = tmp_path / f"{step}"
        broker, numbers = kind(), Numbers(file=3)
        begun(directory, 7)

        def stop(number: int, is_after: bool, step: int = step) -> None:
            if (number, is_after) == (step, is_done):
                raise KilledError

        broker.stop = stop
        try:
            go_on(directory, broker, numbers)
        except KilledError:
            kills += 1
            if isinstance(broker, FakeBroker):
                broker.holders.clear()  # the broker closes the connections of the process
            go_on(directory, broker, numbers)
        else:
            break
        assert sorted(broker.delivered, key=str) == list(range(7)), step
        if isinstance(broker, FakeBroker):
            assert (broker.ledgers, broker.prepared_branches) == ({}, {}), step
        else:
            assert broker.sinks == {}, step
    assert kills > 12


def test_a_replay_at_a_rate_waits_between_even_batches_and_says_the_time_left(tmp_path: Path) -> None:
    broker, clock, told = FakeBroker(), Clock(), list[Progress]()
    sent = Replay(begun(tmp_path, 100), Numbers(), broker.sink(), 40).run(clock.now, clock.wait, told.append)
    assert (sent, broker.delivered) == (100, list(range(100)))
    assert clock.waits == [0.25] * 9
    assert told[0] == Progress(10, 100, None)
    assert told[1] == Progress(20, 100, 1)
    assert told[-1] == Progress(100, 100, 0)


def test_without_a_rate_batches_end_with_their_file(tmp_path: Path) -> None:
    broker, clock, told = FakeBroker(), Clock(), list[Progress]()
    Replay(begun(tmp_path, 2500), Numbers(1500), broker.sink(), None).run(clock.now, clock.wait, told.append)
    assert [one.sent for one in told] == [MAX_BATCH, 1500, 2500]


def test_a_replay_that_follows_waits_for_the_consumers(tmp_path: Path) -> None:
    broker, clock, told = FakeBroker(), Clock(), list[Progress]()
    Replay(begun(tmp_path, 1), Numbers(), broker.sink(), None, Busy(2)).run(clock.now, clock.wait, told.append)
    assert clock.waits == [FULL_PAUSE_S] * 2
    assert [one.waits_for for one in told] == ["consumers of queue://B"] * 2 + [""]


def test_a_stopped_replay_goes_on_and_its_messages_have_other_ids(tmp_path: Path) -> None:
    broker, numbers = FakeBroker(), Numbers()
    note = begun(tmp_path, 4)
    assert Replay(note, numbers, broker.sink(), 4).run(lambda: 0.0, lambda seconds: True, lambda progress: None) == 1
    assert go_on(tmp_path, broker, numbers) == 3
    assert broker.delivered == [0, 1, 2, 3]
    assert all(ids.startswith(f"run/{batch}/") for batch, ids in enumerate(numbers.ids))
    assert go_on(tmp_path, broker, numbers) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"choice": {}, "run": "a", "portions": 3, "done": 1}'])
def test_a_damaged_note_and_one_of_an_earlier_version_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "replay.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"replay.json is damaged, or of an earlier version; delete .* anew"):
        read_note(tmp_path / "replay.json")
