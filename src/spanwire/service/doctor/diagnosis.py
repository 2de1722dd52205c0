"""Judges the facts about a machine: one finding for each expected fault, or one without fault.

Pure: facts in, findings out.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from spanwire.management.health import CERTIFICATE_DAYS, DAY_S, STORE_WARNING, Level
from spanwire.model.units import MIB
from spanwire.service.doctor.facts import Certificate, Clock, Demands, Facts, Memory, Place, Port, Program
from spanwire.stores.directory import RightsFault, rights_faults

OWN_FILES: Final = 256  # open files beside connections: the journal's segments, logs, links and the loop
OLDEST_PYTHON: Final = (3, 11)
MEMORY_SHARE: Final = 70  # percent; the interpreter, indexes and the buffers of sockets take the rest
FIRST_SEGMENTS: Final = 3  # an active segment, the reserve for a full disk, and one more to move to
SLOW_SYNC_MS: Final = 10.0  # a producer that waits for each answer sends at most 100 persistent messages a second
HANGING_SYNC_MS: Final = 250.0  # four such messages a second; clients and links begin to time out under load
INSTANT_SYNC_MS: Final = 0.005  # no disk answers within 5 µs, not even one with a battery behind its cache
UNSYNCHRONISED_US: Final = 16_000_000  # the bound of the error from which systemd, too, calls a clock unsynchronised
REMOTE: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs")
LOOPBACKS: Final = frozenset(("127.0.0.1", "::1"))  # what the name localhost may stand for
VOLATILE: Final = ("tmpfs", "ramfs")
OVERLAYS: Final = ("overlay", "aufs")
RIGHTS: Final = {  # level, what, what to do with it
    RightsFault.OWNER: (Level.CRITICAL, "belongs to user {owner}", "run the broker as that user, or change the owner"),
    RightsFault.EVERYBODY: (Level.CRITICAL, "can be written by everybody", "chmod o-w {path}"),
    RightsFault.OWNER_OF_ROOT: (Level.WARNING, "belongs to user {owner}, and root runs this", "run it as that user"),
    RightsFault.GROUP: (Level.WARNING, "can be written by its group", "chmod g-w {path}"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One result: subject, place (``where``), fault (``text``) and remedy (``advice``, "" for none)."""

    subject: str
    level: Level
    where: str
    text: str
    advice: str = ""

    def line(self) -> str:
        """Return the finding as one line."""
        where = f"{self.where}: " if self.where else ""
        return f"{self.level.name} {self.subject}: {where}{self.text}" + (f"; {self.advice}" if self.advice else "")


def diagnose(facts: Facts) -> list[Finding]:
    """Return the findings, by subject."""
    findings = [*_configuration(facts), *_program(facts.program)]
    if facts.demands is not None:
        findings += _open_files(facts.program, facts.demands)
        findings += _memory(facts.memory, facts.demands)
        for place in facts.places:
            findings += [*_rights(place, facts.user), *_file_system(place, facts.demands)]
            findings += [*_space(place, facts.demands), *_syncs(place, facts.demands)]
        findings += _ports(facts.ports, facts.running)
        for certificate in facts.certificates:
            findings += _certificate(certificate, facts.now_s)
        findings += _extras(facts.missing)
    findings += _clock(facts.clock)
    return findings


def _configuration(facts: Facts) -> Iterator[Finding]:
    for line in facts.obstacles:
        yield Finding("configuration", Level.CRITICAL, "", line)
    for line in facts.warnings:
        yield Finding("configuration", Level.WARNING, "", line)
    if not facts.obstacles and not facts.warnings:
        yield Finding("configuration", Level.OK, "", "spanwire start accepts it")


def _program(program: Program) -> Iterator[Finding]:
    version = ".".join(map(str, program.python))
    if program.python[:2] < OLDEST_PYTHON:
        yield Finding("python", Level.CRITICAL, "", f"is {version}", "install Python 3.11 or later")
    else:
        yield Finding("python", Level.OK, "", version)
    if program.is_compiled:
        yield Finding("build", Level.OK, "", "compiled")
    else:
        advice = "install the compiled one (README.md, Install) if the broker has to be fast"
        yield Finding("build", Level.OK, "", "pure Python, slower than the compiled one", advice)
    if not program.is_fast:
        advice = "install the extra speed (README.md, Install) if the broker has to be fast"
        yield Finding("build", Level.OK, "", "without one of httptools, uvloop and zlib-ng", advice)


def _open_files(program: Program, demands: Demands) -> Iterator[Finding]:
    limit, needed = program.open_files, demands.connections + OWN_FILES
    if limit is None or limit >= needed:
        shown = "unlimited" if limit is None else str(limit)
        yield Finding("open files", Level.OK, "", f"{shown} for {demands.connections} connections")
        return
    level = Level.CRITICAL if limit < 2 * OWN_FILES else Level.WARNING
    text = f"this user may open {limit}, {demands.connections} connections need {needed}"
    advice = f"ulimit -Hn {needed}, LimitNOFILE={needed} in the unit of systemd, or a lower maximumConnections"
    yield Finding("open files", level, "", text, advice)


