"""Messages over HTTP at a real broker: sending, consuming, sessions, browsing, rights and bad requests."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import fromstring

import pytest

from spanwire.client import connect
from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import COMMAND

LISTENING = re.compile(r"Listening for web requests at: http://127\.0\.0\.1:(\d+)")
USERS = """\
  <plugins>
    <simpleAuthenticationPlugin><users>
      <authenticationUser username="mia" password="m-4711" groups="orders"/>
      <authenticationUser username="rob" password="r-4711" groups="others"/>
    </users></simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue="&gt;" read="orders" write="orders" admin="orders"/>
      <authorizationEntry topic="&gt;" read="orders" write="orders" admin="orders,others"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
  </plugins>
"""
USER = "mia:m-4711"
FORM = "application/x-www-form-urlencoded"
MOUNTS = "demo=/activemq-web-demo,api=/svc,api=/,admin=/console"
LARGE = 5_000_000  # bytes; Classic's servlet cuts a body silently at 100,000
MOST = 6_000_000  # bytes of a frame


class Guarded(Started):
    """A broker with users, rights and a limit of frames."""

    def text(self) -> str:
        text = super().text().replace("{openwire}", f"{{openwire}}?wireFormat.maxFrameSize={MOST}")
        head, end, tail = text.partition("</broker>")
        return head + USERS.replace("{", "{{") + end + tail


class Answer(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


class Servlet:
    """Asks the web process as a script does."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: bytes | None = None, user: str = USER, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            sent["Authorization"] = authorization(user)
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(answer.status, text, {name.lower(): value for name, value in answer.getheaders()})

    def post(self, path: str, body: bytes, **headers: str) -> Answer:
        answer = self.ask("POST", f"/api/message/{path}", body, **{"Content_Type": "text/plain", **headers})
        assert (answer.status, answer.text) == (200, "Message sent"), answer.text
        return answer

    def get(self, path: str) -> Answer:
        return self.ask("GET", f"/api/message/{path}")


def authorization(user: str) -> str:
    return f"Basic {base64.b64encode(user.encode()).decode()}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("rest")) as started:
        yield started


@pytest.fixture(scope="module")
def servlet(broker: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servlet]:
    log: list[str] = []
    command = [*COMMAND, "web", "--data-directory", str(broker.data), "--port", "0", "--mounts", MOUNTS]
    process = AnnouncingProcess(command, tmp_path_factory.mktemp("log"), log)
    process.wait_until(lambda line: LISTENING.search(line) is not None, TIMEOUT_S)
    found = next(match for line in log if (match := LISTENING.search(line)))
    yield Servlet(int(found[1]))
    process.end(signal.SIGTERM)


def test_a_message_comes_back_with_its_id_and_properties(servlet: Servlet) -> None:
    sent = servlet.post("FIRST/A?type=queue&n=7", "grün".encode())
    got = servlet.get("FIRST/A?type=queue&timeout=5000")
    assert (got.status, got.text, got.headers["destination"]) == (200, "grün", "queue://FIRST.A")
    assert (got.headers["id"], got.headers["n"]) == (sent.headers["messageid"], "7")
    assert got.headers["cache-control"] == "no-store"
    assert servlet.get("FIRST/A?type=queue&timeout=1").status == 204


def test_the_form_of_the_guide_sends_to_the_destination_that_it_names(servlet: Servlet) -> None:
    form = b"destination=FORM.B&type=queue&body=Enter+some+text"
    answer = servlet.ask("POST", "/demo/message/FOO/BAR", form, Content_Type=FORM)
    assert (answer.status, answer.text) == (200, "Message sent")
    assert servlet.ask("DELETE", "/demo/message/FORM/B?type=queue&timeout=5000").text == "Enter some text"


