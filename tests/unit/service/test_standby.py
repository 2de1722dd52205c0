"""A standby and the lease of its master, in one process: it must be able to serve before it ends the master."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from spanwire.model.errors import FencedError, SpanwireError, StoreError
from spanwire.service.config.model import LockConfiguration, PersistenceConfiguration
from spanwire.service.persistence import Persistence
from spanwire.service.standby import Standby
from spanwire.stores.directory import DataDirectory
from spanwire.stores.epoch import read_epoch
from spanwire.stores.journal.segments.segment import (
    FORMAT_VERSION,
    encode_segment_header,
    header_sum,
    segment_name,
)
from spanwire.transports.base import TransportError
from spanwire.transports.connector import TransportConnector

LOCK = LockConfiguration(lease_ms=20, keep_alive_ms=1, retry_ms=1)
LEASE = PersistenceConfiguration(lock=LOCK)


class Port:
    """What a standby uses of a connector, with a port that is taken for the first ``taken`` times."""

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken
        self.is_bound = False

    async def bind(self) -> None:
        if self.taken > 0:
            self.taken -= 1
            raise TransportError("port 61616 is in use")
        self.is_bound = True

    def stop(self) -> None:
        self.is_bound = False


class Renewed(Port):
    """A port whose host is looked up until the lease was renewed."""

    def __init__(self, journal: Path) -> None:
        super().__init__()
        self._journal = journal

    async def bind(self) -> None:
        first = read_epoch(self._journal)
        assert first
        while read_epoch(self._journal) == first:
            await asyncio.sleep(0.001)
        await super().bind()


@contextmanager
def hanging_master(directory: Path) -> Iterator[Persistence]:
    master = Persistence(directory, LEASE, "a")
    master.lock()
    yield master
    master.release()


def ends_without_a_word(master: Persistence) -> None:
    """As after kill -9: the locks are free, and the epoch stays as it is."""
    assert master.epoch is not None
    master.epoch.close()
    master.epoch = None
    master.release()


def standby_of(persistence: Persistence, ports: list[Port], waits: list[Path]) -> Standby:
    """A standby that has entered."""
    standby = Standby(persistence, LOCK, waits.append, lambda error: None)

    async def enter() -> None:
        async with asyncio.timeout(30):
            await standby.enter(cast("list[TransportConnector]", ports), asyncio.Event())

    try:
        asyncio.run(enter())
    except SpanwireError:
        standby.stop()
        persistence.release()
        raise
    return standby


def test_a_standby_ends_no_master_before_its_ports_are_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Looking(Port):
        async def bind(self) -> None:
            assert free.is_bound
            master.check_owner()
            assert master.lost_lock() is None
            await super().bind()

    free, taken, waits = Port(), Looking(3), list[Path]()
    with hanging_master(tmp_path) as master, caplog.at_level(logging.WARNING):
        persistence = Persistence(tmp_path, LEASE, "b")
        standby = standby_of(persistence, [free, taken], waits)
        with pytest.raises(FencedError, match=r"b .* has taken over the store with epoch 2"):
            master.check_owner()
        standby.stop()
        persistence.release()
    assert taken.is_bound
    assert waits == [tmp_path]  # it waited all the time, and said so once
    told = [line for line in caplog.messages if "cannot take over: port 61616 is in use; it tries again" in line]
    assert len(told) == 1
    assert "the lease of a (process" in "".join(caplog.messages)


def test_a_broker_without_a_master_that_cannot_bind_ends(tmp_path: Path) -> None:
    killed = Persistence(tmp_path, LEASE)
    killed.lock()
    ends_without_a_word(killed)
    with pytest.raises(TransportError):
        standby_of(Persistence(tmp_path, LEASE), [Port(1)], [])


def test_the_lease_is_renewed_while_the_ports_are_bound(tmp_path: Path) -> None:
    DataDirectory(tmp_path).release()  # a directory with a lock that nobody holds
    persistence = Persistence(tmp_path, LEASE)
    standby = standby_of(persistence, [Renewed(tmp_path / "journal")], [])
    with standby.starting():
        persistence.check_owner()
    standby.stop()
    persistence.release()


def test_a_standby_takes_no_lock_of_a_broker_that_is_not_the_owner_of_the_epoch(tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    own = PersistenceConfiguration(directory=journals, lock=LOCK)
    killed = Persistence(tmp_path / "data", own, "b")
    killed.lock()
    stale = read_epoch(journals / "journal")
    ends_without_a_word(killed)
    other = DataDirectory(tmp_path / "data")
    (tmp_path / "data" / "lock").write_text("4711 elsewhere.example\n")  # as its process has signed it
    with pytest.raises(SpanwireError, match="in use by process 4711 on elsewhere"):
        Persistence(tmp_path / "data", own, "b").lock(stale)
    assert other.is_held()
    other.release()


def test_a_standby_takes_over_from_a_master_whose_disk_had_no_room_for_its_name(tmp_path: Path) -> None:
    with hanging_master(tmp_path) as master:
        (tmp_path / "lock").write_text("")
        persistence = Persistence(tmp_path, LEASE, "b")
        standby = standby_of(persistence, [Port()], [])
        with pytest.raises(FencedError):
            master.check_owner()
        standby.stop()
        persistence.release()


def test_an_orderly_stop_leaves_an_epoch_that_never_expires(tmp_path: Path) -> None:
    first = Persistence(tmp_path, LEASE)
    first.lock()
    first.release()
    with hanging_lock(tmp_path):
        stopped = asyncio.Event()
        standby = Standby(Persistence(tmp_path, LEASE), LOCK, lambda path: None, lambda error: None)

        async def wait() -> None:
            asyncio.get_running_loop().call_later(3 * LOCK.lease_ms / 1000, stopped.set)
            await standby.enter([], stopped)

        with pytest.raises(SpanwireError, match="was stopped while it waited"):
            asyncio.run(wait())
    again = Persistence(tmp_path, LEASE)
    again.lock()
    assert again.epoch is not None
    assert again.epoch.number == 2
    again.release()


def test_a_standby_of_an_older_version_leaves_the_lease_of_a_newer_master_alone(tmp_path: Path) -> None:
    with hanging_master(tmp_path) as master:
        newer_segment(tmp_path / "journal" / segment_name(7))
        lock, epoch = (tmp_path / "lock").read_bytes(), read_epoch(tmp_path / "journal")
        port = Port()
        with pytest.raises(StoreError) as refused:
            standby_of(Persistence(tmp_path, LEASE, "b"), [port], [])
        assert str(refused.value) == (
            f"the store in {tmp_path / 'journal'} cannot be opened: {segment_name(7)} has journal format "
            f"{FORMAT_VERSION + 1}, this build reads up to {FORMAT_VERSION}: start a newer Spanwire"
        )
        master.check_owner()
        assert master.lost_lock() is None
    assert not port.is_bound
    assert (tmp_path / "lock").read_bytes() == lock
    assert read_epoch(tmp_path / "journal") != epoch  # the master has ended in order


def test_a_standby_refuses_a_store_that_becomes_newer_while_it_waits(tmp_path: Path) -> None:
    class Upgraded(Port):
        async def bind(self) -> None:
            newer_segment(tmp_path / "journal" / segment_name(7))
            raise TransportError("port 61616 is in use")

    with hanging_master(tmp_path) as master:
        with pytest.raises(StoreError, match="start a newer Spanwire"):
            standby_of(Persistence(tmp_path, LEASE, "b"), [Upgraded()], [])
        master.check_owner()


def newer_segment(path: Path) -> None:
    """Write the head of a segment as a later version would."""
    head = bytearray(encode_segment_header(bytes(16), 7, 6, 0, 0))
    head[8:10] = (FORMAT_VERSION + 1).to_bytes(2, "little")
    head[12:16] = header_sum(bytes(head)).to_bytes(4, "little")
    path.write_bytes(head)


@contextmanager
def hanging_lock(directory: Path) -> Iterator[None]:
    """The lock of this process, without an epoch of its own."""
    lock = DataDirectory(directory)
    yield
    assert lock.is_held()
    lock.release()
