"""The exchange of durable subscriptions at the start of a bridge (``syncDurableSubs``).

Subscribers may have subscribed or unsubscribed while the link was down, and no advisory announces absent subscribers.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.model.ids import ConsumerId
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import wire_consumer_id, wire_destination

FIRST_VERSION: Final = 12  # the first version of OpenWire with a BrokerSubscriptionInfo
MAX_SUBSCRIPTIONS: Final = 10_000  # subscriptions in one info, as many as a broker may have
SYNC_SESSION: Final = 0  # the session in consumer ids without a consumer


def subscription_info(broker: Broker, settings: BridgeSettings) -> wire.BrokerSubscriptionInfo:
    """Return the durable subscriptions of local clients to topics permitted by the connector.

    Subscriptions of bridges are left out, because the brokers behind them send their own.
    """
    infos: list[wire.ConsumerInfo] = []
    connection_id = broker.ids.next_id()
    for terms in broker.operations.durable_terms():
        if terms.name.startswith(BRIDGE_DURABLE_PREFIX) or len(infos) >= MAX_SUBSCRIPTIONS:
            continue
        if any(settings.is_permitted(part) for part in terms.topic.parts()):
            infos.append(
                wire.ConsumerInfo(
                    consumer_id=wire_consumer_id(ConsumerId(connection_id, SYNC_SESSION, len(infos) + 1)),
                    destination=wire_destination(terms.topic),
                    prefetch_size=settings.prefetch_size,
                    selector=terms.selector,
                    client_id=terms.client_id,
                    subscription_name=terms.name,
                    no_local=terms.no_local,
                )
            )
    return wire.BrokerSubscriptionInfo(
        broker_id=wire.BrokerId(broker.broker_id), broker_name=broker.name, subscription_infos=infos
    )


def subscriptions_in(command: wire.BrokerSubscriptionInfo, settings: BridgeSettings) -> list[wire.ConsumerInfo]:
    """Return the durable subscriptions of interest to a bridge, without those of its own broker's bridge."""
    infos: list[wire.ConsumerInfo] = []
    for info in (command.subscription_infos or [])[:MAX_SUBSCRIPTIONS]:
        name = info.subscription_name
        if name is None:
            continue
        is_bridge = name.startswith(BRIDGE_DURABLE_PREFIX)
        if is_bridge and (info.client_id is None or info.client_id.startswith(settings.name)):
            continue
        infos.append(info)
    return infos
