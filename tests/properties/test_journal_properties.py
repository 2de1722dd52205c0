"""The journal against dicts, with power cuts wherever Hypothesis likes them; records against damage."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spanwire.broker.metadata import SUBSCRIPTIONS, XA_BRANCHES, MetadataRecord
from spanwire.stores.journal.segments.record import HEADER_SIZE, MESSAGE, encode_header, read_record, record_size
from tests.simulation.disk import PowerCutError
from tests.support.journal_model import NAMES, CheckedJournal
from tests.support.seeds import share

names = st.sampled_from(NAMES)
sizes = st.sampled_from((0, 1, 7, 8, 100, 1000, 5000))
picks = st.integers(0, 1 << 16)
keys = st.sampled_from((b"", b"a", b"b", b"c" * 1024))


class JournalMachine(RuleBasedStateMachine):
    """Every call, batches, clean stops and power cuts, in any order."""

    @initialize()
    def begin(self) -> None:
        self.checked = CheckedJournal()

    def pick(self, name: str, number: int) -> int:
        messages = list(self.checked.state.get("queue://" + name, {}))
        return messages[number % len(messages)] if messages else number

    @rule(name=names, size=sizes)
    def append(self, name: str, size: int) -> None:
        self.checked.append(name, size)

    @rule(name=names, number=picks)
    def remove(self, name: str, number: int) -> None:
        self.checked.remove(name, self.pick(name, number))

    @rule(name=names, number=picks, count=st.integers(0, 40), step=st.integers(1, 3), all_kept=st.booleans())
    def remove_all(self, name: str, number: int, count: int, step: int, all_kept: bool) -> None:
        """Neighbours or every so many, of what is there or of what ever was."""
        messages = list(self.checked.state.get("queue://" + name, {}))
        if all_kept and messages:
            first = number % len(messages)
            self.checked.remove_all(name, messages[first : first + count * step : step])
        else:
            first = self.pick(name, number)
            self.checked.remove_all(name, list(range(first, first + count * step, step)))

    @rule(name=names, count=st.integers(1, 40))
    def append_many(self, name: str, count: int) -> None:
        self.checked.unit([(name, 8)] * count, [])

    @rule(name=names, size=sizes, priority=st.integers(0, 9), expires=st.booleans())
    def append_unusual(self, name: str, size: int, priority: int, expires: bool) -> None:
        self.checked.append(name, size, priority, 1 << 41 if expires else 0)

    @rule(names=st.lists(names, min_size=1, max_size=3), size=sizes, priority=st.integers(0, 9))
    def append_shared(self, names: list[str], size: int, priority: int) -> None:
        self.checked.append_shared(names, size, priority)

    @rule(
        additions=st.lists(st.tuples(names, sizes), max_size=4),
        removals=st.lists(st.tuples(names, picks), max_size=4),
        changes=st.lists(st.tuples(keys, st.none() | st.binary(max_size=40)), max_size=3),
    )
    def unit(
        self,
        additions: list[tuple[str, int]],
        removals: list[tuple[str, int]],
        changes: list[tuple[bytes, bytes | None]],
    ) -> None:
        metadata = [MetadataRecord(XA_BRANCHES, key, value) for key, value in changes]
        self.checked.unit(additions, [(name, self.pick(name, number)) for name, number in removals], metadata)

    @rule(
        source=names,
        numbers=st.lists(picks, max_size=6),
        other=names,
        removals=st.lists(st.tuples(names, picks), max_size=2),
    )
    def transfer(self, source: str, numbers: list[int], other: str, removals: list[tuple[str, int]]) -> None:
        metadata = [MetadataRecord(XA_BRANCHES, b"a", b"%d" % len(numbers))]
        gone = [(name, self.pick(name, number)) for name, number in removals]
        self.checked.transfer(source, [self.pick(source, number) for number in numbers], other, gone, metadata)

    @rule(source=names, other=names)
    def transfer_all(self, source: str, other: str) -> None:
        self.checked.transfer(source, list(self.checked.state.get("queue://" + source, {})), other, [], [])

    @rule(key=keys, value=st.binary(max_size=300))
    def put_metadata(self, key: bytes, value: bytes) -> None:
        self.checked.put_metadata(SUBSCRIPTIONS, key, value)

    @rule(key=keys)
    def discard_metadata(self, key: bytes) -> None:
        self.checked.discard_metadata(SUBSCRIPTIONS, key)

    @rule()
    def scan(self) -> None:
        self.checked.scan_one()

    @rule(name=names, count=st.integers(4, 30))
    def flow(self, name: str, count: int) -> None:
        """Dead segments, so that there is something to compact."""
        flowing: list[int] = []
        for _ in range(count):
            flowing.append(self.checked.append(name, 900))
            self.checked.write_one()
            if len(flowing) > 2:
                self.checked.remove(name, flowing.pop(0))
        self.checked.write_one()

    @rule(name=names, number=picks, count=st.integers(1, 1000))
    def note(self, name: str, number: int, count: int) -> None:
        self.checked.note(name, self.pick(name, number), count)

    @rule(name=names)
    def add_destination(self, name: str) -> None:
        self.checked.add_destination(name)

    @rule(name=names)
    def remove_destination(self, name: str) -> None:
        self.checked.remove_destination(name)

    @rule()
    def write(self) -> None:
        self.checked.write_one_and_read()

    @rule(batches=st.integers(1, 6))
    def compact(self, batches: int) -> None:
        for _ in range(batches):
            while self.checked.scan_one():
                pass
            self.checked.write_one_and_read()

    @rule()
    def reopen(self) -> None:
        self.checked.reopen()

    @rule(seed=st.integers(0, 1 << 16))
    def crash(self, seed: int) -> None:
        self.checked.crash(Random(seed))

    @rule(step=st.integers(0, 8), seed=st.integers(0, 1 << 16), stop=st.booleans())
    def crash_while_writing(self, step: int, seed: int, stop: bool) -> None:
        disk = self.checked.driver.disk
        disk.cut_at = disk.steps + step
        try:
            if stop:
                self.checked.reopen()
            else:
                self.checked.write_one()
            disk.cut_at = -1
        except PowerCutError:
            self.checked.after(disk.power_cut(Random(seed)))

    @invariant()
    def holds_what_it_should(self) -> None:
        self.checked.check()


TestJournalMachine = JournalMachine.TestCase
TestJournalMachine.settings = settings(max_examples=share(80), stateful_step_count=60, deadline=None)


@given(
    seed=st.integers(0, (1 << 32) - 1),
    offset=st.integers(0, 1 << 29).map(lambda place: place * 8),
    number=st.integers(0, (1 << 32) - 1),
    sequence=st.integers(0, (1 << 63) - 1),
    payload=st.binary(max_size=200),
    flip=st.integers(0, 1 << 20),
    cut=st.integers(1, 1 << 20),
)
def test_a_record_reads_back_whole_or_not_at_all(
    seed: int, offset: int, number: int, sequence: int, payload: bytes, flip: int, cut: int
) -> None:
    data = encode_header(seed, offset, MESSAGE, 4, 7, number, sequence, payload) + payload
    record = read_record(memoryview(data), 0, len(data), seed, offset)
    assert record is not None
    assert (record.kind, record.format_id, record.destination, record.sequence) == (MESSAGE, 7, number, sequence)
    assert (record.payload_length, record.payload_start) == (len(payload), offset + HEADER_SIZE)
    assert record.end == offset + record_size(len(payload))
    damaged = bytearray(data)
    damaged[flip // 8 % len(data)] ^= 1 << flip % 8
    assert read_record(memoryview(bytes(damaged)), 0, len(data), seed, offset) is None
    assert read_record(memoryview(data), 0, len(data), seed, offset + 8) is None
    assert read_record(memoryview(data), 0, len(data), seed ^ 1, offset) is None
    assert read_record(memoryview(data), 0, len(data) - 1 - cut % len(data), seed, offset) is None


@given(st.binary(max_size=300))
def test_garbage_is_no_record(data: bytes) -> None:
    assert read_record(memoryview(data), 0, len(data), 1, 0) is None
