"""A link never dies silently: in whatever state whatever happens, it is up again in time. The clock is a virtual one,
so minutes of waiting take no time; connector, pump, both bridges and both brokers are the real ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from spanwire.broker.ports import Principal
from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.model.environment import Time
from spanwire.model.errors import AuthenticationError, JmsError
from spanwire.model.info import ConnectionInfo
from spanwire.network.bridge.bridge import ADVISORY_DEADLINE, NetworkBridge
from spanwire.network.bridge.bridge_states import OPEN_STATES, State
from spanwire.network.connector.link import (
    Link,
    LinkView,
    NetworkConnectorSettings,
    RemoteAddress,
    accepted_view,
    connect_timeout,
)
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.transports.base import StreamTransport
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn
from tests.support.network_dialogue import STARTED_MS, Inbox, Network, Site
from tests.support.virtual_loop import End, VirtualLoop, Wire

TROUBLE_S = 70.0  # long enough for the longest wait between two attempts
LONGEST_WAIT_S = ReconnectSettings().max_delay_ms / 1000
Q = "queue://Q"


class NetworkClock:
    """Duck-typed to `spanwire.transports.base.Clock`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def now(self) -> Time:
        return self._network.now


class SiteStore:
    """The disk of a site, at once; duck-typed to `spanwire.transports.base.TurnStore`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.turn_of: Turn | None = None

    def turn(self, now: float, active: int) -> None:
        assert self.turn_of is not None
        if self._site.store_turn():
            self.turn_of.wake()

    def next_deadline(self) -> float | None:
        return None


class Doorman:
    """Lets bridges in, or not; duck-typed to `Authenticator`."""

    def __init__(self) -> None:
        self.refuses = False

    def authenticate(self, info: ConnectionInfo) -> Principal:
        if self.refuses and info.protocol == "openwire":
            raise AuthenticationError("User name [null] or password is invalid.")
        return Principal("anonymous")


class Far:
    """A broker that accepts connections; duck-typed to `spanwire.transports.loop.pump.Acceptor`."""

    def __init__(self, site: Site, turn: Turn) -> None:
        self.site = site
        self.turn = turn

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        settings = ConnectionSettings("tcp://127.0.0.1:40000")
        return OpenWireBrokerConnection(self.site.broker, settings, now, self.site.acceptor)

    def release(self, transport: StreamTransport) -> None:
        """Nothing is counted here."""


class WatchedLink(Link):
    """Keeps its bridges."""

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        made = super().accept(transport, now)
        assert isinstance(made, NetworkBridge)
        self.bridges = [*getattr(self, "bridges", []), made]
        return made


class Landscape:
    """Broker A with one connector to whoever is behind the address of B, and a consumer there."""

    def __init__(self, duplex: bool, **settings: object) -> None:
        self.network = Network()
        self.loop = VirtualLoop(self._advance)
        self.doorman = Doorman()
        self.a = self.network.site("A")
        self.turn = self._turn(self.a)
        self.b = self.far("B")
        bridge = BridgeSettings(name="link", duplex=duplex, **settings)  # type: ignore[arg-type]
        remote = RemoteAddress("tcp://b:61616", "b", 61616)
        connector = NetworkConnectorSettings(bridge, (remote,))
        self.link = WatchedLink(connector, remote, self.a.broker, "tcp://a:61616", self.turn, self.a.routes)
        self.loop.peers["b", 61616] = self._peer
        self.loop.connected = self._connected
        self.behind: Callable[[], End | None] = self._accepts
        self.trouble: Trouble | None = None
        self.wires: list[Wire] = []
        self._sent = 0

    def _advance(self, seconds: float) -> None:
        self.network.environment.time = Time(1000.0 + seconds, STARTED_MS + int(seconds * 1000))

    def _turn(self, site: Site) -> Turn:
        store = SiteStore(site)
        turn = Turn(self.loop, site.broker, NetworkClock(self.network), store)
        store.turn_of = turn
        turn.start()
        return turn

    def far(self, name: str) -> Far:
        site = self.network.site(name, authenticator=self.doorman)
        self.inbox: Inbox = site.client().consumes(Q)
        return Far(site, self._turn(site))

    def _peer(self) -> End | None:
        return self.behind()

    def _accepts(self) -> End | None:
        return SocketPump(self.b.turn, self.b)

    def _connected(self, near: Wire, far: Wire) -> None:
        self.wires.append(near)
        if self.trouble is not None:
            self.trouble.meets(near)

    def goes_on(self, seconds: float) -> None:
        """So much time, in small pieces, in which clients read."""
        for _ in range(int(seconds / 0.5)):
            self.loop.run(0.5)
            for turn, site in ((self.turn, self.a), (self.b.turn, self.b.site)):
                site.turn()
                turn.wake()

    @property
    def view(self) -> LinkView:
        return self.link.view()

    @property
    def carries(self) -> bool:
        """Whether a message crosses now."""
        if self.view.state != "running":
            return False
        self._sent += 1
        text = f"m{self._sent}"
        self.a.client().sends(Q, text, persistent=False)
        self.turn.wake()
        self.goes_on(1.0)
        return text in self.inbox.texts


class Trouble:
    """Strikes each link as soon as it is in ``state``; ``struck`` are the states in which links then were."""

    def __init__(self, landscape: Landscape, state: State, what: str) -> None:
        self.struck: list[State] = []
        self._landscape = landscape
        self._state = state
        self._what = what
        self._bytes = b""

    def meets(self, near: Wire) -> None:
        """A new link: so many frames of the far end as lead to the state."""
        left = {State.NEGOTIATING: 0, State.IDENTIFYING: 1, State.STARTING: 2}.get(self._state)
        if left is None:
            self._landscape.loop.call_later(1.0, lambda: None if near.is_over else self.strikes(near))
            return
        frames = Frames(left)

        def through(data: bytes) -> bytes:
            passed = frames.take(data)
            if frames.exceeded:
                self._landscape.loop.call_soon(lambda: self.strikes(near))
                near.through = lambda _: b""
            return passed

        near.through = through

    def strikes(self, near: Wire) -> None:
        landscape = self._landscape
        bridge = landscape.link.bridges[-1]
        self.struck.append(bridge.state)
        near.through = bytes
        getattr(self, self._what.replace(" ", "_"))(near, bridge)
        landscape.turn.wake()

    def _says(self, near: Wire, command: wire.BaseCommand) -> None:
        encoder = FrameEncoder() if self._state is State.NEGOTIATING else FrameEncoder(WireFormat())
        near.end.data_received(encoder.encode(command))

    def silence(self, near: Wire, bridge: NetworkBridge) -> None:
        near.is_cut = near.other.is_cut = True

    def end_of_the_connection(self, near: Wire, bridge: NetworkBridge) -> None:
        near.other.close()

    def reset_that_the_other_end_does_not_see(self, near: Wire, bridge: NetworkBridge) -> None:
        near.breaks()

    def garbage(self, near: Wire, bridge: NetworkBridge) -> None:
        near.end.data_received(b"\xff" * 64)

    def refusal(self, near: Wire, bridge: NetworkBridge) -> None:
        self._says(near, wire.ConnectionError(exception=Throwable("javax.jms.JMSException", "not now")))

    def farewell(self, near: Wire, bridge: NetworkBridge) -> None:
        self._says(near, wire.ShutdownInfo())

    def end_on_this_side(self, near: Wire, bridge: NetworkBridge) -> None:
        bridge.close_with(JmsError("the store is full"))
        self._landscape.turn.touch(near.end)  # type: ignore[arg-type]


class Frames:
    """Lets the first frames of a stream pass."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._held = b""
        self.exceeded = False

    def take(self, data: bytes) -> bytes:
        self._held += data
        passed = b""
        while len(self._held) >= 4 and not self.exceeded:
            size = 4 + int.from_bytes(self._held[:4], "big")
            if len(self._held) < size:
                break
            if self._left == 0:
                self.exceeded = True
                break
            self._left -= 1
            passed += self._held[:size]
            self._held = self._held[size:]
        return passed


