"""Writes the state of a route and what must be read of it: ``python -m tests.vectors.routes.make FORMAT``."""

from __future__ import annotations

import asyncio
import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Final

from spanwire.bridges.engine.route_state import Change, Changes, Completed, Gathered, KeyForgotten, KeySeen, RouteState
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.running.route_store import RouteStore
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.message_view import INT_VALUE, STRING_VALUE
from tests.support.bridge_dialogue import text_message

HERE: Final = Path(__file__).resolve().parent
STEPS: Final = {1: "aggregate header k #1", 2: "idempotentConsumer header k #1"}
FIRST_MS: Final = 1_790_000_000_000


def kept_message(number: int) -> BridgeMessage:
    """A message with all headers and two properties."""
    message = text_message(number, 100 + number, {"n": (INT_VALUE, number), "Größe": (STRING_VALUE, "klein")})
    message.reply_to = Destination(QUEUE, "REPLIES")
    message.priority, message.correlation_id, message.message_type = 7, f"c{number}", "order"
    message.expiration_ms, message.group_id, message.group_sequence = FIRST_MS + number, "g", number
    return message


def changes() -> list[Changes]:
    """Two groups with messages, one that is complete, and known keys."""
    gathered: list[Change] = [
        Gathered(1, key, FIRST_MS + number, kept_message(number)) for number, key in enumerate("xxyzü")
    ]
    keys: list[Change] = [KeySeen(2, "k1"), KeySeen(2, "k2"), KeySeen(2, "schlüssel"), KeyForgotten(2, "k2")]
    return [Changes([*gathered, *keys], ["ID:0", "ID:1", "ID:2"]), Changes([Completed(1, "z")], ["ID:3"])]


def readable(state: RouteState) -> dict[str, object]:
    """The state as plain values."""
    groups = {
        f"{step} {key}": [group.first_ms, *(plain(message) for message in group.messages)]
        for (step, key), group in state.groups.items()
    }
    keys = [[step, key] for step, known in state.keys.items() for key in known]
    return {"groups": groups, "keys": keys, "recent": list(state.recent)}


def plain(message: BridgeMessage) -> dict[str, object]:
    """A message as plain values."""
    body = message.content.neutral_body()
    return {
        "id": message.message_id,
        "kind": message.kind,
        "size": message.size,
        "body": None if body is None else body.decode("utf-8", "replace"),
        "properties": {name: list(value) for name, value in message.property_values().items()},
        "reply_to": None if message.reply_to is None else message.reply_to.qualified_name,
        "priority": message.priority,
        "correlation_id": message.correlation_id,
        "message_type": message.message_type,
        "expiration_ms": message.expiration_ms,
        "timestamp_ms": message.timestamp_ms,
        "group": [message.group_id, message.group_sequence],
    }


async def write(folder: Path) -> tuple[bytes, dict[str, object]]:
    """Return the file, and the state that the route finds in it."""
    store = RouteStore(folder, "kept", STEPS)
    await store.open()
    for each in changes():
        await store.store(each)
    state = await store.load()
    await store.close()
    return store.path.read_bytes(), readable(state)


def make(name: str) -> None:
    """Write ``NAME.routestate.xz`` and ``NAME.json``."""
    with tempfile.TemporaryDirectory() as folder:
        content, expected = asyncio.run(write(Path(folder)))
    (HERE / f"{name}.routestate.xz").write_bytes(lzma.compress(content))
    (HERE / f"{name}.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    make(f"format-{sys.argv[1]}")
