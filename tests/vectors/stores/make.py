"""Makes the stores that upgrade is tested with: a broker of the release that is installed writes them.

    PYTHONPATH=SRC_OF_THE_RELEASE:ROOT python tests/vectors/stores/make.py format-N

A broker process gets OpenWire and STOMP clients, transactions, redeliveries, removals and a removed queue; its segments
are 16 KiB, so that there are many. It is stopped in order (``format-N-clean.tar.xz``), started again, gets more of the
same and is killed (``format-N-killed.tar.xz``). What it must hold is written down twice: by the clients, as the texts
that were acknowledged to their producers and not received since, and by the release's own recovery, as sequences,
redelivery counts and the digests of the bytes; both must agree before anything is written.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spanwire.cli.process import start
from spanwire.client import blocking
from spanwire.model.destination import QUEUE, Destination
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.driver.reader import read_all
from spanwire.stores.journal.fetching.fetch import StoredBytes
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.segment import FORMAT_VERSION
from tests.support.broker_process import BrokerProcess
from tests.support.stomp_socket import StompSocket

PLACE: Final = Path(__file__).parent
SEGMENT_BYTES: Final = 16 * 1024
FAR_FUTURE_MS: Final = 2**52
FILLER: Final = " and so on" * 60

Texts = dict[str, list[str]]


def serve(configuration_path: str) -> int:
    """The broker process: as ``spanwire start``, with small segments."""

    def small(source: str | None, definitions: dict[str, str], **options: Any) -> BrokerConfiguration:
        configuration = load_configuration(source, definitions, **options)
        persistence = replace(configuration.persistence, segment_bytes=SEGMENT_BYTES)
        return replace(configuration, persistence=persistence)

    start.__dict__["load_configuration"] = small
    return start.run([configuration_path])


def fill(broker: BrokerProcess, texts: Texts, run: int) -> None:
    """What the clients do in one run of the broker."""
    with blocking.connect(broker.openwire_uri()) as connection:
        send_orders(connection, texts, run)
        receive_some(connection, texts)
        send_in_transactions(connection, texts, run)
        redeliver_some(connection)
        come_and_go(connection, run)
    if FORMAT_VERSION > 1:
        subscribe(broker, texts, run)
        churn(broker, texts, run)
    use_stomp(broker, texts, run)


def subscribe(broker: BrokerProcess, texts: Texts, run: int) -> None:
    """Two durable subscriptions of one topic; one of them takes some messages."""
    for client_id in ("warehouse", "office"):
        texts.setdefault(f"subscription://{len(client_id)}:{client_id}:prices", [])
        with (
            blocking.connect(broker.openwire_uri(), client_id=client_id) as connection,
            connection.session() as session,
        ):
            session.create_durable_subscriber("topic://PRICES", "prices").close()
    with blocking.connect(broker.openwire_uri()) as connection, connection.session() as session:
        producer = session.create_producer("topic://PRICES")
        for number in range(15):
            text = f"price {run}.{number}"
            producer.send(text, priority=number % 10)
            for line in texts:
                if line.startswith("subscription://"):
                    texts[line].append(text)
    with (
        blocking.connect(broker.openwire_uri(), client_id="office") as connection,
        connection.session("transacted") as session,
    ):
        consumer = session.create_durable_subscriber("topic://PRICES", "prices")
        for _ in range(6):
            message = consumer.receive(timeout=10)
            assert message is not None
            texts["subscription://6:office:prices"].remove(str(message.body))
        session.commit()


def churn(broker: BrokerProcess, texts: Texts, run: int) -> None:
    """So many messages come and go that the few which stay are written again elsewhere."""
    line = texts.setdefault("queue://CHURN", [])
    with blocking.connect(broker.openwire_uri()) as connection, connection.session("individual") as session:
        producer = session.create_producer("queue://CHURN")
        consumer = session.create_consumer("queue://CHURN", prefetch=1000)
        for _ in line:
            assert consumer.receive(timeout=10) is not None
        for number in range(900):
            text = f"churned {run}.{number}{FILLER}"
            producer.send(text)
            message = consumer.receive(timeout=10)
            assert message is not None
            assert str(message.body) == text
            if number % 60:
                message.acknowledge()
            else:
                line.append(text)


def send_orders(connection: blocking.Connection, texts: Texts, run: int) -> None:
    """Messages with properties, priorities and expirations; one is larger than a segment."""
    with connection.session() as session, session.create_producer("queue://ORDERS") as producer:
        for number in range(90):
            text = f"order {run}.{number}{FILLER[: number * 5]}"
            producer.send(text, properties={"number": number, "run": run}, correlation_id=f"C{number}")
            texts["queue://ORDERS"].append(text)
        for number in range(12):
            text = f"urgent {run}.{number}"
            lifetime = FAR_FUTURE_MS if number % 3 == 0 else 0
            producer.send(text, destination=None, priority=number % 10, time_to_live_ms=lifetime)
            texts["queue://ORDERS"].append(text)
        text = f"large {run} " + "0123456789" * 4000
        producer.send(text)
        texts["queue://ORDERS"].append(text)


def receive_some(connection: blocking.Connection, texts: Texts) -> None:
    """The first forty and every third of the next thirty are acknowledged."""
    with connection.session("individual") as session:
        consumer = session.create_consumer("queue://ORDERS", prefetch=100)
        for number in range(70):
            message = consumer.receive(timeout=10)
            assert message is not None
            if number < 40 or number % 3 == 0:
                message.acknowledge()
                texts["queue://ORDERS"].remove(str(message.body))


def send_in_transactions(connection: blocking.Connection, texts: Texts, run: int) -> None:
    """One commit over two queues with sends and acknowledgements, one rollback, one that never ends."""
    with connection.session("transacted") as session:
        producer = session.create_producer()
        consumer = session.create_consumer("queue://ORDERS", prefetch=5)
        for number in range(10):
            for queue in ("queue://BILLS", "queue://Straße.Übergröße"):
                text = f"committed {run}.{number}"
                producer.send(text, destination=queue)
                texts.setdefault(queue, []).append(text)
        for _ in range(4):
            message = consumer.receive(timeout=10)
            assert message is not None
            texts["queue://ORDERS"].remove(str(message.body))
        session.commit()
        producer.send("never committed", destination="queue://BILLS")
        session.rollback()


def redeliver_some(connection: blocking.Connection) -> None:
    """Some messages are delivered and not acknowledged, once or twice."""
    for count in (8, 3):
        with connection.session("transacted") as session:
            consumer = session.create_consumer("queue://BILLS", prefetch=count)
            for _ in range(count):
                assert consumer.receive(timeout=10) is not None
            session.rollback()


def come_and_go(connection: blocking.Connection, run: int) -> None:
    """A queue that is removed with all its messages, and one that comes back after that."""
    with connection.session() as session, session.create_producer() as producer:
        for number in range(25):
            producer.send(f"lost on purpose {run}.{number}{FILLER}", destination="queue://REMOVED")
        remove_queue(connection, "REMOVED")
        for number in range(25):
            producer.send(f"lost on purpose too {run}.{number}{FILLER}", destination="queue://BACK")
        remove_queue(connection, "BACK")
        producer.send(f"back {run}", destination="queue://BACK")


def remove_queue(connection: blocking.Connection, name: str) -> None:
    """What a management client does."""
    destination = Destination(QUEUE, name)
    shared = connection.shared
    with shared.ready():
        shared.core.temporary[destination.qualified_name] = destination
        shared.answer(shared.core.remove_temporary(destination))


def use_stomp(broker: BrokerProcess, texts: Texts, run: int) -> None:
    """Messages in STOMP's own format; some are acknowledged."""
    with StompSocket(broker.stomp_port) as stomp:
        stomp.connect("1.2")
        for number in range(30):
            body = f"stomp {run}.{number}"
            stomp.type(
                f"SEND\ndestination:/queue/STOMP.ORDERS\npersistent:true\npriority:7\nkind:small\nreceipt:r\n\n{body}\0"
            )
            receipt = stomp.receive()
            assert receipt is not None
            assert receipt.command == "RECEIPT"
            texts["queue://STOMP.ORDERS"].append(body)
        stomp.type("SUBSCRIBE\nid:0\ndestination:/queue/STOMP.ORDERS\nack:client-individual\n\n\0")
        for number in range(12):
            frame = stomp.receive()
            assert frame is not None
            assert frame.command == "MESSAGE"
            if number % 2 == 0:
                receipt_line = "receipt:stored\n" if number == 10 else ""
                stomp.type(f"ACK\nid:{frame.headers['ack']}\n{receipt_line}\n\0")
                texts["queue://STOMP.ORDERS"].remove(frame.body.decode())
        while frame is not None and frame.command != "RECEIPT":
            frame = stomp.receive()  # messages that were on their way


