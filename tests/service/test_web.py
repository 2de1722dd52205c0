"""``spanwire web``, ``metrics`` and ``health`` beside a real broker."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started, StompClient, spanwire
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import COMMAND
from tests.support.peers import require

LISTENING = re.compile(r"Listening for web requests at: http://127\.0\.0\.1:(\d+)")
USERS = """\
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="vera" password="v-4711" groups="viewers"/>
    <authenticationUser username="otto" password="o-4711" groups="operators"/>
    <authenticationUser username="client" password="c-4711" groups="orders"/>
  </users></simpleAuthenticationPlugin></plugins>
"""


class Guarded(Started):
    """A broker with users."""

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        return head + USERS.replace("{", "{{") + end + tail


JETTY = """\
<beans><bean class="org.eclipse.jetty.security.HashLoginService">
  <property name="config" value="${activemq.conf}/jetty-realm.properties"/>
</bean><bean class="org.apache.activemq.web.WebConsolePort">
  <property name="host" value="127.0.0.1"/><property name="port" value="0"/>
</bean></beans>
"""


class Imported(Started):
    """A broker without users, whose file imports jetty.xml with users as ActiveMQ ships them."""

    def text(self) -> str:
        (self.directory / "jetty.xml").write_text(JETTY)
        (self.directory / "jetty-realm.properties").write_text("admin: admin, admin\nuser: user, user\n")
        return f"<beans>{super().text()}<import resource='jetty.xml'/></beans>"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("web")) as started:
        with StompClient(started.ports["stomp"], login=False) as client:
            client.send("CONNECT\naccept-version:1.2\nhost:localhost\nlogin:client\npasscode:c-4711\n\n")
            assert client.receive().startswith("CONNECTED")
            client.transact("SEND\ndestination:/queue/ORDERS\npersistent:true\nreceipt:1\n\nx", "1")
        yield started


@pytest.fixture(scope="module")
def port(broker: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    log: list[str] = []
    command = [*COMMAND, "web", "--data-directory", str(broker.data), "--port", "0"]
    process = AnnouncingProcess(command, tmp_path_factory.mktemp("log"), log)
    process.wait_until(lambda line: LISTENING.search(line) is not None, TIMEOUT_S)
    found = next(match for line in log if (match := LISTENING.search(line)))
    yield int(found[1])
    process.end(signal.SIGTERM)


def fetched(port: int, path: str, user: str = "", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    if user:
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_viewer_scrapes_and_others_do_not(broker: Guarded, port: int) -> None:
    status, text = fetched(port, "/metrics", "vera:v-4711", Accept="application/openmetrics-text")
    assert status == 200
    assert 'spanwire_destination_enqueued_messages_total{destination="ORDERS",type="queue"} 1.0' in text
    assert "spanwire_broker_process_resident_memory_bytes" in text
    assert fetched(port, "/metrics")[0] == 401
    assert fetched(port, "/metrics", "vera:wrong")[0] == 401
    assert fetched(port, "/metrics", "client:c-4711")[0] == 403


def test_health_is_public_and_good(port: int) -> None:
    for path in ("/health/live", "/health/ready"):
        status, text = fetched(port, path)
        assert (status, json.loads(text)["status"]) == (200, "pass")


def basic(user: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


def posted(port: int, path: str, user: str, content: object = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    headers = basic(user)
    if content is not None:
        headers["Content-Type"] = "application/json"
    connection.request("POST", path, None if content is None else json.dumps(content), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_an_operator_pauses_a_queue_and_a_viewer_sees_it(broker: Guarded, port: int) -> None:
    assert posted(port, "/api/v1/queues/ORDERS/pause", "vera:v-4711")[0] == 403
    status, text = posted(port, "/api/v1/queues/ORDERS/pause", "otto:o-4711")
    assert (status, json.loads(text)["result"][0]["paused"]) == (200, True)
    broker.awaits("for user otto at http://127.0.0.1:")
    shown = ControlClient(broker.data, TIMEOUT_S).ask("destinations")
    assert isinstance(shown, list)
    assert [row["paused"] for row in shown if row["destination"] == "queue://ORDERS"] == [True]
    assert posted(port, "/api/v1/queues/ORDERS/resume", "otto:o-4711")[0] == 200
    assert posted(port, "/api/v1/queues/MISSING/pause", "otto:o-4711")[0] == 409
    assert posted(port, "/api/v1/queues/ORDERS/delete", "otto:o-4711")[0] == 403


def test_an_operator_sends_copies_and_moves(broker: Guarded, port: int) -> None:
    otto = "otto:o-4711"
    status, text = posted(port, "/api/v1/queues/IN/send", otto, {"body": "hello", "properties": {"n": 1}})
    assert (status, json.loads(text)["result"]["destination"]) == (200, "queue://IN")
    for path, key in (("copy", "copied"), ("move", "moved")):
        status, text = posted(port, f"/api/v1/queues/IN/{path}", otto, {"target": path, "selector": "n = 1"})
        assert (status, json.loads(text)["result"][0][key]) == (200, 1)
    shown = ControlClient(broker.data, TIMEOUT_S).ask("destinations")
    assert isinstance(shown, list)
    pending = {row["destination"].partition("://")[2]: row["pending"] for row in shown}
    assert [pending[name] for name in ("IN", "copy", "move")] == [0, 1, 1]
    status, text = posted(port, "/api/v1/queues/copy/browse", otto)
    assert json.loads(text)["result"]["messages"][0]["body"] == "hello"
    assert posted(port, "/api/v1/queues/IN/send", "vera:v-4711", {"body": "x"})[0] == 403
    alone = json.loads(fetched(port, "/api/v1/queues/ORDERS", "vera:v-4711")[1])
    assert (alone["pending"], alone["statistics_enabled"], alone["producer_flow_control"]) == (1, False, True)


def test_a_list_shows_what_the_broker_has(port: int) -> None:
    status, text = fetched(port, "/api/v1/queues?destination=*ORDERS", "vera:v-4711")
    page = json.loads(text)
    assert (status, page["total"], page["items"][0]["pending"]) == (200, 1, 1)
    assert json.loads(fetched(port, "/api/v1/broker", "vera:v-4711")[1])["pending"] >= 1


def test_a_stream_shows_a_send_without_a_poll_by_its_client(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request("GET", "/api/v1/events?views=topics&destination=topic://STREAMED", headers=basic("vera:v-4711"))
    stream = connection.getresponse()
    assert (stream.status, stream.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    while stream.readline() != b"event: open\n":
        pass
    assert posted(port, "/api/v1/topics/STREAMED/send", "otto:o-4711", {"body": "x"})[0] == 200
    while stream.readline() != b"event: topics\n":
        pass
    content = json.loads(stream.readline().removeprefix(b"data: "))
    assert [(row["destination"], row["enqueued"]) for row in content["changed"]] == [("topic://STREAMED", 1)]
    stream.close()
    connection.close()


def test_jolokia_shows_the_count_of_the_tutorial(port: int) -> None:
    bean = "org.apache.activemq:type=Broker,brokerName=tested,destinationType=Queue,destinationName=ORDERS"
    status, text = fetched(port, f"/api/jolokia/read/{bean}/EnqueueCount", "vera:v-4711")
    assert (status, json.loads(text)["value"]) == (200, 1)


def test_s24_clients_that_send_half_a_head_delay_nobody(port: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    slow = [
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(1_100)
    ]  # more than there are places
    for client in slow:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: ")
    assert fetched(port, "/health/live")[0] == 200
    for client in slow:
        client.close()


def raw(port: int, request: bytes) -> bytes:
    """What the port answers to some bytes, to the end of the connection or of a first line."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client:
        client.sendall(request)
        received = b""
        while b"\r\n" not in received and (data := client.recv(65536)):
            received += data
        return received.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"4"),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: x\r\n" * 10_000 + b"\r\n", b"4"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"4"),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"4"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"\x00\xff\r\n\r\n", b"400"),
        (b"GET http://evil.example/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"),
    ],
    ids=["header", "headers", "path", "two lengths", "length and chunks", "no host", "no HTTP", "foreign host"],
)
def test_s24_bad_requests_get_a_clear_status_and_the_broker_goes_on(port: int, request_: bytes, status: bytes) -> None:
    assert raw(port, request_).startswith(b"HTTP/1.1 " + status)
    assert fetched(port, "/health/live")[0] == 200


