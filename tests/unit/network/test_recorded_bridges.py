"""Bridges of ActiveMQ as they were recorded: ours says the same to their broker, and our broker serves theirs."""

from __future__ import annotations

from typing import Any

from spanwire.network.bridge.bridge import NetworkBridge
from spanwire.network.bridge.bridge_states import State
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from tests.support.network_dialogue import Network
from tests.support.openwire_dialogue import World
from tests.support.openwire_structures import load_vectors, normalised, structure_of, values_of

CONVERSATIONS = {entry["name"]: entry for entry in load_vectors("conversations")["conversations"]}
FRAMES: list[dict[str, Any]] = CONVERSATIONS["bridge-simple"]["frames"]
OWN = {"commandId", "responseRequired", "connectionId", "producerId", "consumerId", "sessionId"}


def sent_by(direction: str) -> list[dict[str, Any]]:
    return [
        normalised(frame["values"])
        for frame in FRAMES
        if frame["direction"] == direction and frame["type"] not in ("WireFormatInfo", "KeepAliveInfo")
    ]


def test_our_bridge_introduces_itself_as_that_of_activemq_did() -> None:
    network = Network()
    a = network.site("A")
    settings = BridgeSettings(name="net-bridge-simple")
    bridge = NetworkBridge(a.broker, settings, "tcp://a:1", WireFormatPreferences(), network.now)
    bridge.receive_data(FrameEncoder().encode(wire_format_info(WireFormatPreferences())), network.now)
    encoder = FrameEncoder(WireFormat())
    bridge.receive_data(encoder.encode(structure_of(sent_by("b2c")[0])), network.now)
    decoder = FrameDecoder(pass_messages=False)
    stream = b"".join(bridge.data_to_send())
    decoder.feed(stream)
    decoder.negotiated(WireFormat())
    decoder.authenticated()
    said = [values_of(command, 12, True) for command in decoder.feed(b"")]
    theirs = [values for values in sent_by("c2b") if "Message" not in values["$type"]][: len(said)]
    assert [values["$type"] for values in said] == [values["$type"] for values in theirs]
    for ours, recorded in zip(said, theirs, strict=True):
        kept = OWN | ({"brokerId", "brokerURL", "brokerName", "networkProperties", "clientId"})
        assert {k: v for k, v in ours.items() if k not in kept} == {k: v for k, v in recorded.items() if k not in kept}
    assert said[1]["clientId"] == "net-bridge-simple_brokerA_outbound"
    assert bridge.remote_name == "remoteB"


def test_our_bridge_follows_the_advisories_of_a_recorded_broker() -> None:
    network = Network()
    a = network.site("A")
    bridge = NetworkBridge(a.broker, BridgeSettings(), "tcp://a:1", WireFormatPreferences(), network.now)
    bridge.receive_data(FrameEncoder().encode(wire_format_info(WireFormatPreferences())), network.now)
    encoder = FrameEncoder(WireFormat())
    demand = []
    for values in sent_by("b2c"):
        structure = structure_of(values)
        if isinstance(structure, wire.MessageDispatch):
            bridge.receive_data(encoder.encode(structure), network.now)
            demand.append(bridge.demand_count)
        elif isinstance(structure, wire.BrokerInfo):
            bridge.receive_data(encoder.encode(structure), network.now)
            for command_id in (2, 5):  # the login and the subscription are answered
                bridge.receive_data(encoder.encode(wire.Response(command_id)), network.now)
            assert bridge.state is State.RUNNING
    assert demand == [1, 0]  # the consumer came and went


def test_our_broker_serves_a_recorded_bridge() -> None:
    world = World()
    consumer = world.connect()
    consumer.requests(
        wire.ConsumerInfo(consumer_id=consumer.consumer_id(), destination=wire.ActiveMQQueue("NET.Q"), prefetch_size=1)
    )
    bridge = world.peer(tight=True, cache=True)
    bridge.negotiates()
    for values in sent_by("c2b"):
        if values["$type"] in ("RemoveInfo", "ShutdownInfo"):
            break
        bridge.sends_octets(bridge.encoder.encode(structure_of(values)))
    recorded = next(values for values in sent_by("b2c") if values["$type"] == "MessageDispatch")
    advisory = bridge.receives(wire.MessageDispatch).message
    assert advisory is not None
    assert isinstance(advisory.data_structure, wire.ConsumerInfo)
    theirs = recorded["message"]["dataStructure"]
    ours = values_of(advisory.data_structure, 12, True)
    kept = OWN | {"clientId", "prefetchSize"}
    assert {k: v for k, v in ours.items() if k not in kept} == {k: v for k, v in theirs.items() if k not in kept}
    assert bridge.receives(wire.Response).correlation_id == 6  # to the message; nothing else asked for an answer
    crossed = consumer.receives(wire.MessageDispatch).message
    assert crossed is not None and crossed.broker_path is not None
    assert [broker.value for broker in crossed.broker_path] == ["ID:golden-34419-1795246514150-0:16"]
    assert crossed.message_id is not None and crossed.message_id.producer_id is not None
    assert crossed.message_id.producer_id.connection_id == "ID:golden-34419-1795246514150-59:1"
