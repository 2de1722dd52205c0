"""The client's side of conversations recorded between Java clients and Apache ActiveMQ, replayed against our broker.

The commands are encoded anew in the encoding that our broker negotiates. Our answers are compared with the recorded
ones in all fields but those that belong to a broker (its ids, names, times, sequence numbers) and to its implementation
(texts of exceptions, stack traces).
"""

from __future__ import annotations

from typing import Any

import pytest

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.primitive_map import decode_plain_map
from tests.support.openwire_dialogue import OpenWirePeer, World
from tests.support.openwire_structures import load_vectors, normalised, structure_of, values_of

CONVERSATIONS = {entry["name"]: entry for entry in load_vectors("conversations")["conversations"]}
REPLAYED = [
    "send-receive-tight",
    "send-receive-compressed",
    "send-receive-loose",
    "send-receive-loose-cache-v9",
    "local-transaction",
    "temp-queue-request-reply",
    "prefetch-zero-pull",
    "queue-browser",
    "errors",
    "flow-control-window",
    "failover-reconnect",
]
BROKERS_OWN = {
    "brokerInTime",
    "brokerOutTime",
    "brokerSequenceId",
    "arrival",
    "targetConsumerId",
    "marshalledProperties",
}
SUBJECTS_OWN = {"commandId", "responseRequired", "lastDeliveredSequenceId", "timeout"}


class Replay:
    """Sends what the clients sent and keeps what the broker answers, per recorded connection."""

    def __init__(self, conversation: dict[str, Any]) -> None:
        self.world = World()
        self.conversation = conversation
        self.peers: dict[int, OpenWirePeer] = {}
        self.expected: dict[int, list[dict[str, Any]]] = {}
        self.sequences: dict[str, int] = {}

    def run(self) -> None:
        for frame in self.conversation["frames"]:
            number = frame["connection"]
            if number not in self.peers:
                self.open(number)
            values = normalised(frame["values"])
            if frame["type"] == "WireFormatInfo":
                continue
            if frame["direction"] == "b2c":
                self.expected[number].append(values)
                self._wait_for_pull(number, values)
            else:
                self.send(self.peers[number], values)
        self.world.settle()

    def open(self, number: int) -> None:
        if number > 0 and self.conversation["name"] == "failover-reconnect":
            self.peers[number - 1].vanishes()
        negotiated = self.conversation["negotiated"][number]
        tight = negotiated["encoding"] == "tight"
        peer = self.world.peer(version=negotiated["version"], tight=tight, cache=negotiated["cache"])
        self.peers[number] = peer
        self.expected[number] = []
        peer.negotiates()

    def send(self, peer: OpenWirePeer, values: dict[str, Any]) -> None:
        last = values.get("lastDeliveredSequenceId", 0)
        if last > 0:
            values = {**values, "lastDeliveredSequenceId": self._own_sequence(last)}
        peer.sends_octets(peer.encoder.encode(structure_of(values)))

    def _own_sequence(self, recorded: int) -> int:
        """What our broker called the dispatch to which the recorded broker gave this number."""
        for peer in self.peers.values():
            for command in peer.received:
                if isinstance(command, wire.MessageDispatch) and command.message is not None:
                    message_id = command.message.message_id
                    assert message_id is not None
                    key = _key(values_of(message_id, peer.wire_format.version, True))
                    self.sequences.setdefault(key, message_id.broker_sequence_id)
        return self.sequences[self._recorded_key(recorded)]

    def _recorded_key(self, recorded: int) -> str:
        for values in (values for expected in self.expected.values() for values in expected):
            message = values.get("message")
            if message is not None and message["messageId"]["brokerSequenceId"] == recorded:
                return _key(message["messageId"])
        raise AssertionError(f"no dispatch has the sequence {recorded}")

    def _wait_for_pull(self, number: int, values: dict[str, Any]) -> None:
        ends = [v for v in self.expected[number] if v["$type"] == "MessageDispatch" and v["message"] is None]
        came = [c for c in self.peers[number].received if isinstance(c, wire.MessageDispatch) and c.message is None]
        if values["$type"] == "MessageDispatch" and len(came) < len(ends):
            self.world.passes(0.4)


def _key(message_id: dict[str, Any]) -> str:
    producer = message_id["producerId"]
    return f"{producer['connectionId']}:{producer['sessionId']}:{producer['value']}:{message_id['producerSequenceId']}"


