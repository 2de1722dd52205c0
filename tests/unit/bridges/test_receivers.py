"""Several receivers of one route: Camel's concurrentConsumers and maxConcurrentConsumers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.engine.dialogue import Start
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.model.definition import BridgeDefinition, Quality, Source
from spanwire.bridges.model.diagram import diagram
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.provider_description import MAX_CREDIT
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.route_diagram import route_diagram
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.bridges.running.hosted import HostedBridges
from spanwire.bridges.running.links import Link, credit_of
from spanwire.bridges.running.process import BridgeProcess, check_bridge
from spanwire.bridges.running.receivers import IDLE_LOOKS, ConcurrentRunner, Scaling
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.routes.consumers import MAX_CONSUMERS, ONE, Consumers
from spanwire.routes.model import EMBEDDED, SPARK
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.bridge_dialogue import BridgeDialogue, definition, text_messages
from tests.unit.bridges.test_machine_properties import COUNT, OK, OUTCOMES
from tests.unit.bridges.test_machine_properties import MAX_TURNS as FAULTY_TURNS
from tests.unit.bridges.test_machine_properties import StoringWorld as StoringFaulty
from tests.unit.bridges.test_machine_properties import World as Faulty

SAMPLES: Final = Path(__file__).parents[2] / "vectors" / "configurations"
BROKERS: Final = {"near": "tcp://near:1", "far": "tcp://far:1"}
MAX_TURNS: Final = 2_000  # of the loop, far more than any change of the state takes


def file_of(text: str, name: str = "r.yaml") -> RouteFile:
    return read_routes(text.encode(), name, Placeholders({}, {}), BROKERS)


def one(uri: str, steps: str = "{to: 'far:queue:B'}", more: str = "") -> Definition:
    text = f"- route: {{id: r, {more}from: {{uri: '{uri}', steps: [{steps}]}}}}"
    (found,) = bridges_of(file_of(text).only(EMBEDDED).routes)
    check_bridge(found)
    return found


def test_an_endpoint_has_its_numbers_of_receivers() -> None:
    assert one("near:queue:A?concurrentConsumers=5").consumers == Consumers(5, 5, True)
    assert one("near:queue:A?concurrentConsumers=2&maxConcurrentConsumers=9").consumers == Consumers(2, 9, True)
    assert one("near:queue:A?maxConcurrentConsumers=9").consumers == Consumers(1, 9, True)
    assert one("near:queue:A?concurrentConsumers=2&maxConcurrentConsumers=0").consumers == Consumers(2, 2, True)
    assert one("near:queue:A").consumers == ONE
    with_steps = one("near:queue:A?concurrentConsumers=5", "{setHeader: {name: a, constant: b}}, {to: 'far:queue:B'}")
    for found in (with_steps, one("near:queue:A?concurrentConsumers=5")):
        assert definition_of(plain_definition(found)) == found
        shown = route_diagram(found) if isinstance(found, RouteDefinition) else diagram(found)
        assert "  receivers: 5\n" in shown
    assert isinstance(growing := one("near:queue:A?maxConcurrentConsumers=9"), BridgeDefinition)
    assert "  receivers: 1, up to 9 under load\n" in diagram(growing)


def test_a_component_has_the_numbers_of_its_queues_and_its_topics_have_one_receiver() -> None:
    sample = (SAMPLES / "25-camel-four-routes.xml").read_bytes()
    urls = {"activemq": "tcp://a:1", "websphere": "tcp://b:2"}
    file = read_routes(sample, "four.xml", Placeholders({}, {}), urls)
    found = {route.source.destination: route.source.consumers for route in file.routes}
    ten = Consumers(10, 10)
    assert found == {"queue://QueueA": ten, "topic://TopicA": ONE, "queue://QueueX": ten, "topic://TopicX": ONE}
    spark = file.only(SPARK).warnings
    assert sum("concurrentConsumers of activemq:queue:QueueA has no effect: Spark" in line for line in spark) == 1


@pytest.mark.parametrize(
    ("uri", "steps", "fault"),
    [
        ("near:queue:A?concurrentConsumers=0", "", "concurrentConsumers is '0'; it must lie between 1 and 32"),
        ("near:queue:A?concurrentConsumers=33", "", "concurrentConsumers is '33'; it must lie between 1 and 32"),
        ("near:queue:A?concurrentConsumers=x", "", "concurrentConsumers is 'x'"),
        ("near:queue:A?maxConcurrentConsumers=-1", "", "maxConcurrentConsumers is '-1'; it must lie between 0"),
        (
            "near:queue:A?concurrentConsumers=5&maxConcurrentConsumers=2", "",
            "maxConcurrentConsumers is 2, less than concurrentConsumers, which is 5",
        ),
        ("near:topic:A?concurrentConsumers=2", "", "is 2, and each receiver of a topic gets all messages; write"),
        ("near:queue:A?concurrentConsumers=2", "{throttle: 5}, ", "throttle counts the messages of one receiver"),
        ("near:queue:A?concurrentConsumers=2", "{idempotentConsumer: {header: n}}, ", "aggregate and idempotent"),
        (
            "near:queue:A?maxConcurrentConsumers=2",
            "{filter: {selector: 'n = 1', steps: [{idempotentConsumer: {header: n}}]}}, ",
            "aggregate and idempotent",
        ),
    ],
)  # fmt: skip
def test_what_several_receivers_would_break_is_refused_by_name(uri: str, steps: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        one(uri, steps + "{to: 'far:queue:B'}")
    assert fault in str(refused.value)


def test_one_transaction_at_a_time_between_two_brokers() -> None:
    uri = "near:queue:A?concurrentConsumers=2&qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
    bridge = replace(definition(), consumers=Consumers(2, 2))
    check_bridge(bridge)
    text = f"- jmsBridge: {{source: {{uri: '{uri.partition('&')[0]}'}}, target: {{uri: 'far:queue:B'}}, "
    (found,) = bridges_of(file_of(text + "qualityOfServiceMode: ONCE_AND_ONLY_ONCE}").only(EMBEDDED).routes)
    assert found.consumers.most == 2
    with pytest.raises(
        ConfigurationError, match="ONCE_AND_ONLY_ONCE between two brokers has one transaction at a time"
    ):
        check_bridge(found)


def test_the_credit_is_for_all_receivers() -> None:
    assert credit_of(definition().batch, OpenWireProvider(), 10) == MAX_CREDIT // 10
    assert credit_of(definition().batch, OpenWireProvider(), MAX_CONSUMERS) >= 1


class World:
    """A queue, and links that take from it."""

    def __init__(self, count: int) -> None:
        self.pending: Final = deque(text_messages(count))
        self.sent: Final[list[str]] = []
        self.client_ids: Final[list[str | None]] = []
        self.open = 0
        self.most_open = 0
        self.is_away = False
        self.arrived: Final = asyncio.Event()

    def opener(self, bridge: Definition) -> Callable[[], Awaitable[Link]]:
        assert isinstance(bridge.source, Source)
        self.client_ids.append(bridge.source.client_id)

        async def open_one() -> Link:
            if self.is_away:
                raise JmsError("no broker")
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            return WorldLink(self)

        return open_one


class WorldLink:
    """One connection; what it has taken and not acknowledged goes back when it closes."""

    def __init__(self, world: World) -> None:
        self._world: Final = world
        self._taken: list[BridgeMessage] = []

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        while not self._world.pending:
            self._world.arrived.clear()
            await self._world.arrived.wait()
        await asyncio.sleep(0)
        if self._world.pending:
            self._taken.append(self._world.pending.popleft())
            return self._taken[-1:]
        return []

    async def acknowledge(self) -> None:
        self._taken = []

    async def send(self, messages: list[BridgeMessage]) -> None:
        await asyncio.sleep(0)
        if self._world.is_away:
            raise JmsError("gone")
        self._world.sent.extend(message.message_id for message in messages)

    async def dead_letter(self, cause: str) -> None:
        raise AssertionError("no message is refused")

    async def commit(self) -> None:
        raise AssertionError("there is no transaction")

    def check(self) -> None:
        return

    async def close(self) -> None:
        self._world.pending.extendleft(reversed(self._taken))
        self._world.open -= 1


def plays(
    world: World, consumers: Consumers, scenario: Callable[[HostedBridges], Coroutine[None, None, None]], **words: int
) -> None:
    async def run() -> None:
        bridge = replace(definition(**words), consumers=consumers)  # type: ignore[arg-type]
        bridge = replace(bridge, source=replace(bridge.source, client_id="c"))
        bridges = HostedBridges([bridge], lambda line: None, opener=world.opener)
        ending = asyncio.Event()
        running = asyncio.create_task(bridges.run(ending))
        await scenario(bridges)
        ending.set()
        await running
        assert world.open == 0

    asyncio.run(run())


async def awaits(condition: Callable[[], bool]) -> None:
    for _ in range(MAX_TURNS):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never holds")


def state(bridges: HostedBridges) -> str:
    return bridges.statuses()[0].state.value


def test_each_message_passes_once_through_one_of_the_receivers() -> None:
    world = World(50)

    async def scenario(bridges: HostedBridges) -> None:
        await awaits(lambda: bridges.statuses()[0].forwarded == 50)
        (status,) = bridges.statuses()
        assert (status.name, status.state, status.received) == ("orders", BridgeState.RUNNING, 50)

    plays(world, Consumers(4, 4), scenario)
    assert len(set(world.sent)) == len(world.sent) == 50
    assert world.most_open == 4
    assert world.client_ids == ["c", "c-2", "c-3", "c-4"]


def test_all_receivers_pause_resume_and_restart_together() -> None:
    world = World(3)

    async def scenario(bridges: HostedBridges) -> None:
        await awaits(lambda: world.open == 3 and state(bridges) == "running")
        bridges.command("pause", ["orders"])
        await awaits(lambda: world.open == 0 and state(bridges) == "paused")
        bridges.command("resume", ["orders"])
        await awaits(lambda: world.open == 3 and state(bridges) == "running")
        bridges.command("restart", ["orders"])
        await awaits(lambda: world.open == 0)
        await awaits(lambda: world.open == 3 and state(bridges) == "running")

    plays(world, Consumers(3, 3), scenario)


def test_a_receiver_that_fails_for_good_ends_all_until_a_restart() -> None:
    world = World(0)

    async def scenario(bridges: HostedBridges) -> None:
        await awaits(lambda: world.open == 3)
        world.is_away = True
        world.pending.extend(text_messages(1))
        world.arrived.set()
        await awaits(lambda: world.open == 0 and state(bridges) == "failed")
        assert bridges.statuses()[0].last_error == "gone"
        world.is_away = False
        bridges.command("restart", ["orders"])
        await awaits(lambda: bridges.statuses()[0].forwarded == 1)
        assert state(bridges) == "running"

    plays(world, Consumers(3, 3), scenario, max_retries=0)
    assert len(world.sent) == 1


def test_a_receiver_is_added_under_load_and_leaves_when_there_is_none() -> None:
    world = World(0)

    async def scenario(bridges: HostedBridges) -> None:
        (hosted,) = bridges._bridges.values()
        runner = hosted._runner
        assert isinstance(runner, ConcurrentRunner)
        await awaits(lambda: state(bridges) == "running")
        runner.look()
        for count in (2, 3):
            before = bridges.statuses()[0].forwarded
            world.pending.extend(text_messages(20))
            world.arrived.set()
            await awaits(lambda wanted=before + 20: bridges.statuses()[0].forwarded == wanted)  # type: ignore[misc]
            runner.look()
            await awaits(lambda wanted=count: world.open == wanted)  # type: ignore[misc]
            await awaits(lambda: state(bridges) == "running")
            runner.look()
        for _ in range(4 * IDLE_LOOKS):
            runner.look()
            await asyncio.sleep(0)
        await awaits(lambda: world.open == 1)
        assert bridges.statuses()[0].forwarded == 40  # also of the receivers that are gone

    plays(world, Consumers(1, 3), scenario)


def test_a_program_of_bridges_ends_when_all_receivers_have_had_no_message() -> None:
    async def run() -> None:
        bridge = replace(definition(), consumers=Consumers(2, 2))
        world = World(0)

        class Empty(WorldLink):
            async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
                return []

        def opener(bridge: Definition) -> Callable[[], Awaitable[Link]]:
            async def open_one() -> Link:
                world.open += 1
                return Empty(world)

            return open_one

        process = BridgeProcess([bridge], lambda line: None, ends_when_empty=True, opener=opener)
        assert await process.run()
        assert process.statuses()[0].state is BridgeState.STOPPED

    asyncio.run(run())


def test_a_receiver_is_added_while_all_get_messages() -> None:
    scaling = Scaling(1, 3)
    assert [scaling.look([0]), scaling.look([5]), scaling.look([9, 0])] == [1, 2, 2]
    assert scaling.look([10, 0]) == 2  # the second one gets nothing
    assert scaling.look([11, 1]) == 3
    assert [scaling.look([12, 2, 0]), scaling.look([13, 3, 1])] == [3, 3]  # no more than the most


def test_the_last_receiver_leaves_after_a_while_without_a_message() -> None:
    scaling = Scaling(1, 2)
    scaling.look([0, 0])
    assert {scaling.look([number, 0]) for number in range(1, IDLE_LOOKS)} == {2}
    assert scaling.look([99, 0]) == 1
    assert {scaling.look([99]) for _ in range(2 * IDLE_LOOKS)} == {1}  # no fewer than the least


@given(st.lists(st.lists(st.integers(0, 5), min_size=5, max_size=5), max_size=100))
def test_the_number_stays_within_its_limits_and_changes_by_one(gains: list[list[int]]) -> None:
    scaling = Scaling(2, 5)
    received = [0, 0]
    for gained in gains:
        received = [count + more for count, more in zip(received, gained, strict=False)]
        count = scaling.look(received)
        assert 2 <= count <= 5
        assert abs(count - len(received)) <= 1
        received = [*received, 0][:count]


def play_receivers(
    quality: Quality, size: int, count: int, outcomes: list[str], turns: list[int]
) -> tuple[list[str], int]:
    """Run receivers of one queue, each as far as its turns go. Returns the ids at the target, and the failures."""
    worlds = [Faulty() if quality is Quality.ONCE_AND_ONLY_ONCE else StoringFaulty() for _ in range(count)]
    bridges = [BridgeDialogue(definition(quality, size), ends_when_empty=True) for _ in range(count)]
    actions = [bridge.hears(Start()) for bridge in bridges]
    pending, arrived = worlds[0].pending, list[BridgeMessage]()
    later, order = iter(outcomes), iter(turns)
    for turn in range(5 * FAULTY_TURNS):
        at_work = [number for number in range(count) if actions[number]]
        if not at_work:
            assert all(bridge.state == "stopped" for bridge in bridges)
            return [message.message_id for message in arrived], sum(b.machine.counters.failures for b in bridges)
        number = at_work[next(order, turn) % len(at_work)]
        world, bridge = worlds[number], bridges[number]
        world.pending, world.arrived = pending, arrived
        bridge.now += 0.01
        actions[number] = bridge.hears(world.perform(actions[number][0], next(later, OK)))
        pending, arrived = world.pending, world.arrived
    raise AssertionError("the receivers do not end")


@given(
    st.sampled_from(list(Quality)), st.integers(1, 7), st.integers(2, 4), OUTCOMES,
    st.lists(st.integers(0, 3), max_size=100),
)  # fmt: skip
def test_failures_of_several_receivers_lose_nothing(
    quality: Quality, size: int, count: int, outcomes: list[str], turns: list[int]
) -> None:
    ids, failures = play_receivers(quality, size, count, outcomes, turns)
    if quality is Quality.AT_MOST_ONCE:
        assert len(set(ids)) == len(ids)
        assert COUNT - len(ids) <= size * failures
    else:
        assert len(set(ids)) == COUNT
        assert len(ids) - COUNT <= (size * failures if quality is Quality.DUPLICATES_OK else 0)
