"""The reset of a link's counters by an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING

from spanwire.model.errors import ConfigurationError
from spanwire.network.bridge.duplex_bridge import AcceptedLink

if TYPE_CHECKING:
    from spanwire.network.connector.link import Link
    from spanwire.network.connector.network_connector import NetworkConnector


def reset_link(
    arguments: Mapping[str, object],
    connectors: Iterable[NetworkConnector],
    accepted: Iterable[AcceptedLink],
    monotonic: float,
) -> dict[str, object]:
    """Set the counters of the link with a ``name`` and ``uri`` to 0, or those of a ``destination``.

    ``direction`` is that of the destination's messages, else both are meant.

    Raises:
        ConfigurationError: there is no such link, or an argument is invalid
    """
    name, uri = arguments.get("name"), arguments.get("uri")
    direction, destination = arguments.get("direction"), arguments.get("destination")
    if direction not in (None, "outbound", "inbound") or not isinstance(destination, (str, NoneType)):
        raise ConfigurationError("direction is outbound or inbound, and destination is a text")
    link = _link(name, uri, connectors, accepted)
    if link is None:
        raise ConfigurationError(f"there is no link {str(name)[:100]} to {str(uri)[:200]}")
    if destination is not None:
        link.counts.reset(monotonic, direction if isinstance(direction, str) else None, destination)
    elif isinstance(link, AcceptedLink):
        link.reset(monotonic)
    else:
        link.reset()
    return {"name": name, "uri": uri}


def _link(
    name: object, uri: object, connectors: Iterable[NetworkConnector], accepted: Iterable[AcceptedLink]
) -> Link | AcceptedLink | None:
    """Return the link of a network connector, or one that a remote broker has opened."""
    for connector in connectors:
        if connector.settings.bridge.name == name:
            for link in connector.links():
                if link.view().uri == uri:
                    return link
    return next((one for one in accepted if (one.name, one.address) == (name, uri)), None)
