"""A remote broker that lies, floods or dawdles: the bridge ends or goes on, the broker lives."""

from __future__ import annotations

import pytest

from spanwire.broker.ports import READ, Principal
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import AuthorizationError
from spanwire.model.message import FORMAT_OPENWIRE_10, FORMAT_STOMP
from spanwire.model.routing import MAX_PATH
from spanwire.model.secret import Secret
from spanwire.network.bridge.bridge import NetworkBridge
from spanwire.network.bridge.bridge_states import State
from spanwire.network.bridge.remote_broker import RemoteBroker
from spanwire.network.demand import bridge_settings
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.answer_run import AnswerRun
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from spanwire.protocols.openwire.output import MAX_UNREAD_ANSWER_BYTES
from tests.support.network_dialogue import Network

Q = "queue://Q"


class Remote:
    """What a test says in the place of the remote broker; ``heard`` is what the bridge said."""

    def __init__(self, settings: BridgeSettings | None = None, **options: object) -> None:
        self.network = Network()
        self.site = self.network.site("A", **options)
        self.bridge = NetworkBridge(
            self.site.broker, settings or BridgeSettings(), "tcp://a:1", WireFormatPreferences(), self.network.now
        )
        self.heard: list[wire.Command] = []
        self._encoder = FrameEncoder(WireFormat())
        self._decoder = FrameDecoder(pass_messages=False)
        self._number = 0

    @staticmethod
    def encoded(command: DataStructure) -> bytes:
        """As it is written before anything is negotiated."""
        return FrameEncoder().encode(command)

    def octets(self, data: bytes) -> None:
        self.bridge.receive_data(data, self.network.now)
        self.listens()

    def says(self, *commands: DataStructure) -> None:
        self.octets(b"".join(self._encoder.encode(command) for command in commands))

    def listens(self) -> None:
        self.site.store_turn()  # a link forwards what the disk has
        commands = self._decoder.feed(b"".join(self.bridge.data_to_send()))
        while commands:
            self.heard.extend(commands)
            if isinstance(commands[0], wire.WireFormatInfo):
                self._decoder.negotiated(WireFormat())
                self._decoder.authenticated()
            commands = self._decoder.feed(b"")
        if not self.bridge.closed:
            self.bridge.unsent(0)

    def greets(self, broker_id: str = "R", name: str = "remote") -> None:
        """WireFormatInfo and BrokerInfo."""
        self.octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
        self.says(wire.BrokerInfo(broker_id=wire.BrokerId(broker_id), broker_name=name))

    def runs(self) -> Remote:
        """The bridge is up."""
        self.greets()
        self.answers_all()
        assert self.bridge.state is State.RUNNING
        return self

    def answers_all(self) -> None:
        for command in self.asked():
            self.says(wire.Response(command.command_id))

    def asked(self) -> list[wire.BaseCommand]:
        """Commands that want an answer and were not looked at yet."""
        found = [one for one in self.heard if isinstance(one, wire.BaseCommand) and one.response_required]
        self.heard.clear()
        return found

    def advises(self, subject: DataStructure) -> None:
        """An advisory about ``subject``."""
        self._number += 1
        message = wire.ActiveMQMessage()
        message.destination = wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.Q")
        message.message_id = wire.MessageId(
            producer_id=wire.ProducerId(connection_id="ID:r"), producer_sequence_id=self._number
        )
        message.data_structure = subject
        self.says(wire.MessageDispatch(destination=message.destination, message=message))

    def consumer(self, number: int = 1, queue: str = "Q", path: list[str] | None = None) -> wire.ConsumerInfo:
        return wire.ConsumerInfo(
            consumer_id=wire.ConsumerId(connection_id="ID:c", session_id=1, value=number),
            destination=wire.ActiveMQQueue(queue),
            prefetch_size=1,
            broker_path=None if path is None else [wire.BrokerId(one) for one in path],
        )


def test_answers_in_any_order_acknowledge_in_the_order_of_the_queue() -> None:
    remote = Remote().runs()
    remote.advises(remote.consumer())
    client = remote.site.client()
    for text in ("one", "two", "three"):
        client.sends(Q, text, persistent=False)
    remote.listens()
    first, second, third = remote.asked()
    remote.says(wire.Response(third.command_id), wire.Response(second.command_id))
    assert remote.site.queue("Q")[1] == 0
    remote.says(wire.Response(first.command_id))
    assert remote.site.queue("Q")[1] == 3


