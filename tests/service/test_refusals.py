"""What keeps a broker from starting: one clear line, status 1, nothing touched."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.service.started import Started, spanwire
from tests.support.ports import free_port


def listing(directory: Path) -> dict[str, bytes]:
    """Every file below a directory with its content."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def write(directory: Path, connectors: str, attributes: str = "", inside: str = "") -> Path:
    path = directory / "activemq.xml"
    path.write_text(
        f'<broker brokerName="refused" dataDirectory="{directory}/data" {attributes}>'
        f"<transportConnectors>{connectors}</transportConnectors>{inside}</broker>",
        "utf-8",
    )
    return path


def refused(*arguments: str) -> str:
    """The one line a refused start writes."""
    done = spanwire("start", *arguments)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_port_in_use_is_told_and_nothing_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = write(tmp_path, f'<transportConnector name="mine" uri="tcp://127.0.0.1:{port}"/>')
        line = refused(str(path))
        assert f"connector mine: cannot listen at tcp://127.0.0.1:{port}: port {port} is in use" in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["activemq.xml"]


def test_the_second_of_two_ports_in_use_frees_the_first(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free, port = free_port(), taken.getsockname()[1]
        path = write(
            tmp_path,
            f'<transportConnector uri="tcp://127.0.0.1:{free}"/><transportConnector uri="stomp://127.0.0.1:{port}"/>',
        )
        refused(str(path))


def test_a_data_directory_in_use_names_the_process_that_has_it(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        before = {name for name in listing(broker.data) if not name.startswith("journal")}
        other = tmp_path / "other"
        other.mkdir()
        path = other / "activemq.xml"
        path.write_text(
            '<broker><persistenceAdapter><kahaDB failIfDatabaseIsLocked="true"/></persistenceAdapter></broker>', "utf-8"
        )
        line = refused(str(path), "--data-directory", str(broker.data))
        assert str(broker.pid) in line
        assert "in use" in line
        assert {name for name in listing(broker.data) if not name.startswith("journal")} == before
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nx", "1")
        assert "name: tested" in spanwire("status", "--data-directory", str(broker.data)).stdout


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file", "utf-8")
    path = write(tmp_path, '<transportConnector uri="tcp://127.0.0.1:0"/>')
    assert str(tmp_path / "data") in refused(str(path))


def test_a_journal_that_cannot_be_read_stays_as_it_is(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with broker.stomp() as client:
            for number in range(20):
                client.transact(f"SEND\ndestination:/queue/A\npersistent:true\nreceipt:{number}\n\nm", str(number))
        broker.stop()
    journal = tmp_path / "data" / "journal"
    segments = sorted(path for path in journal.iterdir() if path.is_file() and path.stat().st_size)
    assert segments
    for segment in segments:
        segment.write_bytes(os.urandom(segment.stat().st_size))
    before = listing(journal)
    line = refused(str(tmp_path / "activemq.xml"))
    assert str(journal) in line
    assert listing(journal) == before


def test_a_store_of_activemq_is_not_overlaid(tmp_path: Path) -> None:
    kaha = tmp_path / "kahadb"
    kaha.mkdir()
    (kaha / "db-1.log").write_bytes(b"\0" * 100)
    path = write(
        tmp_path,
        '<transportConnector uri="tcp://127.0.0.1:0"/>',
        inside=f'<persistenceAdapter><kahaDB directory="{kaha}"/></persistenceAdapter>',
    )
    assert "holds a KahaDB store, which cannot be read" in refused(str(path))
    assert listing(kaha) == {"db-1.log": b"\0" * 100}


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]"])
def test_an_open_bind_without_authentication_is_refused(tmp_path: Path, host: str) -> None:
    path = write(tmp_path, f'<transportConnector name="open" uri="tcp://{host}:0"/>')
    line = refused(str(path))
    for part in ("connector open", "simpleAuthenticationPlugin", "--allow-anonymous"):
        assert part in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["activemq.xml"]


def test_every_open_bind_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '<transportConnector name="first" uri="tcp://0.0.0.0:0"/><transportConnector name="safe" uri="tcp://127.0.0.1:0"/>'
        '<transportConnector name="second" uri="stomp://0.0.0.0:0"/>',
    )
    done = spanwire("start", str(path))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert ["first" in lines[0], "second" in lines[1], len(lines)] == [True, True, 2]


def test_an_unknown_host_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, '<transportConnector name="x" uri="tcp://no-such-host.invalid:1"/>')
    assert "connector x: the host of tcp://no-such-host.invalid:1 is unknown" in refused(str(path))


def test_an_address_of_another_machine_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, '<transportConnector name="x" uri="tcp://192.0.2.1:0"/>')
    assert "192.0.2.1 is no address of this machine" in refused(str(path), "--allow-anonymous")


def test_a_missing_configuration_is_told(tmp_path: Path) -> None:
    assert "there is no such file" in refused(f"xbean:{tmp_path}/activemq.xml")