@pytest.mark.parametrize("prefix", ["/activemq-web-demo", "/svc", ""])
def test_the_servlets_are_where_the_configuration_puts_its_applications(servlet: Servlet, prefix: str) -> None:
    body = bytes(20_000)  # more than a request may have that is no message
    sent = servlet.ask("POST", f"{prefix}/message/PUT/UP?type=queue", body, Content_Type="application/octet-stream")
    assert sent.text == "Message sent"
    for mount in (prefix, "/console"):
        assert sent.headers["messageid"] in servlet.ask("GET", f"{mount}/queueBrowse/PUT/UP").text
    assert servlet.ask("DELETE", f"{prefix}/message/PUT/UP?type=queue&timeout=5000").text == body.decode()
    assert servlet.ask("POST", "/console/message/PUT/UP?type=queue", b"x").status in (404, 405)


def test_the_demo_pages_are_where_the_configuration_puts_them(servlet: Servlet) -> None:
    assert servlet.ask("GET", "/activemq-web-demo").headers["location"] == "/activemq-web-demo/"
    assert 'action="message/FOO/BAR"' in servlet.ask("GET", "/activemq-web-demo/send.html").text
    assert servlet.ask("GET", "/svc/send.html").status == 404


def test_other_clients_receive_what_was_posted(servlet: Servlet, broker: Guarded) -> None:
    servlet.post("SHARED?type=queue&JMSType=order&JMSCorrelationID=c-1&JMSPriority=8", b"text")
    servlet.post(
        "SHARED?type=queue&JMSDeliveryMode=non-persistent", b"\xff\x00", Content_Type="application/octet-stream"
    )
    with (
        connect(f"tcp://127.0.0.1:{broker.ports['tcp']}", "mia", "m-4711") as connection,
        connection.session() as session,
    ):
        consumer = session.create_consumer("queue://SHARED")
        first, second = consumer.receive(TIMEOUT_S), consumer.receive(TIMEOUT_S)
    assert first is not None
    assert second is not None
    assert (first.text, first.message_type, first.correlation_id) == ("text", "order", "c-1")
    assert (first.priority, first.persistent, second.priority, second.persistent) == (8, True, 5, False)
    assert second.body == b"\xff\x00"


def test_a_large_body_is_never_cut(servlet: Servlet) -> None:
    body = b"x" * LARGE
    servlet.post("LARGE?type=queue", body)
    assert servlet.get("LARGE?type=queue&timeout=5000").text == body.decode()


def test_a_body_above_the_broker_s_limit_is_refused_and_not_cut(servlet: Servlet) -> None:
    answer = servlet.ask("POST", "/api/message/LARGER?type=queue", b"x" * (MOST + 1), Content_Type="text/plain")
    assert (answer.status, f"limit of {MOST}" in answer.text) == (413, True)
    published = {"messages": [{"body": "x" * (MOST + 1)}]}
    path = "/api/v1/destinations/LARGER/messages"
    answer = servlet.ask("POST", path, json.dumps(published).encode(), Content_Type="application/json")
    assert answer.status == 413, answer.text
    assert servlet.get("LARGER?type=queue&timeout=1").status == 204


def test_a_selector_chooses_messages(servlet: Servlet) -> None:
    servlet.post("CHOSEN?type=queue&colour=red", b"one")
    servlet.post("CHOSEN?type=queue&colour=blue", b"two")
    selector = quote("colour = 'blue'")
    assert servlet.get(f"CHOSEN?type=queue&timeout=5000&selector={selector}").text == "two"
    answer = servlet.ask("GET", "/api/message/CHOSEN?type=queue&timeout=5000", selector="colour = 'red'")
    assert answer.text == "one"
    assert servlet.get("CHOSEN?type=queue&selector=colour+%3D").status == 400


def test_a_session_keeps_the_messages_of_a_topic_between_two_reads(servlet: Servlet) -> None:
    read = "NEWS?type=topic&clientId=reader"
    assert servlet.get(f"{read}&timeout=1").status == 204
    servlet.post("NEWS?type=topic", b"one")
    servlet.post("NEWS?type=topic", b"two")
    assert servlet.get(f"{read}&timeout=5000").text == "one"
    assert servlet.get(f"{read}&timeout=5000&oneShot=true").text == "two"
    servlet.post("NEWS?type=topic", b"three")
    assert servlet.get(f"{read}&timeout=1").status == 204