def test_what_was_answered_out_of_order_does_not_go_again_after_a_break() -> None:
    remote = Remote().runs()
    remote.advises(remote.consumer())
    client = remote.site.client()
    for text in ("one", "two", "three"):
        client.sends(Q, text, persistent=False)
    remote.listens()
    _, second, third = remote.asked()
    remote.says(wire.Response(third.command_id), wire.Response(second.command_id))
    remote.bridge.receive_eof(remote.network.now)
    inbox = client.consumes(Q)
    remote.network.settles()
    assert [(one.text, one.redelivered) for one in inbox.received] == [("one", True)]


def test_answers_to_nothing_change_nothing() -> None:
    remote = Remote().runs()
    remote.says(wire.Response(4711), wire.Response(-1), wire.Response(0))
    assert remote.bridge.state is State.RUNNING


def test_a_message_larger_than_the_remote_broker_takes_goes_to_the_dead_letters_and_the_others_cross(
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote = Remote()
    offer = WireFormatPreferences(max_frame_size=10_000)
    remote.octets(FrameEncoder().encode(wire_format_info(offer)))
    remote.says(wire.BrokerInfo(broker_id=wire.BrokerId("R"), broker_name="remote"))
    remote.answers_all()
    remote.advises(remote.consumer())
    client = remote.site.client()
    for text in ("one", "x" * 20_000, "three"):
        client.sends(Q, text)
    remote.listens()
    remote.answers_all()
    remote.network.settles()
    assert remote.bridge.state is State.RUNNING
    assert remote.site.queue("Q")[1] == 3
    dead = client.consumes("queue://ActiveMQ.DLQ")
    remote.network.settles()
    assert [len(text) for text in dead.texts] == [20_000]
    (line,) = [one for one in caplog.messages if "cannot be forwarded" in one]
    assert line.endswith("; it becomes a dead letter")


def test_a_message_that_grows_too_large_on_its_way_goes_to_the_dead_letters() -> None:
    site = Network().site("A")
    openwire = site.client().sends(Q, "one", properties={f"p{number}": 1 for number in range(1000)})
    stomp = site.formats.converted(openwire, FORMAT_STOMP)
    limit = stomp.size + 100
    assert len(site.formats.converted(stomp, FORMAT_OPENWIRE_10).raw) > limit
    remote = Remote()
    remote.octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences(max_frame_size=limit))))
    remote.says(wire.BrokerInfo(broker_id=wire.BrokerId("R"), broker_name="remote"))
    remote.answers_all()
    remote.advises(remote.consumer())
    client = remote.site.client()
    remote.site.broker.send(client.state, stomp, None, -1, remote.network.now)
    remote.listens()
    remote.network.settles()
    assert remote.asked() == []
    assert remote.site.queue("Q")[1] == 1
    assert remote.site.queue("ActiveMQ.DLQ")[2] == 1


def test_demand_for_what_the_bridge_may_not_read_is_left_out() -> None:
    class NoSecrets:
        def check(self, principal: Principal, action: str, destination: Destination) -> None:
            if action == READ and destination.name.startswith("SECRET"):
                raise AuthorizationError("no")

        def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
            self.check(principal, action, destination)

    remote = Remote(authorizer=NoSecrets()).runs()
    remote.advises(remote.consumer(1, "SECRET.Q"))
    remote.advises(remote.consumer(2, "OPEN.Q"))
    assert remote.bridge.demand_count == 1
    assert remote.bridge.state is State.RUNNING


def test_another_brokers_temporary_queue_cannot_be_taken_over() -> None:
    remote = Remote().runs()
    client = remote.site.client()
    temporary = client.temporary_queue()
    remote.advises(wire.DestinationInfo(destination=wire.ActiveMQTempQueue(temporary.name), operation_type=0))
    remote.advises(
        wire.ConsumerInfo(
            consumer_id=wire.ConsumerId(connection_id="ID:c", session_id=1, value=1),
            destination=wire.ActiveMQTempQueue(temporary.name),
        )
    )
    assert remote.bridge.demand_count == 0
    remote.advises(wire.DestinationInfo(destination=wire.ActiveMQTempQueue(temporary.name), operation_type=1))
    inbox = client.consumes(str(temporary))
    client.sends(str(temporary), "mine", persistent=False)
    remote.network.settles()
    assert inbox.texts == ["mine"]


