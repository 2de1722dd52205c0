"""A disk that is really full, a file system of a few megabytes: producers wait, consumers go on, nothing is lost.

Mounting needs root; for others these tests are skipped with that reason.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.faults.broker import FragileBroker
from tests.faults.load import (
    INPUT,
    ORDERED,
    OUTPUT,
    QUEUES,
    SHARED,
    BrokerGoneError,
    MixedLoad,
    OpenWireProducer,
    StompConsumer,
    StompProducer,
    drain,
    until,
    verdict_of,
)
from tests.support.histories import keep
from tests.support.total_queue import Ledger

DISK_BYTES: Final = 10 * 1024 * 1024
BALLAST_BYTES: Final = 3 * 1024 * 1024
PATIENCE_S: Final = 90.0
FULL: Final = "the disk is full"
AGAIN: Final = "room on the disk again"


def mount(directory: Path, *arguments: str) -> None:
    subprocess.run(["mount", *arguments, str(directory)], check=True, capture_output=True, text=True)


def small_disk(kind: str, tmp_path: Path) -> Path:
    """A mounted file system of `DISK_BYTES`; skips where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory = tmp_path / "broker" / "data"
    directory.mkdir(parents=True)
    try:
        if kind == "tmpfs":
            mount(directory, "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs")
        else:
            image = tmp_path / "image"
            image.write_bytes(b"")
            os.truncate(image, DISK_BYTES)
            subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
            mount(directory, "-o", "loop", str(image))
            directory.chmod(0o700)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no {kind} can be mounted here: {error}")
    return directory


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    directory = small_disk(request.param, tmp_path)
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def says(broker: FragileBroker, words: str, times: int = 1) -> Callable[[], bool]:
    return lambda: sum(words in line for line in broker.log) >= times


class Filling:
    """Producers of both protocols without a consumer. A commit is refused on a full disk, so there is none."""

    def __init__(self, ledger: Ledger, broker: FragileBroker, name: str = "f") -> None:
        self.clients: Final = [
            OpenWireProducer(ledger, f"{name}.op", broker.openwire_port),
            StompProducer(ledger, f"{name}.sp", broker.stomp_port, transacts=False),
        ]
        for client in self.clients:
            client.start()

    def rounds(self) -> list[int]:
        return [client.rounds for client in self.clients]

    def all_beyond(self, before: list[int]) -> bool:
        return all(now > then for now, then in zip(self.rounds(), before, strict=True))

    def end(self) -> None:
        for client in self.clients:
            client.leave()
        for client in self.clients:
            client.join(PATIENCE_S)
            assert not client.is_alive(), f"{client.name} does not end"
            assert client.fault is None, client.fault


def checked(ledger: Ledger, name: str) -> None:
    verdict = verdict_of(ledger)
    if not verdict.ok:
        path = keep(name, 0, verdict.report(), "python -m pytest tests/faults/test_full_disk.py", ledger.lines())
        raise AssertionError(f"{verdict.report()}\nhistory: {path}")
    assert verdict.sent > 0


def test_producers_wait_while_the_disk_is_full_and_go_on_by_themselves(disk: Path, tmp_path: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    ledger = Ledger()
    with FragileBroker(tmp_path / "broker") as broker:
        filling = Filling(ledger, broker)
        until(says(broker, FULL), "that the disk is full")
        consumer = StompConsumer(ledger, "c", broker.stomp_port, SHARED, every=1)
        consumer.start()
        until(lambda: consumer.taken >= 500, "that a consumer goes on")  # five windows: acknowledgements are taken
        before = filling.rounds()
        ballast.unlink()
        until(says(broker, AGAIN), "that there is room again")
        until(lambda: filling.all_beyond(before), "that producers go on")
        until(says(broker, FULL, 2), "that the disk is full again")
        takers = [consumer]
        takers += [
            StompConsumer(ledger, f"t.{queue}", broker.stomp_port, queue, every=1) for queue in (ORDERED, INPUT, OUTPUT)
        ]
        for taker in takers[1:]:
            taker.start()
        until(says(broker, AGAIN, 2), "that consumers make room")
        before = filling.rounds()
        until(lambda: filling.all_beyond(before), "that producers live on it")
        filling.end()
        for taker in takers:
            taker.leave()
            taker.join(PATIENCE_S)
            assert taker.fault is None, taker.fault
        drain(ledger, broker.stomp_port, "d2")
        assert broker.stop() == 0
        broker.start()
        drain(ledger, broker.stomp_port, "d3")
        assert "Traceback" not in "".join(broker.log)
    checked(ledger, "full-disk")


@pytest.mark.parametrize("disk", ["tmpfs"], indirect=True)
def test_a_broker_killed_on_a_full_disk_starts_again_and_goes_on_when_there_is_room(disk: Path, tmp_path: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    ledger = Ledger()
    with FragileBroker(tmp_path / "broker") as broker:
        fill_and_kill(ledger, broker)
        ballast.unlink()
        drain(ledger, broker.stomp_port, "d1")
        load = MixedLoad(ledger, "after")
        with suppress(BrokerGoneError):
            load.start(broker.openwire_port, broker.stomp_port)
        until(lambda: load.rounds > len(QUEUES) * 10, "that everybody works again")
        load.end()
        drain(ledger, broker.stomp_port, "d2")
    checked(ledger, "full-disk-killed")


def test_a_disk_without_room_for_the_last_acknowledgement_goes_on_when_it_grows(tmp_path: Path) -> None:
    directory = small_disk("tmpfs", tmp_path)
    ledger = Ledger()
    try:
        with FragileBroker(tmp_path / "broker") as broker:
            fill_and_kill(ledger, broker)
            takers = [StompConsumer(ledger, f"t.{queue}", broker.stomp_port, queue, every=1) for queue in QUEUES]
            for taker in takers:
                taker.start()
            until(lambda: stalled(takers), "that nothing comes any more")
            mount(directory, "-o", f"remount,size={2 * DISK_BYTES}")
            for taker in takers:
                taker.leave()
                taker.join(PATIENCE_S)
                assert not taker.is_alive() and taker.fault is None, taker.fault
            drain(ledger, broker.stomp_port, "d")
            assert broker.stop() == 0
    finally:
        subprocess.run(["umount", str(directory)], check=True)
    checked(ledger, "full-disk-grows")


def fill_and_kill(ledger: Ledger, broker: FragileBroker) -> None:
    """Three times: producers until the disk is full, a kill and a start.

    A start on a full disk may say so by itself, before a producer is there: the lines are counted before the start.
    """
    times = 1
    for name in ("one", "two", "three"):
        filling = Filling(ledger, broker, name)
        until(says(broker, FULL, times), "that the disk is full")
        broker.kill()
        filling.end()
        times = sum(FULL in line for line in broker.log) + 1
        broker.start()


def stalled(takers: list[StompConsumer]) -> bool:
    """Whether nobody gets anything for a while."""
    before = [taker.taken for taker in takers]
    threading.Event().wait(1.5)
    return min(before) > 0 and before == [taker.taken for taker in takers]
