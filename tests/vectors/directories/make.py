"""Writes the data directory of a killed broker: ``python -m tests.vectors.directories.make``.

A broker process has messages in queues, some of them delivered before, two durable subscriptions, a message for a later
time, a prepared branch, and the ids of messages for duplicate detection. Then it is killed. The texts for the clients
of a later broker stand beside it.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from spanwire.broker.metadata import MAX_TABLE
from spanwire.client import blocking
from spanwire.model.ids import XaTransactionId
from spanwire.stores.journal.segments.segment import FORMAT_VERSION
from tests.support.broker_process import BrokerProcess
from tests.vectors.stores import make as stores

HERE: Final = Path(__file__).resolve().parent
NAME: Final = f"format-{FORMAT_VERSION}-tables-{MAX_TABLE}"
SCHEDULER: Final = 'schedulerSupport="true"'
BRANCH: Final = XaTransactionId(4711, b"in doubt", b"\x01")
CENTURY_MS: Final = 36_525 * 24 * 3_600_000
DUPLICATE: Final = "_AMQ_DUPL_ID"
KEPT: Final = ("*.journal", "*.summary")  # the others hold for one run

Texts = dict[str, list[str]]


def fill(broker: BrokerProcess) -> Texts:
    """What the clients do; returns the texts that are left, by destination or client id of a subscription."""
    texts: Texts = {name: [] for name in ("queue://ORDERS", "queue://ONCE", "queue://DUE", "queue://LATER")}
    for client_id in ("office", "warehouse"):
        texts[client_id] = []
        with (
            blocking.connect(broker.openwire_uri(), client_id=client_id) as connection,
            connection.session() as session,
        ):
            session.create_durable_subscriber("topic://PRICES", "prices").close()
    with blocking.connect(broker.openwire_uri()) as connection:
        with connection.session() as session, session.create_producer() as producer:
            for number in range(20):
                producer.send(f"order {number}", destination="queue://ORDERS", properties={"number": number})
                texts["queue://ORDERS"].append(f"order {number}")
                producer.send(f"price {number}", destination="topic://PRICES", priority=number % 10)
                texts["office"].append(f"price {number}")
                texts["warehouse"].append(f"price {number}")
            for number in range(3):
                text = f"once {number}"
                producer.send(text, destination="queue://ONCE", properties={DUPLICATE: text})
                texts["queue://ONCE"].append(text)
            later = {"AMQ_SCHEDULED_DELAY": CENTURY_MS}
            producer.send("in a century", destination="queue://LATER", properties=later)
        with connection.session("transacted") as session:
            take(session.create_consumer("queue://ORDERS", prefetch=7), 7)
            session.rollback()
            for text in take(session.create_consumer("queue://ORDERS", prefetch=1), 5):
                texts["queue://ORDERS"].remove(text)
            session.commit()
        with connection.session("xa") as session:
            session.xa.start(BRANCH)
            session.create_producer("queue://DUE").send("in doubt")
            session.xa.end(BRANCH)
            assert session.xa.prepare(BRANCH)
    with (
        blocking.connect(broker.openwire_uri(), client_id="office") as connection,
        connection.session("transacted") as session,
    ):
        for text in take(session.create_durable_subscriber("topic://PRICES", "prices"), 6):
            texts["office"].remove(text)
        session.commit()
    return texts


def take(consumer: blocking.Consumer, count: int) -> list[str]:
    """Receive messages; their texts."""
    found = []
    for _ in range(count):
        message = consumer.receive(timeout=10)
        assert message is not None
        found.append(str(message.body))
    return found


def make() -> None:
    """Write the archive of the data directory, and what it holds as JSON."""

    def command(directory: Path) -> list[str]:
        return [sys.executable, "-m", stores.__name__, "--serve", f"xbean:{directory / 'activemq.xml'}"]

    with (
        tempfile.TemporaryDirectory() as scratch,
        BrokerProcess(command, Path(scratch) / "broker", attributes=SCHEDULER) as broker,
    ):
        texts = fill(broker)
        broker.kill()
        data = broker.directory / "data"
        with tarfile.open(HERE / f"{NAME}.tar.xz", "w:xz") as archive:
            for path in sorted(path for pattern in KEPT for path in data.rglob(pattern)):
                entry = archive.gettarinfo(path, arcname=str(path.relative_to(data)))
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = ""
                with path.open("rb") as stream:
                    archive.addfile(entry, stream)
    (HERE / f"{NAME}.json").write_text(json.dumps(texts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    make()