@pytest.mark.parametrize("path", [["A"], ["X", "A"], ["X"]])
def test_demand_of_our_own_or_from_too_far_is_none(path: list[str]) -> None:
    remote = Remote().runs()
    remote.advises(remote.consumer(1, "Q", path))
    assert remote.bridge.demand_count == 0


def test_a_path_longer_than_any_network_is_no_demand_and_ends_no_bridge() -> None:
    remote = Remote(BridgeSettings(consumer_ttl=-1)).runs()
    remote.advises(remote.consumer(1, "Q", ["X"] * 63))
    assert remote.bridge.demand_count == 1
    remote.advises(remote.consumer(2, "P", ["X"] * 64))  # told on, it would be too long for the next broker
    remote.advises(remote.consumer(3, "P", ["X"] * 65))
    remote.advises(
        wire.DestinationInfo(destination=wire.ActiveMQTempQueue("ID:x:1"), broker_path=[wire.BrokerId("X")] * 65)
    )
    assert remote.bridge.demand_count == 1
    assert remote.bridge.state is State.RUNNING


def test_a_forged_row_of_consumers_is_told_on_within_its_limit() -> None:
    remote = Remote().runs()
    ids = [wire.ConsumerId(connection_id="ID:x", session_id=1, value=number) for number in range(MAX_PATH)]
    consumer = remote.consumer()
    consumer.network_consumer_path = ids
    remote.advises(consumer)
    network = remote.network
    link = network.link(network.site("D"), remote.site, BridgeSettings(consumer_ttl=2))
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1


