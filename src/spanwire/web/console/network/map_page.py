"""The page of the map: all known brokers and links, a route on them, and a table of the same in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import Response

from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.view_table import STATUS_PARTS
from spanwire.service.network_lint.dry_run import DryRun
from spanwire.web.calls import Call
from spanwire.web.console import formats
from spanwire.web.console.forms import read_words
from spanwire.web.console.network.configured_network import Question, read_question, runs_of, settings_of
from spanwire.web.console.network.known_network import (
    ACTIVEMQ,
    OWN,
    REPORTED,
    SILENT,
    KnownBroker,
    KnownLink,
    KnownNetwork,
    known_network,
)
from spanwire.web.console.network.map_layout import MOST_DRAWN, Curve, layout
from spanwire.web.console.rendering import page

PATH: Final = "/admin/network-map"
MAX_LABEL: Final = 20  # characters of a name on the map; the tooltip and the table have all
MAX_RATES: Final = 40  # curves of a map with numbers beside them; they would cover more
MAX_ROWS: Final = 500  # links of the table; the lists of each broker have all
NOTES: Final = {
    OWN: "this broker", ACTIVEMQ: "ActiveMQ", REPORTED: "known by its consumers", SILENT: "tells nothing",
    "spanwire": "", "configured": "in a file alone",
}  # fmt: skip
CONFIGURED: Final = "configured"


@dataclass(slots=True)
class Marks:
    """Numbers of hops and closed links of a route, by the brokers at their ends."""

    hops: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    closed: dict[tuple[str, str], str] = field(default_factory=dict)


async def show_map(call: Call) -> Response:
    """Show the known brokers and links, with a route for a query."""
    words = read_words(call)
    status = await call.status()
    network = await network_of(call, status)
    question = read_question(words, network.own)
    runs: list[DryRun] = []
    fault, marks = "", Marks()
    if question is not None:
        runs, fault = await runs_of(call, question, network)
        marks = _marked(network, runs)
    drawn = layout(network, words.text("around"))
    settings = await settings_of(call)
    links = sorted(
        network.links.values(), key=lambda link: (link.is_good, link.near != network.own, link.near, link.far)
    )
    return page(
        call,
        "network_map.html",
        "Network map",
        views="links,broker",
        network=network,
        drawn=drawn,
        around=words.text("around"),
        has_standby=bool(status.get("standby")),
        links=links[:MAX_ROWS],
        more=max(0, len(links) - MAX_ROWS),
        broken=sum(not link.is_good for link in links),
        guests=[one.name for one in network.brokers.values() if one.is_guest and not one.is_invited],
        invited=[one.name for one in network.brokers.values() if one.is_invited],
        silent=[broker for broker in network.brokers.values() if broker.silence],
        kind_of=lambda curve: _kind(curve, marks),
        mark_of=lambda curve: _mark(curve, marks),
        words_of=words_of,
        note_of=lambda name: _note(network, name),
        rate_of=rate_of,
        has_rates=len(drawn.curves) <= MAX_RATES,
        is_large=len(network.brokers) > MOST_DRAWN,
        class_of=lambda place: _class(network, place.members),
        label=label,
        question=question or Question(network.own, "", "", False, ""),
        is_asked=question is not None,
        runs=runs,
        fault=fault,
        files=settings.files,
    )


async def network_of(call: Call, status: Mapping[str, object]) -> KnownNetwork:
    """Return the network that the broker knows. Raises `ControlError`."""
    rows = status.get(STATUS_PARTS[LINKS.name])
    links = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    answer = await call.view("network")
    reports = answer.get("brokers") if isinstance(answer, dict) else None
    brokers = [row for row in reports if isinstance(row, dict)] if isinstance(reports, list) else []
    if not brokers:
        brokers = [{"name": status.get("name"), "id": status.get("id"), "links": links}]
    return known_network(brokers, links)


def _marked(network: KnownNetwork, runs: list[DryRun]) -> Marks:
    """Return the marks of all runs; brokers and links from files alone are added to the network."""
    marks = Marks()
    for run in runs:
        network.brokers.setdefault(run.goal, KnownBroker(run.goal, CONFIGURED))
        for number, hop in enumerate(run.hops, 1):
            marks.hops.setdefault((hop.near, hop.far), []).append(number)
            _configured(network, hop.near, hop.far, hop.connector)
        for closed in run.closed:
            marks.closed.setdefault((closed.near, closed.far), closed.reason)
            _configured(network, closed.near, closed.far, closed.connector)
    return marks


def _configured(network: KnownNetwork, near: str, far: str, connector: str) -> None:
    for name in (near, far):
        network.brokers.setdefault(name, KnownBroker(name, CONFIGURED))
    if not network.links_between(near, far):
        network.links[near, far, connector] = KnownLink(near, far, connector, is_known=False)


def _kind(curve: Curve, marks: Marks) -> str:
    if (curve.near, curve.far) in marks.hops:
        return "hop"
    return "closed" if (curve.near, curve.far) in marks.closed else curve.kind


def _mark(curve: Curve, marks: Marks) -> str:
    numbers = sorted(set(marks.hops.get((curve.near, curve.far), [])))
    if numbers:
        return f"hop {', '.join(str(number) for number in numbers)}"
    return f"not: {marks.closed[curve.near, curve.far]}" if (curve.near, curve.far) in marks.closed else ""


def _class(network: KnownNetwork, members: tuple[str, ...]) -> str:
    kinds = {network.brokers[name].kind for name in members}
    return OWN if OWN in kinds else next(iter(kinds)) if len(kinds) == 1 else "mixed"


def _note(network: KnownNetwork, name: str) -> str:
    kind = network.brokers[name].kind
    if network.brokers[name].is_guest:
        return "has not reported" if network.brokers[name].is_invited else "cannot be asked"
    is_linked = any(link.is_known for link in network.links.values() if name in (link.near, link.far))
    return "tells nothing yet" if kind == REPORTED and is_linked else NOTES.get(kind, "")


def rate_of(curve: Curve) -> str:
    """Return the messages a second of a curve, and the waiting messages; empty without messages."""
    rate, waiting = (sum(getattr(link, name) or 0 for link in curve.links) for name in ("rate", "waiting"))
    parts = [f"{formats.number(round(rate, 1))}/s"] if rate else []
    return ", ".join([*parts, f"{formats.number(waiting)} wait"] if waiting else parts)


def words_of(link: KnownLink) -> str:
    """Return a link in words, for the tooltip of its curve."""
    parts = [f"{link.near} to {link.far}", link.name, link.state or "state not known", link.reason]
    if link.demand is not None:
        parts.append(f"{link.demand:,.0f} destinations with demand")
    if link.waiting:
        parts.append(f"{link.waiting:,.0f} messages wait")
    if link.rate is not None:
        parts.append(f"{link.rate:,.1f} messages a second")
    if link.reconnects:
        parts.append(f"{link.reconnects:,.0f} reconnects")
    return "; ".join(part for part in parts if part)


def label(name: str) -> str:
    """Return a name that fits into a cell."""
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"
