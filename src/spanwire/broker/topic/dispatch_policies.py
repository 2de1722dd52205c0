"""Dispatch policies of a topic: recipients of a message and their order.

See ActiveMQ, "Dispatch Policies".
"""

from __future__ import annotations

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.topic_policy import PRIORITY, PRIORITY_NETWORK, DispatchPolicy
from spanwire.model.ids import ConsumerId


def recipients(policy: DispatchPolicy, subscriptions: list[Subscription]) -> list[Subscription]:
    """Return the recipients among ``subscriptions``, in the order of dispatch."""
    if policy.kind == PRIORITY:
        return sorted(subscriptions, key=_best_first)
    if policy.kind == PRIORITY_NETWORK:
        return _best_routes(subscriptions)
    return subscriptions


def _best_first(subscription: Subscription) -> int:
    return -subscription.info.priority


def _best_routes(subscriptions: list[Subscription]) -> list[Subscription]:
    """Return the subscriptions without superseded bridges.

    A bridge is superseded if a bridge of higher priority, or an earlier bridge of equal priority, stands for one of the
    same consumers.
    """
    best: dict[int, Subscription] = {}
    indexes: dict[ConsumerId, list[int]] = {}  # indexes of the bridges for each consumer
    for index, subscription in enumerate(subscriptions):
        info = subscription.info
        if not info.network_subscription:
            best[index] = subscription
            continue
        is_best = True
        for rival in {rival for consumer_id in info.network_consumer_path for rival in indexes.get(consumer_id, [])}:
            if rival in best and best[rival].info.priority >= info.priority:
                is_best = False
            else:
                best.pop(rival, None)
        if is_best:
            best[index] = subscription
            for consumer_id in info.network_consumer_path:
                indexes.setdefault(consumer_id, []).append(index)
    return list(best.values())
