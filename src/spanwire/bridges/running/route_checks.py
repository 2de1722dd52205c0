"""Checks of a route before the start."""

from __future__ import annotations

from collections.abc import Callable

from spanwire.bridges.engine.route_processor import RouteProcessor
from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.qualities import check_receipt, unacknowledged
from spanwire.bridges.model.route_definition import RouteDefinition
from spanwire.bridges.ports import Provider
from spanwire.model.errors import ConfigurationError
from spanwire.routes.model import To


def is_loop(source: Source, target: Target) -> bool:
    """Return True if target and source are the same."""
    one, other = source.factory, target.factory
    return one.url == other.url and one.java == other.java and source.destination == target.destination


def check_route(definition: RouteDefinition, provider_of: Callable[[str], Provider]) -> None:
    """Refuse a route that can never start: a step, the source or a target is wrong.

    Raises:
        ConfigurationError: the text names the route and the remedy.
    """
    RouteProcessor(definition)
    source = definition.source
    for step in definition.steps:
        target = definition.targets[definition.endpoints.index(step.endpoint)] if isinstance(step, To) else None
        if isinstance(source, Source) and isinstance(target, Target) and is_loop(source, target):
            raise ConfigurationError(
                f"route {definition.name}: each message of {source.destination} would go round to itself; name another "
                "destination"
            )
    try:
        if isinstance(source, Source):
            provider = provider_of(source.factory.provider)
            provider.check_source(source)
            check_receipt(source, definition.batch, provider.describe())
            check_acknowledgements(provider)
        for target in definition.targets:
            if isinstance(target, Target):
                provider = provider_of(target.factory.provider)
                provider.check_target(target)
                check_acknowledgements(provider)
    except ConfigurationError as error:
        raise ConfigurationError(f"route {definition.name}: {error}") from None


def check_acknowledgements(provider: Provider) -> None:
    """Refuse a provider that may lose messages, because a route loses none. Raises `ConfigurationError`."""
    described = provider.describe()
    if not described.acknowledgements:
        raise ConfigurationError(f"{unacknowledged(described)}, and a route loses none; use a bridge with AT_MOST_ONCE")