@pytest.mark.large
def test_a_flood_of_consumers_ends_at_a_limit_and_the_log_stays_small(
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote = Remote(BridgeSettings()).runs()
    for number in range(bridge_settings.MAX_DEMAND + 50):
        remote.advises(remote.consumer(number + 1))
    assert remote.bridge.demand_count == 1  # a conduit needs one subscription for all of them
    told = [record for record in caplog.records if "are not forwarded" in record.getMessage()]
    assert 0 < len(told) <= 10
    assert remote.bridge.state is State.RUNNING


def test_the_same_consumer_announced_again_is_served_once() -> None:
    remote = Remote(BridgeSettings(conduit=False)).runs()
    for _ in range(5):
        remote.advises(remote.consumer())
    assert remote.bridge.demand_count == 1
    remote.advises(wire.RemoveInfo(object_id=remote.consumer().consumer_id))
    remote.advises(wire.RemoveInfo(object_id=remote.consumer().consumer_id))
    assert remote.bridge.demand_count == 0


def test_demand_that_comes_and_goes_leaves_nothing_behind() -> None:
    remote = Remote().runs()
    for number in range(500):
        remote.advises(remote.consumer(number))
        remote.advises(wire.RemoveInfo(object_id=remote.consumer(number).consumer_id))
    assert remote.bridge.demand_count == 0
    assert sum(len(view.client_id or "") > 0 for view in remote.site.broker.connection_views()) == 1
    assert [view.consumers for view in remote.site.broker.connection_views()] == [0]


@pytest.mark.parametrize(
    "name", ["", "\x00", "a" * 2000, " Q", "Q\n", "ActiveMQ.Advisory.Consumer.>", "," * 100, "a,,b"]
)
def test_a_consumer_of_a_name_that_cannot_be_is_no_demand(name: str) -> None:
    remote = Remote().runs()
    info = remote.consumer()
    info.destination = wire.ActiveMQTopic(name)
    remote.advises(info)
    assert remote.bridge.demand_count == 0
    assert remote.bridge.state is State.RUNNING


@pytest.mark.parametrize(
    "command",
    [
        wire.ConsumerInfo(consumer_id=wire.ConsumerId(connection_id="x")),
        wire.MessageAck(),
        wire.TransactionInfo(),
        wire.ConnectionInfo(connection_id=wire.ConnectionId("x")),
        wire.ActiveMQTextMessage(),
        wire.WireFormatInfo(),
        wire.ControlCommand(command="shutdown"),
    ],
)
def test_commands_that_are_not_for_a_bridge_end_it(command: DataStructure) -> None:
    remote = Remote().runs()
    remote.says(command)
    assert remote.bridge.closed
    assert "broke the protocol" in remote.bridge.reason
    assert remote.site.broker.connection_views() == []


def test_a_frame_larger_than_any_advisory_is_refused_from_its_size() -> None:
    remote = Remote().runs()
    remote.octets((5 * 1024 * 1024).to_bytes(4, "big") + b"\x15")
    assert remote.bridge.closed
    assert "larger than the limit" in remote.bridge.reason


@pytest.mark.large
def test_a_remote_broker_that_asks_and_never_reads_is_left() -> None:
    remote = Remote().runs()
    bridge = remote.bridge
    asks = FrameEncoder(WireFormat()).encode(wire.KeepAliveInfo(response_required=True)) * 20_000
    bridge.receive_data(asks, remote.network.now)
    assert bridge.data_to_send()
    bridge.unsent(0)  # these were read and do not count
    unread = 0
    while not bridge.closed and unread <= 2 * MAX_UNREAD_ANSWER_BYTES:
        bridge.receive_data(asks, remote.network.now)
        unread += sum(map(len, bridge.data_to_send()))
        bridge.unsent(unread)
    assert bridge.closed
    assert bridge.reason.endswith("bytes of answers were not read")
    assert unread > MAX_UNREAD_ANSWER_BYTES


def test_advisories_before_the_bridge_asked_for_any_end_it() -> None:
    remote = Remote()
    remote.octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
    remote.advises(remote.consumer())
    assert remote.bridge.closed
    assert remote.site.broker.connection_views() == []


def test_a_broker_without_an_id_is_none() -> None:
    remote = Remote()
    remote.octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
    remote.says(wire.BrokerInfo(broker_name="nobody"))
    assert remote.bridge.closed
    assert "has no id" in remote.bridge.reason


def test_a_second_broker_info_changes_nothing() -> None:
    remote = Remote().runs()
    remote.says(wire.BrokerInfo(broker_id=wire.BrokerId("OTHER"), broker_name="other"))
    assert remote.bridge.remote_name == "remote"
    assert remote.bridge.state is State.RUNNING


def test_most_of_a_window_of_advisories_is_acknowledged_at_once() -> None:
    remote = Remote().runs()
    for number in range(749):
        remote.advises(remote.consumer(number))
    assert not [one for one in remote.heard if isinstance(one, wire.MessageAck)]
    remote.advises(remote.consumer(749))
    (ack,) = [one for one in remote.heard if isinstance(one, wire.MessageAck)]
    assert ack.message_count == 750


def test_the_words_of_a_remote_broker_stay_on_their_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    remote = Remote()
    remote.greets(name="r\nWARNING forged" + "x" * 1000)
    remote.answers_all()
    assert remote.bridge.remote_name.startswith("r?WARNING") and len(remote.bridge.remote_name) < 300
    remote.site.client().sends(Q, "one")
    remote.advises(remote.consumer())
    remote.listens()
    (message,) = remote.asked()
    gone = Throwable("org.apache.activemq.DestinationDoesNotExistException", "gone\nWARNING forged")
    remote.says(wire.ExceptionResponse(correlation_id=message.command_id, exception=gone))
    assert any("cannot be forwarded" in record.getMessage() for record in caplog.records)
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_a_password_goes_to_the_remote_broker_and_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    settings = BridgeSettings(
        user_name="near", password=Secret("n3ar"), remote_user_name="far", remote_password=Secret("f4r")
    )
    remote = Remote(settings)
    remote.greets()
    (info,) = [one for one in remote.heard if isinstance(one, wire.ConnectionInfo)]
    assert (info.user_name, info.password) == ("far", "f4r")
    assert [view.user_name for view in remote.site.broker.connection_views()] == ["near"]
    assert "f4r" not in caplog.text + repr(settings)
    assert "n3ar" not in caplog.text + repr(settings)


class NoQueues:
    """Nobody may read a queue; duck-typed to `Authorizer`."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        if action == READ and destination.is_queue:
            raise AuthorizationError("queues are read by nobody")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


def test_a_static_destination_that_the_bridge_may_not_read_is_told_and_ends_no_bridge(
    caplog: pytest.LogCaptureFixture,
) -> None:
    static = (parse_destination("queue://SECRET"), parse_destination("topic://OPEN"))
    remote = Remote(BridgeSettings(static=static), authorizer=NoQueues()).runs()
    assert remote.bridge.demand_count == 1
    told = [line for line in caplog.messages if "are not forwarded" in line]
    assert told == [
        "a subscription for broker remote is refused, so its messages are not forwarded: User anonymous is not "
        "authorized to read from: queue://SECRET"
    ]


def test_a_remote_broker_with_our_own_id_is_this_broker_itself() -> None:
    remote = Remote()
    remote.greets("A", "elsewhere")
    assert remote.bridge.closed and remote.bridge.leads_to_itself
    assert remote.bridge.reason == "the remote broker is this broker itself, or one with the same brokerId"
    assert [one for one in remote.heard if isinstance(one, wire.ConnectionInfo)] == []


def test_what_comes_after_the_last_consumer_has_left_stays_although_messages_are_unanswered() -> None:
    remote = Remote().runs()
    remote.advises(remote.consumer())
    client = remote.site.client()
    client.sends(Q, "one", persistent=False)
    remote.listens()
    (first,) = remote.asked()
    remote.advises(wire.RemoveInfo(object_id=remote.consumer().consumer_id))
    client.sends(Q, "two", persistent=False)
    remote.listens()
    assert remote.asked() == []
    remote.says(wire.Response(first.command_id))
    assert (remote.bridge.demand_count, remote.site.queue("Q")) == (0, (2, 1, 1))


def test_a_consumer_of_a_queue_that_claims_a_durable_subscription_leaves_nothing_behind() -> None:
    remote = Remote().runs()
    claiming = remote.consumer()
    claiming.subscription_name, claiming.client_id = "s", "c"
    remote.advises(claiming)
    assert remote.bridge.demand_count == 1
    assert remote.site.broker.operations.durable_terms() == []
    remote.advises(wire.RemoveInfo(object_id=claiming.consumer_id))
    assert remote.bridge.demand_count == 0


def test_a_link_on_which_nothing_is_written_sends_keep_alives_however_often_the_socket_is_looked_at() -> None:
    remote = Remote().runs()
    began = remote.network.now.monotonic
    due = remote.bridge.next_timeout()
    assert due is not None and due > began + 1.0
    remote.network.environment.advance(due - began - 1.0)
    remote.bridge.unsent(0)
    remote.network.environment.advance(1.0)
    remote.bridge.handle_timeout(remote.network.now)
    remote.listens()
    assert [type(one).__name__ for one in remote.heard] == ["KeepAliveInfo"]


def test_answers_that_come_together_are_read_as_one_run() -> None:
    settings = WireFormatPreferences()
    remote = RemoteBroker("ID:bridge", settings)
    (offer,) = remote.decode(FrameEncoder().encode(wire_format_info(settings)))
    assert isinstance(offer, wire.WireFormatInfo)
    remote.negotiate(offer)
    encoder = FrameEncoder(WireFormat())
    (run,) = remote.decode(b"".join(encoder.encode(wire.Response(number)) for number in (7, 8, 9)))
    assert isinstance(run, AnswerRun) and list(run.correlation_ids) == [7, 8, 9]


def test_a_consumer_that_comes_while_a_subscription_is_about_to_end_gets_one_of_its_own() -> None:
    remote = Remote().runs()
    remote.advises(remote.consumer(1))
    client = remote.site.client()
    client.sends(Q, "one", persistent=False)
    remote.listens()
    (first,) = remote.asked()
    remote.advises(wire.RemoveInfo(object_id=remote.consumer(1).consumer_id))
    remote.advises(remote.consumer(2))
    remote.says(wire.Response(first.command_id))
    client.sends(Q, "two", persistent=False)
    remote.listens()
    assert [type(one).__name__ for one in remote.asked()] == ["ActiveMQTextMessage"]
    assert remote.bridge.demand_count == 1


@pytest.mark.parametrize(("together", "count"), [(False, 2), (True, 1)])
def test_a_consumer_beside_the_subscription_of_a_network_shares_it_only_where_the_connector_says_so(
    together: bool, count: int
) -> None:
    remote = Remote(BridgeSettings(conduit_network_queues=together, consumer_ttl=2)).runs()
    of_a_network = remote.consumer(1)
    of_a_network.network_subscription = True
    remote.advises(of_a_network)
    remote.advises(remote.consumer(2))
    assert remote.bridge.demand_count == count
