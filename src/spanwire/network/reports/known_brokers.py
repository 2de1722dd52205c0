"""The brokers known to a broker, with the reported links. Pure.

Rows of other brokers are claims of a remote broker: each value is checked and cut beforehand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spanwire.model.secret import Secret

if TYPE_CHECKING:  # most brokers have no TLS
    from spanwire.tls.settings import ClientTlsSettings

MAX_BROKERS: Final = 1_000  # brokers kept, and told in one answer; a larger map is not legible
MAX_LINKS: Final = 200  # links of one broker; a broker has at most that many in a report
MAX_ALL_LINKS: Final = 5_000  # links of all other brokers together
MAX_KNOWN_BYTES: Final = 2 * 1024 * 1024  # bytes of all other brokers' rows as JSON; with the own row less than is read
MAX_DESTINATIONS: Final = 20  # destinations with demand of one link
MAX_TEXT: Final = 300  # characters of a name, address or reason
MAX_NUMBER: Final = 1 << 62  # a count or a number of seconds; a float holds it
MAX_REPORT_BYTES: Final = 4 * 1024 * 1024  # bytes of an answer that is read
FORGET_S: Final = 60.0  # seconds after which a broker of whom nobody has told is forgotten
LATE_S: Final = 15.0  # seconds after which a report is shown as old; a watched broker reports every few seconds
SILENT: Final = "tells nothing: it has no <statisticsBrokerPlugin>"
SPANWIRE: Final = "spanwire"
RUNNING: Final = "running"  # the state of a link
ACTIVEMQ: Final = "activemq"  # a broker that answers by the statistics plug-in alone

Row = dict[str, object]
TEXTS: Final = ("name", "uri", "remote", "state", "reason")
NUMBERS: Final = (
    "demand", "in_flight", "waiting", "enqueued", "dequeued", "received", "failed", "reconnects", "since_s", "rate",
    "received_rate",
)  # fmt: skip
CROSSED: Final = ("forwarded", "arrived", "forwarded_since_start", "arrived_since_start", "in_flight")
FLAGS: Final = ("duplex", "accepted", "incoming")


@dataclass(frozen=True, slots=True)
class Peer:
    """The broker at the other end of a running link, with the address and login of the link."""

    name: str
    uri: str
    user_name: str | None = None
    password: Secret | None = None
    tls: ClientTlsSettings | None = None


def silent(peer: Peer, reason: str) -> Row:
    """Return the row of a broker without a report."""
    return {"name": peer.name, "id": "", "kind": "", "silence": reason[:MAX_TEXT], "age_s": 0.0, "links": []}


@dataclass(frozen=True, slots=True)
class _Heard:
    row: Row
    made_at: float  # monotonic seconds of this machine
    teller: str
    size: int  # bytes as JSON
    links: int

    def is_word(self, now: float) -> bool:
        """Return True if the broker's own report is recent, so that reports of others are not needed."""
        return not self.row["silence"] and now - self.made_at <= LATE_S


@dataclass(slots=True)
class _Share:
    """Counts of one teller's kept rows about brokers behind the teller."""

    brokers: int = 0
    size: int = 0
    links: int = 0

    def change(self, heard: _Heard, sign: int) -> None:
        self.brokers += sign
        self.size += sign * heard.size
        self.links += sign * heard.links

    def part(self, max_bytes: int) -> float:
        """Return the part of the limits in use, by the nearest limit."""
        return max(self.brokers / MAX_BROKERS, self.size / max_bytes, self.links / MAX_ALL_LINKS)


