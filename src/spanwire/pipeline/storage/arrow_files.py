"""Reads and writes files through a file system of PyArrow, and repeats failed requests."""

from __future__ import annotations

import io
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import BinaryIO, Final, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.pipeline.storage import hadoop_classes
from spanwire.pipeline.storage.location import S3, Location, parse
from spanwire.pipeline.storage.shared_files import SharedStorageError

MAX_ATTEMPTS: Final = 5  # of one call; with all pauses and the client's own attempts they outlast an outage of a minute
PAUSES_S: Final = (0.5, 2.0, 5.0, 10.0)  # seconds before the second and each later attempt
CLIENT_ATTEMPTS: Final = 3  # of each request of the S3 client, which repeats a part of a large file by itself
CONNECT_TIMEOUT_S: Final = 5.0  # seconds; the client's default of 1 s is short for a busy network
REQUEST_TIMEOUT_S: Final = 20.0  # seconds without an octet
CHUNK_BYTES: Final = 8 * MIB  # bytes handed to the client at once; bounds the memory of an upload
MAX_CAUSE: Final = 300  # characters of a cause that are shown
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # of the AWS tools; PyArrow ignores these variables
# Words in permanent errors of the file systems. Another attempt would fail in the same way.
PERMANENT: Final = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "NO_SUCH_BUCKET",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "HTTP status 301",
)
# Words in errors of a connection for which a library or the bucket is missing.
ABSENT: Final = ("libhdfs", "libjvm", "not found")

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class ArrowFiles:
    """The files of one directory of a file system of PyArrow."""

    def __init__(
        self,
        filesystem: pafs.FileSystem,
        root: str,
        shown: str,
        has_directories: bool,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """Use a directory of a file system.

        Args:
            filesystem: the file system.
            root: the path of the directory in the file system.
            shown: the address of the directory in errors.
            has_directories: True if directories must be created before files can be written.
            wait: pauses for a number of seconds.
        """
        self._filesystem: Final = filesystem
        self._root: Final = root
        self._shown: Final = shown
        self._has_directories: Final = has_directories
        self._wait: Final = wait

    def address(self, name: str = "") -> str:
        """Return the address of a file or of the directory for an error."""
        return f"{self._shown}/{name}" if name else self._shown

    def sizes(self) -> dict[str, int]:
        """Return the names and sizes of the files of the directory."""
        return self._attempt("listed", "", lambda: self._list(is_recursive=False))

    def all_sizes(self) -> dict[str, int]:
        """Return the names and sizes of all files below the directory."""
        return self._attempt("listed", "", lambda: self._list(is_recursive=True))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file or a range of a file."""

        def call() -> bytes:
            with self._filesystem.open_input_file(self._path(name)) as source:
                octets: bytes = source.read() if length is None else source.read_at(length, offset)
                return octets

        return self._attempt("read", name, call)

    def write(self, name: str, content: BinaryIO) -> None:
        """Write a whole file, and check the size of the written file."""

        def call() -> None:
            size = content.seek(0, io.SEEK_END)
            content.seek(0)
            path = self._path(name)
            if self._has_directories:
                self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            with self._filesystem.open_output_stream(path, compression=None) as sink:
                shutil.copyfileobj(content, sink, CHUNK_BYTES)
            written = self._filesystem.get_file_info(path).size
            if written != size:
                raise OSError(f"{written} of {size} bytes have been written")

        self._attempt("written", name, call)

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""

        def call() -> None:
            path = self._path(name)
            try:
                self._filesystem.delete_file(path)
            except FileNotFoundError:
                raise
            except OSError:  # HDFS names no cause
                if self._filesystem.get_file_info(path).type != pafs.FileType.NotFound:
                    raise

        try:
            self._attempt("removed", name, call)
        except FileNotFoundError:
            return

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _list(self, is_recursive: bool) -> dict[str, int]:
        selector = pafs.FileSelector(self._root, allow_not_found=True, recursive=is_recursive)
        start = len(self._root) + 1
        infos = self._filesystem.get_file_info(selector)
        return {info.path[start:]: info.size for info in infos if info.type == pafs.FileType.File}

    def _attempt(self, verb: str, name: str, call: Callable[[], Answer]) -> Answer:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return call()
            except FileNotFoundError as error:
                if "ucket" not in str(error):
                    raise
                raise self._error(verb, name, attempt, error) from None
            except (OSError, pa.ArrowException) as error:
                if attempt == MAX_ATTEMPTS or is_permanent(error):
                    raise self._error(verb, name, attempt, error) from None
                pause_s = PAUSES_S[attempt - 1]
                logger.warning("%s is not %s (%s); again in %g s", self.address(name), verb, line_of(error), pause_s)
                self._wait(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _error(self, verb: str, name: str, attempts: int, error: Exception) -> SharedStorageError:
        if is_permanent(error) or isinstance(error, FileNotFoundError):
            remedy = "check the address, the credentials in the environment and their rights"
        else:
            remedy = "check the network and the store, then start the query again; it loses nothing"
        times = f" after {attempts} attempts" if attempts > 1 else ""
        return SharedStorageError(f"spanwire: {self.address(name)} cannot be {verb}{times}: {line_of(error)}; {remedy}")


def is_permanent(error: Exception) -> bool:
    """Return True if another attempt fails in the same way."""
    return isinstance(error, PermissionError) or any(word in str(error) for word in PERMANENT)


def _is_absent(error: Exception) -> bool:
    return any(word in str(error) for word in ABSENT)


def line_of(error: Exception) -> str:
    """Return the text of an error in one line."""
    return " ".join(str(error).split())[:MAX_CAUSE]


@lru_cache(maxsize=16)
def open_files(address: str) -> ArrowFiles:
    """Return the files of a directory. The first request connects.

    Raises:
        ConfigurationError: the address is wrong, or a library of the file system is missing.
        SharedStorageError: the file system is away; another attempt may reach it.
    """
    location = parse(address)
    assert isinstance(location, Location)
    try:
        if location.scheme == S3:
            filesystem = s3_filesystem(location, os.environ)
            return ArrowFiles(filesystem, location.authority + location.path, str(location), has_directories=False)
        query = f"?{location.query}" if location.query else ""
        filesystem, root = pafs.FileSystem.from_uri(f"{location}{query}")
    except (OSError, ValueError, pa.ArrowException) as error:
        text = f"spanwire: {location} cannot be reached with PyArrow: {line_of(error)}"
        is_away = isinstance(error, OSError) and not is_permanent(error) and not _is_absent(error)
        if location.scheme in hadoop_classes.SCHEMES:
            lacking = hadoop_classes.missing_class(os.environ.get("CLASSPATH", "")) if is_away else None
            if lacking is not None:
                text += f"; no jar of CLASSPATH has {lacking}"
            is_away = is_away and lacking is None
            text += "; check the address and the network" if is_away else f"; {hadoop_classes.REMEDY}"
        raise (SharedStorageError if is_away else ConfigurationError)(text) from None
    return ArrowFiles(filesystem, root, str(location), has_directories=location.scheme != "gs")


def s3_filesystem(
    location: Location, environment: Mapping[str, str], attempts: int = CLIENT_ATTEMPTS
) -> pafs.S3FileSystem:
    """Return the S3 client.

    Credentials come from the environment, and so do the region and the endpoint if the address has none.

    Raises:
        OSError: the bucket's region cannot be found.
    """
    options = location.options
    region = options.get("region")
    address = options.get("endpoint_override") or next(filter(None, map(environment.get, ENDPOINTS)), "")
    scheme, _, endpoint = address.rpartition("://")
    if region is None and not endpoint and not any(environment.get(name) for name in REGIONS):
        region = pafs.resolve_s3_region(location.authority)
    return pafs.S3FileSystem(
        region=region,
        scheme=options.get("scheme") or scheme or None,
        endpoint_override=endpoint.rstrip("/") or None,
        connect_timeout=CONNECT_TIMEOUT_S,
        request_timeout=REQUEST_TIMEOUT_S,
        allow_delayed_open=True,  # a small file is written with one request
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=attempts),
    )
