"""Brokers that have, or claim, what belongs to another one: its id, its name, its link; and clients that claim to be
brokers.
"""

from __future__ import annotations

import gc
import logging

import pytest

from spanwire.broker.ports import ADMIN, Principal
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import AuthorizationError, JmsError
from spanwire.model.info import ConnectionInfo
from spanwire.model.routing import UNNAMED
from spanwire.network.bridge.duplex_bridge import MAX_UNLIMITED_LOGINS
from spanwire.network.bridge.remote_broker import ADVISORY_ACK_AT
from spanwire.network.bridge.settings_codec import properties_of
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.remote_registry import RemoteBrokerRegistry
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from tests.support.network_dialogue import Network, Site


class Impostor:
    """A client that may say it is a broker, as the broker of ``site`` hears it; ``heard`` is what that one answered."""

    def __init__(self, site: Site, user: str = "", client_id: str = "impostor") -> None:
        self.site = site
        self.heard: list[wire.Command] = []
        self.connection = OpenWireBrokerConnection(
            site.broker, ConnectionSettings("tcp://10.0.0.9:4000"), site.network.now, site.acceptor
        )
        self._encoder = FrameEncoder(WireFormat())
        self._decoder = FrameDecoder(pass_messages=False)
        self._number = 0
        self.user = user
        self.id = f"ID:{client_id}"
        self._octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))

    def says(self, *commands: wire.BaseCommand) -> Impostor:
        for command in commands:
            self._number += 1
            command.command_id = self._number
            self._octets(self._encoder.encode(command))
        return self

    def logs_in(self) -> Impostor:
        return self.says(
            wire.ConnectionInfo(connection_id=wire.ConnectionId(self.id), client_id=self.id, user_name=self.user)
        )

    def introduces(
        self, broker_id: str, name: str, duplex: BridgeSettings | None = None, network: bool = True
    ) -> Impostor:
        return self.says(
            wire.BrokerInfo(
                broker_id=wire.BrokerId(broker_id),
                broker_name=name,
                network_connection=network,
                duplex_connection=duplex is not None,
                network_properties=None if duplex is None else properties_of(duplex, name),
            )
        )

    def errors(self) -> str:
        return "; ".join(
            command.exception.message or ""
            for command in self.heard
            if isinstance(command, (wire.ConnectionError, wire.ExceptionResponse)) and command.exception is not None
        )

    @property
    def is_refused(self) -> bool:
        return self.errors() != ""

    def _octets(self, data: bytes) -> None:
        self.connection.receive_data(data, self.site.network.now)
        self.hears()

    def hears(self) -> None:
        """Take what the broker has written."""
        commands: list[wire.Command] = self._decoder.feed(b"".join(self.connection.data_to_send()))
        while commands:
            self.heard.extend(commands)
            if isinstance(commands[0], wire.WireFormatInfo):
                self._decoder.negotiated(WireFormat())
                self._decoder.authenticated()
            commands = self._decoder.feed(b"")
        self.connection.unsent(0)


class Users:
    """Everybody is who they say; duck-typed to `Authenticator`."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        return Principal(info.user_name or "")


class OnlyBridgesAreBridges:
    """Only the user ``bridge`` may act as one; duck-typed to `Authorizer`."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        if principal.name != "bridge" and action == ADMIN and destination.name.endswith("Advisory.NetworkBridge"):
            raise AuthorizationError("no")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


PULLS = BridgeSettings(name="pull", duplex=True, static=(parse_destination("queue://SECRET"),))


@pytest.fixture
def guarded() -> Site:
    return Network().site("B", authenticator=Users(), authorizer=OnlyBridgesAreBridges())


def test_s36_a_plain_user_who_asks_for_a_duplex_link_is_refused_and_gets_nothing(guarded: Site) -> None:
    guarded.client().sends("queue://SECRET", "for nobody")
    impostor = Impostor(guarded, "plain").logs_in().introduces("X", "brokerX", PULLS)
    assert "is not authorized to act as a network bridge" in impostor.errors()
    assert guarded.acceptor.bridges == {}
    assert guarded.queue("SECRET") == (1, 0, 1)
    assert not any(isinstance(command, wire.MessageDispatch | wire.Message) for command in impostor.heard)


def test_s36_a_broker_info_before_the_login_has_no_effect_and_is_judged_with_it(guarded: Site) -> None:
    impostor = Impostor(guarded, "plain").introduces("X", "brokerX", PULLS)
    assert guarded.acceptor.bridges == {} and guarded.broker.connection_views() == []
    impostor.logs_in()
    assert impostor.is_refused
    assert guarded.acceptor.bridges == {} and guarded.broker.connection_views() == []


