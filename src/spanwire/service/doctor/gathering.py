"""Asks this machine for the facts of a diagnosis.

Ports are bound and closed at once. The syncs write a file of a few kilobytes in the directory of the
journal, or in the existing directory above, and remove the file again.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import resource
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from spanwire._build import COMPILED
from spanwire.bridges.running.process import check_bridge
from spanwire.extras import install_command
from spanwire.management.running_brokers import running_brokers
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.service.children.web_process import EXTRA as WEB_EXTRA
from spanwire.service.children.web_process import NEEDED as WEB_NEEDED
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.data_directory import data_directory
from spanwire.service.doctor.facts import Certificate, Demands, Facts, Place, Port, Program
from spanwire.service.doctor.system import clock, file_system, memory
from spanwire.tls.context import server_context
from spanwire.transports import tcp
from spanwire.transports.admission import is_loopback
from spanwire.transports.base import MAX_CONNECTIONS, ConnectorSettings

SYNCS: Final = 8  # enough for a median that one slow sync does not move; 80 ms on a slow disk
SYNC_BYTES: Final = 4096  # bytes before each sync; a batch of some small messages
SYNC_BUDGET_S: Final = 3.0  # seconds after which no further sync is tried, on a disk that hangs
MAX_FILES: Final = 100_000  # files of a data directory whose sizes are added; a journal of 3 TiB has that many
SPEED_PACKAGES: Final = ("httptools", "uvloop", "zlib_ng")


def gather(
    configuration: BrokerConfiguration | None,
    obstacles: Iterable[str],
    warnings: Iterable[str],
    override: Path | None,
    environment: Mapping[str, str],
) -> Facts:
    """Return the facts; for a refused configuration (None) only the facts of the machine.

    ``obstacles`` and ``warnings`` are those of `spanwire config check`, ``override`` is the data directory of the
    command line. Blocks for at most some seconds, for the syncs and the names of hosts.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    del soft  # the broker raises it to the hard one
    is_fast = all(importlib.util.find_spec(name) is not None for name in SPEED_PACKAGES)
    open_files = None if hard == resource.RLIM_INFINITY else hard
    program = Program(sys.version_info[:3], COMPILED, is_fast, open_files)
    now_s = int(time.time())
    if configuration is None:
        return Facts(os.geteuid(), now_s, program, memory(), clock(), tuple(obstacles), tuple(warnings))
    directory = data_directory(configuration, override, environment)
    running = [broker for broker in running_brokers(environment) if broker.data_directory == str(directory)]
    own = {uri for broker in running for uri in broker.connectors if not broker.waits_for}
    return Facts(
        os.geteuid(),
        now_s,
        program,
        memory(),
        clock(),
        tuple(obstacles),
        tuple(warnings),
        _demands(configuration),
        tuple(_places(configuration, directory)),
        tuple(asyncio.run(_ports(_listening(configuration), own))),
        tuple(_certificates(_listening(configuration))),
        tuple(_missing(configuration)),
        next((broker.pid for broker in running), 0),
    )


def _demands(configuration: BrokerConfiguration) -> Demands:
    persistence, usage = configuration.persistence, configuration.usage
    connections = sum(connector.maximum_connections for connector in configuration.connectors)
    return Demands(
        min(connections, MAX_CONNECTIONS),
        usage.memory_limit_bytes,
        persistence.persistent,
        usage.store.limit_bytes,
        usage.store.percent,
        persistence.segment_bytes,
    )


def _places(configuration: BrokerConfiguration, directory: Path) -> Iterator[Place]:
    persistence = configuration.persistence
    journal = directory if persistence.directory is None else persistence.directory.absolute()
    if not persistence.persistent:
        return
    yield _place("data directory", directory, syncs=journal == directory and persistence.sync)
    if journal != directory:
        yield _place("journal", journal, syncs=persistence.sync)


