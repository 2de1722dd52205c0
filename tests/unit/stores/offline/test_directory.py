"""The lock of a store for a command, beside brokers whose lease runs out and that replace locks."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import StoreError
from spanwire.service.config.model import LockConfiguration, PersistenceConfiguration
from spanwire.service.persistence import Persistence
from spanwire.stores.directory import DataDirectory, DirectoryInUseError
from spanwire.stores.epoch import TakeOverLock, read_epoch
from spanwire.stores.journal.segments.patches import PLAN_NAME
from spanwire.stores.journal.segments.segment import segment_name
from spanwire.stores.offline.directory import StoreInUseError, own_directory, read_directory, shared_directory

LEASE = PersistenceConfiguration(lock=LockConfiguration(lease_ms=10_000, keep_alive_ms=2_500))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The directory of a master with a lease that was killed."""
    master = Persistence(tmp_path, LEASE)
    master.lock()
    assert master.epoch is not None
    master.epoch.close()
    master.epoch = None  # nobody renews it, or says that it is given up
    master.release()
    (tmp_path / "journal" / segment_name(1)).write_bytes(b"x")
    return tmp_path


def expired(store: Path) -> bytes:
    """The epoch that a standby has seen for the time of the lease."""
    return read_epoch(store / "journal")


def test_a_store_that_is_changed_is_taken_by_no_standby(store: Path) -> None:
    seen = expired(store)
    with own_directory(store, make=False) as owned:
        assert not read_epoch(owned.journal)  # no later standby finds an epoch that could run out
        with pytest.raises(DirectoryInUseError):
            Persistence(store, LEASE).lock(seen)
        owned.check()


def test_a_store_that_a_standby_takes_at_this_moment_is_not_changed(store: Path) -> None:
    with TakeOverLock(store) as may_take:
        assert may_take
        with pytest.raises(StoreInUseError, match="a broker takes the store"), own_directory(store, make=False):
            raise AssertionError("it was changed")
    assert expired(store)


def test_a_store_whose_lock_was_replaced_is_not_changed(store: Path) -> None:
    with own_directory(store, make=False) as owned:
        DataDirectory(store, replaces_lock=True)
        with pytest.raises(StoreInUseError, match="meanwhile, and nothing was changed: stop that broker"):
            owned.check()


@pytest.mark.parametrize("fault", [None, StoreError("damage")])
def test_what_was_read_while_a_standby_took_the_store_is_not_believed(store: Path, fault: StoreError | None) -> None:
    seen = expired(store)
    standby = Persistence(store, LEASE)
    with pytest.raises(StoreInUseError, match=r"a broker has taken the store .* what was read may be wrong"):
        with read_directory(store):
            standby.lock(seen)  # the lock file still names the killed master
            if fault is not None:
                raise fault
    standby.release()


def test_a_backup_in_which_a_broker_starts_is_not_believed(store: Path) -> None:
    (store / "lock").unlink()
    with read_directory(store):
        pass
    with pytest.raises(StoreInUseError, match="a broker has taken the store"), read_directory(store):
        DataDirectory(store).release()


def test_a_broker_may_start_during_an_export(store: Path) -> None:
    with shared_directory(store) as disk:
        DataDirectory(store).release()
        (store / "journal" / segment_name(1)).unlink()
        assert disk.files() == {segment_name(1): 1}
        assert disk.read(segment_name(1), 0, 1) == b"x"


def test_an_export_sees_that_a_repair_was_interrupted(store: Path) -> None:
    (store / "journal" / PLAN_NAME).write_text("")
    with shared_directory(store) as disk:
        assert PLAN_NAME in disk.files()


def test_an_export_of_a_store_without_segments_keeps_the_lock(store: Path) -> None:
    (store / "journal" / segment_name(1)).unlink()
    with shared_directory(store) as disk:
        assert segment_name(1) not in disk.files()
        with pytest.raises(DirectoryInUseError):
            DataDirectory(store)
