"""Parses ``peer:`` URLs: ``peer://GROUP/NAME?option=value`` (ActiveMQ, Peer Transport).

Each peer has a broker inside the process. The broker announces a connector in the group and connects to the other
peers, so messages reach consumers at any peer. Options are attributes of the ``broker`` element. Messages are not
persistent unless ``persistent=true``. The connector listens on the loopback unless ``bindAddress`` names another
address; another address also needs ``allowAnonymous=true``, because peers use no passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.discovery.groups.beacon import check_group
from spanwire.documents.element import Attribute, Element
from spanwire.model.errors import ConfigurationError, JmsError

SCHEME: Final = "peer"
BIND_ADDRESS: Final = "bindAddress"
ALLOW_ANONYMOUS: Final = "allowAnonymous"
LOOPBACK: Final = "127.0.0.1"
GROUP_AND_NAME: Final = re.compile(
    r"peer:(?://)?([A-Za-z0-9_][A-Za-z0-9._\-]{0,62})(?:/([A-Za-z0-9._\-]{0,255}))?/?", re.ASCII
)
ADDRESS: Final = re.compile(r"[A-Za-z0-9.\-]{1,253}|[0-9A-Fa-f:]{2,45}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """A parsed ``peer:`` URL; ``settings`` are attributes of the broker."""

    group: str
    name: str
    bind_address: str
    allow_anonymous: bool
    settings: Mapping[str, str]

    def element(self) -> Element:
        """Return the ``broker`` element: an announced connector and a network connector with discovery."""
        agent = f"multicast://default?group={self.group}"
        host = f"[{self.bind_address}]" if ":" in self.bind_address else self.bind_address
        broker = Element("broker", 1, attributes={name: Attribute(text, 1) for name, text in self.settings.items()})
        broker.attributes.setdefault("persistent", Attribute("false", 1))
        broker.attributes["brokerName"] = Attribute(self.name, 1)
        transport_connector = {"uri": Attribute(f"tcp://{host}:0", 1), "discoveryUri": Attribute(agent, 1)}
        network_connector = {"uri": Attribute(agent, 1), "name": Attribute(f"peers of {self.group}", 1)}
        broker.children = [
            Element(
                "transportConnectors",
                1,
                children=[Element("transportConnector", 1, attributes=dict(transport_connector))],
            ),
            Element(
                "networkConnectors", 1, children=[Element("networkConnector", 1, attributes=dict(network_connector))]
            ),
        ]
        return broker


def parse_peer_url(url: str, options: Mapping[str, str]) -> PeerUrl:
    """Parse a ``peer:`` URL; raises `JmsError` with one line for an invalid URL."""
    match = GROUP_AND_NAME.fullmatch(url.partition("?")[0])
    if match is None:
        raise JmsError(
            "a peer: URL names a group and a broker; write peer://GROUP/NAME with letters, digits, '.', '_', '-'"
        )
    settings = dict(options)
    bind_address = settings.pop(BIND_ADDRESS, LOOPBACK)
    anonymous = settings.pop(ALLOW_ANONYMOUS, "false").lower()
    name = settings.pop("brokerName", "") or match.group(2) or match.group(1)
    if not ADDRESS.fullmatch(bind_address):
        raise JmsError(f"peer://{match.group(1)}: {BIND_ADDRESS} is no address of this machine")
    if anonymous not in ("true", "false"):
        raise JmsError(f"peer://{match.group(1)}: the option {ALLOW_ANONYMOUS} must be true or false")
    try:
        group = check_group(match.group(1))
    except ConfigurationError as error:
        raise JmsError(str(error)) from error
    return PeerUrl(group, name, bind_address, anonymous == "true", settings)
