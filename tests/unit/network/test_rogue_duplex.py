"""The other end of a duplex link says what it may not: the link ends or goes on, the broker lives."""

from __future__ import annotations

import pytest

from spanwire.network.bridge.bridge_states import State
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from tests.unit.network.test_rogue_remotes import Remote

ID = "ID:remote:1"


def duplex() -> Remote:
    """The brokers have met."""
    remote = Remote(BridgeSettings(duplex=True))
    remote.greets()
    assert remote.bridge.state is State.STARTING
    return remote


def connection(connection_id: str = ID, client_id: str = "link_R_outbound") -> wire.ConnectionInfo:
    return wire.ConnectionInfo(connection_id=wire.ConnectionId(connection_id), client_id=client_id)


def session(connection_id: str = ID) -> wire.SessionInfo:
    return wire.SessionInfo(session_id=wire.SessionId(connection_id=connection_id, value=1))


def producer(connection_id: str = ID) -> wire.ProducerInfo:
    return wire.ProducerInfo(producer_id=wire.ProducerId(connection_id=connection_id, session_id=1, value=1))


def consumer(connection_id: str = ID) -> wire.ConsumerInfo:
    return wire.ConsumerInfo(
        consumer_id=wire.ConsumerId(connection_id=connection_id, session_id=1, value=1),
        destination=wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.>"),
        prefetch_size=1000,
    )


def running() -> Remote:
    """Both directions are up."""
    remote = duplex()
    remote.says(connection(), session(), producer())
    assert remote.bridge.state is State.RUNNING
    return remote


def test_the_link_is_up_when_the_other_end_has_begun_its_direction() -> None:
    remote = duplex()
    remote.says(connection())
    remote.says(session())
    states = [remote.bridge.state]
    remote.says(producer())
    assert [*states, remote.bridge.state] == [State.STARTING, State.RUNNING]
    remote.heard.clear()
    remote.says(consumer())
    remote.site.client().consumes("queue://HERE")
    remote.listens()
    subjects = [
        one.message.data_structure for one in remote.heard if isinstance(one, wire.MessageDispatch) and one.message
    ]
    assert [type(subject).__name__ for subject in subjects] == ["ConsumerInfo"]


@pytest.mark.parametrize(
    "command", [session(), producer(), consumer(), wire.RemoveInfo(object_id=wire.ConnectionId(ID))]
)
def test_what_comes_before_a_login_ends_the_link(command: DataStructure) -> None:
    remote = duplex()
    remote.says(command)
    assert remote.bridge.closed
    assert "a bridge accepts no " in remote.bridge.reason
    assert remote.site.broker.connection_views() == []


def test_a_login_before_the_brokers_have_met_ends_the_link() -> None:
    remote = Remote(BridgeSettings(duplex=True))
    remote.octets(_offer())
    remote.says(connection())
    assert "a ConnectionInfo arrived before the BrokerInfo" in remote.bridge.reason


def _offer() -> bytes:
    from_broker = wire_format_info(WireFormatPreferences())
    return Remote.encoded(from_broker)


def test_a_second_login_ends_the_link() -> None:
    remote = running()
    remote.says(connection("ID:remote:2", "other"))
    assert remote.bridge.closed


def test_an_id_of_another_connection_is_refused_and_the_link_lives() -> None:
    remote = running()
    remote.site.client()
    remote.says(consumer("ID:A-client-1:1"))
    assert not remote.bridge.closed
    refusals = [one for one in remote.heard if isinstance(one, wire.ConnectionError)]
    assert len(refusals) == 1


@pytest.mark.parametrize(("checked", "kept"), [(True, 1), (False, 2)])
def test_what_a_broker_of_another_kind_repeats_over_the_link_is_dropped_where_that_is_checked(
    checked: bool, kept: int
) -> None:
    remote = Remote(BridgeSettings(duplex=True, check_duplicates=checked))
    remote.greets()
    remote.says(connection(), session(), producer())
    maker = wire.ProducerId(connection_id="ID:maker:1", session_id=1, value=1)
    for redeliveries in (0, 1):
        message = wire.ActiveMQMessage()
        message.destination = wire.ActiveMQQueue("Q")
        message.producer_id = producer().producer_id
        message.message_id = wire.MessageId(producer_id=maker, producer_sequence_id=1)
        message.persistent = True
        message.broker_path = [wire.BrokerId("R")]
        message.redelivery_counter = redeliveries
        remote.says(message)
        remote.network.settles()
    assert remote.site.queue("Q")[0] == kept


def test_after_its_goodbye_the_other_end_says_nothing_more() -> None:
    remote = running()
    remote.says(wire.RemoveInfo(object_id=wire.ConnectionId(ID)))
    assert not remote.bridge.closed
    remote.says(producer())
    assert remote.bridge.closed


def test_a_one_way_link_takes_no_login_of_the_remote_broker() -> None:
    remote = Remote().runs()
    remote.says(connection())
    assert "a bridge accepts no ConnectionInfo" in remote.bridge.reason


def test_a_client_id_that_is_in_use_ends_the_link_with_the_reason() -> None:
    remote = duplex()
    client = remote.site.client("taken")
    remote.says(connection(client_id="taken"))
    assert remote.bridge.closed
    assert "taken already connected" in remote.bridge.reason
    assert not client.state.removed


def test_when_the_link_ends_both_directions_leave_nothing_behind() -> None:
    remote = running()
    assert len(remote.site.broker.connection_views()) == 2
    remote.bridge.receive_eof(remote.network.now)
    assert remote.site.broker.connection_views() == []


def test_an_advisory_that_the_other_end_forwards_like_a_message_is_heard_as_one() -> None:
    remote = running()
    advisory = wire.ActiveMQMessage()
    advisory.destination = wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.Q")
    advisory.message_id = wire.MessageId(producer_id=producer().producer_id, producer_sequence_id=1)
    advisory.producer_id = producer().producer_id
    advisory.data_structure = remote.consumer()
    remote.says(advisory)
    assert remote.bridge.demand_count == 1
    assert remote.bridge.statistics().received == 0


@pytest.mark.parametrize(("seconds", "waiting"), [(0.0, 1), (60.0, 0)])
def test_the_time_of_a_message_over_the_link_is_that_at_which_it_comes(seconds: float, waiting: int) -> None:
    remote = running()
    message = wire.ActiveMQMessage()
    message.destination = wire.ActiveMQQueue("Q")
    message.producer_id = producer().producer_id
    message.message_id = wire.MessageId(producer_id=producer().producer_id, producer_sequence_id=1)
    message.expiration = remote.network.now.wall_ms + 30_000
    remote.network.environment.advance(seconds)
    remote.says(message)
    assert remote.bridge.statistics().received == 1
    assert remote.site.queue("Q")[2] == waiting


def test_the_other_end_gets_no_more_advisories_than_it_reads() -> None:
    remote = running()
    remote.says(consumer())
    remote.bridge.unsent(100 * 1024 * 1024)
    remote.site.client().consumes("queue://HERE")
    remote.network.settles()
    assert remote.bridge.data_to_send() == []
    remote.bridge.unsent(0)
    remote.network.settles()
    remote.heard.clear()
    remote.listens()
    assert [type(one).__name__ for one in remote.heard] == ["MessageDispatch"]
