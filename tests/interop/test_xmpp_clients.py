"""Two clients for XMPP, slixmpp (Python) and @xmpp/client (node), beside STOMP and OpenWire at one broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.client import blocking
from tests.service.started import TIMEOUT_S, Started, StompClient, spanwire
from tests.support.certificates import Authority
from tests.support.npm import require_project
from tests.support.peers import require
from tests.support.ports import free_port

PROGRAMS: Final = Path(__file__).parent / "javascript"
BROKER: Final = """\
<broker brokerName="localhost" dataDirectory="{data}"{attributes}>{inside}
  <plugins>
    <simpleAuthenticationPlugin>
      <users>
        <authenticationUser username="alice" password="w0nder" groups="chat"/>
        <authenticationUser username="bob" password="bu1lder" groups="chat"/>
        <authenticationUser username="root" password="r00ted" groups="admins"/>
      </users>
    </simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue="&gt;" read="admins" write="admins" admin="admins"/>
      <authorizationEntry topic="&gt;" read="admins" write="admins" admin="admins"/>
      <authorizationEntry queue="orders" read="chat" write="chat" admin="chat"/>
      <authorizationEntry queue="alice" read="chat" write="chat" admin="chat"/>
      <authorizationEntry queue="bob" read="chat" write="chat" admin="chat"/>
      <authorizationEntry topic="prices" read="chat" write="chat" admin="chat"/>
      <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="chat" write="chat" admin="chat"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
  </plugins>
  <sslContext><sslContext keyStore="{keys}"/></sslContext>
  <transportConnectors>
    <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>
    <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
    <transportConnector name="xmpp" uri="xmpp://127.0.0.1:{xmpp}"/>
    <transportConnector name="xmpps" uri="xmpp+ssl://127.0.0.1:0"/>
  </transportConnectors>
</broker>
"""
ROOM: Final = "prices@conference.localhost"


class ChatBroker(Started):
    """A broker with users, a certificate and XMPP connectors."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        authority = Authority()
        authority.issue(("localhost", "127.0.0.1")).write_pem(directory / "broker.pem")
        self.authority: Final = authority.write_certificate(directory / "authority.pem")
        self._port: Final = port

    def text(self) -> str:
        port = str(self.ports.get("xmpp", self._port))
        return BROKER.replace("{xmpp}", port).replace("{keys}", str(self.directory / "broker.pem"))

    def stomp(self) -> StompClient:
        client = StompClient(self.ports["stomp"], login=False)
        client.send("CONNECT\naccept-version:1.2\nhost:localhost\nlogin:root\npasscode:r00ted\n\n")
        assert client.receive().startswith("CONNECTED")
        client.transact("SEND\ndestination:/queue/SECRET\nreceipt:s\n\nkept", "s")  # so that the queue exists
        return client


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChatBroker]:
    with ChatBroker(tmp_path) as started:
        yield started


def slixmpp_client(broker: ChatBroker, user: str, password: str, mechanism: str = "") -> Any:
    """A client of slixmpp that hears into ``heard``.

    It begins TLS and believes the broker's certificate, or logs in by ``mechanism`` without TLS.
    """
    require("slixmpp")
    import slixmpp  # noqa: PLC0415 -- a peer that may be missing

    client = slixmpp.ClientXMPP(f"{user}@localhost/desk", password, sasl_mech=mechanism or None)
    client.register_plugin("xep_0030")
    client.register_plugin("xep_0045")
    client.register_plugin("xep_0199")
    client.ca_certs = str(broker.authority)
    client.enable_starttls = not mechanism
    client.enable_direct_tls = False
    client.enable_plaintext = bool(mechanism)
    client.plugin["feature_mechanisms"].unencrypted_plain = True
    client.plugin["feature_mechanisms"].unencrypted_scram = True
    client.heard = asyncio.Queue()
    client.add_event_handler("message", client.heard.put_nowait)
    client.add_event_handler("message_error", client.heard.put_nowait)
    return client


