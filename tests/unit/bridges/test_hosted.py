"""The bridges of a broker, paused, resumed and restarted, over links that are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields, replace
from typing import cast

import pytest

from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory, RetryPolicy
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.model.steps import AppendMessageId, ClearReplyTo, ProxyReplyTo
from spanwire.bridges.running.hosted import HostedBridges
from spanwire.bridges.running.links import Link
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
from tests.support.bridge_dialogue import definition

MAX_TURNS = 1_000  # of the loop, far more than any change of the state takes


class QuietLink:
    """A link whose source has no message."""

    def __init__(self) -> None:
        self.is_closed = False

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        await asyncio.Event().wait()
        return []

    async def acknowledge(self) -> None:
        raise AssertionError("nothing is acknowledged")

    async def send(self, messages: list[BridgeMessage]) -> None:
        raise AssertionError("nothing is sent")

    async def dead_letter(self, cause: str) -> None:
        raise AssertionError("no message is refused")

    async def commit(self) -> None:
        raise AssertionError("there is no transaction")

    def check(self) -> None:
        return

    async def close(self) -> None:
        self.is_closed = True


class Links:
    """Opens links; the broker may be away."""

    def __init__(self) -> None:
        self.opened: list[QuietLink] = []
        self.is_away = False

    def opener(self, bridge: Definition) -> Callable[[], Awaitable[Link]]:
        async def open_one() -> Link:
            if self.is_away:
                raise JmsError("no broker")
            self.opened.append(QuietLink())
            return self.opened[-1]

        return open_one


async def awaits(bridges: HostedBridges, state: str) -> None:
    for _ in range(MAX_TURNS):
        if bridges.statuses()[0].state.value == state:
            return
        await asyncio.sleep(0)
    raise AssertionError(bridges.statuses())


def dialogue(
    scenario: Callable[[HostedBridges, Links], Coroutine[None, None, None]], paused: tuple[str, ...] = ()
) -> Links:
    links = Links()

    async def run() -> None:
        once = replace(definition(), retry=RetryPolicy(0, 1))
        bridges = HostedBridges([once], lambda line: None, paused, opener=links.opener)
        ending = asyncio.Event()
        running = asyncio.create_task(bridges.run(ending))
        await scenario(bridges, links)
        ending.set()
        await running
        assert all(link.is_closed for link in links.opened)

    asyncio.run(run())
    return links


def test_a_bridge_is_paused_and_resumed() -> None:
    async def scenario(bridges: HostedBridges, links: Links) -> None:
        await awaits(bridges, "running")
        bridges.command("pause", ["orders", "unknown"])
        await awaits(bridges, "paused")
        assert links.opened[0].is_closed
        bridges.command("pause", ["orders"])
        bridges.command("resume", ["orders"])
        await awaits(bridges, "running")

    assert len(dialogue(scenario).opened) == 2


def test_a_bridge_that_was_paused_before_the_start_waits_for_its_resume() -> None:
    async def scenario(bridges: HostedBridges, links: Links) -> None:
        await awaits(bridges, "paused")
        assert not links.opened
        bridges.command("resume", ["orders"])
        await awaits(bridges, "running")

    assert len(dialogue(scenario, ("orders",)).opened) == 1


def test_a_restart_opens_a_new_link() -> None:
    async def scenario(bridges: HostedBridges, links: Links) -> None:
        await awaits(bridges, "running")
        bridges.command("restart", ["orders"])
        for _ in range(MAX_TURNS):
            if len(links.opened) == 2:
                break
            await asyncio.sleep(0)
        await awaits(bridges, "running")
        assert links.opened[0].is_closed
        bridges.command("pause", ["orders"])
        await awaits(bridges, "paused")
        bridges.command("restart", ["orders"])
        await awaits(bridges, "running")

    assert len(dialogue(scenario).opened) == 3


def test_a_failed_bridge_waits_for_a_restart() -> None:
    async def scenario(bridges: HostedBridges, links: Links) -> None:
        links.is_away = True
        bridges.command("restart", ["orders"])
        await awaits(bridges, "failed")
        assert bridges.statuses()[0].last_error == "no broker"
        bridges.command("resume", ["orders"])  # is for paused bridges
        links.is_away = False
        bridges.command("restart", ["orders"])
        await awaits(bridges, "running")

    assert len(dialogue(scenario, ("orders",)).opened) == 1


class OddLink(QuietLink):
    """A link whose source hands over what no source may."""

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        return [cast("BridgeMessage", None)]

    async def close(self) -> None:
        await super().close()
        raise ValueError("odd")


def test_a_defect_of_one_bridge_ends_that_one_alone(caplog: pytest.LogCaptureFixture) -> None:
    odd: list[QuietLink] = []

    def opener(bridge: Definition) -> Callable[[], Awaitable[Link]]:
        async def open_one() -> Link:
            if bridge.name == "odd" and not odd:
                odd.append(OddLink())
                return odd[0]
            return QuietLink()

        return open_one

    async def run() -> None:
        bridges = HostedBridges([replace(definition(), name="odd"), definition()], lambda line: None, opener=opener)
        ending = asyncio.Event()
        running = asyncio.create_task(bridges.run(ending))
        await awaits(bridges, "failed")
        broken, other = bridges.statuses()
        assert (broken.state.value, other.state.value) == ("failed", "running")
        assert broken.last_error is not None
        assert "AttributeError" in broken.last_error
        for _ in range(MAX_TURNS):
            if odd[0].is_closed:
                break
            await asyncio.sleep(0)
        bridges.command("restart", ["odd"])
        await awaits(bridges, "running")
        ending.set()
        await running

    asyncio.run(run())
    assert "bridge odd: stopped by an unexpected error, see above; restart it when the cause is gone" in caplog.messages


def test_a_definition_reaches_the_other_process_whole() -> None:
    factory = ConnectionFactory("tcp://h:1", "u", Secret("p"), "t", Secret("tp"), "k", Secret("kp"))
    changed = replace(
        definition(), steps=(AppendMessageId(), ClearReplyTo(), ProxyReplyTo(7)), retry=RetryPolicy(3, 5, 2.0, 7)
    )
    changed = replace(changed, source=replace(changed.source, factory=factory, selector="n = 1", client_id="c"))
    plain = plain_definition(changed)
    assert definition_of(plain) == changed
    assert plain.keys() == {field.name for field in fields(BridgeDefinition)}
