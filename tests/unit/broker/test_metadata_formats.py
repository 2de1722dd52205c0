"""Records of every table of metadata are read as they were written, and tables of a newer Spanwire refused."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Final

import pytest

from spanwire.broker.metadata import (
    ACCEPTED_IDS,
    BRIDGES,
    DRAINS,
    MAX_TABLE,
    NETWORK_CONNECTORS,
    NETWORK_MEMBERS,
    XA_BRANCHES,
)
from spanwire.broker.moves.move import DONE
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.errors import StoreError
from spanwire.network.gossip.kept_members import KEY, recalled
from spanwire.service.administration import added_bridges, added_connectors, drains
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.recovery import recover
from tests.simulation.disk import SimulatedDisk
from tests.support.control_dialogue import Program
from tests.support.dialogue.disk_stage import STORE_ID, DiskStage

VECTORS: Final = Path(__file__).resolve().parents[2] / "vectors/metadata"
NAMES: Final = sorted(path.name.removesuffix(".tar.xz") for path in VECTORS.glob("tables-*.tar.xz"))

Records = dict[int, dict[bytes, bytes]]


def disk_of(name: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    with tarfile.open(VECTORS / f"{name}.tar.xz") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None
            disk.resize(entry.name, entry.size)
            disk.write(entry.name, 0, [content.read()])
            disk.sync(entry.name)
    disk.sync_directory()
    return disk


def expected(name: str) -> Records:
    found: dict[str, dict[str, str]] = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    return {
        int(table): {key.encode("latin-1"): base64.b64decode(value) for key, value in records.items()}
        for table, records in found.items()
    }


def started(name: str) -> DiskStage:
    """A broker of this version on an archive."""
    stage = DiskStage(disk=disk_of(name), scheduler=SchedulerSettings())
    recovery = stage.disk_store.recovery
    stage.broker.recover(recovery.destinations(), recovery.clean, stage.now, recovery.metadata())
    return stage


def test_there_are_records_of_every_table() -> None:
    newest = expected(f"tables-{MAX_TABLE}")
    kept_in_others = {ACCEPTED_IDS}  # the copies of PRODUCER_AUDIT hold these
    assert newest.keys() == set(range(1, MAX_TABLE + 1)) - kept_in_others


@pytest.mark.parametrize("name", NAMES)
def test_the_records_are_exactly_those_that_were_written(name: str) -> None:
    assert recover(disk_of(name)).metadata() == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_broker_has_what_the_records_are_about(name: str) -> None:
    stage = started(name)
    assembly = stage.broker.assembly
    assert len(assembly.map.durables) == 1
    (subscription,) = assembly.map.durables
    assert assembly.durables.remote_subscribers.of(subscription) == {"far:other"}
    assert [xid.key for xid in assembly.xa.prepared()] == list(expected(name)[XA_BRANCHES])
    assert assembly.scheduler is not None
    assert assembly.scheduler.next_timeout() is not None  # the message waits for its time
    (move,) = assembly.moves.all()
    assert (move.state, move.processed) == (DONE, 2)
    assert assembly.context.links.names() == {1: "hub"}
    assert assembly.context.lost.counts == {"queue://MEMORY": 2}
    program = Program(stage, "later")
    (cursor,) = program.cursors()
    assert (cursor["cursor"], cursor["from"], cursor["to"]) == ("nightly", 0, 3)
    assert program.asks("begin", query="q", run="r2") == {"epoch": 2, "batch": 0}


def test_a_kept_branch_knows_which_subscriptions_are_later_than_its_prepare() -> None:
    stage = started("tables-16-numbers")
    reader = stage.peer("reader", client_id="r")
    listeners = [reader.consumes("topic://PRICES", durable=durable) for durable in ("late", "later")]
    stage.settle()
    manager = stage.peer("manager")
    (xid,) = stage.broker.assembly.xa.prepared()
    stage.broker.xa.commit(manager.state, xid, False, manager.new_token(), stage.now)
    stage.settle()
    stage.settle()
    assert [listener.takes() for listener in listeners] == [["prepared"], ["prepared"]]


@pytest.mark.parametrize("name", NAMES)
def test_the_service_reads_the_orders_of_operators(name: str) -> None:
    assembly = started(name).broker.assembly
    drain = drains.decoded(3, assembly.drains.values[3])
    assert (drain.uri, drain.patterns, drain.keep, drain.user) == ("static:(tcp://hub:61616)", ["ORDERS.>"], 10, "ada")
    assert added_connectors._decoded(assembly.added_connectors.values[b"hub"])["uri"] == "static:(tcp://hub:61616)"
    assert recalled(assembly.network_members.values[KEY]) == {
        "b": ("tcp://10.0.0.2:61616", 0),
        "c": ("tcp://10.0.0.3:61616", 7),
    }
    assert added_bridges._decoded(assembly.added_bridges.values[b"orders"])[1] == "orders.toml"
    assert {DRAINS, NETWORK_CONNECTORS, NETWORK_MEMBERS, BRIDGES} <= expected(name).keys()


def test_a_table_of_a_newer_spanwire_is_refused_in_one_line_and_nothing_is_changed() -> None:
    stage = DiskStage()
    stage.disk_store.journal.put_metadata(MAX_TABLE + 1, b"key", b"value")
    stage.syncs()
    disk = stage.disk_store.disk
    before = {name: disk.read(name, 0, size) for name, size in disk.files().items()}
    with pytest.raises(StoreError) as refused:
        open_journal(disk, STORE_ID, 16 * 1024)
    assert str(refused.value) == (
        f"the store has metadata records of table {MAX_TABLE + 1}, and this build knows tables up to {MAX_TABLE}: "
        "start a newer Spanwire, nothing was changed"
    )
    assert {name: disk.read(name, 0, size) for name, size in disk.files().items()} == before
