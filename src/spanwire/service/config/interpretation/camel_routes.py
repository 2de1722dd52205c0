"""Interprets the Camel routes of a broker: each becomes a bridge in the process of the bridges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.model.qualities import is_distributed
from spanwire.bridges.model.route_definition import Definition, error_about
from spanwire.bridges.model.this_broker import reached_at
from spanwire.bridges.running.process import check_bridge
from spanwire.documents.element import Element
from spanwire.model.errors import ConfigurationError
from spanwire.routes.endpoints import ANY_URL, COMPONENT_PROPERTY, Host
from spanwire.routes.model import EMBEDDED
from spanwire.routes.readers.camel_xml import camel_file
from spanwire.routes.readers.parsing import routes_of
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.service.config.readers.properties import UnknownPlaceholderError, Variables
from spanwire.service.config.values.diagnostics import Findings


class VariableMapping(Mapping[str, str]):
    """The values of a broker's placeholders by name."""

    def __init__(self, variables: Variables) -> None:
        self._variables: Final = variables

    def __getitem__(self, name: str) -> str:
        """Return the value; raises `KeyError`."""
        try:
            return self._variables.replace(f"${{{name}}}")
        except UnknownPlaceholderError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        """Return the names, without those of the environment."""
        return iter(self._variables.names())

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._variables.names())


def check_in_broker(definition: Definition) -> None:
    """Refuse a bridge or route that cannot run beside a broker.

    Raises:
        ConfigurationError: the text names the bridge and the remedy.
    """
    check_bridge(reached_at(definition, ANY_URL))
    if is_distributed(definition):
        raise error_about(
            definition,
            f"{definition.name}: ONCE_AND_ONLY_ONCE between two brokers is not for routes of a broker; run its file "
            "with spanwire bridge run",
        )


def read_camel_contexts(
    documents: list[tuple[Element, str]],
    findings: Findings,
    variables: Variables,
    names: Iterable[str],
    taken: Iterable[str],
) -> tuple[Definition, ...]:
    """Return the routes of a broker's documents as bridges; faults are in the findings.

    ``names`` are those of the broker behind ``vm://``. ``taken`` are the names of its other bridges.
    """
    values = VariableMapping(variables)
    try:
        camel = camel_file(documents)
        if not camel.has_routes:
            findings.warn(documents[0][0].line, "the components of Camel have no effect: there is no route")
            return ()
        overrides = {
            match[1]: values[name] for name in values if (match := COMPONENT_PROPERTY.fullmatch(name)) is not None
        }
        file = routes_of(
            camel, findings.source, Placeholders(values, variables.environment), overrides, Host(frozenset(names))
        )
        definitions = tuple(bridges_of(file.only(EMBEDDED).routes))
        for definition in definitions:
            check_in_broker(definition)
    except ConfigurationError as error:
        findings.add_obstacle(str(error))
        return ()
    for warning in file.warnings:
        findings.add_warning(warning)
    doubled = {definition.name for definition in definitions} & set(taken)
    if doubled:
        findings.add_obstacle(f"{findings.source}: a route and a bridge are named {min(doubled)!r}; names must differ")
    return definitions
