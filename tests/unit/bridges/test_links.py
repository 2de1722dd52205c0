"""A link whose messages cross while the source stores the acknowledgement of the batch before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Final, cast

import pytest

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.model.steps import AddDuplicateId
from spanwire.bridges.ports import MessageSource, MessageTarget, Provider
from spanwire.bridges.providers.openwire.connecting import is_artemis
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.bridges.running.links import PairLink, open_link
from spanwire.client.aio.connection import Connection
from spanwire.model.errors import ConfigurationError, JmsError
from tests.support.bridge_dialogue import definition, text_messages


class Ends:
    """An eager source and an eager target that keep a list of what is done; the source stores when it is told."""

    def __init__(self) -> None:
        self.done: Final[list[str]] = []
        self.stores: Final = asyncio.Event()
        self.error: JmsError | None = None

    def acknowledge_soon(self) -> Callable[[], Awaitable[None]]:
        self.done.append("acknowledge")
        return self._stored

    async def _stored(self) -> None:
        await self.stores.wait()
        if self.error is not None:
            raise self.error
        self.done.append("acknowledged")

    async def acknowledge(self) -> None:
        self.done.append("acknowledged at once")

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        return []

    async def dead_letter(self, cause: str) -> None:
        self.done.append("dead letter")

    async def send_reply(self, message: BridgeMessage, destination: object) -> None:
        raise AssertionError("there is no reply")

    async def send(self, messages: list[BridgeMessage]) -> None:
        self.done.append("sent at once")

    async def send_after(self, messages: list[BridgeMessage], condition: Callable[[], Awaitable[None]]) -> None:
        self.done.append("send")
        await condition()
        self.done.append("commit")

    async def open_reply_queue(self, on_reply: object) -> None:
        raise AssertionError("there is no reply")

    async def close_reply_queue(self, queue: object) -> None:
        raise AssertionError("there is no reply")

    def check(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        self.done.append("close")


def link_of(ends: Ends, is_eager: bool = True) -> PairLink:
    return PairLink(cast("MessageSource", ends), cast("MessageTarget", ends), is_eager=is_eager)


def test_a_batch_crosses_before_and_is_stored_after_the_acknowledgement_of_the_batch_before() -> None:
    async def scenario() -> list[str]:
        ends = Ends()
        link = link_of(ends)
        await link.send(text_messages(1))
        await link.acknowledge()
        sending = asyncio.create_task(link.send(text_messages(1)))
        await asyncio.sleep(0)
        assert ends.done == ["send", "commit", "acknowledge", "send"]
        ends.stores.set()
        await sending
        return ends.done[4:]

    assert asyncio.run(scenario()) == ["acknowledged", "commit"]


def test_a_batch_is_not_stored_after_a_refused_acknowledgement() -> None:
    async def scenario() -> list[str]:
        ends = Ends()
        link = link_of(ends)
        await link.acknowledge()
        ends.error = JmsError("lost")
        ends.stores.set()
        with pytest.raises(JmsError, match="lost"):
            await link.send(text_messages(1))
        await link.close()
        return ends.done

    assert asyncio.run(scenario()) == ["acknowledge", "send", "close", "close"]


def test_the_last_acknowledgement_is_stored_before_a_dead_letter_and_before_the_close() -> None:
    async def scenario() -> list[str]:
        ends = Ends()
        ends.stores.set()
        link = link_of(ends)
        await link.acknowledge()
        await link.dead_letter("no good")
        await link.acknowledge()
        await link.close()
        return ends.done

    done = ["acknowledge", "acknowledged", "dead letter", "acknowledge", "acknowledged", "close", "close"]
    assert asyncio.run(scenario()) == done


def test_other_qualities_wait_for_each_acknowledgement() -> None:
    async def scenario() -> list[str]:
        ends = Ends()
        await link_of(ends, is_eager=False).acknowledge()
        return ends.done

    assert asyncio.run(scenario()) == ["acknowledged at once"]


class Opening(Ends):
    """A provider whose target's broker rolls batches back because of a duplicate."""

    def __init__(self, is_spoiled: bool) -> None:
        super().__init__()
        self._is_spoiled: Final = is_spoiled

    def is_spoiled_by_duplicates(self) -> bool:
        return self._is_spoiled

    def describe(self) -> ProviderDescription:
        return OpenWireProvider().describe()

    async def open_target(self, target: object) -> Opening:
        self.done.append("open target")
        return self

    async def open_source(self, source: object, credit: int) -> Opening:
        self.done.append("open source")
        return self


@pytest.mark.parametrize(
    ("is_spoiled", "steps", "done"),
    [
        (True, (AddDuplicateId("b"),), ["open target", "close"]),
        (True, (), ["open target", "open source"]),
        (False, (AddDuplicateId("b"),), ["open target", "open source"]),
    ],
)
def test_a_target_that_duplicates_spoil_is_refused_before_anything_is_received(
    is_spoiled: bool, steps: tuple[AddDuplicateId, ...], done: list[str]
) -> None:
    ends = Opening(is_spoiled)
    provider = cast("Provider", ends)
    try:
        asyncio.run(open_link(definition(steps=steps), provider, provider))
        refused = ""
    except ConfigurationError as error:
        refused = str(error)
    assert ("a target that is ActiveMQ Artemis" in refused) is (done[-1] == "close")
    assert ends.done == done


@pytest.mark.parametrize(
    ("url", "expected"), [("127.0.0.1:61616", True), ("tcp://127.0.0.1:61616", False), ("", False), (None, False)]
)
def test_artemis_is_known_by_an_address_without_a_scheme(url: str | None, expected: bool) -> None:
    core = SimpleNamespace(broker_url=url)
    assert is_artemis(cast("Connection", SimpleNamespace(shared=SimpleNamespace(core=core)))) is expected