def test_an_unsubscribed_session_has_ended(servlet: Servlet) -> None:
    assert servlet.get("ENDED?type=topic&clientId=reader&timeout=1").status == 204
    path = "/api/message/ENDED?type=topic&clientId=reader&action=unsubscribe"
    assert servlet.ask("POST", path).status == 200
    assert servlet.ask("POST", path).status == 404


def waiting(servlet: Servlet, path: str) -> socket.socket:
    """A client that waits for a message."""
    client = socket.create_connection(("127.0.0.1", servlet.port), TIMEOUT_S)
    head = f"GET /api/message/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization(USER)}\r\n\r\n"
    client.sendall(head.encode())
    return client


def consumers(broker: Guarded, queue: str) -> int:
    """The number of consumers of a queue."""
    rows = ControlClient(broker.data, TIMEOUT_S).ask("destinations")
    assert isinstance(rows, list)
    return next((int(row["consumers"]) for row in rows if row["destination"] == queue), 0)


def test_two_reads_with_one_client_id_at_a_time_are_refused(servlet: Servlet, broker: Guarded) -> None:
    with waiting(servlet, "TWICE?type=queue&clientId=c&timeout=20000"):
        while not consumers(broker, "queue://TWICE"):
            pass
        answer = servlet.get("TWICE?type=queue&clientId=c&timeout=1")
        assert (answer.status, "clientId c" in answer.text) == (409, True)


def test_a_message_for_a_client_that_has_gone_stays_in_the_queue(servlet: Servlet, broker: Guarded) -> None:
    with waiting(servlet, "GONE?type=queue&timeout=20000"):
        while not consumers(broker, "queue://GONE"):
            pass
    while consumers(broker, "queue://GONE"):
        pass
    servlet.post("GONE?type=queue", b"kept")
    assert servlet.get("GONE?type=queue&timeout=5000").text == "kept"


def test_browsing_leaves_the_messages_where_they_are(servlet: Servlet) -> None:
    ids = [servlet.post(f"SEEN?type=queue&n={number}", b"<text>").headers["messageid"] for number in range(3)]
    view = "/admin/queueBrowse/SEEN"
    simple = fromstring(servlet.ask("GET", view).text)
    assert (simple.get("queue"), [one.get("id") for one in simple]) == ("queue://SEEN", ids)
    full = fromstring(servlet.ask("GET", f"{view}?view=xml&maxMessages=2").text)
    assert [one.findtext("text") for one in full] == ["<text>"] * 2
    chosen = fromstring(servlet.ask("GET", f"{view}?selector=n%3D%271%27").text)
    assert [one.get("id") for one in chosen] == [ids[1]]
    feed = servlet.ask("GET", "/demo/queueBrowse/SEEN?view=rss&feedType=atom_1.0&contentType=application/atom%2Bxml")
    assert feed.headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert all(one in feed.text for one in ids)
    one = fromstring(servlet.ask("GET", f"{view}?msgId={ids[2]}").text)
    assert [message.findtext("messageId") for message in one] == [ids[2]]
    assert servlet.ask("GET", f"{view}?msgId=ID:gone").status == 404
    for number in range(3):
        assert servlet.get("SEEN?type=queue&timeout=5000").headers["n"] == str(number)


@pytest.mark.parametrize(
    "query", ["view=page", "view=rss&feedType=x", "contentType=text/html", "type=topic", "maxMessages=x", "view=../x"]
)
def test_s17_an_unknown_view_is_refused(servlet: Servlet, query: str) -> None:
    assert servlet.ask("GET", f"/admin/queueBrowse/SEEN?{query}").status == 400


