"""Definitions of routes as plain values of JSON, for the way from a broker to the bridges' process."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

from spanwire.bridges.model.definition import BatchLimits, ConnectionFactory, RetryPolicy, Source, Target
from spanwire.bridges.model.directory import Directory
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.route_definition import FileSource, FileTarget, HttpTarget, RouteDefinition, TimerSource
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.secret import Secret
from spanwire.routes import model
from spanwire.routes.consumers import Consumers
from spanwire.routes.readers.nodes import Location

CLASS: Final = "$class"
DESTINATION: Final = "$destination"
SECRET: Final = "$secret"
TUPLE: Final = "$tuple"
CLASSES: Final[dict[str, type]] = {
    one.__name__: one
    for one in (
        *(RouteDefinition, Source, Target, ConnectionFactory, Directory, JavaFactory, BatchLimits),
        *(RetryPolicy, Location, Consumers),
        *(TimerSource, FileSource, FileTarget, HttpTarget),
        *(model.Endpoint, model.Expression, model.Filter, model.SetHeader, model.RemoveHeader, model.Transform),
        *(model.Choice, model.Multicast, model.To, model.SplitBody, model.Gather, model.Idempotent),
        *(model.Throttle, model.Delay, model.Log, model.Process),
    )
}


def plain_route(definition: RouteDefinition) -> dict[str, Any]:
    """Return a route as plain values."""
    return cast("dict[str, Any]", _plain(definition))


def is_plain_route(values: dict[str, Any]) -> bool:
    """Return True for the values of `plain_route`."""
    return values.get(CLASS) == RouteDefinition.__name__


def route_of(values: dict[str, Any]) -> RouteDefinition:
    """Return the route of the values of `plain_route`."""
    route = _value(values)
    assert isinstance(route, RouteDefinition)
    return route


def _plain(value: Any) -> Any:
    if isinstance(value, Destination):
        return {DESTINATION: value.qualified_name}
    if isinstance(value, Secret):
        return {SECRET: value.reveal()}
    if isinstance(value, tuple):
        return {TUPLE: [_plain(inner) for inner in value]}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if is_dataclass(value):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {CLASS: type(value).__name__, **plain}
    return value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(inner) for inner in plain]
    if not isinstance(plain, dict):
        return plain
    if DESTINATION in plain:
        return parse_destination(plain[DESTINATION])
    if SECRET in plain:
        return Secret(plain[SECRET])
    if TUPLE in plain:
        return tuple(_value(inner) for inner in plain[TUPLE])
    values = {name: _value(inner) for name, inner in plain.items() if name != CLASS}
    return CLASSES[plain[CLASS]](**values) if CLASS in plain else values
