"""Routes of a route file for the engine ``embedded``, as bridges or as routes of single messages.

A route is a bridge if the route takes messages unchanged from one destination of a broker to another, such as a
``jmsBridge``. A bridge has all qualities of service.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spanwire.bridges.files.endpoint_options import (
    SEND_OPTIONS,
    SOURCE_OPTIONS,
    TARGET_OPTIONS,
    check_options,
    factory_of,
)
from spanwire.bridges.files.route_definitions import route_definition
from spanwire.bridges.files.selectors import checked_selector
from spanwire.bridges.model.definition import (
    DEFAULT_BATCH_SIZE,
    BatchLimits,
    BridgeDefinition,
    Quality,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.bridges.model.qualities import is_same_broker
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.model.steps import AppendMessageId, DropTemporaryReplyTo
from spanwire.bridges.model.steps import Step as BridgeStep
from spanwire.model.written_destination import written_destination
from spanwire.routes.model import BROKER, PROVIDER, Endpoint, Route, SetHeader, Step, To, is_id_list
from spanwire.routes.readers.bridge_parameters import FOREVER

BATCH_TIME: Final = "maxBatchMs"  # what maxBatchTime of a jmsBridge is to Spark; here the parameter itself counts


def bridges_of(routes: Iterable[Route]) -> list[Definition]:
    """Return the bridges and routes of a file.

    Raises:
        ConfigurationError: a route has an endpoint, a step or an option that the engine embedded does not have.
    """
    return [definition_of_route(route) for route in routes]


def definition_of_route(route: Route) -> Definition:
    """Return the bridge or the route of one route; see `bridges_of`."""
    target = _only_target(route)
    if target is None:
        if route.bridge is not None:
            raise route.location.error(
                f"the bridge {route.name} has a dead letter endpoint, which the engine embedded does not use: the "
                "broker of the source makes such messages dead letters; remove it"
            )
        return route_definition(route)
    return _bridge(route, target)


def _bridge(route: Route, target_endpoint: Endpoint) -> BridgeDefinition:
    has_quiet_time = route.bridge is not None and route.bridge.quiet_ms is not None
    check_options(route, route.source, (*SOURCE_OPTIONS, BATCH_TIME) if has_quiet_time else SOURCE_OPTIONS)
    check_options(route, target_endpoint, TARGET_OPTIONS)
    options = route.source.options
    factory = factory_of(route.source)
    source = Source(
        factory,
        written_destination(options["destination"]),
        checked_selector(options.get("selector"), factory.provider, route.source.location),
        options.get("subscription"),
        options.get("clientId"),
    )
    target = Target(factory_of(target_endpoint), written_destination(target_endpoint.options["destination"]))
    definition = BridgeDefinition(
        route.name,
        source,
        target,
        _steps(route.steps),
        Quality(target_endpoint.options.get("qualityOfServiceMode", Quality.DUPLICATES_OK.value)),
        _batch(route),
        _retry(route),
        route.is_started,
        route.source.consumers,
        str(route.location),
    )
    if is_same_broker(definition):
        return definition
    return replace(definition, steps=(*definition.steps, DropTemporaryReplyTo()))


def _batch(route: Route) -> BatchLimits:
    size = int(route.source.options.get("maxRowsPerBatch", DEFAULT_BATCH_SIZE))
    return BatchLimits(size, None if route.bridge is None else route.bridge.quiet_ms)


def _retry(route: Route) -> RetryPolicy:
    if route.bridge is not None:
        return RetryPolicy(route.bridge.max_retries, route.bridge.interval_ms, failover_ms=route.bridge.failover_ms)
    return RetryPolicy(FOREVER, FOREVER)  # as Camel's, with growing pauses


def _only_target(route: Route) -> Endpoint | None:
    """Return the endpoint of a route for forwarding only; None for any other route."""
    if route.dead_letters is not None or not route.steps:
        return None
    last = route.steps[-1]
    if not isinstance(last, To) or last.is_tap or not all(is_id_list(step) for step in route.steps[:-1]):
        return None
    if not {route.source.kind, last.endpoint.kind} <= {BROKER, PROVIDER}:
        return None
    options = last.endpoint.options
    if last.endpoint.kind == PROVIDER:
        is_plain = not any(name in SEND_OPTIONS for name in options)
    else:
        is_plain = all(name in TARGET_OPTIONS for name in options)
    return last.endpoint if is_plain or route.bridge is not None else None


def _steps(steps: list[Step]) -> tuple[BridgeStep, ...]:
    return tuple(AppendMessageId(step.name) for step in steps if isinstance(step, SetHeader) and is_id_list(step))