def test_a_user_needs_a_login_and_rights(servlet: Servlet) -> None:
    for user, status in (("", 401), ("mia:wrong", 401), ("rob:r-4711", 403)):
        answer = servlet.ask("POST", "/api/message/RIGHTS?type=queue", b"x", user, Content_Type="text/plain")
        assert answer.status == status, answer.text
        assert servlet.ask("GET", "/api/message/RIGHTS?type=queue&timeout=1", None, user).status == status
        assert servlet.ask("GET", "/admin/queueBrowse/RIGHTS", None, user).status == status
    assert servlet.ask("GET", "/api/message/RIGHTS", None, "").headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
    ],
)
def test_s18_a_page_of_another_origin_consumes_nothing(servlet: Servlet, headers: dict[str, str]) -> None:
    servlet.post("OWN?type=queue", b"mine")
    path = "/api/message/OWN?type=queue&timeout=5000"
    for method in ("GET", "DELETE"):
        assert servlet.ask(method, path, None, USER, **headers).status in (403, 421)
    answer = servlet.ask("GET", path, Sec_Fetch_Site="same-origin", Origin=f"http://127.0.0.1:{servlet.port}")
    assert answer.text == "mine"


def test_s18_head_consumes_nothing_and_put_is_refused(servlet: Servlet) -> None:
    servlet.post("HEAD?type=queue", b"still there")
    for method in ("HEAD", "PUT"):
        answer = servlet.ask(method, "/api/message/HEAD?type=queue&timeout=1")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST, DELETE")
    assert servlet.get("HEAD?type=queue&timeout=5000").text == "still there"


def test_s18_properties_never_set_headers_of_the_answer(servlet: Servlet, broker: Guarded) -> None:
    with (
        connect(f"tcp://127.0.0.1:{broker.ports['tcp']}", "mia", "m-4711") as connection,
        connection.session() as session,
    ):
        properties = {"Set-Cookie": "a=b", "evil": "x\r\nSet-Cookie: c=d", "Refresh": "0", "good": "yes"}
        session.create_producer("queue://EVIL").send("body", properties)
    answer = servlet.get("EVIL?type=queue&timeout=5000")
    assert (answer.text, answer.headers["good"]) == ("body", "yes")
    assert not {"set-cookie", "evil", "refresh"} & set(answer.headers)
    assert answer.headers["omitted-properties"] == "Set-Cookie, evil, Refresh"


def test_s24_a_body_above_the_limit_is_refused_before_it_is_read(servlet: Servlet) -> None:
    with socket.create_connection(("127.0.0.1", servlet.port), TIMEOUT_S) as client:
        head = f"POST /api/message/BIG HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {101 * 1024 * 1024}\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("length", ["-1", "+1", "1000000000", "", "1, 2", "0x1", "\u0663"])
