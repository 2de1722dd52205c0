"""TLS over real sockets: STOMP and Python clients, the tools, protocol detection, and what keeps a broker from it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import stomp

from spanwire.client import blocking
from spanwire.model.errors import JmsError
from spanwire.tls.settings import ClientTlsSettings, KeyStore, TrustStore
from tests.service.started import Started, StompClient, spanwire
from tests.support.broker_process import COMMAND
from tests.support.certificates import Authority, self_signed
from tests.support.client_shells import SHELLS, opened

PASSWORD: Final = "c4n4ry-st0re"
HOST: Final = "127.0.0.1"
CONNECTORS: Final = """\
    <transportConnector name="ssl" uri="ssl://127.0.0.1:0"/>
    <transportConnector name="stomp+ssl" uri="stomp+ssl://127.0.0.1:0"/>
    <transportConnector name="stomp+nio+ssl"
        uri="stomp+nio+ssl://127.0.0.1:0?needClientAuth=true&amp;transport.connectAttemptTimeout=1000"/>
    <transportConnector name="auto" uri="auto://127.0.0.1:0"/>
    <transportConnector name="auto+nio+ssl" uri="auto+nio+ssl://127.0.0.1:0?transport.wantClientAuth=true"/>
  </transportConnectors>"""


class Encrypted(Started):
    """A broker with an authority of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.authority: Final = Authority()
        self.key_store: Final = self.authority.issue().write_pkcs12(directory / "broker.p12", PASSWORD)
        self.trust: Final = self.authority.write_certificate(directory / "authority.pem")

    def text(self) -> str:
        stores = (
            f'<sslContext><sslContext keyStore="file:{self.key_store}" keyStorePassword="{PASSWORD}" '
            f'trustStore="file:{self.trust}"/></sslContext>\n  <transportConnectors>'
        )
        text = super().text().replace("<transportConnectors>", stores)
        return text.replace("  </transportConnectors>", CONNECTORS)

    @property
    def settings(self) -> ClientTlsSettings:
        """What a client needs that trusts the authority."""
        return ClientTlsSettings(TrustStore(self.trust))

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.trust)
        return context

    def encrypted(self, name: str, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        plain = socket.create_connection((HOST, self.ports[name]), 30)
        return (context or self.context()).wrap_socket(plain, server_hostname=HOST)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    with Encrypted(tmp_path_factory.mktemp("encrypted")) as running:
        yield running


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("scheme", ["ssl", "auto+nio+ssl"])
def test_the_python_client_sends_and_receives(broker: Encrypted, scheme: str, shell: str) -> None:
    body = "x" * 300_000
    url = f"{scheme}://{HOST}:{broker.ports[scheme]}"

    async def scenario() -> None:
        async with opened(shell, url, tls=broker.settings) as connection, connection.session() as session:
            producer = await session.create_producer(f"queue://PYTHON.{shell}.{scheme}")
            for number in range(10):
                await producer.send(f"{number} {body}")
            consumer = await session.create_consumer(f"queue://PYTHON.{shell}.{scheme}", prefetch=100)
            for number in range(10):
                message = await consumer.receive(30)
                assert message.body == f"{number} {body}"

    asyncio.run(scenario())


def test_our_client_refuses_wrong_hosts_strangers_and_plain_ports(broker: Encrypted) -> None:
    with pytest.raises(JmsError, match=r"self-signed certificate in certificate chain; name the certificate"):
        blocking.connect(f"ssl://{HOST}:{broker.ports['ssl']}", tls=ClientTlsSettings())
    other = ClientTlsSettings(TrustStore(self_signed().write_certificate(broker.directory / "other.pem")))
    with pytest.raises(JmsError, match="is not valid"):
        blocking.connect(f"ssl://{HOST}:{broker.ports['ssl']}", tls=other)
    with pytest.raises(JmsError, match=r"does not speak TLS: write tcp://, or the port of its ssl connector"):
        blocking.connect(f"ssl://{HOST}:{broker.ports['tcp']}", tls=broker.settings)
    with pytest.raises(JmsError):
        blocking.connect(f"tcp://{HOST}:{broker.ports['ssl']}?connectionTimeout=3000")


def test_a_password_is_not_sent_to_a_broker_without_a_good_certificate(tmp_path: Path) -> None:
    received = bytearray()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed().write_pem(tmp_path / "rogue.pem"))
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as client:
                    received.extend(client.recv(65536))
            except OSError:
                return

        rogue = threading.Thread(target=serve)
        rogue.start()
        with pytest.raises(JmsError, match="self-signed certificate"):
            blocking.connect(
                f"ssl://{HOST}:{listener.getsockname()[1]}",
                "u",
                PASSWORD,
                tls=ClientTlsSettings(verify_host_name=False),
            )
        rogue.join(30)
    assert bytes(received) == b""


