"""What a remote broker tells of its durable subscriptions at the start of a bridge."""

from __future__ import annotations

from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.durable_sync import MAX_SUBSCRIPTIONS, subscriptions_in
from spanwire.protocols.openwire.codec import _marshallers as wire


def told(name: str | None, client_id: str = "c") -> wire.ConsumerInfo:
    return wire.ConsumerInfo(destination=wire.ActiveMQTopic("T"), client_id=client_id, subscription_name=name)


def heard(*infos: wire.ConsumerInfo) -> list[wire.ConsumerInfo]:
    command = wire.BrokerSubscriptionInfo(broker_id=wire.BrokerId("ID:B"), subscription_infos=list(infos))
    return subscriptions_in(command, BridgeSettings(name="link"))


def test_consumers_that_are_no_durable_ones_and_those_of_this_broker_s_own_bridge_are_left_out() -> None:
    wanted = told("s1")
    assert heard(told(None), told("NC-DS_brokerA_T", "link_B_inbound_A"), wanted) == [wanted]


def test_of_more_subscriptions_than_a_broker_may_have_the_first_count() -> None:
    assert len(heard(*[told(f"s{number}") for number in range(MAX_SUBSCRIPTIONS + 1)])) == MAX_SUBSCRIPTIONS
