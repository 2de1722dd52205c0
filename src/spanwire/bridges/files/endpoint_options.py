"""Endpoints of a route file that are brokers, as sources and targets of bridges and routes."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.model.secret import Secret
from spanwire.model.written_destination import written_destination
from spanwire.routes.model import Endpoint, Route

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
SEND_OPTIONS: Final = ("persistent", "priority", "timeToLiveMs")
TARGET_OPTIONS: Final = (*FACTORY, "destination", "qualityOfServiceMode", "dropTemporaryReplyTo")
DUPLICATES_OK: Final = "DUPLICATES_OK"


def check_options(route: Route, endpoint: Endpoint, known: tuple[str, ...]) -> None:
    """Refuse options that the engine embedded does not have. Raises `ConfigurationError`."""
    for name in endpoint.options:
        if name not in known:
            raise endpoint.location.error(
                f"the engine embedded has no option {name}; remove it, or run the route {route.name} with engine: spark"
            )


def source_of(route: Route, endpoint: Endpoint) -> Source:
    """Return the source of a route with steps. Raises `ConfigurationError`."""
    check_options(route, endpoint, SOURCE_OPTIONS)
    _check_quality(route, endpoint)
    options = endpoint.options
    return Source(
        factory_of(options),
        written_destination(options["destination"]),
        options.get("selector"),
        options.get("subscription"),
        options.get("clientId"),
    )


def target_of(route: Route, endpoint: Endpoint) -> Target:
    """Return a target of a route with steps. Raises `ConfigurationError`."""
    check_options(route, endpoint, (*TARGET_OPTIONS, *SEND_OPTIONS))
    _check_quality(route, endpoint)
    return Target(factory_of(endpoint.options), written_destination(endpoint.options["destination"]))


def _check_quality(route: Route, endpoint: Endpoint) -> None:
    quality = endpoint.options.get("qualityOfServiceMode", DUPLICATES_OK)
    if quality != DUPLICATES_OK:
        raise endpoint.location.error(
            f"{quality} is for a route from one destination to another without steps; the route {route.name} has steps "
            f"or several endpoints, which keep {DUPLICATES_OK} with the engine embedded"
        )


def factory_of(options: dict[str, str]) -> ConnectionFactory:
    """Return the broker of an endpoint, with the login there."""
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
