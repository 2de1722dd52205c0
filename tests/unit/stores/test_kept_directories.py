"""Data directories of killed brokers of earlier versions: a broker of this build has all that was in them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Final

import pytest

from spanwire.broker.metadata import ACCEPTED_IDS, PRODUCER_AUDIT, SCHEDULES, SUBSCRIPTIONS, XA_BRANCHES
from spanwire.client import blocking
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.offline.contents import StoreContents
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.tar_archives import unpack
from tests.vectors.directories.make import BRANCH, DUPLICATE, NAME, SCHEDULER, Texts

DIRECTORIES: Final = Path(__file__).parents[2] / "vectors/directories"
NAMES: Final = sorted(path.name.removesuffix(".tar.xz") for path in DIRECTORIES.glob("*.tar.xz"))


def restored(name: str, folder: Path) -> Texts:
    """Unpack a data directory; what it holds."""
    with tarfile.open(DIRECTORIES / f"{name}.tar.xz") as archive:
        unpack(archive, folder)
    texts: Texts = json.loads((DIRECTORIES / f"{name}.json").read_text("utf-8"))
    return texts


def texts_of(consumer: blocking.Consumer, count: int) -> list[str]:
    found = [consumer.receive(timeout=10) for _ in range(count)]
    assert consumer.receive_no_wait() is None
    return [str(message.body) for message in found if message is not None]


def test_there_is_a_directory_of_the_present_format_and_tables() -> None:
    assert NAME in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_store_has_records_of_each_kind(name: str, tmp_path: Path) -> None:
    texts = restored(name, tmp_path)
    disk = FileDisk(tmp_path / "kahadb/journal")
    store = StoreContents(disk)
    disk.close()
    assert {SUBSCRIPTIONS, SCHEDULES, XA_BRANCHES} <= store.metadata.keys()
    assert {ACCEPTED_IDS, PRODUCER_AUDIT} & store.metadata.keys()
    counts = {line.destination.qualified_name: len(line.sequences) for line in store.destinations}
    assert counts["queue://ORDERS"] == len(texts["queue://ORDERS"])
    assert sum(count for line, count in counts.items() if line.startswith("schedule://")) == 1


@pytest.mark.large
@pytest.mark.parametrize("name", NAMES)
def test_a_broker_gives_its_clients_what_was_left(name: str, tmp_path: Path) -> None:
    texts = restored(name, tmp_path / "broker/data")
    with BrokerProcess(spanwire_command(), tmp_path / "broker", attributes=SCHEDULER) as broker:
        for client_id in ("office", "warehouse"):
            with (
                blocking.connect(broker.openwire_uri(), client_id=client_id) as connection,
                connection.session() as session,
            ):
                durable = session.create_durable_subscriber("topic://PRICES", "prices")
                assert sorted(texts_of(durable, len(texts[client_id]))) == sorted(texts[client_id])
        with blocking.connect(broker.openwire_uri()) as connection:
            with connection.session("xa") as session:
                assert session.xa.recover() == [BRANCH]
                session.xa.commit(BRANCH)
            with connection.session() as session, session.create_producer("queue://ONCE") as producer:
                for text in texts["queue://ONCE"]:
                    producer.send(text, properties={DUPLICATE: text})
                for queue in ("queue://ORDERS", "queue://ONCE", "queue://LATER"):
                    assert texts_of(session.create_consumer(queue), len(texts[queue])) == texts[queue]
                assert texts_of(session.create_consumer("queue://DUE"), 1) == ["in doubt"]
