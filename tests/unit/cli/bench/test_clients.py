"""The STOMP frames of ``spanwire bench``: what is waited for, what is acknowledged, and what Artemis needs besides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from spanwire.bridges.providers.inbox import Inbox
from spanwire.bridges.providers.stomp.connection import Headers
from spanwire.cli.bench.clients import StompClient, open_client
from spanwire.cli.bench.plan import Plan
from spanwire.model.errors import ConfigurationError
from spanwire.protocols.stomp.codec.frames import MESSAGE, Frame, HeaderBlock

PLAN = Plan(
    b"12345678", "stomp://b:1", "queue://Q", False, 1, 1, 100, True, 0.0, 10, 10.0, 0.0, 0, None, "auto", 1.0
)  # fmt: skip


class Recorded:
    """A connection that writes down its frames; ``requests`` have a receipt."""

    def __init__(self, is_artemis: bool = False) -> None:
        self.is_artemis = is_artemis
        self.inbox = Inbox[Frame]()
        self.requests: list[tuple[str, Headers]] = []
        self.sends: list[tuple[str, Headers]] = []

    async def request(self, command: str, headers: Headers, body: bytes = b"") -> None:
        self.requests.append((command, headers))

    async def send(self, command: str, headers: Headers, body: bytes = b"") -> None:
        self.sends.append((command, headers))


def client(connection: Recorded, **changes: Any) -> StompClient:
    return StompClient(replace(PLAN, **changes), cast(Any, connection))


def came(connection: Recorded, count: int) -> None:
    for number in range(count):
        headers = {"ack": f"a{number}", "redelivered": "true" if number == 0 else "false"}
        connection.inbox.put(Frame(HeaderBlock(MESSAGE, headers), None, -1), 0)


@pytest.mark.parametrize(
    ("is_persistent", "wait", "is_waited"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_a_send_waits_as_over_openwire(is_persistent: bool, wait: bool | None, is_waited: bool) -> None:
    connection = Recorded()

    async def run() -> None:
        sender = await client(connection, persistent=is_persistent).sender()
        await sender.send(b"1234", wait=wait)

    asyncio.run(run())
    ((command, headers),) = connection.requests if is_waited else connection.sends
    assert (command, dict(headers)["destination"], dict(headers)["content-length"]) == ("SEND", "/queue/Q", "4")
    assert ("persistent", "true") in headers if is_persistent else "persistent" not in dict(headers)


@pytest.mark.parametrize(("mode", "acknowledged"), [("auto", ["a0", "a1", "a2"]), ("dups_ok", ["a2"])])
def test_messages_are_acknowledged_one_by_one_or_together(mode: str, acknowledged: list[str]) -> None:
    connection = Recorded()

    async def run() -> list[bool]:
        receiver = await client(connection, acknowledge=mode).receiver()
        came(connection, 3)
        arrivals = [await receiver.next() for _ in range(3)]
        return [one is not None and one.redelivered for one in arrivals]

    assert asyncio.run(run()) == [True, False, False]
    assert [dict(headers)["id"] for _, headers in connection.sends] == acknowledged


@pytest.mark.parametrize(("is_topic", "kind"), [(False, "ANYCAST"), (True, "MULTICAST")])
def test_artemis_is_told_queue_or_topic(is_topic: bool, kind: str) -> None:
    connection = Recorded(is_artemis=True)

    async def run() -> None:
        both = client(connection, is_topic=is_topic)
        await both.receiver()
        await (await both.sender()).send(b"")

    asyncio.run(run())
    subscribe, send = (dict(headers) for _, headers in connection.requests)
    assert (subscribe["subscription-type"], send["destination-type"]) == (kind, kind)


def test_an_address_of_stomp_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is no URL for the provider stomp; write stomp://host:port"):
        asyncio.run(open_client(replace(PLAN, url="stomp://")))