async def online(client: Any, port: int) -> None:
    """Connect and log in, or raise what the broker answers."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def settle(text: str) -> Callable[[object], None]:
        return lambda _: None if started.done() else started.set_result(text)

    client.add_event_handler("session_start", settle("started"))
    client.add_event_handler("failed_all_auth", settle("refused"))
    client.connect("127.0.0.1", port)
    assert await asyncio.wait_for(started, TIMEOUT_S) == "started", "the broker refused the login"


def converse(dialogue: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(dialogue, TIMEOUT_S)

    asyncio.run(limited())


async def heard(client: Any) -> Any:
    """The next message with a body."""
    while True:
        stanza = await asyncio.wait_for(client.heard.get(), TIMEOUT_S)
        if stanza["body"] or stanza["type"] == "error":
            return stanza


@pytest.mark.parametrize("mechanism", ["", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"])
def test_slixmpp_exchanges_messages_with_queues_and_topics(broker: ChatBroker, mechanism: str) -> None:
    async def dialogue() -> None:
        client = slixmpp_client(broker, "alice", "w0nder", mechanism)
        await online(client, broker.ports["xmpp"])
        client.send_presence()
        await client.plugin["xep_0199"].ping("localhost")
        client.send_message("orders@localhost", "eine Bestellung ☂", mtype="chat")
        await asyncio.to_thread(read_from_stomp, stomp, "/queue/orders", "eine Bestellung ☂")
        await client.plugin["xep_0045"].join_muc_wait(ROOM, "al", timeout=TIMEOUT_S)
        stomp.transact("SUBSCRIBE\nid:t\ndestination:/topic/prices\nreceipt:t\n\n", "t")
        client.send_message(ROOM, "42", mtype="groupchat")
        echo = await heard(client)
        assert (str(echo["from"]), echo["body"]) == (f"{ROOM}/al", "42")
        assert stomp.receive().endswith("\n\n42")
        stomp.send("UNSUBSCRIBE\nid:t\n\n")
        stomp.send("SEND\ndestination:/topic/prices\n\n43")
        news = await heard(client)
        assert (news["type"], str(news["from"]), news["body"]) == ("groupchat", f"{ROOM}/broker", "43")
        stomp.send("SEND\ndestination:/queue/alice\nreply-to:/queue/answers\n\nhello alice")
        direct = await heard(client)
        assert (direct["type"], str(direct["from"]), direct["body"]) == ("chat", "answers@localhost", "hello alice")
        client.send_message("secret@localhost", "psst", mtype="chat")
        refusal = await heard(client)
        assert (refusal["type"], refusal["error"]["condition"]) == ("error", "forbidden")
        await client.disconnect()

    with broker.stomp() as stomp:
        converse(dialogue())


def read_from_stomp(stomp: StompClient, destination: str, body: str) -> None:
    stomp.transact(f"SUBSCRIBE\nid:q\ndestination:{destination}\nreceipt:q\n\n", "q")
    assert stomp.receive().endswith(f"\n\n{body}")
    stomp.transact("UNSUBSCRIBE\nid:q\nreceipt:u\n\n", "u")


def test_xmpp_js_converses_under_node(broker: ChatBroker) -> None:
    modules = require_project(PROGRAMS / "xmpp")
    url = f"xmpp://127.0.0.1:{broker.ports['xmpp']}"
    with broker.stomp() as stomp, node(broker, modules, url, "bob", "bu1lder") as program:
        events = program.until("ready")
        read_from_stomp(stomp, "/queue/orders", "Köln ☂ & <so>")
        stomp.send("SEND\ndestination:/topic/prices\n\n43")
        assert program.next() == ["groupchat", ROOM, "43"]
        stomp.send("SEND\ndestination:/queue/bob\n\nhello bob")
        events += program.until("done")
    assert events == [
        ["online", "bob@localhost"],
        ["pong"],
        ["stored", "m1"],
        ["room", f"{ROOM}/node", "42"],
        ["ready"],
        ["chat", "bob@localhost", "hello bob"],
        ["error", "forbidden"],
        ["done"],
    ]


def test_xmpp_js_is_refused_with_a_wrong_password(broker: ChatBroker) -> None:
    modules = require_project(PROGRAMS / "xmpp")
    with node(broker, modules, f"xmpp://127.0.0.1:{broker.ports['xmpp']}", "bob", "wrong") as program:
        assert program.until("refused")[-1] == ["refused", "not-authorized"]
    broker.awaits("refused: user bob")


class Node:
    """A program under node that tells events as lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process: Final = process

    def next(self) -> list[object]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended"
        event: list[object] = json.loads(line)
        return event

    def until(self, name: str) -> list[list[object]]:
        """All events up to one."""
        events: list[list[object]] = []
        while not events or events[-1][0] != name:
            events.append(self.next())
        return events