def test_s36_the_user_of_bridges_is_let_in(guarded: Site) -> None:
    impostor = Impostor(guarded, "bridge").logs_in().introduces("X", "brokerX", PULLS)
    assert not impostor.is_refused
    assert list(guarded.acceptor.bridges) == ["pull@X"]


@pytest.mark.parametrize("flag", ["network_subscription", "additional_predicate"])
def test_s36_a_client_makes_no_network_subscription(guarded: Site, flag: str) -> None:
    impostor = Impostor(guarded, "plain").logs_in()
    impostor.says(wire.SessionInfo(session_id=wire.SessionId(connection_id=impostor.id, value=1)))
    consumer = wire.ConsumerInfo(
        consumer_id=wire.ConsumerId(connection_id=impostor.id, session_id=1, value=1),
        destination=wire.ActiveMQQueue("Q"),
        prefetch_size=10,
    )
    subject: DataStructure | bool = True if flag == "network_subscription" else wire.NetworkBridgeFilter()
    setattr(consumer, flag, subject)
    impostor.says(consumer)
    assert "network subscriptions are made by bridges" in impostor.errors()
    assert guarded.queue("Q") == (0, 0, 0)


def hub() -> tuple[Network, Site]:
    network = Network()
    return network, network.site("H", authenticator=Users())


def comes_in(site: Site, client_id: str, broker_id: str, name: str, duplex: bool, user: str = "") -> Impostor:
    settings = BridgeSettings(name=client_id, duplex=True) if duplex else None
    return Impostor(site, user, client_id).logs_in().introduces(broker_id, name, settings)


@pytest.mark.parametrize("second_duplex", [False, True])
@pytest.mark.parametrize("first_duplex", [False, True])
def test_s39_a_second_broker_of_the_same_id_or_name_is_refused_whichever_link_it_opens(
    first_duplex: bool, second_duplex: bool, caplog: pytest.LogCaptureFixture
) -> None:
    network, site = hub()
    first = comes_in(site, "one", "X", "brokerX", first_duplex)
    assert not first.is_refused
    same_id = comes_in(site, "two", "X", "brokerY", second_duplex)
    assert "brokerY has the brokerId X, and so has broker brokerX" in same_id.errors()
    same_name = comes_in(site, "three", "Y", "brokerX", second_duplex)
    assert "the broker of brokerId Y is named brokerX, and so is the broker of brokerId X" in same_name.errors()
    assert caplog.text.count("give each a broker") == 2
    again = comes_in(site, "four", "X", "brokerX", second_duplex)
    assert not again.is_refused, "several links to one broker are no second broker"
    for left in (first, again):
        left.connection.receive_eof(network.now)
    assert not comes_in(site, "five", "X", "brokerY", second_duplex).is_refused


@pytest.mark.parametrize("duplex", [False, True])
def test_s39_a_broker_that_claims_our_own_id_or_name_is_refused(duplex: bool) -> None:
    _, site = hub()
    assert "same brokerId" in comes_in(site, "one", "H", "brokerX", duplex).errors()
    assert "is named brokerH, and so is this broker" in comes_in(site, "two", "X", "brokerH", duplex).errors()
    assert site.acceptor.bridges == {}


def test_s39_a_link_of_ours_to_a_second_broker_of_the_same_id_is_refused_and_the_first_one_lives() -> None:
    network, site = hub()
    comes_in(site, "in", "B", "another", False)
    link = network.link(site, network.site("B"))
    for _ in range(6):
        link.turn()
    assert not link.running
    assert "brokerB has the brokerId B, and so has broker another" in link.reasons[0]
    assert [view.client_id for view in site.broker.connection_views()] == ["ID:in"]


def test_brokers_that_nobody_named_may_share_the_default_name_but_no_id() -> None:
    registry = RemoteBrokerRegistry()
    registry.add_link("X", UNNAMED, "H", UNNAMED)
    registry.add_link("Y", UNNAMED, "H", UNNAMED)
    with pytest.raises(JmsError, match="brokerId X"):
        registry.add_link("X", "named", "H", UNNAMED)
    registry.remove_link("X")
    registry.add_link("X", "named", "H", UNNAMED)


def test_the_refusal_of_a_second_broker_of_one_name_has_both_addresses() -> None:
    registry = RemoteBrokerRegistry()
    registry.add_link("X", "same", "H", "hub", "tcp://x:61616")
    with pytest.raises(
        JmsError,
        match=r"^the broker of brokerId Y at tcp://y\?:61616 is named same, and so is the broker of brokerId X at "
        r"tcp://x:61616, which is linked already: give each a brokerName of its own$",
    ):
        registry.add_link("Y", "same", "H", "hub", "tcp://y\n:61616")
    registry.remove_link("X")
    with pytest.raises(JmsError, match=r"^the broker of brokerId Z is named hub, and so is this broker: give each"):
        registry.add_link("Z", "hub", "H", "hub")


