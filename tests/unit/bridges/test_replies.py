"""Reply destinations and their temporary queues, over ends that are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import ProxyReplyTo
from spanwire.bridges.running.replies import ReplyProxies, reply_proxies
from spanwire.model.destination import TEMP_QUEUE, Destination
from spanwire.model.errors import InvalidDestinationError
from tests.support.bridge_dialogue import definition, text_message


class Ends:
    """A source and a target with reply queues."""

    def __init__(self) -> None:
        self.queues: dict[str, Callable[[BridgeMessage], Awaitable[None]]] = {}
        self.removed: list[str] = []
        self.replies: list[tuple[str, str, Destination | None]] = []
        self.is_gone = False

    async def send_reply(self, message: BridgeMessage, destination: Destination) -> None:
        if self.is_gone:
            raise InvalidDestinationError("the temporary queue is gone")
        self.replies.append((message.message_id, destination.name, message.reply_to))

    async def open_reply_queue(self, on_reply: Callable[[BridgeMessage], Awaitable[None]]) -> Destination:
        name = f"proxy{len(self.queues)}"
        self.queues[name] = on_reply
        return Destination(TEMP_QUEUE, name)

    async def close_reply_queue(self, queue: Destination) -> None:
        self.removed.append(queue.name)

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        return []

    async def acknowledge(self) -> None:
        return

    async def dead_letter(self, cause: str) -> None:
        return

    async def send(self, messages: list[BridgeMessage]) -> None:
        return

    def check(self) -> None:
        return

    async def close(self) -> None:
        return


def request(number: int, reply_to: str | None) -> BridgeMessage:
    message = text_message(number)
    message.reply_to = None if reply_to is None else Destination(TEMP_QUEUE, reply_to)
    return message


def replaced(proxies: ReplyProxies, *reply_tos: str | None) -> list[str | None]:
    """The reply destinations of requests after their replacement."""
    messages = [request(number, reply_to) for number, reply_to in enumerate(reply_tos)]
    asyncio.run(proxies.replace(messages))
    return [None if message.reply_to is None else message.reply_to.name for message in messages]


def test_each_reply_destination_has_one_queue_whose_messages_return() -> None:
    ends = Ends()
    proxies = ReplyProxies(ends, ends, 10)
    assert replaced(proxies, "a", None, "b", "a") == ["proxy0", None, "proxy1", "proxy0"]
    reply = request(7, "next")
    asyncio.run(proxies.replace([]))
    asyncio.run(_call(ends, "proxy1", reply))
    assert ends.replies == [("ID:7", "b", None)]


async def _call(ends: Ends, queue: str, reply: BridgeMessage) -> None:
    await ends.queues[queue](reply)


def test_a_message_that_is_sent_again_keeps_its_queue() -> None:
    ends = Ends()
    proxies = ReplyProxies(ends, ends, 10)
    assert replaced(proxies, "a") == ["proxy0"]
    assert replaced(proxies, "proxy0") == ["proxy0"]


def test_the_queue_that_was_used_longest_ago_makes_room() -> None:
    ends = Ends()
    proxies = ReplyProxies(ends, ends, 2)
    assert replaced(proxies, "a", "b", "a", "c", "b") == ["proxy0", "proxy1", "proxy0", "proxy2", "proxy3"]
    assert ends.removed == ["proxy1", "proxy0"]


def test_a_reply_whose_destination_is_gone_is_told(caplog: pytest.LogCaptureFixture) -> None:
    ends = Ends()
    proxies = ReplyProxies(ends, ends, 2)
    replaced(proxies, "a")
    ends.is_gone = True
    asyncio.run(_call(ends, "proxy0", request(7, None)))
    assert "the reply ID:7 to temp-queue://a is lost: the temporary queue is gone" in caplog.text


def test_a_batch_never_removes_the_queue_of_its_own_message() -> None:
    ends = Ends()
    proxies = reply_proxies(definition(size=3, steps=(ProxyReplyTo(1),)), ends, ends)
    assert proxies is not None
    assert replaced(proxies, "a", "b", "c") == ["proxy0", "proxy1", "proxy2"]
    assert ends.removed == []
    assert reply_proxies(definition(), ends, ends) is None
