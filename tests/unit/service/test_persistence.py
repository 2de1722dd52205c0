"""Where a service keeps its messages: what the configuration says reaches the store, and stores of others are left."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spanwire.broker.metadata import MAX_TABLE
from spanwire.model.errors import StoreError
from spanwire.service.config.model import LockConfiguration, PersistenceConfiguration
from spanwire.service.persistence import Persistence
from spanwire.stores.epoch import EPOCH_NAME, epoch_in, read_epoch
from tests.support.descriptors import descriptors_of
from tests.support.loop import PostedCalls
from tests.support.plain_format import plain_formats


def opened(directory: Path, configuration: PersistenceConfiguration) -> Persistence:
    persistence = Persistence(directory, configuration)
    persistence.open(
        plain_formats(),
        (lambda position: None, lambda request, messages: None, lambda error: None, PostedCalls().post),
        lambda has_room: None,
    )
    return persistence


def closed(persistence: Persistence) -> None:
    if persistence.journal is not None:
        persistence.journal.start()
    persistence.stop()
    persistence.release()


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        (PersistenceConfiguration(), ""),
        (PersistenceConfiguration(sync=False), "a power cut loses messages that were acknowledged"),
        (
            PersistenceConfiguration(sync=False, sync_interval_ms=250),
            "a power cut loses those of the last 0.25 s that were acknowledged",
        ),
    ],
)
def test_a_journal_that_is_not_synced_says_what_that_costs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, configuration: PersistenceConfiguration, told: str
) -> None:
    with caplog.at_level(logging.WARNING):
        closed(opened(tmp_path, configuration))
    assert bool(caplog.messages) == bool(told)
    assert told in caplog.text


def test_an_owner_with_a_lease_keeps_the_file_of_its_epoch_open_until_it_releases_the_store(tmp_path: Path) -> None:
    persistence = opened(tmp_path, PersistenceConfiguration(lock=LockConfiguration(lease_ms=1000)))
    epoch = tmp_path / "journal" / EPOCH_NAME
    assert descriptors_of(epoch) == 1
    closed(persistence)
    assert descriptors_of(epoch) == 0


def test_a_store_with_metadata_of_a_newer_version_is_given_back_at_once(tmp_path: Path) -> None:
    lease = PersistenceConfiguration(lock=LockConfiguration(lease_ms=1000))
    newer = opened(tmp_path, lease)
    assert newer.journal is not None
    newer.journal.store.put_metadata(MAX_TABLE + 1, b"key", b"value")
    closed(newer)
    with pytest.raises(StoreError, match=f"metadata records of table {MAX_TABLE + 1}") as refused:
        opened(tmp_path, lease)
    assert "\n" not in str(refused.value)
    assert epoch_in(read_epoch(tmp_path / "journal")).given_up
    other = Persistence(tmp_path, lease)
    other.lock()  # another standby need not wait
    other.release()


def test_files_have_the_configured_size_and_place(tmp_path: Path) -> None:
    configuration = PersistenceConfiguration(directory=tmp_path / "elsewhere", segment_bytes=123 * 1024)
    persistence = opened(tmp_path / "data", configuration)
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "elsewhere" / "journal").iterdir()}
    closed(persistence)
    assert sizes == {"0000000001.journal": 123 * 1024}
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["lock"]


def test_a_broker_that_is_not_persistent_opens_no_journal(tmp_path: Path) -> None:
    persistence = opened(tmp_path, PersistenceConfiguration(persistent=False, directory=tmp_path / "k"))
    assert persistence.store is None
    closed(persistence)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lock"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("db-1.log", "KahaDB"),
        ("queue#3a#2f#2fORDERS/db-12.log", "mKahaDB"),
        ("dirty.index/CURRENT", "LevelDB"),
        ("store-version.txt", "LevelDB"),
        ("kr-store/data/hash", "AMQ message"),
    ],
)
def test_a_store_of_activemq_is_left_alone(tmp_path: Path, name: str, kind: str) -> None:
    place = tmp_path / "kahadb"
    (place / name).parent.mkdir(parents=True)
    (place / name).write_bytes(b"theirs")
    before = sorted(place.rglob("*"))
    with pytest.raises(StoreError) as caught:
        opened(tmp_path / "data", PersistenceConfiguration(directory=place))
    assert str(caught.value) == (
        f"{place} holds a {kind} store, which cannot be read; name another directory for the journal"
    )
    assert sorted(place.rglob("*")) == before
    closed(opened(tmp_path / "data", PersistenceConfiguration()))  # the lock is free again