def _memory(memory: Memory, demands: Demands) -> Iterator[Finding]:
    known = [size for size in (memory.total_bytes, memory.cgroup_bytes) if size is not None]
    if not known:
        yield Finding("memory", Level.OK, "", "the size of this machine's memory is not known")
        return
    room, limit = min(known), demands.memory_limit_bytes
    where = memory.cgroup_file if memory.cgroup_bytes == room else "this machine"
    shown = f"memoryUsage is {_mib(limit)}, {_mib(room)} are there"
    advice = f"set memoryUsage to at most {_mib(room * MEMORY_SHARE // 100)}, or give the broker more memory"
    if limit >= room:
        yield Finding("memory", Level.CRITICAL, where, f"{shown}: the system ends the broker before it is full", advice)
    elif limit * 100 > room * MEMORY_SHARE:
        text = f"{shown}: connections, indexes and Python itself need the rest"
        yield Finding("memory", Level.WARNING, where, text, advice)
    else:
        yield Finding("memory", Level.OK, where, shown)


def _rights(place: Place, user: int) -> Iterator[Finding]:
    where = str(place.path)
    if not place.is_directory:
        yield Finding(place.name, Level.CRITICAL, str(place.seen), "is a file", "name a directory")
        return
    exists = place.path == place.seen
    if not place.is_writable:
        text = "this user may not write to it" if exists else f"cannot be made: this user may not write to {place.seen}"
        advice = f"chown it to user {user}, or name another directory"
        yield Finding(place.name, Level.CRITICAL, where, text, advice)
        return
    faults = rights_faults(place.owner, place.mode, user) if exists else []
    for fault in faults:
        level, text, advice = RIGHTS[fault]
        yield Finding(place.name, level, where, text.format(owner=place.owner), advice.format(path=place.path))
    if not faults:
        state = "usable" if exists else f"is made at the first start, in {place.seen}"
        yield Finding(place.name, Level.OK, where, state)


def _file_system(place: Place, demands: Demands) -> Iterator[Finding]:
    kind, where = place.file_system, str(place.path)
    if not demands.is_persistent:
        return
    if kind in VOLATILE:
        text = f"is on {kind}: stored messages are gone when the machine restarts"
        yield Finding("file system", Level.WARNING, where, text, "name a directory on a disk")
    elif kind in OVERLAYS:
        text = f"is on {kind}: stored messages are gone with the container"
        yield Finding("file system", Level.WARNING, where, text, "mount a volume there")
    elif kind in REMOTE:
        text = f"is on {kind}: locks and syncs are as good as the server's, and a server that hangs stops the broker"
        advice = "name a disk of this machine; a shared store for a standby wants NFS 4, mounted hard, and a lease"
        yield Finding("file system", Level.WARNING, where, text, advice)
    elif kind:
        yield Finding("file system", Level.OK, where, kind)


def _space(place: Place, demands: Demands) -> Iterator[Finding]:
    if not demands.is_persistent or not place.total_bytes:
        return
    where, free = str(place.path), place.free_bytes
    limit = demands.store_limit_bytes or place.total_bytes * demands.store_percent // 100
    room = free + place.used_bytes
    first = FIRST_SEGMENTS * demands.segment_bytes
    if room < first:
        text = f"{_mib(free)} are free; the journal begins with {_mib(first)}"
        yield Finding("disk", Level.CRITICAL, where, text, "make room, or set a smaller journalMaxFileLength")
    elif limit > room:
        text = f"storeUsage is {_mib(limit)}, but only {_mib(room)} are free: sends wait before it is reached"
        yield Finding("disk", Level.WARNING, where, text, "set a lower limit, or make room")
    elif free * 100 < place.total_bytes * (100 - STORE_WARNING) and not limit:
        text = f"{_mib(free)} of {_mib(place.total_bytes)} are free, and storeUsage has no limit"
        yield Finding("disk", Level.WARNING, where, text, "make room, or set storeUsage")
    else:
        limited = f" for storeUsage of {_mib(limit)}" if limit else ""
        yield Finding("disk", Level.OK, where, f"{_mib(free)} free{limited}")


