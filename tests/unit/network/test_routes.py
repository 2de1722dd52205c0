"""Several routes to one consumer: who is remembered for later, in which order, and what that costs."""

from __future__ import annotations

import math
import time

import pytest

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.network.demand.demand_subscription import DemandSubscription, RemoteConsumer
from spanwire.network.demand.duplicate_suppression import NetworkRoutes

NOW = Time(1.0, 1_000)


class Bridge:
    """Duck-typed to `DemandBridge`; remembers what it is to look at again."""

    def __init__(self) -> None:
        self.again: list[str] = []

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        raise AssertionError("nothing is sent")

    def acknowledge_confirmed(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        raise AssertionError("nothing is in flight")

    def on_demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        raise AssertionError("nothing ends")

    def replace_demand(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        return []

    def release(self, consumer: RemoteConsumer, now: Time) -> None:
        raise AssertionError("nothing is released")

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        self.again.append(str(consumer.info.consumer_id))

    def announce_others(self, demand: DemandSubscription, now: Time) -> None:
        raise AssertionError("nothing is announced")


def consumer(connection_id: str, number: int, *behind: ConsumerId) -> RemoteConsumer:
    info = ConsumerInfo(
        ConsumerId(connection_id, 1, number), Destination(QUEUE, f"Q{number}"), network_consumer_path=behind
    )
    return RemoteConsumer(info, ("B",))


def test_the_others_are_looked_at_again_in_the_order_in_which_they_were_passed_over() -> None:
    routes, first, second = NetworkRoutes(), Bridge(), Bridge()
    far = ConsumerId("ID:far", 1, 1)
    served = consumer("ID:near", 1, far)
    demand = DemandSubscription(first, served.info, False)
    routes.add_route(demand, served)
    for bridge, one in ((second, consumer("ID:b", 2, far)), (first, consumer("ID:a", 1, far))):
        routes.pass_over(bridge, one)
    routes.pass_over(second, consumer("ID:b", 3))
    order: list[str] = []
    first.again = second.again = order
    routes.lose_route(demand, served, NOW)
    assert order == ["ID:b:1:2", "ID:a:1:1"]
    assert routes.passed_over == 1
    assert routes.rivals(served) == {}


def test_who_is_told_of_twice_is_remembered_once_and_forgotten_with_its_bridge() -> None:
    routes, bridge, other = NetworkRoutes(), Bridge(), Bridge()
    for _ in range(2):
        routes.pass_over(bridge, consumer("ID:a", 1))
    routes.pass_over(bridge, consumer("ID:a", 2))
    routes.pass_over(other, consumer("ID:a", 1))
    assert routes.passed_over == 3
    routes.forget(bridge, "ID:a:1:1")
    routes.forget(bridge, "ID:a:1:9")
    assert routes.passed_over == 2
    routes.forget(bridge)
    routes.forget(bridge)
    assert routes.passed_over == 1


def came_and_went(count: int) -> float:
    """CPU seconds for so many consumers that a better route serves, and as many that leave."""
    routes, bridge = NetworkRoutes(), Bridge()
    passed_over = [consumer("ID:a", number) for number in range(count)]
    leaving = [consumer("ID:b", number) for number in range(count)]
    demand = DemandSubscription(bridge, leaving[0].info, False)
    start = time.process_time()
    for one in passed_over:
        routes.forget(bridge, str(one.info.consumer_id))
        routes.pass_over(bridge, one)
    for one in leaving:
        routes.add_route(demand, one)
        routes.lose_route(demand, one, NOW)
    return time.process_time() - start


@pytest.mark.large
def test_a_consumer_that_leaves_costs_no_more_where_many_others_are_passed_over() -> None:
    few, many = math.inf, math.inf
    for _ in range(5):
        few = min(few, came_and_went(600))
        many = min(many, came_and_went(9_600))
    assert many < few * 100  # 16 times as many: linear is 16; 256, when each looked at all others


def test_a_subscription_that_is_no_route_to_a_consumer_takes_no_other_route_away() -> None:
    routes, bridge = NetworkRoutes(), Bridge()
    served = consumer("ID:a", 1)
    route, other = DemandSubscription(bridge, served.info, False), DemandSubscription(bridge, served.info, False)
    routes.add_route(route, served)
    routes.remove_route(other, served)
    assert routes.rivals(served) == {route: served}
    routes.remove_route(route, served)
    routes.remove_route(route, served)
    assert routes.rivals(served) == {}
