"""Definitions of bridges as plain values of JSON, for the way from a broker to the bridges' process.

The values have the passwords, so the values travel through a pipe and stand in no file and on no command line.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from spanwire.bridges.files.route_json import is_plain_route, plain_route, route_of
from spanwire.bridges.model.definition import (
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.bridges.model.directory import Directory
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.steps import (
    AddDuplicateId,
    AppendMessageId,
    ClearReplyTo,
    Convert,
    DropTemporaryReplyTo,
    ProxyReplyTo,
    Step,
)
from spanwire.model.destination import parse_destination
from spanwire.model.secret import Secret
from spanwire.routes.consumers import Consumers

Plain = dict[str, Any]

SECRETS: Final = ("password", "trust_store_password", "key_store_password")
SECRET_PAIRS: Final = ("properties", "environment")
STEPS: Final[dict[str, type[Step]]] = {
    step.__name__: step
    for step in (AddDuplicateId, AppendMessageId, ClearReplyTo, DropTemporaryReplyTo, ProxyReplyTo, Convert)
}


def plain_definition(definition: Definition) -> Plain:
    """Return a definition as plain values."""
    if isinstance(definition, RouteDefinition):
        return plain_route(definition)
    return {
        **_plain(definition),
        "source": _plain_end(definition.source),
        "target": _plain_end(definition.target),
        "steps": [[type(step).__name__, _plain(step)] for step in definition.steps],
        "quality": definition.quality.value,
        "batch": _plain(definition.batch),
        "retry": _plain(definition.retry),
        "consumers": _plain(definition.consumers),
    }


def definition_of(values: Plain) -> Definition:
    """Return the definition of the values of `plain_definition`."""
    if is_plain_route(values):
        return route_of(values)
    parts = {
        "source": Source(**_end(values["source"])),
        "target": Target(**_end(values["target"])),
        "steps": tuple(STEPS[name](**fields) for name, fields in values["steps"]),
        "quality": Quality(values["quality"]),
        "batch": BatchLimits(**values["batch"]),
        "retry": RetryPolicy(**values["retry"]),
        "consumers": Consumers(**values["consumers"]),
    }
    return BridgeDefinition(**{**values, **parts})


def _plain_end(end: Source | Target) -> Plain:
    directory = end.factory.directory
    factory = {
        **_plain(end.factory),
        "directory": None if directory is None else _plain(directory),
        "java": None if end.factory.java is None else _plain_java(end.factory.java),
    }
    return {**_plain(end), "factory": factory, "destination": end.destination.qualified_name}


def _plain(value: Any) -> Plain:
    """Return the fields of a dataclass, with passwords as text."""
    plain: Plain = {}
    for field in fields(value):
        inner = getattr(value, field.name)
        plain[field.name] = inner.reveal() if isinstance(inner, Secret) else inner
    return plain


def _end(values: Plain) -> Plain:
    """Return the arguments for a source or a target."""
    factory = values["factory"]
    directory = factory["directory"]
    return {
        **values,
        "factory": ConnectionFactory(
            **{
                **factory,
                **_secrets(factory),
                "java": None if factory["java"] is None else _java(factory["java"]),
                "directory": None if directory is None else Directory(**{**directory, **_secrets(directory)}),
            }
        ),
        "destination": parse_destination(values["destination"]),
    }


def _secrets(values: Plain) -> dict[str, Secret]:
    return {name: Secret(values[name]) for name in SECRETS if values.get(name) is not None}


def _plain_java(java: JavaFactory) -> Plain:
    return {
        **_plain(java),
        **{name: [(key, value.reveal()) for key, value in getattr(java, name)] for name in SECRET_PAIRS},
    }


def _java(values: Plain) -> JavaFactory:
    pairs = {name: tuple((key, Secret(value)) for key, value in values[name]) for name in SECRET_PAIRS}
    return JavaFactory(**{**values, **pairs, "jars": tuple(values["jars"])})