def _syncs(place: Place, demands: Demands) -> Iterator[Finding]:
    if not demands.is_persistent:
        return
    where = str(place.seen)
    if place.sync_error:
        yield Finding(
            "sync", Level.CRITICAL, where, f"the disk cannot be synced: {place.sync_error}", "see the kernel's log"
        )
    if not place.sync_ms:
        return
    typical, worst = median(place.sync_ms), max(place.sync_ms)
    shown = f"median {typical:.3g} ms, worst {worst:.3g} ms of {len(place.sync_ms)} syncs"
    rate = f"a producer that waits for each answer sends {1000 / max(typical, 0.001):,.0f} persistent messages a second"
    advice = "use a local SSD, let producers send without waiting or in transactions"
    if typical >= HANGING_SYNC_MS:
        yield Finding("sync", Level.CRITICAL, where, f"{shown}: {rate}", advice)
    elif typical >= SLOW_SYNC_MS:
        yield Finding("sync", Level.WARNING, where, f"{shown}: {rate}", advice)
    elif typical < INSTANT_SYNC_MS and place.file_system not in VOLATILE:
        text = f"{shown}: nothing reaches a disk so fast, so a power cut loses what was answered"
        yield Finding(
            "sync", Level.WARNING, where, text, "find what ignores syncs, such as eatmydata or a mount option"
        )
    else:
        yield Finding("sync", Level.OK, where, shown)


def _ports(ports: tuple[Port, ...], running: int) -> Iterator[Finding]:
    if running:
        yield Finding("broker", Level.OK, "", f"a broker of this data directory runs, process {running}")
    taken: dict[int, list[Port]] = {}
    for port in ports:
        where = f"connector {port.connector}, {port.uri}"
        others = taken.setdefault(port.port, [])
        other = next((one for one in others if _overlap(one.host, port.host)), None)
        if other is not None and port.port:
            text = f"has the port of connector {other.connector}"
            yield Finding("port", Level.CRITICAL, where, text, "give one of them another port")
            continue
        others.append(port)
        if port.is_own:
            yield Finding("port", Level.OK, where, "the running broker listens there")
        elif port.fault:
            what, _, advice = port.fault.partition("; ")
            yield Finding("port", Level.CRITICAL, where, what, advice)
        else:
            reach = "this machine" if port.is_loopback else "other machines"
            yield Finding("port", Level.OK, where, f"free, for clients of {reach}")


def _overlap(one: str, other: str) -> bool:
    """Return True if both hosts may be one address. The name localhost is the loopback of both families."""
    everywhere = ("", "0.0.0.0", "::")
    if one in everywhere or other in everywhere:
        return True
    return not _addresses(one).isdisjoint(_addresses(other))


def _addresses(host: str) -> frozenset[str]:
    name = host.lower().strip("[]")
    return LOOPBACKS if name == "localhost" else frozenset((name,))


def _certificate(certificate: Certificate, now_s: int) -> Iterator[Finding]:
    where = f"connector {certificate.connector}, {certificate.path}"
    days = (certificate.expires_s - now_s) // DAY_S
    if days < 0:
        yield Finding("certificate", Level.CRITICAL, where, f"ended {-days} days ago", "make a new one")
    elif days < CERTIFICATE_DAYS:
        yield Finding("certificate", Level.WARNING, where, f"ends in {days} days", "get a new one")
    else:
        yield Finding("certificate", Level.OK, where, f"good for {days} days, its key matches")
    readers = certificate.key_mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH)
    if readers:
        whom = "everybody" if certificate.key_mode & (stat.S_IROTH | stat.S_IWOTH) else "its group"
        text = f"{certificate.key_path} with the private key is open to {whom} (mode {certificate.key_mode:o})"
        level = Level.CRITICAL if whom == "everybody" else Level.WARNING
        yield Finding("certificate", level, where, text, f"chmod 600 {certificate.key_path}")


def _extras(missing: tuple[str, ...]) -> Iterator[Finding]:
    for line in missing:
        what, _, advice = line.partition("; ")
        yield Finding("extras", Level.CRITICAL, "", what, advice)
    if not missing:
        yield Finding("extras", Level.OK, "", "all that the configuration needs are installed")


def _clock(clock: Clock) -> Iterator[Finding]:
    if not clock.is_known:
        yield Finding("clock", Level.OK, "", "whether it is synchronised cannot be asked here")
        return
    if clock.max_error_us >= UNSYNCHRONISED_US:
        text = (
            "is not synchronised: messages expire too early or late between machines, and TLS may refuse certificates"
        )
        yield Finding("clock", Level.WARNING, "", text, "run chrony, ntpd or systemd-timesyncd")
    else:
        yield Finding("clock", Level.OK, "", f"synchronised, at most {clock.max_error_us / 1000:.3g} ms off")
    if clock.leap:
        change = "added" if clock.leap > 0 else "left out"
        text = f"a leap second is {change} at the end of this day: times of expiry and schedules shift by it"
        yield Finding("clock", Level.OK, "", text, "nothing, unless schedules of a second matter")


def _mib(size: int) -> str:
    return f"{size // MIB:,} MiB"
