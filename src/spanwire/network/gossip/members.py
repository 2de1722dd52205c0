"""The members of a network as reported by other brokers. Pure.

Rows of other brokers are claims of a remote broker: each value is checked and cut beforehand. `KnownBrokers` bounds all
kept rows, and the rows from one broker.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Final

from spanwire.discovery.addresses.address import read_address
from spanwire.network.gossip.namesakes import Namesakes
from spanwire.network.reports.known_brokers import MAX_BROKERS, MAX_TEXT, KnownBrokers, Row

MAX_ADDRESSES: Final = 8  # addresses of one member; a broker has one or two connectors for OpenWire
MAX_GOSSIP_BYTES: Final = 256 * 1024  # characters of one question or answer; some 1,500 members
MAX_AGE_S: Final = 60.0  # seconds after which a member that nobody has heard is told no more, and linked no more


class Members:
    """The table of one broker: its own row, and the rows from others."""

    def __init__(self, name: str, broker_id: str) -> None:
        self.name: Final = name
        self.addresses: tuple[str, ...] = ()  # of this broker
        self.changed_at = -math.inf  # monotonic seconds of the last change
        self._broker_id: Final = broker_id
        self._known: Final = KnownBrokers(name, MAX_GOSSIP_BYTES)
        self._namesakes: Final = Namesakes()

    def add(self, text: str | bytes, teller: str, now: float) -> None:
        """Take the rows of ``teller``: a broker by name, or the host of a client."""
        before, rows = self.members(now), read_members(text)
        self._namesakes.note(self.name, self._broker_id, self.addresses, now, now)
        for row in rows:
            addresses, age = row["addresses"], row["age_s"]
            assert isinstance(addresses, tuple)
            assert isinstance(age, float)
            self._namesakes.note(str(row["name"]), str(row["id"]), addresses, now - age, now)
        self._known.add(rows, now, teller)
        if self.members(now) != before:
            self.changed_at = now

    def members(self, now: float) -> dict[str, tuple[str, ...]]:
        """Return the addresses of the other members by name."""
        found: dict[str, tuple[str, ...]] = {}
        for row in self._known.rows(now):
            addresses = row["addresses"]
            assert isinstance(addresses, tuple)
            found[str(row["name"])] = addresses
        return found

    def tell(self, now: float) -> str:
        """Return this broker and the members as JSON, the latest first, within `MAX_GOSSIP_BYTES`."""
        own: Row = {"name": self.name, "id": self._broker_id, "age_s": 0.0, "addresses": self.addresses}
        others = sorted(self._known.rows(now), key=lambda row: (row["age_s"], row["name"]))
        rows, size = [], len('{"brokers": []}')
        for row in [own, *others][:MAX_BROKERS]:
            shown = json.dumps({key: row[key] for key in ("name", "id", "age_s", "addresses")})
            size += len(shown) + 2
            if size > MAX_GOSSIP_BYTES:
                break
            rows.append(shown)
        return f'{{"brokers": [{", ".join(rows)}]}}'


def read_members(text: str | bytes) -> list[Row]:
    """Return the rows of a question or an answer, without parts of another form."""
    if len(text) > MAX_GOSSIP_BYTES:
        return []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = content.get("brokers") if isinstance(content, dict) else None
    if not isinstance(found, list):
        return []
    return [row for one in found[:MAX_BROKERS] if isinstance(one, dict) and (row := _member(one)) is not None]


def _member(content: dict[str, object]) -> Row | None:
    name, broker_id, age, addresses = (content.get(key) for key in ("name", "id", "age_s", "addresses"))
    if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT or not name.isprintable():
        return None
    if not isinstance(age, (int, float)) or isinstance(age, bool) or not 0 <= age <= MAX_AGE_S:
        return None
    if not isinstance(addresses, list):
        return None
    return {
        "name": name,
        "id": broker_id[:MAX_TEXT] if isinstance(broker_id, str) and broker_id.isprintable() else "",
        "age_s": float(age),
        "addresses": _addresses(addresses),
        "silence": "",
        "links": [],  # which the report of the map has
    }


def _addresses(texts: Sequence[object]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in texts[:MAX_ADDRESSES]:
        address = read_address(text) if isinstance(text, str) and len(text) <= MAX_TEXT else None
        if address is not None:
            found[address.uri] = None
    return tuple(found)