def _place(name: str, path: Path, *, syncs: bool) -> Place:
    seen = path
    while not os.path.exists(seen) and seen != seen.parent:  # a directory that may not be read counts as absent
        seen = seen.parent
    status, room = seen.stat(), os.statvfs(seen)
    is_directory = stat.S_ISDIR(status.st_mode)
    is_writable = os.access(seen, os.W_OK | os.X_OK)
    times: tuple[float, ...] = ()
    error = ""
    if syncs and is_directory and is_writable:
        try:
            times = tuple(_sync_times(seen))
        except OSError as fault:
            error = fault.strerror or str(fault)
    return Place(
        name,
        path,
        seen,
        status.st_uid,
        stat.S_IMODE(status.st_mode),
        is_directory,
        is_writable,
        file_system(seen),
        room.f_frsize * room.f_blocks,
        room.f_frsize * room.f_bavail,
        _used(path) if path == seen and is_directory else 0,
        times,
        error,
    )


def _sync_times(directory: Path) -> Iterator[float]:
    """Yield the milliseconds of some syncs of a temporary file. Raises `OSError`."""
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix=".spanwire-doctor-", dir=directory) as file:
        for _ in range(SYNCS):
            file.write(bytes(SYNC_BYTES))
            file.flush()
            before = time.perf_counter()
            os.fsync(file.fileno())
            yield (time.perf_counter() - before) * 1000
            if time.monotonic() - begin > SYNC_BUDGET_S:
                return


def _used(directory: Path) -> int:
    """Return the bytes of the readable files of a data directory and the subdirectories."""
    total = seen = 0
    for path, _, names in os.walk(directory):
        for name in names:
            seen += 1
            try:
                total += os.lstat(Path(path) / name).st_size
            except OSError:
                continue
        if seen > MAX_FILES:
            break
    return total


def _listening(configuration: BrokerConfiguration) -> list[ConnectorSettings]:
    """Return the connectors to open with the broker, and the port of the web process."""
    connectors = [connector for connector in configuration.connectors if connector.auto_start]
    web = configuration.web
    if web is not None:
        scheme = "http" if web.tls is None else "https"
        connectors.append(
            ConnectorSettings(name="web", scheme=scheme, host=web.host, port=web.port, protocol="http", tls=web.tls)
        )
    return connectors


async def _ports(connectors: Iterable[ConnectorSettings], own: set[str]) -> list[Port]:
    """Try the ports of connectors; ``own`` are the addresses of a running broker of the data directory."""
    ports = []
    for settings in connectors:
        fault, reaches_others = "", False
        try:
            addresses = await tcp.resolve(settings)
            reaches_others = not all(is_loopback(host) for _, host in addresses)
            family, host = addresses[0]
            tcp.bind(settings, family, host).close()
        except SpanwireError as error:
            fault = str(error).removeprefix(f"connector {settings.name}: ")
        uri = settings.uri()
        is_own = bool(fault) and uri in own
        ports.append(
            Port(settings.name, uri, settings.host, settings.port, not reaches_others, "" if is_own else fault, is_own)
        )
    return ports


def _certificates(connectors: Iterable[ConnectorSettings]) -> Iterator[Certificate]:
    """Yield the usable certificates of connectors, each once; `spanwire config check` names the others."""
    seen = set()
    for settings in connectors:
        tls = settings.tls
        if tls is None or tls.key_store.path in seen:
            continue
        seen.add(tls.key_store.path)
        key_path = tls.key_store.key_path or tls.key_store.path
        try:
            expires_s, status = server_context(tls).expires_s, key_path.stat()
        except (ConfigurationError, OSError):
            continue
        mode = stat.S_IMODE(status.st_mode)
        yield Certificate(settings.name, tls.key_store.path, key_path, expires_s, mode)


def _missing(configuration: BrokerConfiguration) -> Iterator[str]:
    """Yield a line for each needed extra outside of the report of `spanwire config check`."""
    if configuration.web is not None and not _installed(*WEB_NEEDED):
        yield f"<web> needs the extra {WEB_EXTRA}; run: {install_command(WEB_EXTRA)}"
    if configuration.tracing is not None and not _installed("opentelemetry"):
        yield f"<tracing> needs the extra tracing; run: {install_command('tracing')}"
    for definition in (*configuration.bridges, *configuration.routes):
        try:
            check_bridge(definition)
        except ConfigurationError as error:
            yield str(error)


def _installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in packages)