def test_the_tools_speak_tls(broker: Encrypted) -> None:
    url = f"ssl://{HOST}:{broker.ports['ssl']}"
    destination = ("--destination", "queue://TOOLS")
    sent = spanwire(
        "producer", "--brokerUrl", url, "--trustStore", str(broker.trust), *destination, "--messageCount", "3"
    )
    assert sent.returncode == 0, sent.stderr
    received = spanwire(
        "consumer", "--brokerUrl", url, "--trustStore", str(broker.trust), *destination, "--messageCount", "3"
    )
    assert received.stdout.splitlines()[0] == "test message: 0"
    for arguments, part in (
        ((), "is not valid: self-signed certificate"),
        (("--trustStore", str(broker.directory / "absent.pem")), "there is no such"),
    ):
        refused = spanwire("producer", "--brokerUrl", url, *arguments)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1 and part in refused.stderr


def test_a_stomp_socket_and_stomp_py_talk_to_each_other(broker: Encrypted) -> None:
    received: list[str] = []
    arrived = threading.Event()

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, frame: object) -> None:
            received.append(str(getattr(frame, "body", "")))
            arrived.set()

    hosts = [(HOST, broker.ports["stomp+ssl"])]
    connection = stomp.Connection12(hosts)
    connection.set_ssl(for_hosts=hosts, ca_certs=str(broker.trust))
    connection.set_listener("", Listener())
    connection.connect(wait=True)
    connection.subscribe("/queue/STOMPPY", id="1", ack="auto")
    with broker.encrypted("auto+nio+ssl") as client:
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        assert client.recv(4096).startswith(b"CONNECTED")
        client.sendall(b"SEND\ndestination:/queue/STOMPPY\n\nover TLS\0")
        assert arrived.wait(30)
    connection.disconnect()
    assert received == ["over TLS"]


def test_versions_below_1_2_get_no_connection(broker: Encrypted) -> None:
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = broker.context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSVersion"):
            context.minimum_version = context.maximum_version = version
        with pytest.raises(ssl.SSLError):
            broker.encrypted("ssl", context)


def test_client_certificates_are_needed_and_named(broker: Encrypted) -> None:
    with pytest.raises(OSError), broker.encrypted("stomp+nio+ssl") as client:
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        if not client.recv(4096):
            raise ConnectionResetError
    shown = broker.authority.issue(CN="orders")
    context = broker.context()
    context.load_cert_chain(shown.write_pem(broker.directory / "client.pem"))
    with broker.encrypted("stomp+nio+ssl", context) as client:
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        assert client.recv(4096).startswith(b"CONNECTED")
    key_store = KeyStore(broker.directory / "client.pem")
    settings = ClientTlsSettings(TrustStore(broker.trust), key_store)
    blocking.connect(f"ssl://{HOST}:{broker.ports['auto+nio+ssl']}", tls=settings).close()


def test_a_handshake_that_stops_is_closed_while_others_are_served(broker: Encrypted) -> None:
    with closing(StompClient(broker.ports["stomp+nio+ssl"], login=False)) as silent, broker.stomp() as healthy:
        silent.send_raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        healthy.transact("SEND\ndestination:/queue/HEALTHY\nreceipt:1\n\nx", "1")
        silent.wait_at_most(10)  # the connector gives a login one second
        assert silent.at_end()


