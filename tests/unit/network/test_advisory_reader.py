"""What advisories say of consumers, read so that what many have in common is kept once."""

from __future__ import annotations

import pytest

from spanwire.network.demand.advisory_reader import MAX_REMEMBERED, AdvisoryReader, announced_destination
from spanwire.network.demand.demand_subscription import RemoteConsumer
from spanwire.protocols.openwire.codec import _marshallers as wire


def told(reader: AdvisoryReader, client: str, queue: str, path: list[str]) -> RemoteConsumer:
    subject = wire.ConsumerInfo(
        consumer_id=wire.ConsumerId(connection_id=client, session_id=1, value=7),
        destination=wire.ActiveMQQueue(queue),
        broker_path=[wire.BrokerId(one) for one in path],
        network_consumer_path=[wire.ConsumerId(connection_id=client, session_id=2, value=3)],
    )
    found = reader.consumer(subject, "".join(["remo", "te"]))
    assert found is not None
    return found


def test_consumers_of_one_client_and_destination_share_what_they_have_in_common() -> None:
    reader = AdvisoryReader()
    one, other = (told(reader, "".join(["ID:cli", "ent"]), "".join(["or", "ders"]), ["A"]) for _ in range(2))
    assert one.info == other.info
    assert one.path == ("A", "remote")
    assert one.path is other.path
    assert one.info.destination is other.info.destination
    assert one.info.consumer_id.connection_id is other.info.consumer_id.connection_id
    assert one.info.network_consumer_path[0].connection_id is one.info.consumer_id.connection_id


def test_only_so_much_is_remembered_and_what_comes_later_is_read_as_well() -> None:
    reader = AdvisoryReader()
    first = told(reader, "ID:0", "Q0", ["B0"])
    for number in range(1, MAX_REMEMBERED):
        told(reader, f"ID:{number}", f"Q{number}", [f"B{number}"])
    assert told(reader, "ID:more", "MORE", ["more"]).info.destination.name == "MORE"
    again = told(reader, "ID:0", "Q0", ["B0"])
    assert again.info == first.info and again.path == first.path
    assert again.path is not first.path
    assert again.info.destination is not first.info.destination


@pytest.mark.parametrize(
    ("destination", "is_demand"),
    [
        (wire.ActiveMQTempQueue("ID:c:1"), True),
        (wire.ActiveMQTempTopic("ID:c:1"), True),
        (wire.ActiveMQTempQueue("ID:c:1,ID:c:2"), False),
        (wire.ActiveMQQueue("orders"), False),
    ],
)
def test_only_a_single_temporary_destination_is_announced(
    destination: wire.ActiveMQDestination, is_demand: bool
) -> None:
    found = announced_destination(wire.DestinationInfo(destination=destination))
    assert (found is not None) == is_demand
