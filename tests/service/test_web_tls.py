"""The web port over TLS: key stores of the configuration, read again at a reload; no open port by a reload."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from pathlib import Path

from tests.service.started import TIMEOUT_S, Started, spanwire
from tests.support.certificates import Authority
from tests.support.ports import free_port

HOST = "127.0.0.1"
LISTENING = re.compile(r"Listening for web requests at: https://127\.0\.0\.1:(\d+)")


class Encrypted(Started):
    """A broker whose web port and STOMP connector have TLS."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority()
        self.key_store = directory / "broker.pem"
        self.issue("first")
        self.context = ssl.create_default_context(cadata=self.authority.pem.decode())

    def issue(self, name: str) -> None:
        self.authority.issue(CN=name).write_pem(self.key_store)

    def text(self) -> str:
        stores = (
            f'<sslContext><sslContext keyStore="file:{self.key_store}"/></sslContext>\n  <web port="0" tls="true"/>'
        )
        text = super().text().replace("<transportConnectors>", stores + "\n  <transportConnectors>")
        return text.replace('uri="stomp://', 'uri="stomp+ssl://')

    def shown(self, port: int) -> tuple[str, ssl.SSLSocket]:
        """The name in the certificate of a port, and the connection."""
        plain = socket.create_connection((HOST, port), TIMEOUT_S)
        client = self.context.wrap_socket(plain, server_hostname=HOST)
        certificate = client.getpeercert()
        assert certificate is not None
        return str(certificate["subject"]).split("'")[3], client


def test_keys_are_read_again_at_a_reload_and_open_connections_stay(tmp_path: Path) -> None:
    with Encrypted(tmp_path) as broker:
        broker.awaits("Listening for web requests at")
        (port,) = [int(match[1]) for line in broker.errors if (match := LISTENING.search(line))]
        connection = http.client.HTTPSConnection(HOST, port, timeout=TIMEOUT_S, context=broker.context)
        connection.request("GET", "/health/live")
        assert connection.getresponse().status == 200
        connection.close()
        stomp = broker.ports["stomp+ssl"]
        assert broker.shown(stomp)[0] == broker.shown(port)[0] == "first"
        client = broker.shown(stomp)[1]
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        assert client.recv(4096).startswith(b"CONNECTED")

        broker.issue("second")
        assert spanwire("reload", "--data-directory", str(broker.data)).returncode == 0
        broker.awaits("the keys of the web port were read again")
        assert broker.shown(stomp)[0] == broker.shown(port)[0] == "second"
        client.sendall(b"SEND\ndestination:/queue/A\nreceipt:1\n\nx\0")
        assert client.recv(4096).startswith(b"RECEIPT")

        broker.key_store.write_text("no key")
        done = spanwire("reload", "--data-directory", str(broker.data))
        assert (done.returncode, "broker.pem" in done.stderr) == (1, True)
        assert broker.shown(stomp)[0] == broker.shown(port)[0] == "second"


USERS = """<plugins><simpleAuthenticationPlugin{}><users>
  <authenticationUser username="vera" password="v-4711" groups="viewers"/>
</users></simpleAuthenticationPlugin></plugins>"""
ANONYMOUS = ' anonymousAccessAllowed="true" anonymousUser="a" anonymousGroup="viewers"'


class Open(Started):
    """A broker with a web port for other machines."""

    port = 0
    users = USERS.format("")

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        web = f'<web host="0.0.0.0" port="{self.port}"/>'
        return head + f"  {web}{self.users}\n".replace("{", "{{") + end + tail


def test_s19_a_reload_that_lets_everybody_in_is_refused_while_the_port_is_open(tmp_path: Path) -> None:
    with Open(tmp_path) as broker:
        broker.awaits("Listening for web requests at")
        text = broker.configuration.read_text("utf-8")
        broker.configuration.write_text(text.replace(USERS.format(""), USERS.format(ANONYMOUS)), "utf-8")
        done = spanwire("reload", "--data-directory", str(broker.data))
    assert done.returncode == 1
    assert "connector web would open http://0.0.0.0:" in done.stderr


def test_s19_a_broker_without_users_opens_no_web_port_for_others(tmp_path: Path) -> None:
    opened = Open(tmp_path)
    opened.port, opened.users = free_port(), ""
    opened.configuration.parent.mkdir(parents=True, exist_ok=True)
    opened.configuration.write_text(
        opened.text().format(data=opened.data, openwire=0, stomp=0, attributes="", inside=""), "utf-8"
    )
    done = spanwire("start", f"xbean:{opened.configuration}")
    assert done.returncode == 1
    assert f"connector web would open http://0.0.0.0:{opened.port} to other machines" in done.stderr
    assert spanwire("config", "check", str(opened.configuration)).returncode == 1