@pytest.mark.parametrize("beginning", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xf0\x01\x00", b"\xff" * 32])
def test_a_foreign_protocol_is_closed_at_once_by_a_detecting_port(broker: Encrypted, beginning: bytes) -> None:
    with closing(StompClient(broker.ports["auto"], login=False)) as client:
        client.wait_at_most(5)
        client.send_raw(beginning)
        assert client.at_end()


def test_both_protocols_come_in_through_one_port(broker: Encrypted) -> None:
    with closing(StompClient(broker.ports["auto"])) as client:
        with blocking.connect(f"tcp://{HOST}:{broker.ports['auto']}") as connection:
            consumer = connection.session().create_consumer("queue://ONEPORT", prefetch=10)
            client.send("SEND\ndestination:/queue/ONEPORT\n\nhello")
            message = consumer.receive(30)
            assert message is not None
            assert message.body == "hello"


class Certified(Encrypted):
    """Only clients with a known certificate, each with rights of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (directory / "login.config").write_text(
            "CertLogin { org.apache.activemq.jaas.TextFileCertificateLoginModule required\n"
            'org.apache.activemq.jaas.textfiledn.user="users.properties"\n'
            'org.apache.activemq.jaas.textfiledn.group="groups.properties"; };\n',
            "utf-8",
        )
        (directory / "users.properties").write_text("orders=CN=orders, O=Example, C=DE\n", "utf-8")
        (directory / "groups.properties").write_text("traders=orders\n", "utf-8")

    def command(self) -> list[str]:
        definition = f"'-D', 'java.security.auth.login.config={self.directory}/login.config'"
        return [COMMAND[0], COMMAND[1], f"import sys; sys.argv += [{definition}]; {COMMAND[2]}"]

    def text(self) -> str:
        plugins = """<plugins><jaasCertificateAuthenticationPlugin configuration="CertLogin"/>
          <authorizationPlugin><map><authorizationMap><authorizationEntries>
            <authorizationEntry queue="TRADE.>" read="traders" write="traders" admin="traders"/>
            <authorizationEntry topic="ActiveMQ.Advisory.>" read="traders" write="traders" admin="traders"/>
          </authorizationEntries></authorizationMap></map></authorizationPlugin></plugins></broker>"""
        return super().text().replace("</broker>", plugins)


def test_a_certificate_is_a_login_with_the_rights_of_its_groups(tmp_path: Path) -> None:
    with Certified(tmp_path) as broker:

        def login(organization: str) -> tuple[ssl.SSLSocket, bytes]:
            context = broker.context()
            context.load_cert_chain(
                broker.authority.issue(C="DE", O=organization, CN="orders").write_pem(tmp_path / "client.pem")
            )
            client = broker.encrypted("auto+nio+ssl", context)
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:orders\npasscode:x\n\n\0")
            return client, client.recv(4096)

        client, answer = login("Example")
        with client:
            assert answer.startswith(b"CONNECTED")
            client.sendall(b"SEND\ndestination:/queue/TRADE.A\nreceipt:1\n\nx\0")
            assert client.recv(4096).startswith(b"RECEIPT")
            client.sendall(b"SEND\ndestination:/queue/OTHER\nreceipt:2\n\nx\0")
            assert client.recv(4096).startswith(b"ERROR")
        stranger, answer = login("Other")
        with stranger:
            assert answer.startswith(b"ERROR")
        plain = StompClient(broker.ports["stomp"], login=False)
        with closing(plain):  # a name in a frame is no certificate
            plain.send("CONNECT\naccept-version:1.2\nhost:x\nlogin:orders\npasscode:x\n\n")
            assert plain.receive().startswith("ERROR")


def start(directory: Path, context: str, *, hide: str = "") -> tuple[int, str]:
    path = directory / "activemq.xml"
    path.write_text(
        f'<broker dataDirectory="{directory}/data"><sslContext {context}/><transportConnectors>'
        '<transportConnector uri="ssl://127.0.0.1:0"/></transportConnectors></broker>',
        "utf-8",
    )
    if hide:
        program = f"import sys; sys.modules[{hide!r}] = None; {COMMAND[2]}"
        done = spanwire("start", str(path), command=[COMMAND[0], COMMAND[1], program])
    else:
        done = spanwire("start", str(path))
    assert PASSWORD not in done.stderr + done.stdout
    assert not (directory / "data").exists()
    return done.returncode, done.stderr


@pytest.mark.large
def test_stores_that_cannot_be_used_keep_the_broker_from_starting_with_one_line(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(days=-1).write_pem(tmp_path / "expired.pem")
    authority.issue().write_pkcs12(tmp_path / "broker.p12", PASSWORD)
    (tmp_path / "java.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for context, part, hidden in (
        (f'keyStore="{tmp_path}/absent.pem"', "there is no such key or trust store", ""),
        (f'keyStore="{tmp_path}/expired.pem"', "certificate has expired", ""),
        (f'keyStore="{tmp_path}/java.jks"', "keytool -importkeystore", ""),
        (
            f'keyStore="{tmp_path}/broker.p12" keyStorePassword="{PASSWORD}x"',
            "the password of the PKCS#12 store is wrong",
            "",
        ),
        (
            f'keyStore="{tmp_path}/broker.p12" keyStorePassword="{PASSWORD}"',
            "-m pip install 'cryptography",
            "cryptography",
        ),
    ):
        status, line = start(tmp_path, context, hide=hidden)
        assert status == 1
        assert line.count("\n") == 1 and part in line, line
