"""Facts about a machine and the demands of a configuration, from `gathering` for `diagnosis`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Demands:
    """Demands of a configuration on its machine.

    ``connections`` is the limit of all connectors together. The limits of store and temporary usage are in bytes, or in
    percent of the file system; 0 means the whole disk.
    """

    connections: int
    memory_limit_bytes: int
    is_persistent: bool = True
    store_limit_bytes: int = 0
    store_percent: int = 0
    segment_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """The running Python: version, build, and the highest number of open files (None without a limit)."""

    python: tuple[int, int, int]
    is_compiled: bool
    is_fast: bool  # the extra `speed` is installed
    open_files: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes of memory of the machine, and the limit of the cgroup (None without a limit or a cgroup)."""

    total_bytes: int | None
    cgroup_bytes: int | None = None
    cgroup_file: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of the broker, or the existing directory above a missing one.

    ``path`` is the directory itself and ``seen`` the existing directory. ``used_bytes`` is the size of all files.
    ``sync_ms`` has the times of some syncs, in milliseconds; ``sync_error`` is the reason for an empty ``sync_ms``.
    """

    name: str
    path: Path
    seen: Path
    owner: int
    mode: int
    is_directory: bool
    is_writable: bool
    file_system: str
    total_bytes: int
    free_bytes: int
    used_bytes: int = 0
    sync_ms: tuple[float, ...] = ()
    sync_error: str = ""


@dataclass(frozen=True, slots=True)
class Clock:
    """The kernel's view of the wall clock; ``max_error_us`` is the bound of the error in microseconds.

    ``leap`` is 1 if a second is added at the end of the day, -1 if one is left out. ``is_known`` is False where the
    kernel cannot be asked.
    """

    is_known: bool
    max_error_us: int = 0
    leap: int = 0


@dataclass(frozen=True, slots=True)
class Port:
    """A connector's address, tried. ``fault`` is the error of the attempt, "" where the port is free.

    With ``is_own`` the broker of this data directory already listens there.
    """

    connector: str
    uri: str
    host: str
    port: int
    is_loopback: bool
    fault: str = ""
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """A usable certificate of a connector, and the mode of the file with the key."""

    connector: str
    path: Path
    key_path: Path
    expires_s: int
    key_mode: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts about machine, user and file.

    ``missing`` has one line for each missing extra, ``obstacles`` and ``warnings`` belong to the file. ``user`` is the
    number of the user, ``now_s`` the wall clock in seconds since 1970. ``running`` is the process of a broker that
    already uses the data directory, 0 without a process.
    """

    user: int
    now_s: int
    program: Program
    memory: Memory
    clock: Clock
    obstacles: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    demands: Demands | None = None  # None where the configuration is refused
    places: tuple[Place, ...] = ()
    ports: tuple[Port, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    missing: tuple[str, ...] = field(default=())
    running: int = 0
