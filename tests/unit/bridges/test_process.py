"""The process of several bridges, over links that are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.running.links import Link
from spanwire.bridges.running.process import BridgeProcess
from spanwire.model.errors import ConfigurationError, JmsError
from tests.support.bridge_dialogue import definition, text_messages


class HangingTarget:
    """A link with one batch, whose target never answers."""

    def __init__(self) -> None:
        self.is_sending = asyncio.Event()
        self.is_closed = False

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        return text_messages(1)

    async def acknowledge(self) -> None:
        raise AssertionError("nothing is acknowledged before it is sent")

    async def send(self, messages: list[BridgeMessage]) -> None:
        self.is_sending.set()
        await asyncio.Event().wait()

    async def dead_letter(self, cause: str) -> None:
        raise AssertionError("no message is refused")

    async def commit(self) -> None:
        raise AssertionError("there is no transaction")

    def check(self) -> None:
        return

    async def close(self) -> None:
        self.is_closed = True


def opener(link: Link) -> Callable[[Definition], Callable[[], Awaitable[Link]]]:
    """Return an opener of this link for the bridge ``orders``; other bridges find no broker."""

    def for_bridge(bridge: Definition) -> Callable[[], Awaitable[Link]]:
        async def open_one() -> Link:
            if bridge.name != "orders":
                raise JmsError("no broker")
            return link

        return open_one

    return for_bridge


def test_a_bridge_that_hangs_is_cut_off_after_the_grace_of_a_stop(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        link = HangingTarget()
        told: list[str] = []
        process = BridgeProcess([definition()], told.append, stop_grace_s=0.0, opener=opener(link))
        running = asyncio.create_task(process.run())
        await link.is_sending.wait()
        process.stop()
        assert await running
        assert link.is_closed
        assert len(told) == 1 and told[0].startswith(
            "bridge orders: running, queue://A at tcp://near:61616 to queue://B"
        )

    asyncio.run(scenario())
    assert "some bridges do not end within 0 s" in caplog.text


def test_a_failed_bridge_leaves_the_others_running(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        link = HangingTarget()
        failing = replace(definition(max_retries=0), name="failing")
        process = BridgeProcess([failing, definition()], lambda line: None, stop_grace_s=0.0, opener=opener(link))
        running = asyncio.create_task(process.run())
        await link.is_sending.wait()
        while process.statuses()[0].state.value != "failed":
            await asyncio.sleep(0)
        assert process.statuses()[1].state.value == "running" and not running.done()
        process.stop()
        assert not await running

    asyncio.run(scenario())
    assert "bridge failing: failed, maxRetries is 0: no broker" in caplog.text


def test_a_bridge_that_cannot_work_is_refused_before_any_connects() -> None:
    async def scenario() -> None:
        wrong = replace(definition(), source=replace(definition().source, subscription="s"))
        with pytest.raises(ConfigurationError, match="bridge orders: subscriptionName is for topics"):
            BridgeProcess([definition(), wrong], print)

    asyncio.run(scenario())