def test_metrics_are_printed_without_a_port(broker: Guarded) -> None:
    done = spanwire("metrics", "--data-directory", str(broker.data))
    assert (done.returncode, done.stderr) == (0, "")
    assert 'spanwire_destination_pending_messages{destination="ORDERS",type="queue"} 1.0' in done.stdout
    assert done.stdout.endswith("# EOF\n")


def test_promtool_accepts_the_metrics(port: int) -> None:
    require("promtool")
    text = fetched(port, "/metrics", "vera:v-4711", Accept="text/plain")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


class Served(Started):
    """A broker that starts its web process."""

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        return head + '  <web port="0"/>\n' + end + tail

    def web_ports(self) -> list[int]:
        return [int(match[1]) for line in list(self.errors) if (match := LISTENING.search(line))]

    def children(self) -> list[int]:
        return [int(text) for text in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


def test_a_broker_starts_its_web_process_again_and_takes_it_along_at_its_end(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.awaits("Listening for web requests at")
        assert fetched(broker.web_ports()[0], "/health/ready")[0] == 200
        (child,) = broker.children()
        os.kill(child, signal.SIGKILL)
        broker.awaits("the web process has ended: exit status -9")
        broker.awaits("Listening for web requests at", 2)
        port = broker.web_ports()[1]
        assert fetched(port, "/metrics")[0] == 200
        assert broker.stop() == 0
        with pytest.raises(ConnectionRefusedError):
            fetched(port, "/health/live")
        assert sum("web process has ended" in line for line in broker.errors) == 1


def test_a_hang_up_of_all_processes_ends_neither_the_broker_nor_its_web_process(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.awaits("Listening for web requests at")
        children = broker.children()
        for process in (*children, broker.pid):
            os.kill(process, signal.SIGHUP)
        broker.awaits("nothing has changed")
        assert fetched(broker.web_ports()[0], "/health/live")[0] == 200
        assert broker.children() == children


def test_health_has_the_exit_codes_of_nagios(broker: Guarded, tmp_path: Path) -> None:
    directory = ("--data-directory", str(broker.data))
    good = spanwire("health", *directory)
    assert (good.returncode, good.stdout.splitlines()[0]) == (0, "SPANWIRE OK - 6 checks")
    warned = spanwire("health", *directory, "--max-pending", "1")
    assert warned.returncode == 0
    for option, words in (("--max-age", "ages"), ("--max-dead-letters", "dead letters")):
        checked = spanwire("health", *directory, option, "3600")
        assert (checked.returncode, f"OK {words}: " in checked.stdout) == (0, True)
    full = spanwire("health", *directory, "--max-memory", "0", "--json")
    assert (full.returncode, json.loads(full.stdout)["level"]) == (1, "WARNING")
    metrics = spanwire("health", *directory, "--metrics", "--max-memory", "0")
    assert 'spanwire_health_level{check="memory"} 1.0' in metrics.stdout.splitlines()
    families = {family.name for family in text_string_to_metric_families(metrics.stdout)}
    assert families == {"spanwire_health_level"}
    missing = spanwire("health", "--data-directory", str(tmp_path), "--json")
    assert (missing.returncode, json.loads(missing.stdout)["level"]) == (2, "CRITICAL")


def test_s19_a_port_for_other_machines_is_refused_without_users(tmp_path: Path) -> None:
    with Started(tmp_path) as opened:
        done = spanwire("web", "--data-directory", str(opened.data), "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert "without authentication" in done.stderr


def test_the_console_s_users_of_activemq_see_and_operate_a_broker_without_users(tmp_path: Path) -> None:
    with Imported(tmp_path, arguments=("-D", f"activemq.conf={tmp_path}")) as started:
        started.awaits("Listening for web requests at: ")
        port = next(int(found[1]) for line in started.errors if (found := LISTENING.search(line)))
        queues, purge, send = "/api/v1/queues", "/api/v1/queues/A/purge", "/api/message/A?type=queue&body=x"
        assert (fetched(port, queues)[0], fetched(port, queues, "user:user")[0]) == (401, 200)
        assert (posted(port, send, ":")[0], posted(port, send, "user:user")[0]) == (401, 200)
        assert (posted(port, purge, "user:user", {})[0], posted(port, purge, "admin:admin", {})[0]) == (403, 200)