def facts(journal: Path) -> dict[str, dict[str, str]]:
    """All facts in a copy of the store: table, key in base64, digest of the value."""
    if FORMAT_VERSION < 2:
        return {}
    found = open_journal(FileDisk(journal), bytes(16)).recovery.metadata()
    return {
        str(table): {base64.b64encode(key).decode(): hashlib.sha256(value).hexdigest() for key, value in kept.items()}
        for table, kept in found.items()
        if kept
    }


def contents(journal: Path) -> dict[str, list[dict[str, object]]]:
    """What the release's own recovery finds in a copy of the store."""
    disk = FileDisk(journal)
    opened = open_journal(disk, bytes(16))
    found: dict[str, list[dict[str, object]]] = {}
    for recovered in opened.recovery.destinations():
        opened.journal.fetch(0, recovered.destination, list(recovered.sequences))
        messages: list[dict[str, object]] = []
        for fetch in opened.journal.take_fetches():
            for read, stored in zip(fetch.reads, read_all(disk, fetch.reads), strict=True):
                assert isinstance(stored, StoredBytes)
                messages.append(
                    {
                        "sequence": read.sequence,
                        "redelivery_count": recovered.redeliveries.get(read.sequence, 0),
                        "format": stored.format_id,
                        "length": len(stored.raw),
                        "sha256": hashlib.sha256(stored.raw).hexdigest(),
                    }
                )
        found[recovered.destination.qualified_name] = messages
    disk.close()
    return found


