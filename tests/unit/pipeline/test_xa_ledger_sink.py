"""Whoever is stopped wherever: what the ledger names is delivered, once, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.sink.batch_sink import Batch, BatchSink, StagedPart
from spanwire.pipeline.sink.xa_ledger_sink import (
    MAX_PARTS,
    MAX_RUNS,
    Entry,
    LedgerSink,
    batch_of,
    branch_name,
    entry_of,
)
from tests.support.fake_ledger import FakeBrancher, FakeBroker, FakeLedger, KilledError, bodies

BATCHES = 3
ROWS = 4  # of each batch


class NaiveSink:
    """Sends what it is to stage: the control that shows what counting finds."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def stage(self, batch: Batch, partition: int, attempt: int, rows: object) -> StagedPart:
        found = [row.body for row in rows]  # type: ignore[attr-defined]
        self._broker.step(lambda: self._broker.delivered.extend(found))
        return StagedPart(partition, len(found))

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        return True


def rows_of(number: int) -> list[object]:
    return [f"{number}.{index}" for index in range(ROWS)]


def stage(sink: BatchSink | NaiveSink, batch: Batch, partitions: int) -> list[StagedPart]:
    """The rows of a batch, dealt out to partitions; the last one is empty."""
    dealt = [rows_of(batch.number)[part::partitions] for part in range(partitions)] + [[]]
    return [sink.stage(batch, part, 0, bodies(rows)) for part, rows in enumerate(dealt)]


def run_query(broker: FakeBroker, connect: Callable[[], BatchSink | NaiveSink]) -> int:
    """A query that is started again after each kill or failure, and repeats the batch with other partitions."""
    starts = 1
    number = 0
    sink = connect()
    while number < BATCHES:
        batch = Batch("q", f"run{starts}", number)
        try:
            sink.commit(batch, stage(sink, batch, 1 + starts % 3))
        except (KilledError, JmsError):
            broker.holders.clear()  # the process is gone, and with it its connections
            starts += 1
            assert starts < 20
            sink = connect()
        else:
            number += 1
    return starts


def everything() -> list[object]:
    return [row for number in range(BATCHES) for row in rows_of(number)]


def killer(points: set[tuple[int, bool]], error: type[Exception]) -> Callable[[int, bool], None]:
    def stop(step: int, is_done: bool) -> None:
        if (step, is_done) in points:
            raise error("stopped")

    return stop


def steps_of_a_quiet_run() -> int:
    broker = FakeBroker()
    assert run_query(broker, broker.sink) == 1
    assert sorted(map(str, broker.delivered)) == sorted(map(str, everything()))
    return broker.steps


@pytest.mark.large
@pytest.mark.parametrize("error", [KilledError, JmsError])
def test_a_kill_before_or_after_any_step_loses_nothing_and_doubles_nothing(error: type[Exception]) -> None:
    steps = steps_of_a_quiet_run()
    points = [(step, is_done) for step in range(1, steps + 1) for is_done in (False, True)]
    for point in points:
        for second in [point, *[(point[0] + after, is_done) for after in range(1, 12) for is_done in (False, True)]]:
            broker = FakeBroker()
            broker.stop = killer({point, second}, error)
            assert run_query(broker, broker.sink) > 1
            assert sorted(map(str, broker.delivered)) == sorted(map(str, everything())), (point, second)
            assert broker.prepared_branches == {}, (point, second)


def test_the_counting_catches_a_sink_that_sends_at_once() -> None:
    broker = FakeBroker()
    broker.stop = killer({(1, True)}, KilledError)
    run_query(broker, lambda: NaiveSink(broker))
    assert len(broker.delivered) > len(everything())


def test_a_late_commit_of_an_older_run_changes_nothing_wherever_it_comes() -> None:
    for when in range(1, 25):
        broker = FakeBroker()
        old = broker.sink()
        stage_old = stage(old, Batch("q", "old", 0), 2)
        late: list[object] = []

        def come(step: int, is_done: bool) -> None:
            if step == when and is_done and not late:  # noqa: B023 - called in this round only
                late.append(True)  # noqa: B023
                try:
                    old.commit(Batch("q", "old", 0), stage_old)  # noqa: B023
                except (JmsError, ConfigurationError) as error:
                    late.append(error)  # noqa: B023

        broker.stop = come
        run_query(broker, broker.sink)
        found = sorted(map(str, broker.delivered))
        assert found == sorted(map(str, everything())), (when, late)


