"""The page of the map, with a table of the same brokers and links."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from spanwire.management.view_table import LINKS, RUNNING, STATUS_PARTS
from spanwire.web.calls import Call
from spanwire.web.console.network.known_network import KnownBroker, known_network
from spanwire.web.console.network.map_layout import layout
from spanwire.web.console.rendering import page

PATH: Final = "/admin/network-map"
MAX_LABEL: Final = 24  # characters of a name in a box; the tooltip and the table have all


async def show_map(call: Call) -> Response:
    """Show the brokers and links that this broker knows."""
    status = await call.status()
    rows = status.get(STATUS_PARTS[LINKS.name])
    links = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    network = known_network(str(status.get("name")), str(status.get("id") or ""), links)
    return page(
        call,
        "network_map.html",
        "Network map",
        views="links,broker",
        network=network,
        drawn=layout(network),
        has_standby=bool(status.get("standby")),
        state_of=state_of,
        label=label,
    )


def state_of(broker: KnownBroker) -> str:
    """Return the worst state of the links to a broker; empty for one that is reported."""
    states = [str(link.get("state")) for link in broker.links]
    return next((state for state in states if state != RUNNING), states[0] if states else "")


def label(name: str) -> str:
    """Return a name that fits into a box."""
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"
