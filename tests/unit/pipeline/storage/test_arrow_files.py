"""Files through PyArrow: what is slow or fails for a while is tried again, a limited number of times."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs as pafs
import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.storage import arrow_files
from spanwire.pipeline.storage.arrow_files import MAX_ATTEMPTS, PAUSES_S, ArrowFiles, open_files
from spanwire.pipeline.storage.shared_files import SharedStorageError

BUSY = OSError("AWS Error SLOW_DOWN during PutObject operation:\nPlease reduce your request rate")


class Failing:
    """A file system of this machine whose next calls fail."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self._inner = pafs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if name != "create_dir":
                self.calls += 1
                if self.errors:
                    raise self.errors.pop(0)
            return getattr(self._inner, name)(*arguments, **named)

        return call


def files_in(path: Path, filesystem: object, pauses: list[float] | None = None) -> ArrowFiles:
    wait = (lambda seconds: None) if pauses is None else pauses.append
    return ArrowFiles(filesystem, str(path), "s3://bucket/staging", has_directories=True, wait=wait)


def test_files_are_written_listed_read_and_removed(tmp_path: Path) -> None:
    files = files_in(tmp_path / "a" / "b", pafs.LocalFileSystem())
    assert (files.sizes(), files.all_sizes()) == ({}, {})
    files.write("one", io.BytesIO(b"0123456789"))
    files.write("in/two", io.BytesIO(b""))
    assert (files.sizes(), files.all_sizes()) == ({"one": 10}, {"one": 10, "in/two": 0})
    assert (files.read("one"), files.read("one", 2, 3), files.read("one", 8, 5)) == (b"0123456789", b"234", b"89")
    files.write("one", io.BytesIO(b"new"))
    assert files.read("one") == b"new"
    files.remove("one")
    files.remove("one")
    assert files.all_sizes() == {"in/two": 0}
    with pytest.raises(FileNotFoundError):
        files.read("one")


@pytest.mark.parametrize("failures", range(1, MAX_ATTEMPTS))
def test_a_request_that_fails_for_a_while_is_repeated_with_growing_pauses(tmp_path: Path, failures: int) -> None:
    pauses: list[float] = []
    files = files_in(tmp_path, Failing(*[BUSY] * failures), pauses)
    files.write("one", io.BytesIO(b"content"))
    assert (files.read("one"), pauses) == (b"content", list(PAUSES_S[:failures]))


def test_a_request_that_fails_too_often_is_told_in_one_line_with_place_and_remedy(tmp_path: Path) -> None:
    filesystem = Failing(*[BUSY] * 100)
    with pytest.raises(SharedStorageError) as caught:
        files_in(tmp_path, filesystem).write("segment-1.arrow", io.BytesIO(b"content"))
    assert filesystem.calls == MAX_ATTEMPTS
    assert str(caught.value) == (
        f"spanwire: s3://bucket/staging/segment-1.arrow cannot be written after {MAX_ATTEMPTS} attempts: AWS Error "
        "SLOW_DOWN during PutObject operation: Please reduce your request rate; check the network and the store, then "
        "start the query again; it loses nothing"
    )


@pytest.mark.parametrize(
    "error",
    [
        OSError("AWS Error ACCESS_DENIED during ListObjectsV2 operation"),
        OSError("AWS Error INVALID_ACCESS_KEY_ID during HeadObject operation"),
        PermissionError("[Errno 13] Permission denied"),
        FileNotFoundError("Bucket 'bucket' not found"),
    ],
)
def test_a_request_that_is_refused_is_not_repeated(tmp_path: Path, error: Exception) -> None:
    filesystem = Failing(error)
    with pytest.raises(SharedStorageError, match=r"cannot be listed: .*; check the address, the credentials"):
        files_in(tmp_path, filesystem).sizes()
    assert filesystem.calls == 1


class Terse(Failing):
    """A file system that tells a missing file from other failures in a listing only, as HDFS does."""

    def delete_file(self, path: str) -> None:
        try:
            self._inner.delete_file(path)
        except FileNotFoundError:
            raise OSError("[Errno 5] HDFS delete failed. Detail: [errno 5] Input/output error") from None