def test_what_an_earlier_decision_has_left_is_delivered_before_the_next_one() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    first, second = Batch("q", "run", 0), Batch("q", "run", 1)
    (part, _) = stage(sink, first, 1)
    broker.ledgers["q"] = [Entry(0, (part.branch,), "queue://B")]
    assert sink.commit(second, stage(sink, second, 1))
    assert broker.delivered == rows_of(0) + rows_of(1)


def test_a_branch_that_is_prepared_late_is_dropped_with_the_next_commit() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    first = Batch("q", "run", 0)
    sink.commit(first, stage(sink, first, 1))
    stage(broker.sink(), Batch("q", "old", 0), 1)
    assert len(broker.prepared_branches) == 1
    second = Batch("q", "run", 1)
    sink.commit(second, stage(sink, second, 1))
    assert (broker.prepared_branches, broker.delivered) == ({}, rows_of(0) + rows_of(1))


def test_a_late_commit_does_not_touch_what_a_later_batch_has_staged() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    first, second = Batch("q", "old", 0), Batch("q", "new", 1)
    parts = stage(sink, first, 1)
    assert sink.commit(first, parts)
    staged = stage(sink, second, 2)
    assert not sink.commit(first, parts)
    assert sink.commit(second, staged)
    assert sorted(map(str, broker.delivered)) == sorted(map(str, rows_of(0) + rows_of(1)))


def test_a_run_that_another_one_has_taken_over_from_may_not_go_on() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    for number, run in enumerate(["old", "new"]):
        batch = Batch("q", run, number)
        sink.commit(batch, stage(sink, batch, 1))
    batch = Batch("q", "old", 2)
    with pytest.raises(ConfigurationError, match="the query q was started again elsewhere with the same checkpoint"):
        sink.commit(batch, stage(sink, batch, 1))
    assert len(broker.delivered) == 2 * ROWS


def test_other_queries_and_other_peoples_branches_are_left_alone() -> None:
    broker = FakeBroker()
    broker.prepared_branches["spanwire:strange"] = ["x"]
    broker.prepared_branches["spanwire:0:1:2:x:0"] = ["x"]
    sink = broker.sink()
    other = Batch("other", "run", 0)
    stage(sink, other, 1)
    mine = Batch("q", "run", 0)
    sink.commit(mine, stage(sink, mine, 1))
    assert len(broker.prepared_branches) == 3


def test_a_checkpoint_of_another_target_is_refused() -> None:
    broker = FakeBroker()
    batch = Batch("q", "run", 0)
    sink = broker.sink("queue://A")
    sink.commit(batch, stage(sink, batch, 1))
    sink = broker.sink("queue://B")
    batch = Batch("q", "run2", 1)
    with pytest.raises(ConfigurationError, match="up to batch 0 the query q wrote to queue://A, now it is queue://B"):
        sink.commit(batch, stage(sink, batch, 1))
    assert len(broker.delivered) == ROWS


def test_a_query_in_mid_course_needs_its_ledger_or_leave_to_begin_one() -> None:
    broker = FakeBroker()
    batch = Batch("q", "run", 7)
    sink = broker.sink()
    with pytest.raises(ConfigurationError, match=r'no ledger of the query q.*set .option\("firstLedgerBatch", "7"\)'):
        sink.commit(batch, stage(sink, batch, 1))
    sink = broker.sink(first=7)
    assert sink.commit(batch, stage(sink, batch, 1))
    later = Batch("q", "run", 8)
    assert sink.commit(later, stage(sink, later, 1))
    broker.ledgers.clear()  # somebody has purged it
    last = Batch("q", "run", 9)
    with pytest.raises(ConfigurationError, match="no ledger of the query q"):
        sink.commit(last, stage(sink, last, 1))
    assert sorted(map(str, broker.delivered)) == sorted(map(str, rows_of(7) + rows_of(8)))


