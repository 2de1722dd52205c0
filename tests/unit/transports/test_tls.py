"""TLS as a dialogue in memory: a client's engine, a connector's context, a protocol connection that remembers."""

from __future__ import annotations

import ctypes
import ctypes.util
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.tls.context import server_context
from spanwire.tls.settings import (
    NEED_CLIENT_CERTIFICATE,
    NO_CLIENT_CERTIFICATE,
    WANT_CLIENT_CERTIFICATE,
    KeyStore,
    TlsSettings,
    TrustStore,
)
from spanwire.transports.tls import HANDSHAKE_DEADLINE, MAX_BARREN_BYTES, TlsConnection
from tests.support.certificates import Authority, Certified, self_signed
from tests.support.key_updates import KeyUpdater
from tests.unit.transports.stage import FakeConnection

START = Time(1000.0, 1_700_000_000_000)
HOST = "localhost"


class World:
    """An authority, a broker's certificate, and contexts made of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.broker = self.authority.issue()
        self.key_store = KeyStore(self.broker.write_pem(directory / "broker.pem"))
        self.trust_store = TrustStore(self.authority.write_certificate(directory / "authority.pem"))

    def context(self, client_certificate: int = NO_CLIENT_CERTIFICATE, *protocols: str) -> ssl.SSLContext:
        """What the connector accepts with."""
        return server_context(
            TlsSettings(self.key_store, self.trust_store, client_certificate, protocols=tuple(protocols))
        )

    def client(self, shown: Certified | None = None) -> ssl.SSLContext:
        """What a client connects with that believes the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.trust_store.path)
        if shown is not None:
            context.load_cert_chain(shown.write_pem(self.directory / "client.pem"))
        return context


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("tls"))


