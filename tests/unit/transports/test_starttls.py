"""STARTTLS as a dialogue in memory: an XMPP client, its TLS engine, and the connector's layer around the broker."""

from __future__ import annotations

import ssl
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from spanwire.model.environment import Time
from spanwire.protocols.base import LOGIN_DEADLINE, ConnectionSettings, ProtocolConnection
from spanwire.protocols.xmpp.broker_connection import XmppBrokerConnection
from spanwire.tls.context import server_context
from spanwire.tls.settings import NEED_CLIENT_CERTIFICATE, NO_CLIENT_CERTIFICATE, KeyStore, TlsSettings, TrustStore
from spanwire.transports.starttls import StartTlsConnection
from tests.support.certificates import Authority, Certified
from tests.support.stomp_dialogue import Stage
from tests.support.xmpp_dialogue import BIND, HEADER, plain, xmpp_stage

START = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
FAR = "tcp://192.0.2.7:40000"


class Client:
    """A socket's client end: in clear first, then through its engine."""

    def __init__(self, stage: Stage, directory: Path, wanted: int = NO_CLIENT_CERTIFICATE, **options: str) -> None:
        authority = Authority()
        self._shown = authority.issue(CN="client")
        keys = KeyStore(authority.issue().write_pem(directory / "broker.pem"))
        trust = authority.write_certificate(directory / "authority.pem")
        self._directory, self._trust, self._stage = directory, trust, stage
        self.reports: list[str] = []
        settings = ConnectionSettings(FAR, offers_tls=True, options=options)
        self.connection = StartTlsConnection(
            server_context(TlsSettings(keys, TrustStore(trust), wanted)),
            self._connection,
            settings,
            lambda reason, _: self.reports.append(reason),
            stage.environment.now(),
        )
        self._engine: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.heard = b""

    def _connection(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        return XmppBrokerConnection(self._stage.broker, settings, now)

    def begins_tls(self, shown: bool = False) -> None:
        """Shake hands."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self._trust)
        if shown:
            certified: Certified = self._shown
            context.load_cert_chain(certified.write_pem(self._directory / "client.pem"))
        self._engine = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        for _ in range(4):
            try:
                self._engine.do_handshake()
            except ssl.SSLWantReadError:
                self._exchange(self._outgoing.read())
        self._exchange(self._outgoing.read())

    def sends(self, text: str) -> str:
        """Send text, in TLS if that has begun; what came back."""
        data = text.encode()
        if self._engine is not None:
            self._engine.write(data)
            data = self._outgoing.read()
        self._exchange(data)
        heard, self.heard = self.heard, b""
        return heard.decode()

    def _exchange(self, data: bytes) -> None:
        now = self._stage.environment.now()
        if data:
            self.connection.receive_data(data, now)
        self._stage.settle()
        output = b"".join(self.connection.data_to_send())
        self.connection.unsent(0)
        if self._engine is None:
            self.heard += output
            return
        self._incoming.write(output)
        try:
            while True:
                self.heard += self._engine.read(16_384)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return


@pytest.fixture
def stage() -> Stage:
    return xmpp_stage()


def test_a_client_begins_tls_and_logs_in_there(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage, tmp_path)
    offered = client.sends(HEADER.format("example.org"))
    assert "<required/>" in offered
    assert "<mechanisms" not in offered
    assert client.sends(START) == "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
    client.begins_tls()
    offered = client.sends(HEADER.format("example.org"))
    assert "starttls" not in offered
    assert "PLAIN" in offered
    assert "<success" in client.sends(plain("alice", "secret"))
    client.sends(HEADER.format("example.org"))
    assert "alice@example.org/" in client.sends(BIND)
    (view,) = stage.broker.overview.connection_views()
    assert (view.user_name, view.protocol) == ("alice", "xmpp 1.0")
    assert isinstance(client.connection.carried, XmppBrokerConnection)
    client.connection.receive_eof(stage.environment.now())
    assert stage.broker.overview.connection_views() == []


@pytest.mark.parametrize("behind", [START, "<a/>", "<a", "x", "\x16\x03\x01>"])
def test_bytes_sent_behind_starttls_in_clear_are_never_read_inside(stage: Stage, tmp_path: Path, behind: str) -> None:
    client = Client(stage, tmp_path)
    client.sends(HEADER.format("example.org"))
    answer = client.sends(START + behind)
    assert "proceed" not in answer
    assert "<stream:error>" in answer
    assert client.connection.closed


def test_what_a_client_has_said_in_clear_is_forgotten(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage, tmp_path, plainWithoutTls="true")
    client.sends(HEADER.format("example.org"))
    client.sends("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>")
    client.sends(START)
    client.begins_tls()
    answer = client.sends(f"<?xml version='1.0'?>{HEADER.format('h').partition('?>')[2]}"
                          "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AGEAYg==</response>")  # fmt: skip
    assert "malformed-request" in answer


def test_a_needed_certificate_cannot_be_avoided_by_a_login_in_clear(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage, tmp_path, NEED_CLIENT_CERTIFICATE, needClientAuth="true", plainWithoutTls="true")
    client.sends(HEADER.format("example.org"))
    assert "encryption-required" in client.sends(plain("alice", "secret"))
    client.sends(START)
    client.begins_tls(shown=True)
    client.sends(HEADER.format("example.org"))
    assert "<success" in client.sends(plain("alice", "secret"))


def test_a_failed_handshake_is_reported(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage, tmp_path)
    client.sends(HEADER.format("example.org"))
    client.sends(START)
    client.sends(HEADER.format("example.org"))
    assert client.connection.closed
    assert client.reports == ["the client does not speak TLS"]


def test_the_deadline_of_the_login_counts_from_the_start_of_the_socket(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage, tmp_path)
    client.sends(HEADER.format("example.org"))
    stage.passes(LOGIN_DEADLINE - 1)
    client.sends(START)
    assert client.connection.next_timeout() == 1_000.0 + LOGIN_DEADLINE
    stage.passes(1)
    client.connection.handle_timeout(stage.environment.now())
    assert client.connection.closed


def test_the_stream_errors_are_whole_elements(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage, tmp_path)
    answer = client.sends("<a/>")
    ET.fromstring(answer)