class KnownBrokers:
    """Rows of other brokers by name; of two rows about one broker the younger stays.

    A broker's own report goes before the reports of others. Beyond the limits of all rows together the teller with the
    largest share loses the oldest row, so no teller can push out the brokers of another.
    """

    def __init__(self, own_name: str, max_bytes: int = MAX_KNOWN_BYTES) -> None:
        """``max_bytes`` bounds all rows together, as JSON."""
        self._own_name: Final = own_name
        self._max_bytes: Final = max_bytes
        self._heard: Final[dict[str, _Heard]] = {}
        self._all: Final = _Share()
        self._shares: Final[dict[str, _Share]] = {}  # by teller, without what it tells of itself

    def add(self, rows: Sequence[Row], now: float, teller: str = "") -> None:
        """Take new rows of ``teller``; ``age_s`` of a row is the age on arrival."""
        for row in sorted(rows, key=lambda row: row["name"] != teller):
            name, age, links = str(row["name"]), row["age_s"], row["links"]
            assert isinstance(age, float)
            assert isinstance(links, list)
            known = self._heard.get(name)
            if name == self._own_name or (known is not None and known.made_at >= now - age):
                continue
            if known is not None and known.teller == name != teller and known.is_word(now):
                continue
            heard = _Heard(row, now - age, teller, len(json.dumps(row)), len(links))
            if known is not None:
                self._remove(name)
            if not self._has_room(heard):
                if name != teller:
                    continue
                row = {**row, "links": [], "silence": "tells of more links than there is room for"}
                heard = _Heard(row, now - age, teller, len(json.dumps(row)), 0)
                if not self._has_room(heard):
                    continue
            self._heard[name] = heard
            self._count(name, 1)

    def _has_room(self, heard: _Heard) -> bool:
        """Return True if a row has room; tellers with larger shares may lose rows."""
        is_direct = heard.row["name"] == heard.teller
        while (
            self._all.brokers >= MAX_BROKERS
            or self._all.size + heard.size > self._max_bytes
            or self._all.links + heard.links > MAX_ALL_LINKS
        ):
            own = _Share()
            if not is_direct:
                kept = self._shares.get(heard.teller, own)
                own = _Share(kept.brokers, kept.size, kept.links)
                own.change(heard, 1)
            most = max(self._shares, key=lambda teller: self._shares[teller].part(self._max_bytes), default=None)
            if most is None or self._shares[most].part(self._max_bytes) <= own.part(self._max_bytes):
                return False
            names = [name for name, one in self._heard.items() if one.teller == most and name != most]
            self._remove(min(names, key=lambda name: self._heard[name].made_at))
        return True

    def _remove(self, name: str) -> None:
        self._count(name, -1)
        del self._heard[name]

    def _count(self, name: str, sign: int) -> None:
        heard = self._heard[name]
        self._all.change(heard, sign)
        if name != heard.teller:
            share = self._shares.setdefault(heard.teller, _Share())
            share.change(heard, sign)
            if not share.brokers:
                del self._shares[heard.teller]

    def rows(self, now: float, without: str = "") -> list[Row]:
        """Return the rows with their ages, by name, but those of one teller, and forget the old ones."""
        for name in [name for name, heard in self._heard.items() if now - heard.made_at > FORGET_S]:
            self._remove(name)
        return [
            {**heard.row, "age_s": round(max(0.0, now - heard.made_at), 1)}
            for _, heard in sorted(self._heard.items())
            if not without or heard.teller != without
        ]


def read_rows(text: str) -> list[Row]:
    """Return the rows of an answer, without parts of another form."""
    if len(text) > MAX_REPORT_BYTES:
        return []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = content.get("brokers") if isinstance(content, dict) else None
    if not isinstance(found, list):
        return []
    return [row for one in found[:MAX_BROKERS] if isinstance(one, dict) and (row := _broker(one)) is not None]


def _broker(content: Mapping[str, object]) -> Row | None:
    name = _text(content, "name")
    if not name:
        return None
    links, silence, ledger = content.get("links"), _text(content, "silence"), content.get("ledger")
    kind = ACTIVEMQ if content.get("kind") == ACTIVEMQ else SPANWIRE
    if silence and content.get("kind") == "":
        kind = ""  # nobody knows which broker that is
    return {
        "name": name,
        "id": _text(content, "id"),
        "kind": kind,
        "silence": silence,
        "age_s": _number(content, "age_s"),
        "links": _links(links) if isinstance(links, list) else [],
        **({"ledger": _ledger(ledger)} if isinstance(ledger, list) else {}),
    }


def _ledger(rows: list[object]) -> list[Row]:
    """Return the messages across the links to and from each broker, in the form of this version."""
    return [
        {"remote": _text(one, "remote"), **{name: int(_number(one, name)) for name in CROSSED}}
        for one in rows[:MAX_LINKS]
        if isinstance(one, dict) and _text(one, "remote")
    ]


def _links(links: list[object]) -> list[Row]:
    """Return the links that lead to a broker; others would cost memory without use."""
    read = [_link(one) for one in links[:MAX_LINKS] if isinstance(one, dict)]
    return [link for link in read if link["remote"] or link["uri"]]


def _link(content: Mapping[str, object]) -> Row:
    names = content.get("destinations")
    destinations = [one[:MAX_TEXT] for one in names[:MAX_DESTINATIONS] if isinstance(one, str)] if isinstance(
        names, list
    ) else []  # fmt: skip
    return {
        **{name: _text(content, name) for name in TEXTS},
        **{name: _number(content, name) for name in NUMBERS if name in content},
        **{name: content.get(name) is True for name in FLAGS},
        "destinations": destinations,
    }


def _text(content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _number(content: Mapping[str, object], name: str) -> float:
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    if isinstance(value, int):
        return float(min(max(value, 0), MAX_NUMBER))  # cut before it is a float: some integers are none
    return min(max(value, 0.0), float(MAX_NUMBER)) if math.isfinite(value) else 0.0
