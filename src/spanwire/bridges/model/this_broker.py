"""This broker as source or target of a bridge in its own configuration.

The bridges of a broker run in a process beside it, so ``vm:`` in a definition stands for an address where the broker
listens. The broker fills in the address once its ports are open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory

THIS_BROKER: Final = "vm:"  # URL of the broker whose configuration has the bridge


def is_here(factory: ConnectionFactory) -> bool:
    """Return True for a factory of the broker whose configuration has the bridge."""
    return factory.url == THIS_BROKER


def reached_at(definition: BridgeDefinition, url: str) -> BridgeDefinition:
    """Return a definition with the address of this broker in place of ``vm:``."""
    source, target = definition.source, definition.target
    if is_here(source.factory):
        source = replace(source, factory=replace(source.factory, url=url))
    if is_here(target.factory):
        target = replace(target, factory=replace(target.factory, url=url))
    return replace(definition, source=source, target=target)
