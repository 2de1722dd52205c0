"""STOMP over WebSocket at a real broker, with the client of the Python library `websockets`."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.service.started import TIMEOUT_S, Started, spanwire
from tests.support.broker_process import COMMAND
from tests.support.certificates import Authority

MIB: Final = 1024 * 1024
ORIGIN: Final = "https://shop.example"
USERS: Final = """\
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="anna" password="a-4711" groups="admins"/>
  </users></simpleAuthenticationPlugin></plugins>"""
CONNECTORS: Final = f"""\
    <transportConnector name="ws" uri="ws://127.0.0.1:0?websocket.allowedOrigins={ORIGIN}"/>
    <transportConnector name="wss" uri="wss://127.0.0.1:0"/>
  </transportConnectors>"""


class WithWebSockets(Started):
    """A broker with users, and both connectors."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.authority: Final = Authority()
        self.key_store: Final = self.authority.issue().write_pem(directory / "broker.pem")

    def text(self) -> str:
        keys = (
            f'<sslContext><sslContext keyStore="file:{self.key_store}"/></sslContext>\n{USERS}\n  <transportConnectors>'
        )
        text = super().text().replace("<transportConnectors>", keys)
        return text.replace("  </transportConnectors>", CONNECTORS)

    @contextmanager
    def websocket(self, scheme: str = "ws", login: bool = True, **options: object) -> Iterator[ClientConnection]:
        """A client, logged in unless told otherwise."""
        if scheme == "wss":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=self.authority.pem.decode())
            options["ssl"] = context
        url = f"{scheme}://localhost:{self.ports[scheme]}/stomp"
        names = ["v12.stomp", "v11.stomp"]
        with connect(url, subprotocols=names, max_size=None, open_timeout=TIMEOUT_S, **options) as client:
            if login:
                client.send("CONNECT\naccept-version:1.2\nhost:x\nlogin:anna\npasscode:a-4711\n\n\0")
                assert said(client).startswith("CONNECTED\n")
            yield client


def said(client: ClientConnection) -> str:
    message = client.recv(TIMEOUT_S)
    return message if isinstance(message, str) else message.decode("latin-1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithWebSockets]:
    with WithWebSockets(tmp_path_factory.mktemp("websocket")) as running:
        yield running


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_a_message_comes_back_over_a_websocket(broker: WithWebSockets, scheme: str) -> None:
    with broker.websocket(scheme) as client:
        assert client.subprotocol == "v12.stomp"
        client.send(f"SUBSCRIBE\nid:1\ndestination:/queue/{scheme}\nack:client-individual\n\n\0")
        client.send(f"SEND\ndestination:/queue/{scheme}\npersistent:true\n\nKöln\0")
        head, _, body = said(client).partition("\n\n")
        assert head.startswith("MESSAGE\n")
        assert body == "Köln\0"
        ack = next(line for line in head.split("\n") if line.startswith("ack:"))
        client.send(f"ACK\nid:{ack.removeprefix('ack:')}\nreceipt:a\n\n\0")
        assert said(client).startswith("RECEIPT\nreceipt-id:a\n")
        client.send("DISCONNECT\nreceipt:d\n\n\0")
        assert said(client).startswith("RECEIPT\nreceipt-id:d\n")
        with pytest.raises(ConnectionClosedOK):
            client.recv(TIMEOUT_S)


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_large_bodies_pass_whole_and_in_fragments(broker: WithWebSockets, scheme: str) -> None:
    body = bytes(range(256)) * (3 * MIB // 256)
    frame = b"SEND\ndestination:/queue/BIG\nreceipt:r\ncontent-length:%d\n\n" % len(body) + body + b"\0"
    with broker.websocket(scheme) as client:
        client.send("SUBSCRIBE\nid:1\ndestination:/queue/BIG\n\n\0")
        client.send(frame)
        client.send([frame[start : start + 100_000] for start in range(0, len(frame), 100_000)])
        received = [client.recv(TIMEOUT_S) for _ in range(4)]
        bodies = [message[message.index(b"\n\n") + 2 : -1] for message in received if isinstance(message, bytes)]
        assert bodies == [body, body]


def test_a_wrong_password_is_an_error_and_the_end(broker: WithWebSockets) -> None:
    with broker.websocket(login=False) as client:
        client.send("CONNECT\naccept-version:1.2\nhost:x\nlogin:anna\npasscode:wrong\n\n\0")
        assert said(client).startswith("ERROR\n")
        with pytest.raises(ConnectionClosed):
            client.recv(TIMEOUT_S)


def test_s23_a_page_of_the_list_may_connect_and_another_one_may_not(broker: WithWebSockets) -> None:
    with broker.websocket(origin=ORIGIN):
        pass
    with pytest.raises(InvalidStatus) as refused, broker.websocket(origin="https://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    broker.awaits("invalid Origin header: https://evil.example; websocket.allowedOrigins of the connector")


def test_a_broker_that_stops_ends_its_websockets_in_order(tmp_path: Path) -> None:
    with WithWebSockets(tmp_path) as stopping, stopping.websocket() as client:
        assert stopping.stop() == 0
        assert "the broker is stopping" in said(client)
        with pytest.raises(ConnectionClosedOK):
            client.recv(TIMEOUT_S)


def test_without_the_extra_a_check_names_the_command_that_installs_it(tmp_path: Path) -> None:
    hidden = (
        "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n: None if n == 'websockets' else find(n)"
    )
    file = tmp_path / "broker.toml"
    file.write_text('[[transport_connectors]]\nname = "w"\nuri = "ws://127.0.0.1:0"\n', "utf-8")
    command = [COMMAND[0], COMMAND[1], f"{hidden}; {COMMAND[2]}"]
    for words in (("config", "check"), ("start",)):
        done = spanwire(*words, str(file), command=command)
        assert done.returncode != 0
        assert "connector w: ws: needs the extra websocket; run: " in done.stdout + done.stderr
