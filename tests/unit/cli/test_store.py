"""``spanwire store``: what it prints, what it gives back, and what it never touches."""

from __future__ import annotations

import fcntl
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.main import main
from spanwire.cli.process.store import ProgressLine
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message_view import TEXT, MessageView
from spanwire.service.message_formats import message_formats
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.segment import encode_segment_header, segment_name

ORDERS: Final = Destination(QUEUE, "ORDERS")
SEGMENT_BYTES: Final = 4096
NOBODY: Final = 65534


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory with ten messages in several segments."""
    directory = tmp_path / "data"
    (directory / "journal").mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    disk = FileDisk(directory / "journal")
    journal = open_journal(disk, b"a store for test", SEGMENT_BYTES).journal
    formats = message_formats()
    for number in range(10):
        view = MessageView(TEXT, ORDERS, MessageId(ProducerId("ID:test:1", 1, 1), number))
        view.persistent = True
        view.body = f"{number}".encode() * 600
        journal.append(ORDERS, formats.format(4).encode_from_view(view))
        batch = journal.next_batch()
        while batch is not None:
            write_batch(disk, batch, False)
            journal.on_completed(batch)
            batch = journal.next_batch()
    disk.close()
    return directory


def files(directory: Path) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "journal").glob("*.journal"))


def damage(path: Path, text: bytes) -> None:
    """Other bytes in the middle of a message."""
    data = path.read_bytes()
    assert text in data
    path.write_bytes(data.replace(text, b"?" * len(text), 1))


def test_check_reports_and_changes_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(directory)
    assert main(["store", "check", str(directory)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "queue://ORDERS" in told.out
    assert told.out.endswith("no damage\n")
    assert files(directory) == before


def test_a_store_is_looked_at_without_rights_to_write(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "lock").write_text("")
    assert main(["store", "check", str(directory)]) == 0  # everything is loaded now
    for path in (*directory.rglob("*"), directory):
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.chdir(directory)
    with without_rights():  # from here on by relative paths: the way to it is closed for others
        assert main(["store", "check", "."]) == 0
        assert main(["store", "export", "."]) == 0
        assert main(["store", "repair", "."]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user who does not own the files: root may write whatever their mode is."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_check_names_each_damage_with_file_and_byte(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(segments(directory)[0], b"1111")
    damage(segments(directory)[1], b"4444")
    before = files(directory)
    assert main(["store", "check", str(directory)]) == 1
    lines = capsys.readouterr().out.splitlines()
    found = [line for line in lines if line.startswith("damage: ")]
    assert len(found) == 2
    assert found[0].startswith(f"damage: {segments(directory)[0].name} at byte ")
    assert found[0].endswith("a record's checksum does not hold: message 2 of queue://ORDERS")
    assert lines[-1].startswith("2 damages; nothing was changed")
    assert files(directory) == before


def test_repair_asks_before_something_is_lost(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(segments(directory)[0], b"1111")
    before = files(directory)
    assert main(["store", "repair", str(directory)]) == 1
    told = capsys.readouterr()
    assert "nothing was changed, add --yes" in told.err
    assert "  1 of queue://ORDERS\n" in told.out
    assert {name: data for name, data in files(directory).items() if name != "lock"} == before


def test_repair_keeps_what_it_changes_and_leaves_a_clean_store(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = segments(directory)[0]
    damage(victim, b"1111")
    damaged = victim.read_bytes()
    assert main(["store", "repair", str(directory), "--yes"]) == 0
    assert "repaired; the files as they were are in " in capsys.readouterr().out
    (quarantine,) = (directory / "quarantine").iterdir()
    assert (quarantine / victim.name).read_bytes() == damaged
    assert main(["store", "check", str(directory)]) == 0
    out = capsys.readouterr().out
    assert "         9 " in out
    after = files(directory)
    assert main(["store", "repair", str(directory), "--yes"]) == 0
    assert capsys.readouterr().out == "there is nothing to repair\n"
    assert files(directory) == after


def test_a_repair_without_loss_asks_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = segments(directory)[:2]
    swapped = (one.read_bytes(), other.read_bytes())
    other.write_bytes(swapped[0])
    one.write_bytes(swapped[1])
    assert main(["store", "repair", str(directory)]) == 0
    assert main(["store", "check", str(directory)]) == 0
    assert "        10 " in capsys.readouterr().out
    assert (one.read_bytes(), other.read_bytes()) == swapped


@pytest.mark.parametrize("action", ["check", "repair", "import"])
def test_a_running_broker_is_named_with_its_process(
    action: str, directory: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (directory / "lock").write_text("4711\n")
    (tmp_path / "file").write_text("")
    with (directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = files(directory)
        words = [str(directory), str(tmp_path / "file")] if action == "import" else [str(directory)]
        assert main(["store", action, *words]) == (2 if action == "check" else 1)
        assert files(directory) == before
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "in use by process 4711" in told.err


def test_the_export_alone_reads_the_store_of_a_running_broker(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "export", str(directory)]) == 0
    of_a_stopped_one = capsys.readouterr().out
    (directory / "lock").write_text("4711\n")
    with (directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = files(directory)
        assert main(["store", "export", str(directory)]) == 0
        assert files(directory) == before
    assert capsys.readouterr().out == of_a_stopped_one


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_check_during_which_a_broker_takes_the_store_is_one_line(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    class Taking(io.StringIO):
        """Standard error; a broker with a lease replaces the lock when the progress is shown."""

        def write(self, text: str) -> int:
            if " % " in text:
                DataDirectory(directory, replaces_lock=True).release()
            return super().write(text)

    (directory / "lock").write_text("")
    if is_damaged:
        damage(segments(directory)[0], b"1111")
    stream = Taking()
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(["store", "check", "--progress", str(directory)]) == 2
    told = [line for line in stream.getvalue().splitlines() if " % " not in line]
    assert len(told) == 1
    assert "a broker has taken the store in" in told[0]
    assert capsys.readouterr().out == ""


def test_a_store_of_a_newer_version_is_refused_and_stays_as_it_is(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in segments(directory):
        data = path.read_bytes()
        path.write_bytes(data[:8] + (99).to_bytes(2, "little") + data[10:])
    before = files(directory)
    assert main(["store", "check", str(directory)]) == 2
    told = (
        "a damaged header, this build reads up to 3: start a newer Spanwire, or restore a backup, nothing was changed"
    )
    assert told in capsys.readouterr().err
    assert main(["store", "repair", str(directory), "--yes"]) == 1
    assert main(["store", "export", str(directory)]) == 1
    assert {name: data for name, data in files(directory).items() if name != "lock"} == before
    for line in capsys.readouterr().err.splitlines():
        assert "newer" in line


def test_a_segment_of_another_store_is_put_aside_not_deleted(directory: Path) -> None:
    foreign = directory / "journal" / segment_name(77)
    foreign.write_bytes(encode_segment_header(b"another one's id", 77, 76, 64, 1) + bytes(4000))
    kept = foreign.read_bytes()
    assert main(["store", "check", str(directory)]) == 1
    assert main(["store", "repair", str(directory), "--yes"]) == 0
    (quarantine,) = (directory / "quarantine").iterdir()
    assert (quarantine / foreign.name).read_bytes() == kept
    assert not foreign.exists()
    assert main(["store", "check", str(directory)]) == 0


def test_a_directory_without_a_store_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kahadb" / "journal").mkdir(parents=True)
    for place in (tmp_path / "missing", tmp_path):
        assert main(["store", "check", str(place)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["store", "check", str(tmp_path)]) == 2
    assert f"there is one in {tmp_path / 'kahadb'}" in capsys.readouterr().err
    (tmp_path / "kahadb" / "journal" / segment_name(1)).write_bytes(b"")
    assert main(["store", "check", str(tmp_path / "kahadb" / "journal")]) == 2
    assert f"name the directory above it, {tmp_path / 'kahadb'}" in capsys.readouterr().err


def test_files_that_cannot_be_read_are_one_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "journal" / segment_name(55)).symlink_to(directory / "missing")
    os.mkfifo(directory / "journal" / segment_name(56))
    assert main(["store", "check", str(directory)]) == 0
    capsys.readouterr()
    for path in segments(directory):
        if path.is_file():
            path.write_bytes(b"")
    assert main(["store", "check", str(directory)]) == 2
    assert "restore a backup" in capsys.readouterr().err


def test_what_goes_out_comes_in(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(directory)
    target = tmp_path / "export.jsonl"
    assert main(["store", "export", str(directory), "--output", str(target)]) == 0
    assert main(["store", "export", str(directory), "--output", str(target)]) == 1
    assert "exists; name another file" in capsys.readouterr().err
    assert files(directory) == before
    assert main(["store", "import", str(tmp_path / "new"), str(target)]) == 0
    assert capsys.readouterr().out.endswith("10 messages and 0 metadata records imported\n")
    assert main(["store", "import", str(tmp_path / "new"), str(tmp_path / "missing")]) == 1
    assert main(["store", "check", str(tmp_path / "new")]) == 0


def test_a_readable_export_has_a_line_for_each_message_and_is_not_imported(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "readable.jsonl"
    assert main(["store", "export", str(directory), "--readable", "--output", str(target)]) == 0
    assert capsys.readouterr().out == "10 messages exported\n"
    rows = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert len(rows) == 10
    assert all({"line", "sequence", "message_id", "kind", "properties"} <= row.keys() for row in rows)
    assert not any("bytes" in row for row in rows)
    assert main(["store", "import", str(tmp_path / "new"), str(target)]) == 1
    assert "a readable export cannot be imported" in capsys.readouterr().err
    assert main(["store", "export", str(directory), "--readable", "--destination", "NONE"]) == 0
    assert capsys.readouterr().out == ""


def test_a_full_disk_is_one_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        return  # a device of Linux
    (directory / "full").symlink_to("/dev/full")
    with (directory / "full").open("wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "spanwire", "store", "export", str(directory)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.returncode == 1
    assert process.stderr.startswith("spanwire store: the disk is full: ")
    assert process.stderr.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error_of_the_store(directory: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "spanwire", "store", "export", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_progress_is_silent_unless_somebody_looks_on(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "check", str(directory)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["store", "check", str(directory), "--progress"]) == 0
    assert "segments: 100 %" in capsys.readouterr().err


def test_progress_tells_percent_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    line = ProgressLine(True, lambda: now)
    line("segments", 0, 100 << 20)
    now = 1.0
    line("segments", 25 << 20, 100 << 20)
    now = 1.01
    line("segments", 26 << 20, 100 << 20)
    now = 2.0
    line("segments", 100 << 20, 100 << 20)
    told = capsys.readouterr().err
    assert told.split("\r")[2:] == ["segments: 25 %  25.0 MiB/s    ", "segments: 100 %  50.0 MiB/s    \n"]


def test_an_action_that_nobody_knows_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["store"], ["store", "mend", "x"]):
        assert main(words) == 2
        assert capsys.readouterr().err.count("\n") == 1


def refusal_of_broker(directory: Path) -> str:
    disk = FileDisk(directory / "journal")
    with pytest.raises(StoreError) as refused:
        open_journal(disk, b"a store for test", SEGMENT_BYTES)
    disk.close()
    return str(refused.value)


def test_a_flipped_bit_in_the_only_segment_is_told_as_the_broker_tells_it(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = segments(directory)
    for path in others:
        path.unlink()
    data = bytearray(first.read_bytes())
    data[8] ^= 0x40
    first.write_bytes(data)
    told_by_broker = refusal_of_broker(directory)
    assert main(["store", "check", str(directory)]) == 2
    assert main(["store", "repair", str(directory)]) == 1
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in told] == [told_by_broker] * 2
    assert "repair" not in told_by_broker


def test_summaries_without_a_segment_are_told_as_the_broker_tells_it(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in segments(directory):
        path.unlink()
    (directory / "journal/0000000003.summary").write_bytes(b"of a lost segment")
    told_by_broker = refusal_of_broker(directory)
    assert main(["store", "check", str(directory)]) == 2
    assert main(["store", "repair", str(directory)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.partition(": ")[2] for line in told.err.splitlines()] == [told_by_broker] * 2