def test_a_broker_that_comes_back_with_another_id_is_let_in_when_its_old_links_are_gone() -> None:
    registry = RemoteBrokerRegistry()
    for _ in range(2):
        registry.add_link("old", "brokerX", "H", "hub")
    registry.remove_link("old")
    with pytest.raises(JmsError, match="is named brokerX"):
        registry.add_link("new", "brokerX", "H", "hub")
    registry.remove_link("old")
    registry.add_link("new", "brokerX", "H", "hub")
    registry.remove_link("unknown")


def test_s39_the_duplex_link_of_another_user_cannot_be_replaced(caplog: pytest.LogCaptureFixture) -> None:
    _, site = hub()
    owner = Impostor(site, "bridge", "one").logs_in().introduces("X", "brokerX", PULLS)
    thief = Impostor(site, "thief", "two").logs_in().introduces("X", "brokerX", PULLS)
    assert "duplex link pull@X exists already and belongs to another user" in thief.errors()
    assert not owner.connection.closed
    assert site.acceptor.bridges["pull@X"].user == "bridge"
    caplog.set_level(logging.WARNING)
    newer = Impostor(site, "bridge", "three").logs_in().introduces("X", "brokerX", PULLS)
    assert not newer.is_refused
    assert owner.connection.closed
    assert "replaced by a newer one" in caplog.text


SYNCED = BridgeSettings(name="sync", duplex=True, sync_durable=True)


def subscriptions(count: int) -> wire.BrokerSubscriptionInfo:
    """Some 870 bytes for each."""
    return wire.BrokerSubscriptionInfo(
        broker_id=wire.BrokerId("X"),
        broker_name="brokerX",
        subscription_infos=[
            wire.ConsumerInfo(
                consumer_id=wire.ConsumerId(connection_id="c", session_id=1, value=number),
                client_id="c" * 400,
                destination=wire.ActiveMQTopic(f"T{number % 3}." + "t" * 400),
                subscription_name=f"s{number}",
                prefetch_size=100,
            )
            for number in range(count)
        ],
    )


def test_s3_a_bridge_may_tell_of_its_durable_subscriptions_at_length_before_its_login_and_no_client() -> None:
    _, site = hub()
    bridge = Impostor(site, "bridge").introduces("X", "brokerX", SYNCED).says(subscriptions(900)).logs_in()
    assert not bridge.is_refused
    assert not bridge.connection.closed
    forwarder = site.acceptor.bridges["sync@X"].forwarder
    assert len(forwarder.local.demand.subscriptions) == 3
    for other in (
        Impostor(site, "bridge", "plain").introduces("Y", "brokerY", None, network=False),
        Impostor(site, "bridge", "quiet"),
    ):
        assert other.says(subscriptions(90)).connection.closed
    too_much = Impostor(site, "bridge", "much").introduces("Y", "brokerY", SYNCED)
    assert not too_much.connection.closed
    assert too_much.says(subscriptions(1_500)).connection.closed


def introductions() -> int:
    """How many are held in memory."""
    gc.collect()
    return sum(type(found) is wire.BrokerSubscriptionInfo for found in gc.get_objects())


@pytest.mark.large
def test_s3_what_a_bridge_told_before_its_login_is_forgotten_after_it() -> None:
    _, site = hub()
    before = introductions()
    bridge = Impostor(site, "bridge").introduces("X", "brokerX", SYNCED).says(subscriptions(90))
    assert introductions() == before + 1
    assert not bridge.logs_in().is_refused
    bridge.heard.clear()  # that of the other side among it
    assert introductions() == before


def test_s3_only_so_many_bridges_tell_at_length_before_their_login_at_a_time() -> None:
    _, site = hub()
    waiting = [
        Impostor(site, "bridge", f"b{number}").introduces(f"B{number}", f"broker{number}", SYNCED)
        for number in range(MAX_UNLIMITED_LOGINS)
    ]
    late = Impostor(site, "bridge", "late").introduces("L", "brokerL", SYNCED)
    assert late.says(subscriptions(90)).connection.closed
    for one in waiting[1:]:
        one.connection.receive_eof(site.network.now)
    waiting[0].says(subscriptions(90)).logs_in()
    again = Impostor(site, "bridge", "again").introduces("L", "brokerL", SYNCED).says(subscriptions(90)).logs_in()
    assert not again.is_refused
    others = [Impostor(site, "bridge", f"o{number}") for number in range(MAX_UNLIMITED_LOGINS)]
    for number, one in enumerate(others):  # all places are free again
        one.introduces(f"O{number}", f"other{number}", SYNCED).says(subscriptions(90))
        assert not one.connection.closed


