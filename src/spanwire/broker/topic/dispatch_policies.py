"""Who gets the messages of a topic, and in which order, where its policy says so (ActiveMQ, "Dispatch Policies")."""

from __future__ import annotations

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.topic_policy import PRIORITY, PRIORITY_NETWORK, DispatchPolicy


def recipients(policy: DispatchPolicy, subscriptions: list[Subscription]) -> list[Subscription]:
    """Those of ``subscriptions`` that get messages, in the order in which they do."""
    if policy.kind == PRIORITY:
        return sorted(subscriptions, key=_best_first)
    if policy.kind == PRIORITY_NETWORK:
        return _best_routes(subscriptions)
    return subscriptions


def _best_first(subscription: Subscription) -> int:
    return -subscription.info.priority


def _best_routes(subscriptions: list[Subscription]) -> list[Subscription]:
    """Without the bridges that stand for a consumer for which a bridge of a higher priority, or an earlier one of the
    same, stands as well.
    """
    found: list[Subscription] = []
    for subscription in subscriptions:
        if not subscription.info.network_subscription:
            found.append(subscription)
            continue
        best = True
        kept: list[Subscription] = []
        for other in found:
            if not (other.info.network_subscription and _stand_for_the_same(other, subscription)):
                kept.append(other)
            elif other.info.priority >= subscription.info.priority:
                kept.append(other)
                best = False
        found = kept
        if best:
            found.append(subscription)
    return found


def _stand_for_the_same(one: Subscription, other: Subscription) -> bool:
    path = other.info.network_consumer_path
    return any(consumer_id in path for consumer_id in one.info.network_consumer_path)