@contextmanager
def node(broker: ChatBroker, modules: Path, *arguments: str) -> Iterator[Node]:
    command = ["node", str(PROGRAMS / "xmpp_client.js"), str(modules), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
        encoding="utf-8",
        env={**os.environ, "NODE_EXTRA_CA_CERTS": str(broker.authority)},
    )
    watch = threading.Timer(TIMEOUT_S, process.kill)
    watch.start()
    try:
        yield Node(process)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        watch.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_xmpp_js_converses_inside_tls_from_the_first_byte_on(broker: ChatBroker) -> None:
    modules = require_project(PROGRAMS / "xmpp")
    with (
        broker.stomp() as stomp,
        node(broker, modules, f"xmpps://localhost:{broker.ports['xmpp+ssl']}", "bob", "bu1lder") as program,
    ):
        events = program.until("ready")
        stomp.send("SEND\ndestination:/topic/prices\n\n43")
        program.next()
        stomp.send("SEND\ndestination:/queue/bob\n\nhello bob")
        events += program.until("done")
    assert ["room", f"{ROOM}/node", "42"] in events


def test_a_message_with_a_receipt_survives_the_death_of_the_broker_and_the_client_comes_back(
    broker: ChatBroker,
) -> None:
    async def dialogue() -> None:
        client = slixmpp_client(broker, "alice", "w0nder")
        client.register_plugin("xep_0184")
        stored = asyncio.Event()
        client.add_event_handler("receipt_received", lambda _: stored.set())
        await online(client, broker.ports["xmpp"])
        message = client.make_message("bob@localhost", "kept", mtype="chat")
        message["request_receipt"] = True
        message.send()
        await stored.wait()
        lost = asyncio.Event()
        client.add_event_handler("disconnected", lambda _: lost.set())
        await asyncio.to_thread(broker.kill)
        await lost.wait()
        client.cancel_connection_attempt()
        await asyncio.to_thread(broker.start)
        later = slixmpp_client(broker, "bob", "bu1lder")
        await online(later, broker.ports["xmpp"])
        later.send_presence()
        kept = await heard(later)
        assert (kept["from"].bare, kept["body"]) == ("alice@localhost", "kept")
        await later.disconnect()

    converse(dialogue())


def test_slixmpp_is_refused_with_a_wrong_password(broker: ChatBroker) -> None:
    async def dialogue() -> None:
        client = slixmpp_client(broker, "alice", "wrong")
        with pytest.raises(AssertionError, match="the broker refused the login"):
            await online(client, broker.ports["xmpp"])
        await client.disconnect()

    converse(dialogue())
    broker.awaits("refused: user alice")


def test_a_jms_client_and_an_xmpp_client_talk_and_operators_see_the_protocol(broker: ChatBroker) -> None:
    def exchange() -> Any:
        """Take an order and answer it, over OpenWire."""
        with blocking.connect(broker.broker_url, "root", "r00ted") as connection, connection.session() as session:
            order = session.create_consumer("queue://orders").receive(TIMEOUT_S)
            assert order is not None
            session.reply(order, "taken")
            return order

    async def dialogue() -> None:
        client = slixmpp_client(broker, "bob", "bu1lder")
        await online(client, broker.ports["xmpp"])
        client.send_presence()
        client.send_message("orders@localhost", "one", mtype="chat")
        order = await asyncio.to_thread(exchange)
        assert (order.text, order.properties["XMPPTo"]) == ("one", "orders@localhost")
        assert str(order.reply_to) == "queue://bob"
        answer = await heard(client)
        assert (answer["from"].bare, answer["body"]) == ("bob@localhost", "taken")
        done = await asyncio.to_thread(spanwire, "connection", "list", "--json", "--data-directory", str(broker.data))
        rows = json.loads(done.stdout)
        assert [(row["user_name"], row["protocol"], row["connector"]) for row in rows] == [("bob", "xmpp 1.0", "xmpp")]
        await client.disconnect()

    converse(dialogue())


def test_the_program_of_the_guide_does_what_it_shows(tmp_path: Path) -> None:
    require("slixmpp")
    page = (Path(__file__).parents[2] / "docs" / "guides" / "xmpp.md").read_text("utf-8")
    connector, program = (re.findall(rf"```{kind}[^\n]*\n(.*?)```", page, re.DOTALL)[0] for kind in ("xml", "python"))
    port = free_port()

    class Guide(Started):
        def text(self) -> str:
            return (
                super()
                .text()
                .replace("</transportConnectors>", f"{connector}</transportConnectors>")
                .replace("61222", str(port))
            )

    with Guide(tmp_path) as guide:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("61222", str(port))],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert (done.stdout, done.returncode) == ("anna@localhost says buy flour\n", 0), done.stderr
        with guide.stomp() as stomp:
            read_from_stomp(stomp, "/queue/orders", "one pizza")
