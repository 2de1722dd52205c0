"""The log of decisions: what a crash leaves, what an error leaves, and who else may read it."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from spanwire.bridges.xa.branches import Side
from spanwire.bridges.xa.decision_log import MAX_FILE_BYTES, DecisionLog
from spanwire.bridges.xa.decisions import MAX_HEURISTICS, Decisions
from spanwire.bridges.xa.log_file import LogFile
from spanwire.bridges.xa.records import Decision, Done, Heuristic, Record, header_line, read_lines, record_line
from spanwire.model.errors import StoreError


def decision(number: int, bridge: str = "orders") -> Decision:
    return Decision(f"t{number}", bridge, "tcp://near:1", "tcp://far:1", 3, 1_700_000_000_000)


class Disk:
    """A file in memory. ``fails`` lets the next append fail; ``keeps`` says how much of it is written nevertheless."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.appends = 0
        self.replaces = 0
        self.fails = False
        self.keeps = 1.0
        self.is_closed = False

    def open(self) -> bytes | None:
        return self.content

    def append(self, octets: bytes) -> None:
        self.appends += 1
        assert self.content is not None
        if self.fails:
            self.fails = False
            self.content += octets[: int(len(octets) * self.keeps)]
            raise OSError(errno.ENOSPC, "No space left on device")
        self.content += octets

    def replace(self, octets: bytes) -> None:
        self.replaces += 1
        self.content = octets

    def close(self) -> None:
        self.is_closed = True


def pending(log: DecisionLog, bridge: str = "orders") -> list[str]:
    return [decision.transaction for decision in log.pending(bridge)]


def test_a_log_is_closed_after_a_cancelled_write_has_ended() -> None:
    class SlowDisk(Disk):
        """A disk that writes when it is told."""

        def __init__(self) -> None:
            super().__init__()
            self.begun, self.goes_on = threading.Event(), threading.Event()

        def append(self, octets: bytes) -> None:
            self.begun.set()
            self.goes_on.wait()
            assert not self.is_closed
            super().append(octets)

    async def scenario() -> None:
        disk = SlowDisk()
        log = DecisionLog(disk, "log")
        deciding = asyncio.create_task(log.decide(decision(1)))
        while not disk.begun.is_set():
            await asyncio.sleep(0)
        deciding.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        has_waited = not deciding.done()
        disk.goes_on.set()
        await asyncio.gather(deciding, return_exceptions=True)
        log.close()
        assert has_waited and deciding.cancelled() and disk.appends == 1

    asyncio.run(scenario())


def test_a_decision_is_found_again_until_it_is_carried_out() -> None:
    async def scenario() -> None:
        disk = Disk()
        log = DecisionLog(disk, "log")
        await log.decide(decision(1))
        await log.decide(decision(2, "invoices"))
        again = DecisionLog(disk, "log")
        assert again.log_id == log.log_id
        assert again.pending("orders") == [decision(1)] and pending(again, "invoices") == ["t2"]
        assert again.is_decided("t1") and not again.is_decided("t3")
        again.finish("t1")
        again.close()
        assert pending(DecisionLog(disk, "log")) == []

    asyncio.run(scenario())


def test_bridges_that_decide_at_once_share_a_write() -> None:
    async def scenario() -> None:
        disk = Disk()
        log = DecisionLog(disk, "log")
        await asyncio.gather(*(log.decide(decision(number)) for number in range(50)))
        assert disk.appends <= 2
        assert len(pending(DecisionLog(disk, "log"))) == 50

    asyncio.run(scenario())


def test_a_large_file_is_written_anew_without_what_is_carried_out() -> None:
    async def scenario() -> None:
        disk = Disk()
        log = DecisionLog(disk, "log")
        for number in range(0, 40_000, 500):
            await asyncio.gather(*(log.decide(decision(one)) for one in range(number, number + 500)))
            for one in range(number, number + 500):
                log.finish(f"t{one}")
        await log.decide(decision(1_000_000))
        assert disk.replaces > 1 and disk.content is not None and len(disk.content) < 2 * MAX_FILE_BYTES
        assert pending(DecisionLog(disk, "log")) == ["t1000000"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("keeps", "expected"), [(0.0, []), (0.5, []), (1.0, ["t1"])])
def test_after_an_error_the_file_decides(keeps: float, expected: list[str]) -> None:
    async def scenario() -> None:
        disk = Disk()
        log = DecisionLog(disk, "log")
        disk.fails, disk.keeps = True, keeps
        with pytest.raises(StoreError, match="log: cannot be written: No space left on device"):
            await log.decide(decision(1))
        with pytest.raises(StoreError):
            await log.decide(decision(2))
        await log.repair()
        assert pending(log) == expected
        await log.decide(decision(3))
        assert pending(DecisionLog(disk, "log")) == [*expected, "t3"]

    asyncio.run(scenario())


def test_an_error_fails_all_decisions_of_the_write_and_those_behind_it() -> None:
    async def scenario() -> None:
        disk = Disk()
        log = DecisionLog(disk, "log")
        disk.fails, disk.keeps = True, 0.0
        results = await asyncio.gather(*(log.decide(decision(number)) for number in range(5)), return_exceptions=True)
        assert all(isinstance(result, StoreError) for result in results), results
        await log.repair()
        assert pending(log) == []

    asyncio.run(scenario())


def test_heuristic_outcomes_are_kept_up_to_a_limit() -> None:
    report = Heuristic("t1", "orders", Side.TARGET, "rolled back by hand", 1)
    decisions = Decisions("id", [report] * (MAX_HEURISTICS + 1))
    assert decisions.heuristics == [report] * MAX_HEURISTICS
    assert decisions.records() == decisions.heuristics


@pytest.mark.parametrize(
    "records", [[decision(1)], [Done("t1")], [decision(1), Heuristic("t1", "orders", Side.SOURCE, "é\n", 2)]]
)
def test_a_line_cut_anywhere_counts_as_nothing_and_the_earlier_lines_as_they_are(records: list[Record]) -> None:
    whole = header_line("id") + record_line([decision(0)])
    last = record_line(records)
    assert read_lines(whole + last, "log") == ("id", [decision(0), *records])
    for length in range(len(last) - 1):
        assert read_lines(whole + last[:length], "log") == ("id", [decision(0)])
        assert read_lines(whole + last[:length] + b"\0" * 30, "log") == ("id", [decision(0)])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "log: is no log of decisions"),
        (b"some text\n", "log: is no log of decisions"),
        (header_line("id") + b"broken\n" + record_line([Done("t")]), "log: line 2 is damaged"),
        (header_line("id").replace(b":1,", b":2,"), "log: is no log of decisions"),
        (record_line([Done("t")]), "log: is no log of decisions"),
    ],
)
def test_a_damaged_log_is_refused(content: bytes, expected: str) -> None:
    disk = Disk()
    disk.content = content
    with pytest.raises(StoreError, match=expected):
        DecisionLog(disk, "log")
    assert disk.is_closed and disk.content == content


def test_a_second_process_is_refused_and_gets_in_after_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        directory = tmp_path / "transactions"
        file = LogFile(directory)
        log = DecisionLog(file, file.path)
        await log.decide(decision(1))
        with pytest.raises(StoreError, match="another process runs bridges with this log"):
            DecisionLog(LogFile(directory), file.path)
        log.close()
        again = DecisionLog(LogFile(directory), file.path)
        assert pending(again) == ["t1"]
        again.close()

    asyncio.run(scenario())


def test_a_directory_that_cannot_be_made_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened: "):
        DecisionLog(LogFile(tmp_path / "file"), "log")
