"""The targets of a broker's bridges and routes, as brokers that can be asked about followed messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanwire.bridges.model.definition import OPENWIRE, Source, Target
from spanwire.bridges.model.diagram import place
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.this_broker import is_here
from spanwire.bridges.providers.addresses import tls_settings
from spanwire.management.questions.bridged_marks import BridgeTarget
from spanwire.model.destination import Destination
from spanwire.network.reports.known_brokers import Peer

OTHER_PROTOCOL: Final = "is reached over another protocol than OpenWire, and cannot be asked"
SEVERAL: Final = "has no single address in the bridge, so it is not known which broker has the message: ask there"


def targets_of(definitions: Iterable[Definition], source: Destination, own_url: str | None) -> list[BridgeTarget]:
    """Return the targets of those bridges that take messages from ``source`` at this broker, at ``own_url``."""
    found: list[BridgeTarget] = []
    for definition in definitions:
        begin = definition.source
        if not isinstance(begin, Source) or not is_here(begin.factory) or begin.destination != source:
            continue
        targets = definition.targets if isinstance(definition, RouteDefinition) else [definition.target]
        found += [_target(one, own_url) for one in targets if isinstance(one, Target)]
    return found


def _target(target: Target, own_url: str | None) -> BridgeTarget:
    factory = target.factory
    url, name = (own_url or "", "vm:") if is_here(factory) else (factory.url, place(factory))
    if factory.provider != OPENWIRE or factory.java is not None:
        return BridgeTarget(target.destination, Peer(name, ""), OTHER_PROTOCOL)
    if factory.directory is not None or "(" in url or not url:
        return BridgeTarget(target.destination, Peer(name, ""), SEVERAL)
    peer = Peer(name, url, factory.user_name, factory.password, tls_settings(factory))
    return BridgeTarget(target.destination, peer)