@pytest.fixture
def made() -> Iterator[list[Landscape]]:
    """Landscapes whose loops are closed in the end."""
    landscapes: list[Landscape] = []
    yield landscapes
    for landscape in landscapes:
        landscape.link.end()
        landscape.goes_on(1.0)
        landscape.loop.close()


def running(made: list[Landscape], duplex: bool, **settings: object) -> Landscape:
    """A link that is up and carries messages."""
    landscape = Landscape(duplex, **settings)
    made.append(landscape)
    landscape.loop.call_soon(landscape.link.start)
    landscape.goes_on(2.0)
    assert landscape.carries
    return landscape


def recovers(landscape: Landscape) -> float:
    """The seconds until messages cross again."""
    began = landscape.loop.time()
    while not landscape.carries:
        assert landscape.loop.time() - began < 10 * LONGEST_WAIT_S, landscape.view
        landscape.goes_on(0.5)
    return landscape.loop.time() - began


TROUBLES = (
    "silence",
    "end of the connection",
    "reset that the other end does not see",
    "garbage",
    "refusal",
    "farewell",
    "end on this side",
)


@pytest.mark.large
@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
@pytest.mark.parametrize("state", OPEN_STATES, ids=[state.name for state in OPEN_STATES])
@pytest.mark.parametrize("what", TROUBLES)
def test_whatever_happens_in_whatever_state_the_link_is_up_within_two_longest_waits(
    what: str, state: State, duplex: bool, made: list[Landscape], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    landscape = running(made, duplex)
    trouble = landscape.trouble = Trouble(landscape, state, what)
    landscape.wires[-1].other.close()  # and into it
    landscape.goes_on(TROUBLE_S)
    assert len(trouble.struck) >= 2 and set(trouble.struck) == {state}
    landscape.trouble = None
    if landscape.view.state != "running":
        assert landscape.view.reason and landscape.view.since_s < 2 * LONGEST_WAIT_S
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S
    view = landscape.view
    assert (view.state, view.reason) == ("running", "") and view.reconnects >= 1
    bridges = [one for one in landscape.a.broker.connection_views() if "_inbound_" in (one.client_id or "")]
    assert len(bridges) == 1  # nothing is left of those that ended
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    if duplex:
        (link,) = landscape.b.site.acceptor.links.values()
        far = accepted_view(link, landscape.network.now.monotonic)
        assert (far.state, far.reason, far.remote) == ("running", "", "brokerA") and far.reconnects >= 1


@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
@pytest.mark.parametrize("packets_are_lost", [False, True], ids=["refused", "lost"])
def test_where_nobody_listens_the_link_is_up_soon_after_somebody_does(
    packets_are_lost: bool, duplex: bool, made: list[Landscape]
) -> None:
    landscape = running(made, duplex)
    accepts = landscape.behind

    def nobody() -> End | None:
        if packets_are_lost:
            return None
        raise ConnectionRefusedError(111, "Connection refused")

    landscape.behind = nobody
    landscape.wires[-1].breaks()
    landscape.wires[-1].other.breaks()
    landscape.goes_on(TROUBLE_S)
    view = landscape.view
    assert view.state in ("waiting", "connecting")
    assert view.reason == ("no connection within 30 s" if packets_are_lost else "connection refused")
    landscape.behind = accepts
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S


@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
def test_a_remote_broker_that_comes_back_with_another_id_is_linked_again(duplex: bool, made: list[Landscape]) -> None:
    landscape = running(made, duplex)
    landscape.b = landscape.far("C")
    landscape.wires[-1].other.close()
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S
    assert landscape.view.remote == "brokerC"


@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
def test_a_remote_broker_with_our_own_id_is_refused_until_it_has_one_of_its_own(
    duplex: bool, made: list[Landscape]
) -> None:
    landscape = running(made, duplex)
    b = landscape.b
    landscape.b = landscape.far("A")
    landscape.wires[-1].other.close()
    landscape.goes_on(TROUBLE_S)
    assert landscape.view.reason == "the remote broker is this broker itself, or one with the same brokerId"
    landscape.b = b
    landscape.inbox = b.site.client().consumes(Q)
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S


@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
def test_a_login_that_is_refused_is_tried_until_it_is_granted(duplex: bool, made: list[Landscape]) -> None:
    landscape = running(made, duplex)
    landscape.doorman.refuses = True
    landscape.wires[-1].other.close()
    landscape.goes_on(TROUBLE_S)
    assert "password is invalid" in landscape.view.reason
    landscape.doorman.refuses = False
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S


@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
def test_a_name_that_somebody_else_has_is_tried_until_it_is_free(duplex: bool, made: list[Landscape]) -> None:
    landscape = running(made, duplex)
    landscape.wires[-1].other.close()
    landscape.loop.run(0.1)
    other = landscape.b.site.client("link_brokerA_outbound")
    landscape.goes_on(TROUBLE_S)
    assert "link_brokerA_outbound" in landscape.view.reason
    other.leaves()
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S


def test_the_accepting_end_of_a_duplex_link_tells_since_when_it_waits_and_why(made: list[Landscape]) -> None:
    landscape = running(made, True)
    accepts = landscape.behind
    landscape.behind = lambda: None
    landscape.wires[-1].is_cut = landscape.wires[-1].other.is_cut = True
    landscape.goes_on(TROUBLE_S)
    (link,) = landscape.b.site.acceptor.links.values()
    far = accepted_view(link, landscape.network.now.monotonic)
    assert (far.state, far.reconnects, far.reason) == ("waiting", 0, "Channel was inactive for too long: 30000 ms")
    assert 30.0 < far.since_s < 50.0
    landscape.behind = accepts
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S
    far = accepted_view(link, landscape.network.now.monotonic)
    assert (far.state, far.reconnects, far.reason) == ("running", 1, "")


def test_a_remote_broker_that_tells_of_nobody_is_told_once(
    made: list[Landscape], caplog: pytest.LogCaptureFixture
) -> None:
    landscape = Landscape(False)
    made.append(landscape)
    landscape.inbox.leaves()
    landscape.loop.call_soon(landscape.link.start)
    landscape.goes_on(ADVISORY_DEADLINE + 2)
    landscape.wires[-1].other.close()
    landscape.goes_on(ADVISORY_DEADLINE + 5)
    assert landscape.view.state == "running"
    lines = [record.getMessage() for record in caplog.records if "has announced no consumer" in record.getMessage()]
    assert len(lines) == 1 and lines[0].startswith("network connector link: broker brokerB has announced no consumer")


def test_a_remote_broker_that_tells_of_somebody_is_not_suspected(
    made: list[Landscape], caplog: pytest.LogCaptureFixture
) -> None:
    landscape = running(made, False)
    landscape.goes_on(ADVISORY_DEADLINE + 5)
    assert [record for record in caplog.records if "has announced no consumer" in record.getMessage()] == []


def test_an_error_of_our_own_is_told_and_the_link_goes_on(
    made: list[Landscape], caplog: pytest.LogCaptureFixture
) -> None:
    landscape = running(made, False)
    accepts = landscape.behind

    def breaks() -> End | None:
        landscape.behind = accepts
        raise RuntimeError("planted")

    landscape.behind = breaks
    landscape.wires[-1].other.close()
    landscape.goes_on(5.0)
    assert (landscape.view.state, landscape.view.reason) == ("waiting", "unexpected error: RuntimeError")
    assert recovers(landscape) <= 2 * LONGEST_WAIT_S
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert lines == ["network connector link: tcp://b:61616: unexpected error: RuntimeError; next try in 30 s"]


@pytest.mark.parametrize(("longest_ms", "seconds"), [(1_000, 15.0), (20_000, 20.0), (30_000, 30.0), (90_000, 30.0)])
def test_an_attempt_takes_no_longer_than_the_longest_wait(longest_ms: int, seconds: float) -> None:
    assert connect_timeout(ReconnectSettings(max_delay_ms=longest_ms)) == seconds


def test_a_link_whose_socket_takes_its_time_to_close_is_waiting_for_the_reason_that_it_has(
    made: list[Landscape],
) -> None:
    landscape = running(made, False)
    landscape.goes_on(10.0)
    landscape.link.bridges[-1].receive_eof(landscape.network.now)
    assert (landscape.view.state, landscape.view.reason) == ("waiting", "the connection was closed")
    assert landscape.view.since_s == 0.0


def test_a_link_that_was_up_and_cannot_connect_any_more_waits_longer_each_time(
    made: list[Landscape], caplog: pytest.LogCaptureFixture
) -> None:
    landscape = running(made, False)
    caplog.clear()
    began = landscape.loop.time()
    tries: list[float] = []

    def refuses() -> None:
        tries.append(landscape.loop.time() - began)
        raise ConnectionRefusedError(111, "Connection refused")

    landscape.goes_on(60.0)  # the life of the link is longer than what counts as a failed start
    landscape.behind = refuses
    landscape.wires[-1].other.close()
    landscape.goes_on(62.0)
    waits = [round(later - earlier) for earlier, later in pairwise(tries)]
    assert waits == [2, 4, 8, 16, 30][: len(waits)] and len(waits) >= 4
    assert len([line for line in caplog.messages if "connection refused" in line]) == 1
