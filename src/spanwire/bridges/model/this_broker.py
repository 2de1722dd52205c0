"""This broker as source or target of a bridge in the broker's configuration.

The bridges of a broker run in a process beside the broker, so ``vm:`` in a definition stands for an address where the
broker listens. The broker fills in the address once the ports are open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory, Source, Target
from spanwire.bridges.model.route_definition import Definition, RouteDefinition, with_factories

THIS_BROKER: Final = "vm:"  # URL of the broker whose configuration has the bridge


def is_here(factory: ConnectionFactory) -> bool:
    """Return True for a factory of the broker whose configuration has the bridge."""
    return factory.url == THIS_BROKER


def uses_this_broker(definition: Definition) -> bool:
    """Return True if a bridge or route needs an address of this broker."""
    targets = definition.targets if isinstance(definition, RouteDefinition) else [definition.target]
    return any(isinstance(end, (Source, Target)) and is_here(end.factory) for end in (definition.source, *targets))


def reached_at(definition: Definition, url: str) -> Definition:
    """Return a definition with the address of this broker in place of ``vm:``."""
    return with_factories(definition, lambda factory: replace(factory, url=url) if is_here(factory) else factory)


def bridge_reached_at(definition: BridgeDefinition, url: str) -> BridgeDefinition:
    """Return a bridge with the address of this broker in place of ``vm:``."""
    reached = reached_at(definition, url)
    assert isinstance(reached, BridgeDefinition)
    return reached
