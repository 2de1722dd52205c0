"""Links whose messages cross while the brokers store the batch before and its acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Final, cast

import pytest

from spanwire.bridges.completing import Completing
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
    """An eager source and a target that keep a list of what is done; the source stores when it is told."""

    def __init__(self) -> None:
        self.done: Final[list[str]] = []
        self.stores: Final = asyncio.Event()
        self.error: JmsError | None = None

    def acknowledge_soon(self) -> Callable[[], Awaitable[None]]:
        self.done.append("acknowledge")
        return self._stored

    def acknowledge_later(self) -> Callable[[], Awaitable[None]]:
        async def acknowledge() -> None:
            await self.acknowledge_soon()()

        return acknowledge

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

    async def open_reply_queue(self, on_reply: object) -> None:
        raise AssertionError("there is no reply")

    async def close_reply_queue(self, queue: object) -> None:
        raise AssertionError("there is no reply")

    def check(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        self.done.append("close")


class EagerEnds(Ends):
    """The same with an eager target, which stores when it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: Final = asyncio.Event()
        self.refusal: JmsError | None = None
        self.messages: Final[asyncio.Queue[list[BridgeMessage]]] = asyncio.Queue()

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        return await self.messages.get()

    async def send_soon(
        self, messages: list[BridgeMessage], condition: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        self.done.append("send")
        await condition()
        self.done.append("commit")
        return self._committed

    async def _committed(self) -> None:
        await self.commits.wait()
        if self.refusal is not None:
            raise self.refusal
        self.done.append("committed")


def link_of(ends: Ends, is_eager: bool = True) -> PairLink:
    return PairLink(cast("MessageSource", ends), cast("MessageTarget", ends), is_eager=is_eager)


async def handed_over(ends: EagerEnds) -> PairLink:
    """A link that has handed its first batch over."""
    link = link_of(ends)
    await link.send(text_messages(1))
    link.hand_over(lambda: ends.done.append("completed"))
    await turns()
    return link


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_batch_is_sent_before_and_stored_after_the_acknowledgement_of_the_batch_before() -> None:
    async def scenario() -> list[str]:
        ends = EagerEnds()
        link = await handed_over(ends)
        sending = asyncio.create_task(link.send(text_messages(1)))
        await turns()
        assert ends.done == ["send", "commit", "send"]
        ends.commits.set()
        await turns()
        assert ends.done[3:] == ["committed", "acknowledge"]
        ends.stores.set()
        await sending
        return ends.done[5:]

    assert asyncio.run(scenario()) == ["acknowledged", "completed", "commit"]


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_batch_that_is_not_completed_ends_the_wait_for_messages_and_is_not_acknowledged(is_refused: bool) -> None:
    async def scenario() -> list[str]:
        ends = EagerEnds()
        link = await handed_over(ends)
        receiving = asyncio.create_task(link.receive(1, 1, 30.0))
        await turns()
        if is_refused:
            ends.refusal = JmsError("lost")
        else:
            ends.error = JmsError("lost")
            ends.stores.set()
        ends.commits.set()
        with pytest.raises(JmsError, match="lost"):
            await receiving
        await link.close()
        assert link.incomplete == ""
        return ends.done[2:]

    assert asyncio.run(scenario()) == (["close"] * 2 if is_refused else ["committed", "acknowledge", "close", "close"])


def test_a_batch_is_completed_while_messages_are_waited_for_and_before_an_empty_receive_ends() -> None:
    async def scenario() -> None:
        ends = EagerEnds()
        ends.stores.set()
        link = await handed_over(ends)
        receiving = asyncio.create_task(link.receive(1, 1, 1.0))
        await turns()
        ends.messages.put_nowait([])
        await turns()
        assert not receiving.done()
        ends.commits.set()
        assert await receiving == []
        assert ends.done[-1] == "completed"

    asyncio.run(scenario())


def test_a_cancelled_receive_leaves_the_batch_before_to_be_completed_at_the_close() -> None:
    async def scenario() -> list[str]:
        ends = EagerEnds()
        ends.stores.set()
        link = await handed_over(ends)
        receiving = asyncio.create_task(link.receive(1, 1, 1.0))
        await turns()
        ends.messages.put_nowait([])
        await turns()
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        closing = asyncio.create_task(link.close())
        await turns()
        ends.commits.set()
        await closing
        assert link.incomplete == ""
        return ends.done[2:]

    done = ["committed", "acknowledge", "acknowledged", "completed", "close", "close"]
    assert asyncio.run(scenario()) == done


def test_a_batch_that_a_closing_link_cannot_complete_in_time_is_named_and_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spanwire.bridges.completing.SETTLE_S", 0.01)

    async def scenario() -> tuple[str, list[str]]:
        ends = EagerEnds()
        link = await handed_over(ends)
        await link.close()
        ends.commits.set()
        await turns()
        return link.incomplete, ends.done[2:]

    assert asyncio.run(scenario()) == ("the last batch was not complete within 0.01 s", ["close"] * 2)


def test_a_batch_crosses_after_the_acknowledgement_where_the_target_stores_each_at_once() -> None:
    async def scenario() -> list[str]:
        ends = Ends()
        link = link_of(ends)
        assert not link.is_handed_over
        await link.send(text_messages(1))
        await link.acknowledge()
        sending = asyncio.create_task(link.send(text_messages(1)))
        await turns()
        assert ends.done == ["sent at once", "acknowledge"]
        ends.stores.set()
        await sending
        return ends.done[2:]

    assert asyncio.run(scenario()) == ["acknowledged", "sent at once"]


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

    assert asyncio.run(scenario()) == ["acknowledge", "close", "close"]


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


@pytest.mark.parametrize("turns", range(4))
def test_messages_that_a_cancelled_receive_has_taken_are_returned(turns: int) -> None:
    async def scenario() -> None:
        completing = Completing()
        stored, arrived = asyncio.Event(), asyncio.Event()
        taken: list[BridgeMessage] = []

        async def complete() -> None:
            await stored.wait()

        async def receive() -> list[BridgeMessage]:
            await arrived.wait()
            taken.extend(text_messages(1))
            return taken

        completing.begin(complete())
        receiving = asyncio.create_task(completing.received(receive()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        arrived.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        receiving.cancel()
        (found,) = await asyncio.gather(receiving, return_exceptions=True)
        assert taken == ([] if isinstance(found, BaseException) else found)
        stored.set()
        assert await completing.close() == ""

    asyncio.run(scenario())


def test_both_connections_close_after_an_error_that_is_no_error_of_the_bridge() -> None:
    async def scenario() -> None:
        completing = Completing()

        async def complete() -> None:
            raise ValueError("odd")

        completing.begin(complete())
        assert await completing.close() == "ValueError: odd"

    asyncio.run(scenario())


def test_both_connections_close_after_a_library_has_given_up_the_last_batch() -> None:
    class GivenUp(EagerEnds):
        async def _committed(self) -> None:
            raise asyncio.CancelledError

    async def scenario() -> None:
        ends = GivenUp()
        link = await handed_over(ends)
        with pytest.raises(asyncio.CancelledError):
            await link.close()
        assert ends.done.count("close") == 2

    asyncio.run(scenario())