def test_s14_a_false_length_of_a_body_is_refused_and_the_next_request_is_answered(
    servlet: Servlet, length: str
) -> None:
    with socket.create_connection(("127.0.0.1", servlet.port), TIMEOUT_S) as client:
        head = f"POST /api/message/LENGTH?type=queue HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\nx"
        client.sendall(head.encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 4")
    assert servlet.get("LENGTH?type=queue&timeout=1").status == 204


def test_s11_a_compressed_body_is_kept_as_it_is_and_never_inflated(servlet: Servlet) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    binary = {"Content_Type": "application/octet-stream", "Content_Encoding": "gzip"}
    assert servlet.ask("POST", "/api/message/BOMB?type=queue", bomb, **binary).text == "Message sent"
    got = http.client.HTTPConnection("127.0.0.1", servlet.port, timeout=TIMEOUT_S)
    got.request("GET", "/api/message/BOMB?type=queue", headers={"Authorization": authorization(USER)})
    assert got.getresponse().read() == bomb
    got.close()


def test_s16_line_ends_of_a_parameter_make_no_header(servlet: Servlet) -> None:
    servlet.post("LINES?type=queue&n=1%0D%0ASet-Cookie:%20a=b&JMSType=x%0D%0AX-Evil:%20y", b"x")
    got = servlet.get("LINES?type=queue&timeout=5000")
    assert not {"set-cookie", "x-evil", "n", "jmstype"} & set(got.headers)
    assert got.headers["omitted-properties"] == "n"


def test_s17_names_that_look_alike_are_different_destinations(servlet: Servlet) -> None:
    twins = ["TWIN", "TW\u0399N", "\uff34WIN", "TWI\u0301N", "TW\u00cdN", "twin", "TWIN\u200b"]
    for number, twin in enumerate(twins):
        servlet.post(f"{quote(twin)}?type=queue", str(number).encode())
    for number, twin in enumerate(twins):
        got = servlet.get(f"{quote(twin)}?type=queue&timeout=5000")
        assert (got.text, got.headers["destination"]) == (str(number), f"queue://{quote(twin)}")


@pytest.mark.parametrize(
    "path", ["", "A/..%2F..%2Fetc", "A%00B", "A%0D%0AB", "a//b", "%20A", "A?type=temp-queue", "A?destination=x://y"]
)
def test_s17_a_name_that_is_no_destination_is_refused(servlet: Servlet, path: str) -> None:
    answer = servlet.ask("POST", f"/api/message/{path}", b"x", Content_Type="text/plain")
    assert answer.status in (400, 404)


def test_the_demo_pages_lead_to_the_servlets(servlet: Servlet) -> None:
    assert servlet.ask("GET", "/demo", user="").headers["location"] == "/demo/"
    page = servlet.ask("GET", "/demo/", user="")
    assert "style-src 'self'" in page.headers["content-security-policy"]
    links = re.findall(r'href="([^"]*)"', page.text)
    assert len(links) == 8
    for link in links:
        assert servlet.ask(
            "GET", f"/demo/{link.replace('&amp;', '&').replace('timeout=10000', 'timeout=1')}"
        ).status in (200, 204)


PAGES = Path(__file__).parents[2] / "docs" / "guides" / "http"
VARYING = (
    (re.compile(r"ID:[^\"]+"), "ID"),
    (re.compile(r'"timestamp":[0-9]+'), "TIME"),
    (re.compile(r'"lease":"[\w-]+"'), "LEASE"),
)
LEASE = re.compile(r'"lease":"([\w-]+)"')


def masked(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text.strip()


@pytest.mark.parametrize(("page", "count"), [("messages.md", 3), ("json.md", 4)])
def test_the_commands_of_the_guides_answer_as_shown(servlet: Servlet, page: str, count: int) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    block = (PAGES / page).read_text().split("```console\n")[1].split("```")[0]
    commands = [(head, shown) for head, _, shown in (part.partition("\n") for part in block.split("$ ") if part)]
    asked = [(command, shown) for command, shown in commands if command.startswith("curl ")]
    assert len(asked) == count
    leases: dict[str, str] = {}
    for command, shown in asked:
        words = shlex.split(command.replace("localhost:8161", f"127.0.0.1:{servlet.port}"))
        for named, real in leases.items():
            words = [word.replace(named, real) for word in words]
        done = subprocess.run(
            [curl, "--silent", "--user", USER, *words[1:]],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        assert masked(done.stdout) == masked(shown)
        if (named_lease := LEASE.search(shown)) and (real_lease := LEASE.search(done.stdout)):
            leases[named_lease[1]] = real_lease[1]


def test_messages_in_json_need_a_login_and_rights(servlet: Servlet) -> None:
    for user, status in (("", 401), ("mia:wrong", 401), ("rob:r-4711", 403)):
        path = "/api/v1/destinations/RIGHTS/messages"
        for method, end, body in (("POST", "", b"{}"), ("GET", "", None), ("POST", "/receive", b"{}")):
            answer = servlet.ask(method, path + end, body, user, Content_Type="application/json")
            assert answer.status == status, (method, end, answer.text)
        answer = servlet.ask("GET", f"{path}/stream", None, user, Accept="text/event-stream")
        assert answer.status == status


def test_a_lease_belongs_to_its_user(servlet: Servlet, broker: Guarded) -> None:
    path = "/api/v1/destinations/LEASED/messages"
    servlet.ask("POST", path, b'{"body": "x"}', Content_Type="application/json")
    answer = servlet.ask("POST", f"{path}/receive", b"{}", Content_Type="application/json")
    found = LEASE.search(answer.text)
    assert found is not None
    assert servlet.ask("POST", f"/api/v1/leases/{found[1]}/acknowledge", user="rob:r-4711").status == 404
    assert servlet.ask("POST", f"/api/v1/leases/{found[1]}/acknowledge").text == '{"acknowledged":1}'