class Dialogue:
    """Both ends. The broker's one makes a `FakeConnection` when the handshake is done."""

    def __init__(
        self, context: ssl.SSLContext, remote_address: str = "tcp://127.0.0.1:0", verify_address: bool = False
    ) -> None:
        self.now = START
        self.inner = FakeConnection()
        self.settings: ConnectionSettings | None = None
        self.started: Time | None = None
        self.reports: list[str] = []
        self.connection = TlsConnection(
            context,
            self._make,
            ConnectionSettings(remote_address),
            lambda reason, now: self.reports.append(reason),
            START,
            verify_address=verify_address,
        )

    def _make(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        self.settings, self.started = settings, now
        return self.inner

    def at(self, seconds: float) -> Time:
        """Time since the start."""
        self.now = Time(START.monotonic + seconds, START.wall_ms + int(seconds * 1000))
        return self.now

    def takes(self, data: bytes) -> bytes:
        """The broker's end takes bytes of the wire; what it wants to write."""
        self.connection.receive_data(data, self.now)
        return b"".join(self.connection.data_to_send())


class Client:
    """The other end, with Python's own engine."""

    def __init__(self, dialogue: Dialogue, context: ssl.SSLContext) -> None:
        self._dialogue = dialogue
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.engine = context.wrap_bio(self._incoming, self._outgoing, server_hostname=HOST)

    def shakes_hands(self) -> None:
        """Raises what the client finds wrong."""
        for _ in range(8):
            try:
                self.engine.do_handshake()
            except ssl.SSLWantReadError:
                self.exchanges()
            except ssl.SSLError:
                self.exchanges()
                raise
            else:
                self.exchanges()
                return
        raise AssertionError("the handshake does not end")

    def exchanges(self) -> None:
        """What was encrypted goes to the broker, its answer comes back."""
        self._incoming.write(self._dialogue.takes(self._outgoing.read()))

    def sends(self, data: bytes) -> None:
        self.engine.write(data)
        self.exchanges()

    def encrypted(self, data: bytes) -> bytes:
        self.engine.write(data)
        return self._outgoing.read()

    def receives(self) -> bytes:
        """All that the broker wrote."""
        found = b""
        try:
            while data := self.engine.read(65536):
                found += data
        except ssl.SSLWantReadError:
            return found
        return found


def connected(world: World, context: ssl.SSLContext | None = None) -> tuple[Dialogue, Client]:
    dialogue = Dialogue(context or world.context())
    client = Client(dialogue, world.client())
    client.shakes_hands()
    return dialogue, client


def test_what_the_client_encrypts_reaches_the_protocol_and_the_answer_comes_back(world: World) -> None:
    dialogue, client = connected(world)
    dialogue.inner.on_receive = lambda data: dialogue.inner.to_send.append(b"<" + data + b">")
    client.sends(b"hello")
    assert dialogue.inner.received == [b"hello"]
    assert client.receives() == b"<hello>"
    assert not dialogue.connection.closed


def test_the_protocol_starts_after_the_handshake_and_counts_from_the_sockets_first_moment(world: World) -> None:
    dialogue = Dialogue(world.context())
    client = Client(dialogue, world.client())
    dialogue.at(4)
    before: object = dialogue.connection.carried
    assert before is dialogue.connection
    client.shakes_hands()
    assert dialogue.connection.carried is dialogue.inner
    assert dialogue.started == START


def test_a_large_answer_arrives_whole(world: World) -> None:
    dialogue, client = connected(world)
    body = bytes(range(256)) * 4096
    dialogue.inner.to_send = [b"head", body, b"tail"]
    client.exchanges()
    assert client.receives() == b"head" + body + b"tail"


def test_a_large_frame_arrives_whole_however_it_is_cut(world: World) -> None:
    dialogue, client = connected(world)
    body = bytes(range(256)) * 1024
    wire = client.encrypted(body)
    for start in range(0, len(wire), 1000):
        dialogue.takes(wire[start : start + 1000])
    assert b"".join(dialogue.inner.received) == body
    assert dialogue.connection.pending_bytes < 20_000


def test_a_handshake_byte_by_byte_succeeds(world: World) -> None:
    dialogue = Dialogue(world.context())
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = world.client().wrap_bio(incoming, outgoing, server_hostname=HOST)
    for _ in range(8):
        try:
            engine.do_handshake()
            break
        except ssl.SSLWantReadError:
            for byte in outgoing.read():
                incoming.write(dialogue.takes(bytes([byte])))
    for byte in outgoing.read():
        dialogue.takes(bytes([byte]))
    assert dialogue.settings is not None


def test_s32_a_handshake_that_never_ends_is_closed_at_the_deadline(world: World) -> None:
    dialogue = Dialogue(world.context())
    dialogue.takes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    due = dialogue.connection.next_timeout()
    assert due == START.monotonic + HANDSHAKE_DEADLINE
    dialogue.connection.handle_timeout(dialogue.at(HANDSHAKE_DEADLINE - 0.01))
    assert not dialogue.connection.closed
    dialogue.connection.handle_timeout(dialogue.at(HANDSHAKE_DEADLINE))
    assert dialogue.connection.closed
    assert dialogue.reports == ["the TLS handshake did not end within 10 s"]
    assert dialogue.settings is None


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP"),
        (b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", "HTTP"),
        (b"\x00\x00\x00\xf0\x01ActiveMQ\x00\x00\x00\x0c", "does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + b"\0" * 100, "TLS"),
    ],
)
def test_a_client_without_tls_is_closed_with_a_line_that_says_so(world: World, first: bytes, told: str) -> None:
    dialogue = Dialogue(world.context())
    dialogue.takes(first)
    assert dialogue.connection.closed
    assert len(dialogue.reports) == 1
    assert told in dialogue.reports[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_s32_versions_below_1_2_are_refused(world: World, version: ssl.TLSVersion) -> None:
    dialogue = Dialogue(world.context())
    context = world.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSVersion"):
        context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError):
        Client(dialogue, context).shakes_hands()
    assert dialogue.connection.closed
    assert "1.2 is the oldest" in dialogue.reports[0]


def test_both_versions_work_and_enabled_protocols_narrow_them(world: World) -> None:
    for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
        context = world.client()
        context.minimum_version = context.maximum_version = version
        client = Client(Dialogue(world.context()), context)
        client.shakes_hands()
        assert client.engine.version() == name
    client = Client(Dialogue(world.context(NO_CLIENT_CERTIFICATE, "TLSv1.2")), world.client())
    client.shakes_hands()
    assert client.engine.version() == "TLSv1.2"


def test_a_client_that_does_not_believe_the_certificate_is_reported(world: World) -> None:
    dialogue = Dialogue(world.context())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(dialogue, context).shakes_hands()
    assert dialogue.reports == ["the client ended TLS: unknown ca"]


def test_a_verified_certificate_gives_its_subject_as_java_writes_it(world: World) -> None:
    dialogue = Dialogue(world.context(NEED_CLIENT_CERTIFICATE))
    shown = world.authority.issue(C="DE", O="Example, Inc.", OU="Trade", CN="orders")
    client = Client(dialogue, world.client(shown))
    client.shakes_hands()
    assert dialogue.settings is not None
    assert dialogue.settings.certificate_subject == 'CN=orders, OU=Trade, O="Example, Inc.", C=DE'


def test_a_client_without_a_certificate_is_refused_where_one_is_needed(world: World) -> None:
    dialogue = Dialogue(world.context(NEED_CLIENT_CERTIFICATE))
    client = Client(dialogue, world.client())
    client.shakes_hands()  # in TLS 1.3 the client is done before the broker has looked
    assert dialogue.connection.closed
    assert dialogue.settings is None
    assert "needClientAuth" in dialogue.reports[0]


def test_a_wanted_certificate_may_be_missing_but_not_wrong(world: World) -> None:
    dialogue = Dialogue(world.context(WANT_CLIENT_CERTIFICATE))
    Client(dialogue, world.client()).shakes_hands()
    assert dialogue.settings is not None and dialogue.settings.certificate_subject is None
    stranger = Dialogue(world.context(WANT_CLIENT_CERTIFICATE))
    Client(stranger, world.client(self_signed(("stranger",)))).shakes_hands()
    assert stranger.settings is None
    assert "certificate was refused" in stranger.reports[0]


def test_s32_an_expired_client_certificate_is_refused(world: World) -> None:
    dialogue = Dialogue(world.context(NEED_CLIENT_CERTIFICATE))
    Client(dialogue, world.client(world.authority.issue(days=-1, CN="old"))).shakes_hands()
    assert dialogue.settings is None
    assert dialogue.reports == ["the client's certificate was refused: certificate has expired"]


@pytest.mark.parametrize(
    ("remote_address", "hosts", "accepted"),
    [
        ("tcp://10.0.0.9:1", ("10.0.0.9",), True),
        ("tcp://10.0.0.9:1", ("other", "10.0.0.8", "10.0.0.9"), True),
        ("tcp://[2001:db8::1]:1", ("2001:db8:0::1",), True),
        ("tcp://[::ffff:10.0.0.9]:1", ("10.0.0.9",), True),
        ("tcp://10.0.0.9:1", ("10.0.0.90",), False),
        ("tcp://10.0.0.9:1", ("client.example", "10.0.0.9.example"), False),
        ("tcp://10.0.0.9:1", (), False),
        ("unknown", ("10.0.0.9",), False),
    ],
)
def test_s32_cve_2018_11775_a_stolen_certificate_is_refused_at_another_address(
    world: World, remote_address: str, hosts: tuple[str, ...], accepted: bool
) -> None:
    dialogue = Dialogue(world.context(NEED_CLIENT_CERTIFICATE), remote_address, verify_address=True)
    Client(dialogue, world.client(world.authority.issue(hosts, CN="10.0.0.9"))).shakes_hands()
    assert (dialogue.settings is not None) is accepted
    assert dialogue.connection.closed is not accepted
    assert dialogue.reports == ([] if accepted else ["the client's certificate is not made out to its address"])


def test_an_address_that_is_not_to_be_verified_is_not(world: World) -> None:
    dialogue = Dialogue(world.context(NEED_CLIENT_CERTIFICATE), "tcp://10.0.0.9:1")
    Client(dialogue, world.client(world.authority.issue(("10.0.0.8",), CN="x"))).shakes_hands()
    assert dialogue.settings is not None


def test_a_client_that_shows_no_wanted_certificate_has_no_address_to_verify(world: World) -> None:
    dialogue = Dialogue(world.context(WANT_CLIENT_CERTIFICATE), "tcp://10.0.0.9:1", verify_address=True)
    Client(dialogue, world.client()).shakes_hands()
    assert dialogue.settings is not None
    assert dialogue.settings.encrypted
    assert dialogue.settings.certificate_subject is None


def test_a_certificate_that_nobody_asked_for_names_nobody(world: World) -> None:
    dialogue = Dialogue(world.context())
    Client(dialogue, world.client(world.authority.issue(CN="orders"))).shakes_hands()
    assert dialogue.settings is not None and dialogue.settings.certificate_subject is None


def test_a_protocol_that_closes_says_goodbye_after_its_last_words(world: World) -> None:
    dialogue, client = connected(world)
    dialogue.inner.to_send = [b"last words"]
    dialogue.inner.closed = True
    client.exchanges()
    assert dialogue.connection.closed
    assert client.engine.read(100) == b"last words"
    assert client.engine.read(100) == b""  # a goodbye; a cut connection raises


def test_a_client_that_says_goodbye_is_closed(world: World) -> None:
    dialogue, client = connected(world)
    with pytest.raises(ssl.SSLWantReadError):
        client.engine.unwrap()
    client.exchanges()
    assert dialogue.connection.closed
    assert dialogue.reports == []


def test_damaged_bytes_close_the_connection(world: World) -> None:
    dialogue, client = connected(world)
    wire = bytearray(client.encrypted(b"x" * 100))
    wire[50] ^= 1
    dialogue.takes(bytes(wire))
    assert dialogue.connection.closed
    assert dialogue.inner.received == []
    assert "bad" in dialogue.reports[0]


def test_a_lost_client_frees_what_the_protocol_holds(world: World) -> None:
    dialogue, _ = connected(world)
    dialogue.connection.receive_eof(START)
    assert dialogue.inner.eofs == 1


def test_s32_cve_2026_39304_a_flood_of_key_updates_costs_its_own_connection_soon(world: World) -> None:
    library = ctypes.util.find_library("ssl")
    if library is None:
        return  # only OpenSSL's own interface can ask for new keys
    dialogue = Dialogue(world.context())
    attacker = KeyUpdater(ctypes.CDLL(library))
    attacker.shakes_hands(dialogue.takes)
    assert dialogue.settings is not None
    sent = taken = written = 0
    while sent < 100_000 and not dialogue.connection.closed:
        flood = attacker.key_updates(1000)
        sent += 1000
        taken += len(flood)
        written += len(dialogue.takes(flood))
        dialogue.connection.unsent(0)
    assert dialogue.connection.closed
    assert taken <= MAX_BARREN_BYTES + 64 * 1024
    assert written <= taken + 16 * 1024
    assert "without anything in them" in dialogue.reports[0]


@pytest.mark.large
def test_key_updates_among_data_are_no_flood_while_the_client_reads_the_answers(world: World) -> None:
    library = ctypes.util.find_library("ssl")
    if library is None:
        return
    dialogue = Dialogue(world.context())
    attacker = KeyUpdater(ctypes.CDLL(library))
    attacker.shakes_hands(dialogue.takes)
    for _ in range(20):
        dialogue.takes(attacker.key_updates(500) + attacker.encrypted(b"\n"))
        dialogue.connection.unsent(0)
    assert not dialogue.connection.closed
    for _ in range(20):  # now it reads nothing any more
        dialogue.takes(attacker.key_updates(500) + attacker.encrypted(b"\n"))
        dialogue.connection.unsent(1)
    assert dialogue.connection.closed
    assert "unread" in dialogue.reports[0]


def test_the_word_that_nobody_has_read_reaches_the_connection_inside(world: World) -> None:
    dialogue = connected(world)[0]
    dialogue.takes(b"")
    assert dialogue.inner.received == [b""]


@given(pieces=st.lists(st.binary(max_size=400), max_size=10), after_handshake=st.booleans())
def test_no_bytes_make_the_connection_raise(world: World, pieces: list[bytes], after_handshake: bool) -> None:
    dialogue = connected(world)[0] if after_handshake else Dialogue(world.context())
    for piece in pieces:
        dialogue.takes(piece)
        dialogue.connection.unsent(0)
    assert b"".join(dialogue.inner.received) == b""
    assert len(dialogue.reports) <= 1
    dialogue.connection.receive_eof(START)
    assert dialogue.connection.closed


def test_what_is_encrypted_behind_requests_that_are_held_waits_for_them(world: World) -> None:
    dialogue = Dialogue(world.context())
    client = Client(dialogue, world.client())
    client.shakes_hands()
    dialogue.inner.held.append(b"held")
    first, second = client.encrypted(b"1"), client.encrypted(b"2")
    dialogue.connection.receive_data(first + second, dialogue.now)
    assert dialogue.inner.received == []
    assert dialogue.connection.holds_requests
    dialogue.connection.go_on(dialogue.now)
    assert dialogue.inner.received == [b"held", b"1", b"2"]
    assert not dialogue.connection.holds_requests


class Carrying(FakeConnection):
    """A connection with another one inside, as a WebSocket, that holds requests back until the peer has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = 0
        self.kept = [b"1", b"2"]

    @property
    def carried(self) -> object:
        return self

    def note_peer_end(self) -> None:
        self.ends += 1
        self.held.extend(self.kept)
        self.kept.clear()


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_the_end_of_the_client_reaches_the_connection_inside_before_it_is_closed(
    world: World, says_goodbye: bool
) -> None:
    dialogue = Dialogue(world.context())
    inner = Carrying()
    dialogue.inner = inner
    client = Client(dialogue, world.client())
    client.shakes_hands()
    if says_goodbye:
        with pytest.raises(ssl.SSLWantReadError):
            client.engine.unwrap()
        client.exchanges()
    else:
        dialogue.connection.note_peer_end()
    while dialogue.connection.holds_requests:
        assert not dialogue.connection.closed
        dialogue.connection.go_on(dialogue.now)
    assert inner.ends > 0
    assert inner.received == [b"1", b"2"]
    assert dialogue.connection.closed == says_goodbye