def test_a_decision_takes_an_entry_also_the_first_one() -> None:
    broker = FakeBroker()
    taken: list[list[Entry]] = []

    class Watched(FakeLedger):
        def save(self, entry: Entry) -> None:
            taken.append(self._taken)
            super().save(entry)

    sink = LedgerSink("", 0, lambda: FakeBrancher(broker), lambda query: Watched(broker, query), str)
    sink.commit(Batch("q", "run", 0), [])
    assert [[entry.batch for entry in entries] for entries in taken] == [[], [-1]]


def test_a_batch_whose_branches_are_gone_is_not_counted() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    batch = Batch("q", "run", 0)
    parts = stage(sink, batch, 1)
    broker.prepared_branches.clear()  # a broker without a disk was started again
    with pytest.raises(JmsError, match="no longer at the broker; repeat the batch"):
        sink.commit(batch, parts)
    assert sink.commit(batch, stage(sink, batch, 1))
    assert broker.delivered == rows_of(0)


def test_an_empty_batch_is_counted_too() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    assert sink.commit(Batch("q", "run", 0), [StagedPart(0, 0)])
    assert (broker.ledgers["q"][0].batch, broker.delivered) == (0, [])


def test_the_entry_of_two_that_says_more_counts() -> None:
    broker = FakeBroker()
    broker.ledgers["q"] = [Entry(3, target="queue://B"), Entry(4, target="queue://B")]
    sink = broker.sink()
    batch = Batch("q", "run", 4)
    assert not sink.commit(batch, stage(sink, batch, 1))
    assert (broker.delivered, broker.prepared_branches) == ([], {})


def test_the_ledger_remembers_a_bounded_number_of_runs() -> None:
    broker = FakeBroker()
    sink = broker.sink()
    for number in range(MAX_RUNS + 5):
        sink.commit(Batch("q", f"run{number}", number), [])
    assert broker.ledgers["q"][0].runs == tuple(f"run{number}" for number in range(5, MAX_RUNS + 5))


def test_more_partitions_than_a_ledger_can_name_are_refused() -> None:
    broker = FakeBroker()
    parts = [StagedPart(number, 1, branch="x") for number in range(MAX_PARTS + 1)]
    with pytest.raises(ConfigurationError, match=f"{MAX_PARTS + 1} partitions in a batch are more than {MAX_PARTS}"):
        broker.sink().commit(Batch("q", "run", 0), parts)
    assert broker.steps == 0


def test_the_lock_is_given_back_after_an_error() -> None:
    broker = FakeBroker()
    sink: LedgerSink = broker.sink()
    with pytest.raises(ConfigurationError):
        sink.commit(Batch("q", "run", 7), [])
    FakeLedger(broker, "q").close()


@pytest.mark.parametrize("text", [None, "", "x", "[]", "{}", '{"batch": 1, "branches": 3, "target": "", "runs": []}'])
def test_a_strange_message_in_the_ledger_queue_is_no_entry(text: str | None) -> None:
    with pytest.raises(ConfigurationError, match="no ledger entry"):
        entry_of(text)


def test_an_entry_of_a_newer_spanwire_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigurationError) as refused:
        entry_of('{"format": 2, "batch": 1, "branches": [], "target": "", "runs": []}')
    assert "the entry in the query's ledger queue has the format '2' of a newer Spanwire" in str(refused.value)
    assert "\n" not in str(refused.value)


@settings(max_examples=50)
@given(st.text(max_size=50), st.integers(0, 2**63 - 1), st.integers(0, MAX_PARTS))
def test_a_branch_tells_its_query_and_batch_and_an_entry_survives_its_message(
    query: str, number: int, partition: int
) -> None:
    name = branch_name(Batch(query, "run", number), partition, "0123456789ab")
    transaction, _, qualifier = name.rpartition(":")
    assert (batch_of(name, query), batch_of(name, query + "x")) == (number, None)
    assert len(transaction) <= 64 and qualifier == str(partition)
    entry = Entry(number, (name,), query, (query, "run"))
    assert entry_of(entry.text()) == entry
