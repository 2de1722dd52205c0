"""The running brokers of one user: a directory with a file for each, locked while the broker runs.

    $XDG_RUNTIME_DIR/spanwire/4711-3f2a….json      or /run/user/UID/spanwire, or spanwire-UID in the temporary directory

The kernel releases a lock at the end of its process, however the process ends. So an entry without a lock belongs to a
dead broker, and the reader removes it. Directories writable by other users are not read.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

from spanwire import registry

logger = logging.getLogger(__name__)

RUNTIME_VARIABLE: Final = "XDG_RUNTIME_DIR"
DIRECTORY_MODE: Final = 0o700
ENTRY_MODE: Final = 0o600
TEMPORARY: Final = "/tmp"  # `tempfile` would choose it, too, but loads seven modules
SUFFIX: Final = ".json"
MAX_ENTRY_BYTES: Final = 64 * 1024  # bytes of an entry; enough for 500 connectors
MAX_ENTRIES: Final = 1_000  # entries read in one directory; others are ignored


class _Digest(Protocol):
    def hexdigest(self) -> str: ...


class ListedBroker(NamedTuple):
    """A broker from an entry; ``configuration`` is the absolute path of the file, "" without a file.

    ``waits_for`` is the directory with the lock for which a standby waits, "" for a running broker.
    """

    name: str
    pid: int
    data_directory: str
    configuration: str
    connectors: tuple[str, ...]
    started_ms: int
    waits_for: str = ""


class RunningEntry:
    """The entry of a broker of the process, until `withdraw` or the end of the process."""

    def __init__(self, directory: Path, broker: ListedBroker) -> None:
        """Make the entry. Raises `OSError` if the directory or the entry cannot be made."""
        _make_directory(directory)
        sha256 = cast(Callable[[bytes], _Digest], registry.load(registry.SHA256))
        digest = sha256(os.fsencode(broker.data_directory)).hexdigest()[:16]
        self._path: Final = directory / f"{broker.pid}-{digest}{SUFFIX}"
        temporary = self._path.with_suffix(".new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(temporary, flags, ENTRY_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._descriptor, json.dumps(broker._asdict()).encode("utf-8"))
            temporary.rename(self._path)  # readers see only locked entries
        except BaseException:
            os.close(self._descriptor)
            raise

    def withdraw(self) -> None:
        """Remove the entry. May be called twice."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def announce(broker: ListedBroker, environment: Mapping[str, str]) -> RunningEntry | None:
    """Make the entry of a started broker.

    Returns:
        None after a logged failure; the broker runs nevertheless.
    """
    directory = _directories(environment)[0]
    try:
        return RunningEntry(directory, broker)
    except OSError as error:
        logger.warning(
            "%s: %s; spanwire list does not show this broker: name it with --data-directory",
            directory,
            error.strerror or error,
        )
        return None


def running_brokers(environment: Mapping[str, str]) -> list[ListedBroker]:
    """Return the running brokers of the user, by name, and standbys without a running master.

    Removes the entries of dead brokers.
    """
    brokers: dict[str, ListedBroker] = {}
    for broker in _entries(environment):
        if not broker.waits_for or broker.data_directory not in brokers:
            brokers[broker.data_directory] = broker
    return _sorted(brokers.values())


def standbys(environment: Mapping[str, str]) -> list[ListedBroker]:
    """Return the waiting standbys of the user, by name."""
    return _sorted(broker for broker in _entries(environment) if broker.waits_for)


def _sorted(brokers: Iterable[ListedBroker]) -> list[ListedBroker]:
    return sorted(brokers, key=lambda broker: (broker.name, broker.data_directory, broker.pid))


def _entries(environment: Mapping[str, str]) -> Iterator[ListedBroker]:
    """Yield the brokers of locked entries."""
    for directory in _directories(environment):
        if not _is_own(directory):
            continue
        entries = sorted(path for path in directory.iterdir() if path.suffix == SUFFIX)
        for path in entries[:MAX_ENTRIES]:
            broker = _read(path)
            if broker is not None:
                yield broker


def _directories(environment: Mapping[str, str]) -> list[Path]:
    """Return the directories of entries; a new entry goes into the first.

    All are read, because a service often lacks the environment variables of a login.
    """
    user = os.geteuid()
    runtime = Path(environment.get(RUNTIME_VARIABLE) or f"/run/user/{user}")
    temporary = Path(environment.get("TMPDIR") or TEMPORARY) / f"spanwire-{user}"
    return [runtime / "spanwire", temporary] if _is_own(runtime) else [temporary]


def _is_own(directory: Path) -> bool:
    """Return True for a directory with write permission for the user alone."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _make_directory(directory: Path) -> None:
    directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    if not _is_own(directory):
        raise PermissionError(0, "belongs to another user, or others can write to it")


def _read(path: Path) -> ListedBroker | None:
    """Return the broker of an entry; None for dead brokers and foreign files."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _parsed(os.read(descriptor, MAX_ENTRY_BYTES))
        path.unlink(missing_ok=True)
        return None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _parsed(content: bytes) -> ListedBroker | None:
    try:
        values = json.loads(content)
        return ListedBroker(
            str(values["name"]),
            int(values["pid"]),
            str(values["data_directory"]),
            str(values["configuration"]),
            tuple(str(uri) for uri in values["connectors"]),
            int(values["started_ms"]),
            str(values.get("waits_for", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None