def test_what_comes_after_the_durable_subscriptions_is_limited_as_ever() -> None:
    _, site = hub()
    bridge = Impostor(site, "bridge").introduces("X", "brokerX", SYNCED).says(subscriptions(90))
    assert not bridge.connection.closed
    assert bridge.says(
        wire.ConnectionControl(connected_brokers="b" * 40_000, reconnect_to="r" * 40_000)
    ).connection.closed


def clone(site: Site, number: int, life: int = 1) -> Impostor:
    """One of several processes that have the same broker id and name."""
    return (
        Impostor(site, "bridge", f"host{number}-4000-100{number}-0:{life}").logs_in().introduces("X", "brokerX", PULLS)
    )


def keep_alives(of: Impostor) -> int:
    return sum(isinstance(command, wire.KeepAliveInfo) and command.response_required for command in of.heard)


def test_of_two_brokers_with_one_id_and_name_the_second_gets_no_duplex_link_while_the_first_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    network, site = hub()
    first = clone(site, 1)
    for life in range(10):
        network.environment.advance(1.0)
        second = clone(site, 2, life)
        assert "duplex link pull@X exists already, to another process at tcp://10.0.0.9:4000" in second.errors()
        assert "give each broker a brokerId and a brokerName of its own" in caplog.text
        caplog.clear()
        first.hears()
        assert keep_alives(first) == life + 1
        first.says(wire.KeepAliveInfo())
        assert not first.connection.closed
    assert site.acceptor.bridges["pull@X"].process == "ID:host1-4000-1001"


def test_a_broker_that_has_come_back_is_let_in_when_its_older_link_does_not_answer() -> None:
    network, site = hub()
    first = clone(site, 1)
    refused: list[bool] = []
    for wait, life in ((0.0, 1), (1.0, 2), (2.0, 3), (4.0, 4)):
        network.environment.advance(wait)
        refused.append(clone(site, 2, life).is_refused)
    assert refused == [True, True, True, False]
    assert first.connection.closed
    assert site.acceptor.bridges["pull@X"].process == "ID:host2-4000-1002"


def test_the_same_process_replaces_its_older_link_at_once() -> None:
    _, site = hub()
    first = clone(site, 1)
    assert not clone(site, 1, 2).is_refused
    assert first.connection.closed


def running_link() -> tuple[Site, Impostor]:
    """A duplex link that the impostor has opened; the reverse bridge asks it for advisories."""
    _, site = hub()
    impostor = comes_in(site, "pull", "X", "brokerX", True)
    assert not impostor.is_refused and list(site.acceptor.bridges) == ["pull@X"]
    return site, impostor


def advisory(number: int) -> wire.ActiveMQMessage:
    made = wire.ActiveMQMessage()
    made.destination = wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.Q")
    made.message_id = wire.MessageId(producer_id=wire.ProducerId(connection_id="ID:x"), producer_sequence_id=number)
    made.data_structure = wire.ConsumerInfo(
        consumer_id=wire.ConsumerId(connection_id="ID:c", session_id=1, value=1),
        destination=wire.ActiveMQQueue("Q"),
        prefetch_size=1,
    )
    return made


@pytest.mark.parametrize("dispatched", [False, True])
def test_advisories_over_a_duplex_link_are_acknowledged_whatever_form_they_have(dispatched: bool) -> None:
    site, impostor = running_link()
    for number in range(ADVISORY_ACK_AT):
        message = advisory(number)
        impostor.says(wire.MessageDispatch(destination=message.destination, message=message) if dispatched else message)
    assert not impostor.is_refused
    acks = [one.message_count for one in impostor.heard if isinstance(one, wire.MessageAck)]
    assert acks == [ADVISORY_ACK_AT]
    assert site.acceptor.bridges["pull@X"].forwarder.local.demand.subscriptions != []


def test_a_dispatch_without_a_message_over_a_duplex_link_changes_nothing() -> None:
    site, impostor = running_link()
    impostor.says(wire.MessageDispatch(destination=wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.Q")))
    assert not impostor.connection.closed and not impostor.is_refused
    assert list(site.acceptor.bridges) == ["pull@X"]


def test_the_reason_that_the_other_end_of_a_duplex_link_gives_is_kept() -> None:
    site, impostor = running_link()
    bridge = site.acceptor.bridges["pull@X"]
    impostor.says(wire.ConnectionError(exception=Throwable("javax.jms.JMSException", "not now")))
    assert bridge.reason == "the remote broker refused: javax.jms.JMSException: not now"
