"""Checks of a route before it starts."""

from __future__ import annotations

from collections.abc import Callable

from spanwire.bridges.engine.route_processor import RouteProcessor
from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.route_definition import RouteDefinition
from spanwire.bridges.ports import Provider
from spanwire.model.errors import ConfigurationError


def check_route(definition: RouteDefinition, provider_of: Callable[[str], Provider]) -> None:
    """Refuse a route that can never start: a step, the source or a target is wrong.

    Raises:
        ConfigurationError: the text names the route and the remedy.
    """
    RouteProcessor(definition)
    try:
        if isinstance(definition.source, Source):
            provider_of(definition.source.factory.provider).check_source(definition.source)
        for target in definition.targets:
            if isinstance(target, Target):
                provider_of(target.factory.provider).check_target(target)
    except ConfigurationError as error:
        raise ConfigurationError(f"route {definition.name}: {error}") from None
