"""The inbox between the reader of a connection and a bridge."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.bridges.providers.inbox import Inbox
from spanwire.model.errors import JmsError

MANY = 1_000_000


def test_messages_are_taken_in_order_within_both_limits() -> None:
    async def scenario() -> None:
        inbox: Inbox[str] = Inbox()
        for text in ("a", "b", "c", "d"):
            inbox.put(text, 10)
        assert await inbox.take(1, MANY, 0) == ["a"]
        assert await inbox.take(9, 1, 0) == ["b"]
        assert await inbox.take(9, 15, 0) == ["c"]
        assert inbox.octets == 10
        assert await inbox.take(9, MANY, 0) == ["d"]
        assert await inbox.take(9, MANY, 0) == []

    asyncio.run(scenario())


def test_a_failure_is_raised_by_each_further_call_and_wakes_who_waits() -> None:
    async def scenario() -> None:
        inbox: Inbox[str] = Inbox()
        waiting = asyncio.create_task(inbox.take(1, MANY, 5))
        await asyncio.sleep(0)
        inbox.fail(JmsError("gone"))
        inbox.fail(JmsError("later"))
        with pytest.raises(JmsError, match="gone"):
            await waiting
        with pytest.raises(JmsError, match="gone"):
            inbox.check()

    asyncio.run(scenario())