def keep(broker: BrokerProcess, texts: Texts, name: str) -> None:
    """Packs the data directory and writes down what it must hold."""
    data = broker.directory / "data"
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for path in (data / "kahadb" / "journal").iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        found = contents(copy)
        kept = facts(copy)
    for queue, messages in found.items():
        assert len(messages) == len(texts.get(queue, [])), (queue, len(messages), len(texts.get(queue, [])))
    expected = {
        queue: [{**message, "text": text[:40]} for message, text in zip(messages, texts[queue], strict=True)]
        for queue, messages in sorted(found.items())
        if messages or queue in texts
    }
    document: dict[str, object] = {**expected, "facts": kept} if kept else {**expected}
    with tarfile.open(PLACE / f"{name}.tar.xz", "w:xz") as archive:
        for path in sorted((data / "kahadb" / "journal").iterdir()):
            entry = archive.gettarinfo(path, arcname=f"journal/{path.name}")
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            with path.open("rb") as stream:
                archive.addfile(entry, stream)
    (PLACE / f"{name}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(name: str) -> int:
    """Makes both stores of one format."""
    texts: Texts = {"queue://ORDERS": [], "queue://STOMP.ORDERS": []}

    def command(directory: Path) -> list[str]:
        return [sys.executable, __file__, "--serve", f"xbean:{directory / 'activemq.xml'}"]

    with (
        tempfile.TemporaryDirectory() as scratch,
        BrokerProcess(command, Path(scratch) / "broker") as broker,
    ):
        fill(broker, texts, 1)
        texts["queue://BACK"] = ["back 1"]
        broker.stop()
        keep(broker, texts, f"{name}-clean")
        broker.start()
        fill(broker, texts, 2)
        texts["queue://BACK"] = ["back 2"]
        broker.kill()
        keep(broker, texts, f"{name}-killed")
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1] == "--serve" else main(sys.argv[1]))
