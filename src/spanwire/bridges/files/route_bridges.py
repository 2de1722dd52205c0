"""Routes of a route file whose engine is ``embedded``, as bridges.

A route is a bridge if it takes messages from one destination of a broker to one other, such as a ``jmsBridge``. Other
endpoints, and steps that no bridge has yet, are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spanwire.bridges.model.definition import (
    DEFAULT_BATCH_SIZE,
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.bridges.model.qualities import is_same_broker
from spanwire.bridges.model.steps import AppendMessageId, DropTemporaryReplyTo
from spanwire.bridges.model.steps import Step as BridgeStep
from spanwire.model.secret import Secret
from spanwire.model.written_destination import written_destination
from spanwire.routes.bridge_parameters import FOREVER
from spanwire.routes.model import APPENDED_IDS, BROKER, Endpoint, Route, SetHeader, Step, To

STORES: Final = ("trustStore", "trustStorePassword", "keyStore", "keyStorePassword")
FACTORY: Final = ("url", "user", "password", *STORES)
# Options of the data source with a meaning here.
SOURCE_OPTIONS: Final = (
    *FACTORY,
    "destination",
    "clientId",
    "selector",
    "subscription",
    "subscriptionDurable",
    "maxRowsPerBatch",
    "qualityOfServiceMode",
)
BATCH_TIME: Final = "maxBatchMs"  # what maxBatchTime of a jmsBridge is to Spark; here the parameter itself counts
TARGET_OPTIONS: Final = (*FACTORY, "destination", "qualityOfServiceMode", "dropTemporaryReplyTo")


def bridges_of(routes: Iterable[Route]) -> list[BridgeDefinition]:
    """Return the bridges of routes.

    Raises:
        ConfigurationError: a route has an endpoint, a step or an option that no bridge has.
    """
    return [bridge_of_route(route) for route in routes]


def bridge_of_route(route: Route) -> BridgeDefinition:
    """Return the bridge of a route; see `bridges_of`."""
    if route.dead_letters is not None:
        raise route.location.error(
            f"the route {route.name} has a dead letter endpoint, which the engine embedded does not use: the broker of "
            "the source makes such messages dead letters; remove it"
        )
    target_endpoint = _target_of(route)
    has_quiet_time = route.bridge is not None and route.bridge.quiet_ms is not None
    _check(route, route.source, (*SOURCE_OPTIONS, BATCH_TIME) if has_quiet_time else SOURCE_OPTIONS)
    _check(route, target_endpoint, TARGET_OPTIONS)
    options = route.source.options
    source = Source(
        _factory(options),
        written_destination(options["destination"]),
        options.get("selector"),
        options.get("subscription"),
        options.get("clientId"),
    )
    target = Target(_factory(target_endpoint.options), written_destination(target_endpoint.options["destination"]))
    definition = BridgeDefinition(
        route.name,
        source,
        target,
        _steps(route.steps),
        Quality(target_endpoint.options.get("qualityOfServiceMode", Quality.DUPLICATES_OK.value)),
        _batch(route),
        _retry(route),
    )
    if is_same_broker(definition):
        return definition
    return replace(definition, steps=(*definition.steps, DropTemporaryReplyTo()))


def _batch(route: Route) -> BatchLimits:
    size = int(route.source.options.get("maxRowsPerBatch", DEFAULT_BATCH_SIZE))
    return BatchLimits(size, None if route.bridge is None else route.bridge.quiet_ms)


def _retry(route: Route) -> RetryPolicy:
    if route.bridge is not None:
        return RetryPolicy(route.bridge.max_retries, route.bridge.interval_ms)
    return RetryPolicy(FOREVER, FOREVER)  # as Camel's, with growing pauses


def _target_of(route: Route) -> Endpoint:
    """Return the only endpoint of a route that ends with it."""
    last = route.steps[-1]
    if not isinstance(last, To) or last.is_tap:
        raise route.location.error(f"the route {route.name} does not end with to, which the engine embedded needs")
    for step in route.steps[:-1]:
        if not is_id_list(step):
            raise route.location.error(
                f"the route {route.name} has a step that the engine embedded does not have yet: {type(step).__name__}; "
                "run it with engine: spark"
            )
    for endpoint in (route.source, last.endpoint):
        if endpoint.kind != BROKER:
            raise endpoint.location.error(
                f"the engine embedded reaches brokers alone, not {endpoint.format}; run the route {route.name} with "
                "engine: spark"
            )
    return last.endpoint


def is_id_list(step: Step) -> bool:
    """Return True for the step of ``addMessageIDInHeader``."""
    return isinstance(step, SetHeader) and step.value.text == APPENDED_IDS


def _steps(steps: list[Step]) -> tuple[BridgeStep, ...]:
    return tuple(AppendMessageId() for step in steps if is_id_list(step))


def _check(route: Route, endpoint: Endpoint, known: tuple[str, ...]) -> None:
    for name in endpoint.options:
        if name not in known:
            raise endpoint.location.error(
                f"the engine embedded has no option {name}; remove it, or run the route {route.name} with engine: spark"
            )


def _factory(options: dict[str, str]) -> ConnectionFactory:
    return ConnectionFactory(
        options["url"],
        options.get("user"),
        _secret(options, "password"),
        options.get("trustStore"),
        _secret(options, "trustStorePassword"),
        options.get("keyStore"),
        _secret(options, "keyStorePassword"),
    )


def _secret(options: dict[str, str], name: str) -> Secret | None:
    text = options.get(name)
    return None if text is None else Secret(text)
