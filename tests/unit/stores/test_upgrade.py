"""Stores of every released format, as a broker of that release left them, opened by this build.

How they were made stands in tests/vectors/stores/README.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.cli.main import main
from spanwire.client import blocking
from spanwire.model.destination import parse_destination
from spanwire.service.message_formats import message_formats
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.opening import OpenedJournal, open_journal
from spanwire.stores.journal.segments.segment import FORMAT_VERSION, OLDEST_FORMAT_VERSION
from spanwire.stores.offline.contents import StoreContents
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.tar_archives import unpack

VECTORS: Final = Path(__file__).parents[2] / "vectors" / "stores"
NAMES: Final = sorted(path.name.removesuffix(".tar.xz") for path in VECTORS.glob("format-*.tar.xz"))
STORE_ID: Final = b"not used at all."

Contents = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """One of the archives."""
    return str(request.param)


@pytest.fixture
def directory(name: str, tmp_path: Path) -> Path:
    """Its data directory, unpacked."""
    with tarfile.open(VECTORS / f"{name}.tar.xz") as archive:
        unpack(archive, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def disk(directory: Path) -> Iterator[FileDisk]:
    """Its journal."""
    disk = FileDisk(directory / "journal")
    yield disk
    disk.close()


def expected(name: str) -> Contents:
    found: Contents = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    found.pop("facts", None)
    return found


def expected_facts(name: str) -> dict[str, dict[str, str]]:
    """Table, key in base64, digest of the value."""
    found: dict[str, dict[str, str]] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8")).get(
        "facts", {}
    )
    return found


def contents(disk: FileDisk) -> Contents:
    """What this build's recovery finds, without the texts, which only a client can tell."""
    store = StoreContents(disk)
    return {
        line.destination.qualified_name: [
            {
                "sequence": stored.sequence,
                "redelivery_count": line.redeliveries.get(stored.sequence, 0),
                "format": stored.format_id,
                "length": len(stored.raw),
                "sha256": hashlib.sha256(stored.raw).hexdigest(),
            }
            for stored in store.read(line)
        ]
        for line in store.destinations
    }


def without_texts(found: Contents) -> Contents:
    return {
        queue: [{key: value for key, value in message.items() if key != "text"} for message in messages]
        for queue, messages in found.items()
    }


def write_all(opened: OpenedJournal, disk: FileDisk) -> None:
    batch = opened.journal.next_batch()
    while batch is not None:
        write_batch(disk, batch, True)
        opened.journal.on_completed(batch)
        batch = opened.journal.next_batch()


def test_there_is_a_store_of_every_format_that_was_released() -> None:
    formats = range(OLDEST_FORMAT_VERSION, FORMAT_VERSION + 1)
    assert {f"format-{number}-{end}" for number in formats for end in ("clean", "killed")} == set(NAMES)


def test_the_contents_are_exactly_what_the_release_kept(name: str, disk: FileDisk) -> None:
    assert contents(disk) == without_texts(expected(name))


def test_the_facts_are_exactly_what_the_release_kept(name: str, disk: FileDisk) -> None:
    assert {
        str(table): {
            base64.b64encode(key).decode(): hashlib.sha256(value).hexdigest() for key, value in metadata.items()
        }
        for table, metadata in StoreContents(disk).metadata.items()
        if metadata
    } == expected_facts(name)


def test_an_upgraded_store_takes_messages_and_removals_and_starts_again(name: str, disk: FileDisk) -> None:
    formats = message_formats()
    wanted = without_texts(expected(name))
    orders = parse_destination("queue://ORDERS")
    first = StoreContents(disk)
    line = next(line for line in first.destinations if line.destination == orders)
    message = next(first.read(line))

    opened = open_journal(disk, STORE_ID, 16 * 1024)
    sequence = opened.journal.append(orders, formats.index(message.format_id, message.raw))
    assert sequence > wanted["queue://ORDERS"][-1]["sequence"]
    for removed in wanted["queue://ORDERS"][:30]:
        opened.journal.remove(orders, removed["sequence"])
    opened.journal.note_redelivery(orders, sequence, 2)
    write_all(opened, disk)
    wanted["queue://ORDERS"] = [
        *wanted["queue://ORDERS"][30:],
        {**wanted["queue://ORDERS"][0], "sequence": sequence, "redelivery_count": 2},
    ]
    assert contents(disk) == wanted  # as after kill -9

    for _ in range(2):
        opened = open_journal(disk, STORE_ID, 16 * 1024)
        opened.journal.note_clean_stop()
        write_all(opened, disk)
        assert contents(disk) == wanted


@pytest.mark.large
def test_a_broker_gives_the_messages_to_its_clients_in_order(name: str, directory: Path, tmp_path: Path) -> None:
    place = tmp_path / "broker" / "data" / "kahadb"
    place.parent.mkdir(parents=True)
    directory.rename(place)
    lines = expected(name)
    assert sum(map(len, lines.values())) > 0
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        for line, messages in lines.items():
            _, client_id, subscription = f"{line.removeprefix('subscription://')}::".split(":")[:3]
            is_durable = line.startswith("subscription://")
            with (
                blocking.connect(broker.openwire_uri(), client_id=client_id if is_durable else None) as connection,
                connection.session() as session,
            ):
                if is_durable:
                    consumer = session.create_durable_subscriber("topic://PRICES", subscription)
                else:
                    consumer = session.create_consumer(line)
                for wanted in messages:
                    message = consumer.receive(timeout=10)
                    assert message is not None
                    assert str(message.body)[:40] == wanted["text"]
                assert consumer.receive_no_wait() is None


def test_the_tools_read_it_and_find_no_damage(
    name: str, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert main(["store", "check", str(directory)]) == 0
    assert main(["store", "export", str(directory), "--output", str(tmp_path / "export")]) == 0
    assert "no damage" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    assert main(["store", "import", str(tmp_path / "new"), str(tmp_path / "export")]) == 0
    disk = FileDisk(tmp_path / "new" / "journal")
    assert contents(disk) == without_texts(expected(name))
    disk.close()
