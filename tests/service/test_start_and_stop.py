"""A broker is started, asked, stopped, killed and started again, over real sockets and files."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from spanwire.broker import broker as broker_module
from tests.service.started import Started, spanwire

COSTS = (
    "1.3 to 12 times the processor time of the compiled build; a compiled wheel, or "
    "SPANWIRE_COMPILE=1 pip install . in the sources, changes that (docs/operations/install.md)"
)


def test_start_says_where_it_listens_and_who_it_is(tmp_path: Path) -> None:
    is_pure = Path(broker_module.__file__).suffix == ".py"
    with Started(tmp_path) as broker:
        assert broker.output == [
            broker.output[0],
            f"Configuration: {broker.configuration}",
            f"Data directory: {broker.data}",
            f"Listening for connections at: tcp://127.0.0.1:{broker.ports['tcp']}",
            f"Listening for connections at: stomp://127.0.0.1:{broker.ports['stomp']}",
            broker.output[-1],
        ]
        assert broker.output[0] == ("Build: pure Python, " + COSTS if is_pure else "Build: compiled")
        assert broker.output[-1].startswith("Spanwire (broker tested, id ID:")
        assert 0 not in broker.ports.values()


@pytest.mark.large
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_order_with_status_0(tmp_path: Path, number: signal.Signals) -> None:
    with Started(tmp_path) as broker, broker.stomp() as client:
        client.send("SUBSCRIBE\ndestination:/queue/A\nid:1\nreceipt:r\n\n")
        client.receive()
        broker.signal(number)
        assert broker.ended() == 0
        assert broker.errors == []
        assert not (broker.data / "control.sock").exists()


@pytest.mark.large
def test_all_that_is_kept_of_a_stream_of_sends_was_answered_before_the_stop(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with socket.create_connection(("127.0.0.1", broker.ports["stomp"])) as client:
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            assert client.recv(65536).startswith(b"CONNECTED")
            sends = Thread(target=_send_without_end, args=(client,))
            sends.start()
            received = client.recv(65536)
            broker.signal(signal.SIGTERM)
            while data := client.recv(65536):
                received += data
        sends.join()
        assert broker.ended() == 0
        broker.start()
        views = json.loads(spanwire("dstat", "--json", "--data-directory", str(broker.data)).stdout)
        kept = next(view["pending"] for view in views if view["destination"] == "queue://Q")
        assert received.count(b"RECEIPT") == kept > 0


def _send_without_end(client: socket.socket) -> None:
    """Persistent messages with receipts, until the socket is closed."""
    with suppress(OSError):
        while True:
            client.sendall(b"SEND\ndestination:/queue/Q\npersistent:true\nreceipt:r\n\nx\0" * 20)


@pytest.mark.large
def test_stop_waits_until_the_broker_is_gone(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        done = spanwire("stop", str(broker.configuration))
        assert (done.returncode, done.stdout) == (0, "stopped\n")
        again = spanwire("start", str(broker.configuration), "-D", "x=y", "--log-level", "nonsense")
        assert again.returncode == 2
        assert broker.ended() == 0
        assert spanwire("stop", str(broker.configuration)).returncode == 1


def test_the_store_of_a_running_broker_is_exported_as_it_is(tmp_path: Path) -> None:
    """What was answered before is in the export; of what comes meanwhile, a first part."""
    file = tmp_path / "export.jsonl"
    with Started(tmp_path) as broker:
        with broker.stomp() as client:
            for number in range(50):
                client.transact(f"SEND\ndestination:/queue/Q\npersistent:true\nreceipt:{number}\n\nx", str(number))
        with socket.create_connection(("127.0.0.1", broker.ports["stomp"])) as busy:
            busy.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            assert busy.recv(65536).startswith(b"CONNECTED")
            sends = Thread(target=_send_without_end, args=(busy,))
            sends.start()
            done = spanwire("store", "export", str(broker.data), "--file", str(file), "--queue", "Q")
            broker.signal(signal.SIGTERM)
            while busy.recv(65536):
                pass
        sends.join()
        assert done.returncode == 0, done.stderr
        assert broker.ended() == 0
    bodies = [json.loads(line) for line in file.read_text().splitlines()]
    assert bodies[1]["destination"] == "queue://Q"
    assert [body["sequence"] for body in bodies[2:-1]][:50] == sorted(body["sequence"] for body in bodies[2:52])
    assert bodies[-1]["messages"] == bodies[1]["messages"] == len(bodies) - 3 >= 50
    assert spanwire("store", "import", str(tmp_path / "new"), str(file)).returncode == 0
    assert spanwire("store", "check", str(tmp_path / "new")).stdout.endswith("no damage\n")


def test_restart_keeps_the_process_and_what_is_stored(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nkept", "1")
        directory = ("--data-directory", str(broker.data))
        before = json.loads(spanwire("status", "--json", *directory).stdout)
        done = spanwire("restart", *directory)
        assert (done.returncode, done.stdout) == (0, f"tested (process {broker.pid}): restarted\n"), done.stderr
        after = json.loads(spanwire("status", "--json", *directory).stdout)
        assert after["pid"] == before["pid"] == broker.pid
        assert after["id"] != before["id"]
        assert "1 of 1 waiting messages" in spanwire("browse", "A", *directory).stdout


def test_a_restart_with_a_configuration_that_a_start_refuses_changes_nothing(tmp_path: Path) -> None:
    with Started(tmp_path) as broker, broker.stomp() as client:
        broker.configuration.write_text(broker.configuration.read_text().replace("stomp://", "mqtts://"))
        done = spanwire("restart", "--data-directory", str(broker.data))
        assert done.returncode == 1
        assert "mqtts" in done.stderr
        client.transact("SEND\ndestination:/queue/A\nreceipt:1\n\nx", "1")


def test_status_and_dstat_tell_what_runs(tmp_path: Path) -> None:
    with Started(tmp_path) as broker, broker.stomp() as client:
        client.transact("SEND\ndestination:/queue/ORDERS\npersistent:true\nreceipt:1\n\nhello", "1")
        status = json.loads(spanwire("status", "--json", "--data-directory", str(broker.data)).stdout)
        assert status["name"] == "tested"
        assert status["pid"] == broker.pid
        assert status["connectors"][1]["uri"] == f"stomp://127.0.0.1:{broker.ports['stomp']}"
        assert status["connectors"][1]["connections"] == 1
        assert status["statistics"]["enqueued"] == 1
        shown = spanwire("status", str(broker.configuration)).stdout
        assert f"pid: {broker.pid}" in shown.splitlines()
        table = spanwire("dstat", "queues", str(broker.configuration)).stdout.splitlines()
        assert table[1].split()[:2] == ["queue://ORDERS", "1"]
        assert len(spanwire("dstat", "topics", str(broker.configuration)).stdout.splitlines()) == 1


def test_only_the_owner_can_open_the_control_socket(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        mode = (broker.data / "control.sock").stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert stat.S_IMODE(broker.data.stat().st_mode) == 0o700


def test_a_data_directory_with_a_long_path_has_a_control_socket_too(tmp_path: Path) -> None:
    with Started(tmp_path / ("long" * 40)) as broker:
        done = spanwire("status", "--data-directory", str(broker.data))
        assert "name: tested" in done.stdout


def test_the_control_socket_survives_nonsense_and_a_killed_broker(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        path = str(broker.data / "control.sock")
        for nonsense in (b"\xff\n", b"{}\n", b'{"command": "exec", "argument": "x"}\n', b"x" * 100_000):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                client.connect(path)
                try:
                    client.sendall(nonsense)
                    answer = client.recv(65536)
                except ConnectionError:
                    answer = b""
                assert answer == b"" or json.loads(answer)["ok"] is False
        broker.kill()
        assert (broker.data / "control.sock").exists()
        gone = spanwire("status", "--data-directory", str(broker.data))
        assert gone.returncode == 1
        assert "no broker runs in" in gone.stderr
        broker.start()
        assert "name: tested" in spanwire("status", "--data-directory", str(broker.data)).stdout


def test_acknowledged_messages_survive_kill_9_and_a_restart(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with broker.stomp() as client:
            for number in range(50):
                client.transact(
                    f"SEND\ndestination:/queue/A\npersistent:true\nreceipt:{number}\n\nm{number}", str(number)
                )
        broker.kill()
        broker.start()
        with broker.stomp() as client:
            client.send("SUBSCRIBE\ndestination:/queue/A\nid:1\nack:auto\n\n")
            bodies = [client.receive().rpartition("\n\n")[2] for _ in range(50)]
        assert bodies == [f"m{number}" for number in range(50)]


def test_messages_survive_an_orderly_stop(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nkept", "1")
        assert broker.stop() == 0
        broker.start()
        with broker.stomp() as client:
            client.send("SUBSCRIBE\ndestination:/queue/A\nid:1\nack:auto\n\n")
            assert client.receive().endswith("kept")


def test_delete_all_messages_on_startup_forgets_them(tmp_path: Path) -> None:
    with Started(tmp_path, 'deleteAllMessagesOnStartup="true"') as broker:
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\ngone", "1")
        broker.kill()
        broker.start()
        table = spanwire("dstat", str(broker.configuration)).stdout
        assert "queue://A" not in table
        broker.stop()
        broker.start()
        assert "queue://A" not in spanwire("dstat", str(broker.configuration)).stdout


def test_a_broker_without_persistence_keeps_nothing_on_disk(tmp_path: Path) -> None:
    with Started(tmp_path, 'persistent="false"') as broker:
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nx", "1")
        assert sorted(path.name for path in broker.data.iterdir()) == ["control.sock", "lock"]


def test_stopping_clients_are_told_and_none_of_them_can_hold_the_stop_up(tmp_path: Path) -> None:
    with Started(tmp_path) as broker, broker.stomp() as idle, broker.stomp() as greedy:
        greedy.send("SUBSCRIBE\ndestination:/queue/BIG\nid:1\nack:auto\n\n")
        body = "x" * 500_000
        for _ in range(20):
            idle.transact(f"SEND\ndestination:/queue/BIG\nreceipt:1\n\n{body}", "1")
        assert broker.stop() == 0  # greedy never reads


def test_http_on_the_stomp_port_is_closed_at_once(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with socket.create_connection(("127.0.0.1", broker.ports["stomp"]), 30) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b""
            while True:
                try:
                    data = client.recv(65536)
                except ConnectionResetError:
                    break
                if not data:
                    break
                received += data
            assert not received.startswith(b"HTTP")
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/A\nreceipt:1\n\nx", "1")


def test_a_client_that_ends_its_side_gets_its_answers_first(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with socket.create_connection(("127.0.0.1", broker.ports["stomp"]), 30) as client:
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SEND\ndestination:/queue/A\nreceipt:7\n\nx\0")
            client.shutdown(socket.SHUT_WR)
            received = b""
            while data := client.recv(65536):
                received += data
        assert b"CONNECTED" in received
        assert b"receipt-id:7" in received


def test_nothing_secret_is_logged_at_debug_level(tmp_path: Path) -> None:
    canary = "c4n4ry-pa55word"
    with Started(tmp_path, arguments=("--log-level", "debug")) as broker:
        with broker.stomp() as client:
            client.send("DISCONNECT\nreceipt:bye\n\n")
            client.receive()
        client = broker.stomp()
        client.close()
        raw = socket.create_connection(("127.0.0.1", broker.ports["stomp"]), 30)
        raw.sendall(f"CONNECT\nlogin:u\npasscode:{canary}\naccept-version:1.2\nhost:x\n\n\0".encode())
        assert raw.recv(9) == b"CONNECTED"
        raw.sendall(b"garbage\n\n\0")
        while raw.recv(65536):
            pass
        raw.close()
        url = broker.broker_url
        sent = spanwire("producer", "--brokerUrl", url, "--user", "u", "--messageCount", "1",
                        environment={"SPANWIRE_PASSWORD": canary})  # fmt: skip
        assert sent.returncode == 0
        for words in (("status", "--json"), ("dstat", "--json")):
            assert canary not in spanwire(*words, "--data-directory", str(broker.data)).stdout
        broker.stop()
        assert canary not in "".join([*broker.output, *broker.errors, sent.stdout, sent.stderr])


def test_the_file_limit_is_raised_for_many_connections(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        limits = Path(f"/proc/{broker.pid}/limits")
        if not limits.exists():
            return  # only Linux tells
        soft, hard = next(
            line.split()[3:5] for line in limits.read_text("ascii").splitlines() if line.startswith("Max open files")
        )
        assert int(soft) >= min(16_384, int(hard))
        assert os.getpid() != broker.pid