def comparable(values: Any, *, subject: bool = False) -> Any:
    """Without what every broker and every implementation has of its own."""
    if isinstance(values, list):
        return [comparable(value, subject=subject) for value in values]
    if not isinstance(values, dict):
        return values
    if "class" in values and "message" in values:
        return values["class"]
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if key in BROKERS_OWN or (subject and key in SUBJECTS_OWN):
            if key == "marshalledProperties" and value:
                kept["properties"] = own_properties(value)
            continue
        kept[key] = comparable(value, subject=subject or key == "dataStructure")
    if values.get("type") == "Advisory":
        del kept["messageId"], kept["producerId"]
    return kept


def own_properties(octets: str) -> dict[str, object]:
    entries = decode_plain_map(bytes.fromhex(octets))
    return {name: "" if name.startswith("originBroker") else value for name, value in entries.items()}


def by_kind(commands: list[Any]) -> dict[str, list[Any]]:
    """Commands of one direction by what they are about: their order among each other is no promise."""
    found: dict[str, list[Any]] = {}
    for values in commands:
        kind = values["$type"]
        if kind in ("BrokerInfo", "WireFormatInfo", "KeepAliveInfo"):
            continue
        if kind == "MessageDispatch":
            kind += " " + str(values["consumerId"])
        found.setdefault(kind, []).append(comparable(values))
    return found


@pytest.mark.parametrize("name", REPLAYED)
def test_the_broker_answers_the_recorded_client_as_activemq_did(name: str) -> None:
    replay = Replay(CONVERSATIONS[name])
    replay.run()
    assert any(peer.received for peer in replay.peers.values())
    for number, peer in replay.peers.items():
        version = peer.wire_format.version
        ours = by_kind([values_of(command, version, True) for command in peer.received])
        theirs = by_kind(replay.expected[number])
        for kind in sorted(set(ours) | set(theirs)):
            assert ours.get(kind, []) == theirs.get(kind, []), f"connection {number}, {kind}"


OTHER = "ID:golden-34419-1795246514150-48:1"  # the connection of which the recording shows the advisories only


def test_a_subscriber_hears_of_connections_consumers_producers_and_destinations_as_from_activemq() -> None:
    replay = Replay(CONVERSATIONS["advisories"])
    frames = [frame for frame in replay.conversation["frames"] if frame["type"] != "WireFormatInfo"]
    replay.open(0)
    peer = replay.peers[0]
    for frame in frames:
        values = normalised(frame["values"])
        if frame["direction"] == "b2c":
            replay.expected[0].append(values)
        elif values["$type"] == "RemoveInfo":
            _the_other_client(replay.world)
            replay.send(peer, values)
        else:
            replay.send(peer, values)
    ours = by_kind([values_of(command, 12, True) for command in peer.received])
    theirs = by_kind(replay.expected[0])
    assert set(ours) == set(theirs)
    (kind,) = [kind for kind in theirs if kind.startswith("MessageDispatch")]
    assert [_without_address(advisory) for advisory in ours[kind]] == [_without_address(a) for a in theirs[kind]]
    assert ours["Response"] == theirs["Response"]


def _the_other_client(world: World) -> None:
    queue = wire.ActiveMQQueue("ADV.Q")
    other = world.connect(OTHER, client_id="other")
    other.consumes(queue, dispatch_async=True)
    other.produces(queue)
    other.succeeds(
        wire.DestinationInfo(connection_id=wire.ConnectionId(OTHER), destination=wire.ActiveMQTopic("ADV.T"))
    )
    other.succeeds(wire.RemoveInfo(object_id=other.consumer_id()))
    other.succeeds(wire.RemoveInfo(object_id=other.producer_id()))
    other.succeeds(wire.RemoveInfo(object_id=wire.ConnectionId(OTHER)))
    other.sends(wire.ShutdownInfo())


def _without_address(dispatch: dict[str, Any]) -> dict[str, Any]:
    """Clients come from other addresses, and who made a lasting destination is not told."""
    subject = dict(dispatch["message"]["dataStructure"])
    subject.pop("clientIp", None)
    if subject["$type"] == "DestinationInfo":
        subject.pop("connectionId")
    return {**dispatch, "message": {**dispatch["message"], "dataStructure": subject}}
