"""The data directory: what is refused in one line, what is warned of; nothing found is ever changed."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spanwire.model.errors import StoreError
from spanwire.stores.directory import DataDirectory, check_rights
from spanwire.stores.lock_file import LOCK_NAME, StandbyMarker, has_standby, holder_of, host_name


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        DataDirectory(path)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    assert refusal(tmp_path / "data").endswith("data cannot be used: it is a file; name a directory")
    assert (tmp_path / "data").read_text() == "no directory"


def test_a_directory_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    assert f"{tmp_path / 'file' / 'data'}: Not a directory; name a directory" in refusal(tmp_path / "file" / "data")


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(tmp_path / "gone")
    assert "cannot be used" in refusal(tmp_path / "data")
    assert not (tmp_path / "gone").exists()


def test_a_link_to_a_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "data").symlink_to(tmp_path / "real")
    DataDirectory(tmp_path / "data").release()
    assert (tmp_path / "real" / LOCK_NAME).exists()


def test_a_symbolic_link_is_not_taken_for_the_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "precious")
    assert "put the file itself in the place of the symbolic link" in refusal(tmp_path)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_directory_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()
    assert f"{tmp_path / LOCK_NAME} cannot be opened: Is a directory" in refusal(tmp_path)


def test_a_directory_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert refusal(tmp_path) == (
        f"the data directory {tmp_path} can be written by everybody (mode 1777): run chmod o-w {tmp_path}, or name a"
        " directory in it"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_one_that_everybody_may_write_to_is_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    DataDirectory(tmp_path / "data").release()


def test_a_directory_that_its_group_may_write_to_gets_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o770)
    with caplog.at_level(logging.WARNING):
        DataDirectory(tmp_path).release()
    assert [record.getMessage() for record in caplog.records] == [
        f"the data directory {tmp_path} can be written by its group (mode 770): run chmod g-w {tmp_path}"
    ]


def test_the_journals_directory_is_looked_at_as_well_and_the_lock_given_back(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal").chmod(0o707)
    for _ in range(2):
        directory = DataDirectory(tmp_path)
        with pytest.raises(StoreError, match=r"the directory .*journal can be written by everybody \(mode 707\)"):
            directory.subdirectory("journal")


def test_a_file_in_place_of_the_journals_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("mine")
    directory = DataDirectory(tmp_path)
    with pytest.raises(StoreError, match=r"the directory .*journal cannot be used: it is a file; name a directory"):
        directory.subdirectory("journal")
    assert (tmp_path / "journal").read_text() == "mine"


def owned(owner: int, mode: int) -> os.stat_result:
    return os.stat_result((stat.S_IFDIR | mode, 1, 1, 2, owner, owner, 0, 0, 0, 0))


def test_a_directory_of_another_user_is_refused() -> None:
    with pytest.raises(StoreError) as caught:
        check_rights(Path("/data"), "the data directory", owned(1001, 0o700), user=1000)
    assert str(caught.value) == (
        "the data directory /data belongs to user 1001, not to user 1000 who runs the broker: run it as that user or"
        " change the owner"
    )


def test_a_directory_of_another_user_gets_a_warning_when_root_uses_it(caplog: pytest.LogCaptureFixture) -> None:
    check_rights(Path("/data"), "the data directory", owned(1001, 0o700), user=0)
    assert caplog.messages == [
        "the data directory /data belongs to user 1001; what this broker makes there belongs to root: run it as that"
        " user or change the owner"
    ]


@pytest.mark.parametrize(("owner", "user"), [(1000, 1000), (0, 1000), (0, 0)])
def test_a_directory_of_its_user_or_of_root_is_taken(owner: int, user: int, caplog: pytest.LogCaptureFixture) -> None:
    check_rights(Path("/data"), "the data directory", owned(owner, 0o755), user)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EACCES, "Permission denied; give this user the right to read and write it, or name another directory"),
        (errno.EROFS, "Read-only file system; mount its file system for writing, or name another directory"),
        (errno.EMFILE, "Too many open files; allow this user more open files (ulimit -n)"),
        (errno.ENOSPC, "No space left on device; make room on its disk"),
        (errno.EIO, "Input/output error; look at the directory"),
    ],
)
def test_a_lock_that_cannot_be_opened_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    def refuse(path: Path, flags: int, mode: int) -> int:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(tmp_path) == f"{tmp_path / LOCK_NAME} cannot be opened: {told}"


def test_a_lock_that_a_process_of_another_machine_holds_is_told_apart(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / LOCK_NAME).write_text(f"{ended.pid}\n")
    assert refusal(tmp_path) == (
        f"the data directory {tmp_path} is in use by process {ended.pid}, which does not run on this machine: stop the"
        " broker on the machine where it runs, or have the file system give up its lock"
    )
    first.release()


def test_a_lock_file_left_behind_by_a_process_that_is_gone_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("999999\n")
    directory = DataDirectory(tmp_path)
    assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()} {host_name()}\n"
    directory.release()


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert refusal(tmp_path) == (
        f"the data directory {tmp_path} cannot be locked: No locks available; name a directory on a disk of this"
        " machine"
    )


def test_a_full_disk_does_not_keep_the_lock_from_being_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", pwrite)
    with caplog.at_level(logging.WARNING):
        directory = DataDirectory(tmp_path)
    assert "cannot be written: No space left on device" in caplog.text
    monkeypatch.undo()
    assert "by another broker" in refusal(tmp_path)
    directory.release()


def test_a_lock_held_on_another_host_names_that_host(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    (tmp_path / LOCK_NAME).write_text(f"{os.getpid()} elsewhere.example\n")
    assert refusal(tmp_path) == (
        f"the data directory {tmp_path} is in use by process {os.getpid()} on elsewhere.example: stop the broker on the"
        " machine where it runs, or have the file system give up its lock"
    )
    first.release()


@pytest.mark.parametrize("text", ["", "no pid", "4711 a b", "1" * 400, "-1", "4711 \x1b[2J", "\xff"])
def test_a_lock_file_that_is_not_ours_names_nobody(tmp_path: Path, text: str) -> None:
    first = DataDirectory(tmp_path)
    (tmp_path / LOCK_NAME).write_text(text, "latin-1")
    assert "in use by another broker: stop that broker" in refusal(tmp_path)
    assert str(holder_of(tmp_path)) == "another program"
    first.release()


def test_a_removed_or_replaced_lock_file_is_noticed(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    assert directory.is_held()
    (tmp_path / LOCK_NAME).unlink()
    assert not directory.is_held()
    (tmp_path / LOCK_NAME).write_text("4711\n")
    assert not directory.is_held()
    directory.release()


def test_a_file_system_without_locks_is_taken_where_no_lock_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    DataDirectory(tmp_path, needs_lock=False).release()
    assert "cannot be locked: No locks available; nothing keeps a second broker out of it" in caplog.text


def test_a_directory_in_use_is_refused_even_where_no_lock_is_wanted(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(StoreError, match="is in use by process"):
        DataDirectory(tmp_path, needs_lock=False)
    first.release()


def test_a_waiting_standby_is_seen_until_it_leaves(tmp_path: Path) -> None:
    assert not has_standby(tmp_path)
    first, second = StandbyMarker(tmp_path), StandbyMarker(tmp_path)
    first.set()
    second.set()
    first.withdraw()
    assert has_standby(tmp_path)
    second.withdraw()
    assert not has_standby(tmp_path)
