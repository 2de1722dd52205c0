"""Endpoints of a route file that are brokers, as sources and targets of bridges and routes."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.files import parameters
from spanwire.bridges.files.selectors import checked_selector
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.model.secret import Secret
from spanwire.model.written_destination import written_destination
from spanwire.routes import providers
from spanwire.routes.model import PROVIDER, Endpoint, Route
from spanwire.routes.readers.nodes import Entry, Items, Mapping, Word

FACTORY: Final = ("url", "user", "password", *providers.STORES)
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
NAMES: Final = {"user": "userName"}  # words of a connection factory
DUPLICATES_OK: Final = "DUPLICATES_OK"


def check_options(route: Route, endpoint: Endpoint, known: tuple[str, ...]) -> None:
    """Refuse options that the engine embedded does not have. Raises `ConfigurationError`."""
    if endpoint.kind == PROVIDER:  # its reader has checked the names
        return
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
    factory = factory_of(endpoint)
    return Source(
        factory,
        written_destination(options["destination"]),
        checked_selector(options.get("selector"), factory.provider, endpoint.location),
        options.get("subscription"),
        options.get("clientId"),
    )


def target_of(route: Route, endpoint: Endpoint) -> Target:
    """Return a target of a route with steps. Raises `ConfigurationError`."""
    check_options(route, endpoint, (*TARGET_OPTIONS, *SEND_OPTIONS))
    _check_quality(route, endpoint)
    return Target(factory_of(endpoint), written_destination(endpoint.options["destination"]))


def _check_quality(route: Route, endpoint: Endpoint) -> None:
    quality = endpoint.options.get("qualityOfServiceMode", DUPLICATES_OK)
    if quality != DUPLICATES_OK:
        raise endpoint.location.error(
            f"{quality} is for a route from one destination to another without steps; the route {route.name} has steps "
            f"or several endpoints, which keep {DUPLICATES_OK} with the engine embedded"
        )


def factory_of(endpoint: Endpoint) -> ConnectionFactory:
    """Return the broker of an endpoint, with the login there. Raises `ConfigurationError`."""
    options = endpoint.options
    if endpoint.kind == PROVIDER:
        return parameters.factory_of(_words_of(endpoint), endpoint.uri.partition(":")[0])
    return ConnectionFactory(
        options["url"],
        options.get("user"),
        _secret(options, "password"),
        options.get("trustStore"),
        _secret(options, "trustStorePassword"),
        options.get("keyStore"),
        _secret(options, "keyStorePassword"),
    )


def _words_of(endpoint: Endpoint) -> Mapping:
    """Return the words of a connection factory in a file of bridges."""
    location = endpoint.location
    words = Mapping(location)
    words.entries[providers.WORD] = Entry(location, Word(location, endpoint.format))
    for name, value in endpoint.options.items():
        table, dot, key = name.partition(".")
        if dot:
            inner = words.entries.setdefault(table, Entry(location, Mapping(location))).value
            assert isinstance(inner, Mapping)
            inner.entries[key] = Entry(location, Word(location, value))
        elif name == providers.JAR_LIST:
            jars = Items(location, [Word(location, jar.strip()) for jar in value.split(",")])
            words.entries[name] = Entry(location, jars)
        elif name in providers.FACTORY:
            words.entries[NAMES.get(name, name)] = Entry(location, Word(location, value))
    return words


def _secret(options: dict[str, str], name: str) -> Secret | None:
    text = options.get(name)
    return None if text is None else Secret(text)