def test_a_missing_file_is_removed_where_the_file_system_does_not_tell_why_it_fails(tmp_path: Path) -> None:
    pauses: list[float] = []
    files = files_in(tmp_path, Terse(), pauses)
    files.write("one", io.BytesIO(b"content"))
    files.remove("one")
    files.remove("one")
    assert (files.sizes(), pauses) == ({}, [])


class Forgetful(Failing):
    """A file system that keeps the first octets of a file only, the first time."""

    def open_output_stream(self, path: str, compression: None) -> io.BufferedWriter:
        self.calls += 1
        return Path(path).open("wb") if self.calls > 1 else Cut(path)


class Cut(io.BufferedWriter):
    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path, "wb"))

    def write(self, octets: Any) -> int:
        super().write(octets[:3])
        return len(octets)


def test_a_file_that_is_shorter_than_it_was_written_is_written_again(tmp_path: Path) -> None:
    files = files_in(tmp_path, Forgetful())
    files.write("one", io.BytesIO(b"0123456789"))
    assert files.read("one") == b"0123456789"


def test_an_upload_is_handed_over_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            octets = super().read(size)
            sizes.append(len(octets))
            return octets

    monkeypatch.setattr(arrow_files, "CHUNK_BYTES", 4)
    files_in(tmp_path, pafs.LocalFileSystem()).write("one", Watched(b"0123456789"))
    assert (sizes, (tmp_path / "one").read_bytes()) == ([4, 4, 2, 0], b"0123456789")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("When resolving region for bucket 'b': AWS Error NETWORK_CONNECTION", SharedStorageError),
        ("HDFS connection failed", SharedStorageError),
        ("When resolving region for bucket 'b': Bucket 'b' not found", ConfigurationError),
        ("Unable to load libjvm", ConfigurationError),
        ("AWS Error ACCESS_DENIED during HeadBucket operation", ConfigurationError),
    ],
)
def test_a_file_system_that_is_away_at_the_connection_is_worth_another_attempt(
    reason: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(reason)

    monkeypatch.setattr(arrow_files, "s3_filesystem", refuse)
    with pytest.raises(kind, match="s3://b/away cannot be reached with PyArrow"):
        open_files("s3://b/away")


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_hadoop_jar_that_is_missing_is_told_and_not_tried_again(
    has_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyArrow does not tell a class path without Hadoop's jars from a NameNode whose name is unknown for a moment."""

    def refuse(address: str) -> None:
        raise OSError("HDFS connection failed")

    monkeypatch.setattr(arrow_files, "pafs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=refuse)))
    (tmp_path / "broken.jar").write_bytes(b"no jar")
    with zipfile.ZipFile(tmp_path / "hadoop-client-api.jar", "w") as jar:
        jar.writestr("org/apache/hadoop/fs/FileSystem.class", b"")
    entries = [tmp_path / "absent.jar", tmp_path / "broken.jar", tmp_path / "*" if has_folder else tmp_path]
    monkeypatch.setenv("CLASSPATH", ":".join(map(str, entries)))
    lacking = "org.apache.commons.lang3.exception.ExceptionUtils" if has_folder else "org.apache.hadoop.fs.FileSystem"
    with pytest.raises(ConfigurationError, match=f"no jar of CLASSPATH has {lacking}; set JAVA_HOME"):
        open_files("hdfs://away:1/a")
    with zipfile.ZipFile(tmp_path / "commons-lang3.jar", "w") as jar:
        jar.writestr("org/apache/commons/lang3/exception/ExceptionUtils.class", b"")
    jars = [tmp_path / "hadoop-client-api.jar", tmp_path / "commons-lang3.jar"]
    monkeypatch.setenv("CLASSPATH", ":".join(map(str, jars)))
    with pytest.raises(SharedStorageError, match="HDFS connection failed; check the address and the network"):
        open_files("hdfs://away:1/a")


def test_a_file_system_that_pyarrow_does_not_reach_is_told_in_one_line() -> None:
    with pytest.raises(ConfigurationError, match=r"hdfs://nowhere:1/a cannot be reached with PyArrow: ") as caught:
        open_files("hdfs://nowhere:1/a")
    text = str(caught.value)
    assert "\n" not in text and "; set JAVA_HOME, ARROW_LIBHDFS_DIR and CLASSPATH to" in text
