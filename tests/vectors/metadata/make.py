"""Writes a store with records in every table of metadata: ``python -m tests.vectors.metadata.make``.

A broker on a simulated disk does what leaves records in the store: a durable subscription with another one behind it, a
prepared branch, a scheduled message, a cursor, staged and committed batches, a move, a link in the ledger, and an
orderly stop with messages in memory alone. Orders of operators are put as the service puts them.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Final

from spanwire.broker.metadata import MAX_TABLE, SCHEDULES, XA_BRANCHES
from spanwire.broker.moves.move_order import MOVE, NO_LIMIT, MoveOrder
from spanwire.broker.queue.queue import Queue
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.ids import XaTransactionId
from spanwire.network.gossip.kept_members import KEY as MEMBERS
from spanwire.network.gossip.kept_members import KeptMembers, Linked
from spanwire.service.administration.drains import Drain
from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import destination
from tests.support.dialogue.disk_stage import DiskStage

HERE: Final = Path(__file__).resolve().parent
BRANCH: Final = XaTransactionId(4711, b"global", b"\x01")
BRIDGE: Final = '[bridges.orders]\nsource = {provider = "spanwire", destination = "queue://ORDERS"}\n'
CONNECTOR: Final = {"name": "hub", "uri": "static:(tcp://hub:61616)", "dynamicallyIncludedDestinations": ["queue://A"]}
AN_HOUR_MS: Final = 3_600_000
NAME: Final = f"tables-{MAX_TABLE}-numbers"


def filled() -> DiskStage:
    """The broker before its stop."""
    stage = DiskStage(scheduler=SchedulerSettings())
    stage.peer("reader", client_id="r").consumes("topic://PRICES", durable="late", prefetch=1)
    subscription = next(iter(stage.broker.assembly.map.durables))
    remote = stage.broker.assembly.durables.remote_subscribers
    remote.begin(subscription)
    remote.add(subscription, "far:other")
    producer = stage.peer("producer")
    producer.sends("queue://HELD", *(f"m{number}" for number in range(4)))
    producer.sends("queue://SOURCE", "moved 1", "moved 2")
    producer.sends("queue://MEMORY", "lost 1", "lost 2", persistent=False)
    producer.sends("queue://LATER", "in an hour", properties={"AMQ_SCHEDULED_DELAY": AN_HOUR_MS})
    stage.settle()
    program = Program(stage)
    program.opens("nightly", "HELD")
    program.reserves(3, "nightly")
    program.asks("begin", query="q", run="r1")
    program.stages(0, 0, "committed")
    stage.settle()
    program.commits(0, "0 0 1")
    program.stages(1, 0, "staged")
    stage.settle()
    order = MoveOrder(
        MOVE, [destination("queue://SOURCE")], destination("queue://TARGET"), None, NO_LIMIT, 0, user="ada"
    )
    move = stage.broker.moves.start(order, stage.now)
    while move.is_running:
        stage.syncs()
        stage.reads()
        stage.waits(0.003)
    branch = stage.peer("branch")
    stage.broker.xa.begin(branch.state, BRANCH)
    for name in ("queue://DUE", "topic://PRICES"):
        message = branch.message(name, "prepared")
        assert stage.broker.send(branch.state, message, BRANCH, branch.new_token(), stage.now)
    stage.broker.xa.prepare(branch.state, BRANCH, branch.new_token(), stage.now)
    stage.settle()
    orders_of_operators(stage)
    return stage


def orders_of_operators(stage: DiskStage) -> None:
    """Keep what `spanwire.service.administration` keeps, in its encoding."""
    assembly = stage.broker.assembly
    assembly.context.links.number_of("hub")
    drain = Drain(3, "static:(tcp://hub:61616)", ["ORDERS.>"], {"duplex": "false"}, 10, "ada", 1_790_000_000_000)
    assembly.drains.put(3, drain.encoded())
    assembly.added_connectors.put(b"hub", json.dumps(CONNECTOR, separators=(",", ":")).encode())
    members = KeptMembers(assembly.network_members, lambda: None)
    members.keep({"b": Linked("tcp://10.0.0.2:61616", 0.0), "c": Linked("tcp://10.0.0.3:61616", 4_200.0)}, 0.0)
    assert MEMBERS in assembly.network_members.values
    record = {"definition": BRIDGE, "file": "orders.toml"}
    assembly.added_bridges.put(b"orders", json.dumps(record, separators=(",", ":")).encode())


def make() -> None:
    """Write the archive of the files of the journal, and the records as JSON."""
    stage = filled()
    waiting = [
        (queue.name, queue.waiting() + queue.in_flight)
        for queue in stage.broker.assembly.map.queues.values()
        if isinstance(queue, Queue)
    ]
    stage.broker.assembly.context.lost.note_stop(waiting)
    stage.disk_store.journal.note_clean_stop()
    stage.settle()
    disk = stage.disk_store.disk
    with tarfile.open(HERE / f"{NAME}.tar.xz", "w:xz") as archive:
        for name, size in sorted(disk.files().items()):
            entry = tarfile.TarInfo(name)
            entry.size = size
            archive.addfile(entry, io.BytesIO(disk.read(name, 0, size)))
    again = stage.loses_power()
    found = again.disk_store.recovery.metadata()
    assert {XA_BRANCHES, SCHEDULES} <= found.keys()
    expected = {
        str(table): {key.decode("latin-1"): base64.b64encode(value).decode() for key, value in records.items()}
        for table, records in sorted(found.items())
    }
    (HERE / f"{NAME}.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    make()
