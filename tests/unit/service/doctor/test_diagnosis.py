"""Each fault planted in the facts about a sound machine is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.management.health import DAY_S, Level
from spanwire.model.units import MIB
from spanwire.service.doctor.diagnosis import Finding, diagnose
from spanwire.service.doctor.facts import Certificate, Clock, Demands, Facts, Memory, Place, Port, Program

NOW_S = 1_795_000_000
GIB = 1024 * MIB
DATA = Path("/srv/spanwire")
DEMANDS = Demands(1000, GIB, store_limit_bytes=20 * GIB, segment_bytes=32 * MIB)
PROGRAM = Program((3, 13, 1), True, True, 20_000)
PLACE = Place(
    "data directory", DATA, DATA, 1000, 0o700, True, True, "ext4", 100 * GIB, 50 * GIB, sync_ms=(1.0, 0.8, 4.0)
)
PORT = Port("openwire", "tcp://0.0.0.0:61616", "0.0.0.0", 61616, False)
CERTIFICATE = Certificate("ssl", Path("/etc/b.pem"), Path("/etc/b.key"), NOW_S + 90 * DAY_S, 0o600)
SOUND = Facts(
    1000,
    NOW_S,
    PROGRAM,
    Memory(16 * GIB),
    Clock(True, 20_000),
    demands=DEMANDS,
    places=(PLACE,),
    ports=(PORT,),
    certificates=(CERTIFICATE,),
)


def faults(facts: Facts) -> list[Finding]:
    return [finding for finding in diagnose(facts) if finding.level is not Level.OK]


def place(**changes: object) -> Facts:
    return replace(SOUND, places=(replace(PLACE, **changes),))  # type: ignore[arg-type]


def test_a_sound_machine_has_no_fault_and_every_subject_is_named() -> None:
    assert not faults(SOUND)
    subjects = {finding.subject for finding in diagnose(SOUND)}
    assert subjects == {
        "configuration", "python", "build", "open files", "memory", "data directory", "file system", "disk", "sync",
        "port", "certificate", "extras", "clock",
    }  # fmt: skip


def test_no_advice_installs_from_an_index_that_does_not_have_the_package() -> None:
    found = diagnose(replace(SOUND, program=replace(PROGRAM, is_compiled=False, is_fast=False)))
    assert not [finding for finding in found if "pip install" in finding.advice]
    assert [finding.advice for finding in found if "uvloop" in finding.text] == [
        "install the extra speed (README.md, Install) if the broker has to be fast"
    ]


WARNING, CRITICAL = Level.WARNING, Level.CRITICAL
PLANTED: dict[str, tuple[Facts, Level, str, str]] = {
    "an obstacle of the file": (replace(SOUND, obstacles=("line 3: faulty",)), CRITICAL, "configuration", "line 3"),
    "a warning of the file": (replace(SOUND, warnings=("line 4: no effect",)), WARNING, "configuration", "line 4"),
    "old Python": (replace(SOUND, program=replace(PROGRAM, python=(3, 10, 2))), CRITICAL, "python", "is 3.10.2"),
    "few files": (replace(SOUND, program=replace(PROGRAM, open_files=1024)), WARNING, "open files", "need 1256"),
    "hardly any files": (
        replace(SOUND, program=replace(PROGRAM, open_files=256)),
        CRITICAL,
        "open files",
        "may open 256",
    ),
    "memory above the machine's": (replace(SOUND, memory=Memory(GIB // 2)), CRITICAL, "memory", "512 MiB are there"),
    "memory above the cgroup's": (
        replace(SOUND, memory=Memory(16 * GIB, GIB + GIB // 4, "/sys/fs/cgroup/memory.max")),
        WARNING,
        "memory",
        "/sys/fs/cgroup/memory.max: memoryUsage is 1,024 MiB, 1,280 MiB are there",
    ),
    "a file for a directory": (place(is_directory=False), CRITICAL, "data directory", "is a file"),
    "no right to write": (place(is_writable=False), CRITICAL, "data directory", "chown it to user 1000"),
    "no right to make it": (
        place(is_writable=False, seen=Path("/srv")),
        CRITICAL,
        "data directory",
        "cannot be made: this user may not write to /srv",
    ),
    "a foreign owner": (place(owner=33), CRITICAL, "data directory", "belongs to user 33"),
    "open to all": (place(mode=0o777), CRITICAL, "data directory", "chmod o-w /srv/spanwire"),
    "open to the group": (place(mode=0o770), WARNING, "data directory", "chmod g-w /srv/spanwire"),
    "memory as a disk": (place(file_system="tmpfs"), WARNING, "file system", "when the machine restarts"),
    "the layer of a container": (place(file_system="overlay"), WARNING, "file system", "mount a volume"),
    "a disk over the network": (place(file_system="nfs4"), WARNING, "file system", "is on nfs4"),
    "a limit above the disk": (place(free_bytes=GIB), WARNING, "disk", "storeUsage is 20,480 MiB, but only 1,024 MiB"),
    "no room for the journal": (place(free_bytes=32 * MIB), CRITICAL, "disk", "begins with 96 MiB"),
    "a disk nearly full": (
        replace(place(free_bytes=10 * GIB), demands=replace(DEMANDS, store_limit_bytes=0)),
        WARNING,
        "disk",
        "storeUsage has no limit",
    ),
    "a share above the free disk": (
        replace(SOUND, demands=replace(DEMANDS, store_limit_bytes=0, store_percent=70)),
        WARNING,
        "disk",
        "storeUsage is 71,680 MiB",
    ),
    "slow syncs": (place(sync_ms=(12.0, 20.0, 3.0)), WARNING, "sync", "median 12 ms"),
    "syncs that hang": (place(sync_ms=(900.0,)), CRITICAL, "sync", "sends 1 persistent messages a second"),
    "syncs that reach no disk": (place(sync_ms=(0.001, 0.002)), WARNING, "sync", "a power cut loses"),
    "no syncs": (place(sync_ms=(), sync_error="Input/output error"), CRITICAL, "sync", "Input/output error"),
    "a port in use": (
        replace(SOUND, ports=(replace(PORT, fault="port 61616 is in use; stop what listens there"),)),
        CRITICAL,
        "port",
        "connector openwire, tcp://0.0.0.0:61616: port 61616 is in use; stop what listens there",
    ),
    "one port twice, by name and by address": (
        replace(SOUND, ports=(replace(PORT, host="localhost"), replace(PORT, connector="stomp", host="127.0.0.1"))),
        CRITICAL,
        "port",
        "has the port of connector openwire",
    ),
    "one port of three twice": (
        replace(
            SOUND,
            ports=(
                replace(PORT, host="::1"),
                replace(PORT, connector="mqtt", host="127.0.0.1"),
                replace(PORT, connector="stomp", host="LOCALHOST"),
            ),
        ),
        CRITICAL,
        "port",
        "has the port of connector openwire",
    ),
    "one port twice": (
        replace(SOUND, ports=(PORT, replace(PORT, connector="stomp", host="127.0.0.1"))),
        CRITICAL,
        "port",
        "has the port of connector openwire",
    ),
    "a certificate near its end": (
        replace(SOUND, certificates=(replace(CERTIFICATE, expires_s=NOW_S + 5 * DAY_S),)),
        WARNING,
        "certificate",
        "ends in 5 days",
    ),
    "a key for all": (
        replace(SOUND, certificates=(replace(CERTIFICATE, key_mode=0o644),)),
        CRITICAL,
        "certificate",
        "chmod 600 /etc/b.key",
    ),
    "a key for the group": (
        replace(SOUND, certificates=(replace(CERTIFICATE, key_mode=0o640),)),
        WARNING,
        "certificate",
        "open to its group (mode 640)",
    ),
    "a missing extra": (
        replace(SOUND, missing=("<web> needs the extra web; run: pip",)),
        CRITICAL,
        "extras",
        "run: pip",
    ),
    "a free-running clock": (replace(SOUND, clock=Clock(True, 16_000_000)), WARNING, "clock", "run chrony"),
}


@pytest.mark.parametrize(("facts", "level", "subject", "part"), PLANTED.values(), ids=list(PLANTED))
def test_a_planted_fault_is_the_only_one_found(facts: Facts, level: Level, subject: str, part: str) -> None:
    (finding,) = faults(facts)
    assert (finding.level, finding.subject) == (level, subject)
    assert part in finding.line() and "\n" not in finding.line()


def test_a_refused_file_leaves_the_machine_to_judge() -> None:
    refused = replace(SOUND, obstacles=("line 3: faulty",), demands=None, places=(), ports=(), certificates=())
    assert {finding.subject for finding in diagnose(refused)} == {"configuration", "python", "build", "clock"}


def test_a_broker_without_a_store_needs_no_disk() -> None:
    facts = replace(place(file_system="tmpfs", free_bytes=0), demands=replace(DEMANDS, is_persistent=False))
    assert not faults(facts)


def test_files_of_the_journal_count_as_room() -> None:
    assert not faults(place(free_bytes=5 * GIB, used_bytes=16 * GIB))


def test_ports_of_the_running_broker_are_its_own() -> None:
    facts = replace(SOUND, running=4711, ports=(replace(PORT, is_own=True),))
    assert not faults(facts)
    assert "OK broker: a broker of this data directory runs, process 4711" in [one.line() for one in diagnose(facts)]


def test_two_hosts_share_a_port_number() -> None:
    ports = (replace(PORT, host="10.0.0.1"), replace(PORT, host="10.0.0.2", connector="second"))
    assert not faults(replace(SOUND, ports=ports))


def test_a_leap_second_is_announced() -> None:
    (finding,) = [one for one in diagnose(replace(SOUND, clock=Clock(True, 1, 1))) if "leap" in one.text]
    assert finding.level is Level.OK and "added" in finding.text
