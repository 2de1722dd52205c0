"""Makes routes of nodes.

- brokers: {activemq: {url: …}}                    names for URIs; beans of Camel's components do the same
- errorHandler: {deadLetterChannel: {deadLetterUri: …}}
- route: {id: …, from: {uri: …, parameters: {…}, steps: […]}}
- from: {uri: …, steps: […]}                       a route without a name
- jmsBridge: {source: …, target: …}                the parameters of the JMS bridge, see `jms_bridge`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from typing import Final, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.routes.consumers import LEAST
from spanwire.routes.direct import without_direct
from spanwire.routes.endpoints import JDBC, NO_HOST, Broker, EndpointReader, Host, is_same_broker
from spanwire.routes.engines import check_engine
from spanwire.routes.masking import shown_name
from spanwire.routes.model import (
    ANY_ENGINE,
    BROKER,
    EMBEDDED,
    ENGINES,
    PROVIDER,
    SPARK,
    Aggregate,
    CallFunction,
    Deduplicate,
    Delay,
    Endpoint,
    Log,
    Patience,
    Route,
    Step,
    Throttle,
    branches_of,
    endpoints_of,
    is_branching,
)
from spanwire.routes.readers.beans import Bean, BeanReader, beans_of, brokers_of, with_overrides
from spanwire.routes.readers.camel_xml import CamelFile, read_camel_xml
from spanwire.routes.readers.jms_bridge import bridge_route
from spanwire.routes.readers.nodes import Entry, Location, Mapping, Node, Word, items_of, mapping_of
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.routes.steps import REMARKS, StepReader, parameters_of

MAX_ROUTES: Final = 100  # routes of a file; each is a query with its own workers
ROUTE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # also the name of a directory
TOP_WORDS: Final = ("route", "from", "jmsBridge", "brokers", "beans", "errorHandler")
ROUTE_WORDS: Final = ("id", "engine", "from", "errorHandler", "deadLetter", "autoStartup", "description")
FROM_WORDS: Final = ("uri", "parameters", "steps", *REMARKS)
XML_SUFFIX: Final = ".xml"
YAML_EXTRA: Final = "yaml"
YamlReader = Callable[[bytes, str], Node]

COMMANDS: Final = {SPARK: "spanwire pipeline run", EMBEDDED: "spanwire bridge run"}


@dataclass(frozen=True, slots=True)
class RouteFile:
    """The routes of a file with unique names; ``warnings`` name parts of the file without effect."""

    file: str
    routes: list[Route]
    warnings: list[str]
    refusals: list[str] = field(default_factory=list)  # what the engine embedded refuses of the beans

    def only(self, engine: str) -> RouteFile:
        """Return the routes of one engine and routes without an engine, with a warning for each other route.

        Raises:
            ConfigurationError: no route has the engine, or the engine cannot run a route.
        """
        chosen = [route for route in self.routes if route.engine in (engine, ANY_ENGINE)]
        if not chosen:
            first = self.routes[0]
            raise first.location.error(
                f"there is no route with engine: {engine}; run them with {COMMANDS[first.engine]}"
            )
        if engine == EMBEDDED and self.refusals:
            raise ConfigurationError("\n".join(self.refusals))
        for route in chosen:
            check_engine(route, engine)
        others = [
            str(
                route.location.error(
                    f"the route {route.name} has engine: {route.engine}, so {COMMANDS[route.engine]} runs it"
                )
            )
            for route in self.routes
            if route.engine not in (engine, ANY_ENGINE)
        ]
        if engine == SPARK:
            others += [
                str(route.location.error(f"{LEAST} of {route.source.uri} has no effect: Spark decides about its tasks"))
                for route in chosen
                if route.source.consumers.most > 1
            ]
        return RouteFile(self.file, chosen, [*self.warnings, *others], self.refusals)

    def functions(self) -> list[CallFunction]:
        """Return all Python functions called by routes."""
        calls: list[CallFunction] = []
        for route in self.routes:
            calls += _function_calls(route.steps)
        return calls


def read_routes(
    content: bytes,
    file: str,
    placeholders: Placeholders,
    overrides: AnyMapping[str, str] | None = None,
    host: Host = NO_HOST,
) -> RouteFile:
    """Return the routes of a YAML or XML file.

    ``overrides`` are URLs of brokers by name. ``host`` is the broker that runs the routes, if there is one.

    Raises:
        ConfigurationError: the file is faulty, or PyYAML is not installed; the error is one line.
    """
    if file.endswith(XML_SUFFIX) or content.lstrip().startswith(b"<"):
        return routes_of(read_camel_xml(content, file), file, placeholders, overrides, host)
    try:
        read_yaml = cast(YamlReader, registry.load(registry.YAML_READER))
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"{file}: a route file in YAML needs the extra {YAML_EXTRA}, which is not installed; "
            f"run: {install_command(YAML_EXTRA)}"
        ) from None
    return _Parser(placeholders.fill(read_yaml(content, file)), file, overrides or {}, [], host).routes()


def routes_of(
    camel: CamelFile,
    file: str,
    placeholders: Placeholders,
    overrides: AnyMapping[str, str] | None = None,
    host: Host = NO_HOST,
) -> RouteFile:
    """Return the routes of Camel's XML; see `read_routes`.

    ``file`` is the name for an error without a line.
    """
    node = placeholders.fill(camel.node, is_spring=True)
    return _Parser(node, file, overrides or {}, camel.warnings, host).routes()


class _Parser:
    """Reads one file: names first, then routes."""

    def __init__(self, node: Node, file: str, overrides: AnyMapping[str, str], warnings: list[str], host: Host) -> None:
        self._file: Final = file
        self._host: Final = host
        self._warnings: Final = warnings
        entries: list[tuple[str, Entry]] = []
        for item in items_of(node, "a route file"):
            mapping = mapping_of(item, "a member of a route file")
            mapping.check("word of a route file", TOP_WORDS)
            entries += list(mapping.entries.items())
        self._entries: Final = entries
        brokers: dict[str, Broker] = {}
        beans: dict[str, Bean] = {}
        for name, entry in entries:
            if name == "brokers":
                brokers |= brokers_of(entry.value)
            elif name == "beans":
                beans |= beans_of(entry.value)
        components = BeanReader(beans, host)
        brokers |= components.brokers(overrides)
        warnings += components.warnings
        self._refusals: Final = components.refusals
        self._endpoints: Final = EndpointReader(with_overrides(brokers, overrides, file), host)
        self._steps: Final = StepReader(self._endpoints, {name: bean.type for name, bean in beans.items()})

    def routes(self) -> RouteFile:
        dead_letters: Endpoint | None = None
        for name, entry in self._entries:
            if name == "errorHandler":
                dead_letters = self._error_handler(entry.value, entry.location)
        routes: list[Route] = []
        count = 0
        for name, entry in self._entries:
            if name in ("route", "from", "jmsBridge"):
                count += 1
                routes += self._routes_of(name, entry.value, f"{self._host.prefix}route{count}", dead_letters)
        if not routes:
            raise Location(self._file, 1).error(
                "there is no route with autoStartup" if count else "there is no route, and no bean of JMSBridgeImpl"
            )
        if len(routes) > MAX_ROUTES:
            raise routes[MAX_ROUTES].location.error(f"more than {MAX_ROUTES} routes")
        routes = without_direct(routes)
        if not routes:
            raise Location(self._file, 1).error("all routes are from direct:, and no other route calls them")
        names: set[str] = set()
        for route in routes:
            _check(route, names)
            _drop_foreign_replies(route)
        return RouteFile(self._file, routes, self._warnings, self._refusals)

    def _routes_of(self, name: str, node: Node, default: str, dead_letters: Endpoint | None) -> list[Route]:
        """Return the route of an entry, or no route with autoStartup=false."""
        if name == "from":
            return [self._from(node, default, dead_letters)]
        if name == "jmsBridge":
            return [self._bridge(mapping_of(node, name), default, dead_letters)]
        route = self._route(node, default, dead_letters)
        if self._host.names:
            return [replace(route, is_started=_is_started(mapping_of(node, name)))]
        return [route] if self._runs(mapping_of(node, name), route) else []

    def _runs(self, mapping: Mapping, route: Route) -> bool:
        is_started = _is_started(mapping)
        if not is_started:
            self._warnings.append(str(route.location.error(f"{route.name} has autoStartup=false, so it is not run")))
        return is_started

    def _error_handler(self, node: Node, location: Location) -> Endpoint:
        handler = mapping_of(node, "errorHandler")
        handler.check("word of errorHandler", ("deadLetterChannel", *REMARKS))
        channel = handler.node("deadLetterChannel")
        if channel is None:
            raise location.error("errorHandler needs deadLetterChannel")
        channel_mapping = mapping_of(channel, "deadLetterChannel")
        channel_mapping.check("word of deadLetterChannel", ("deadLetterUri", "parameters", *REMARKS))
        uri = channel_mapping.require("deadLetterUri", "deadLetterChannel")
        return self._endpoints.target(uri, parameters_of(channel_mapping), channel_mapping.location)

    def _route(self, node: Node, default: str, dead_letters: Endpoint | None) -> Route:
        mapping = mapping_of(node, "route")
        mapping.check("word of route", ROUTE_WORDS)
        source = mapping.node("from")
        if source is None:
            raise mapping.location.error("a route needs from")
        route = self._from(source, mapping.text("id") or default, self._dead_letters(mapping, dead_letters))
        return replace(route, engine=_engine(mapping))

    def _bridge(self, words: Mapping, default: str, dead_letters: Endpoint | None) -> Route:
        route = bridge_route(words, self._endpoints, default)
        return replace(route, dead_letters=self._dead_letters(words, dead_letters), engine=_engine(words))

    def _dead_letters(self, mapping: Mapping, default: Endpoint | None) -> Endpoint | None:
        """Return the dead-letter endpoint of the route, or else of the file."""
        handler, target = mapping.node("errorHandler"), mapping.node("deadLetter")
        if target is not None:
            return self._steps.endpoint(target, mapping.location)
        return default if handler is None else self._error_handler(handler, mapping.location)

    def _from(self, node: Node, name: str, dead_letters: Endpoint | None) -> Route:
        if isinstance(node, Word):
            raise node.location.error("from must hold uri and steps")
        mapping = mapping_of(node, "from")
        mapping.check("word of from", FROM_WORDS)
        name = mapping.text("id") or name
        source = self._endpoints.source(mapping.require("uri", "from"), parameters_of(mapping), mapping.location, name)
        return Route(mapping.location, name, source, self._steps.steps(mapping.node("steps")), dead_letters, Patience())


def _is_started(mapping: Mapping) -> bool:
    text = (mapping.text("autoStartup") or "true").lower()
    if text not in ("true", "false"):
        raise mapping.entries["autoStartup"].location.error(f"autoStartup is {text[:60]!r}, neither true nor false")
    return text == "true"


def _engine(words: Mapping) -> str:
    engine = words.text("engine") or ANY_ENGINE
    if engine and engine not in ENGINES:
        raise words.entries["engine"].location.unknown("engine", engine, ENGINES)
    return engine


def _check(route: Route, names: set[str]) -> None:
    if ROUTE_NAME.fullmatch(route.name) is None:
        raise route.location.error(
            f"the id {shown_name(route.name)[:60]!r} may hold letters, digits, dots, dashes and _ only"
        )
    if route.source.format == JDBC:
        raise route.source.location.error("a jdbc table is no source of a route; read it as the table of a join")
    if route.name in names:
        raise route.location.error(f"there are two routes {route.name!r}")
    names.add(route.name)
    if not endpoints_of(route.steps) and not any(isinstance(step, Log) for step in route.steps):
        raise route.location.error(f"the route {route.name!r} has no endpoint; add a step to")
    _check_state(route.steps, may_keep=True)
    if route.dead_letters is not None:
        _check_dead_letters(route.steps)


def _drop_foreign_replies(route: Route) -> None:
    """Drop temporary reply destinations of messages for another broker without such a destination."""
    endpoints = endpoints_of(route.steps) + ([] if route.dead_letters is None else [route.dead_letters])
    for endpoint in endpoints:
        if _is_broker(route.source) and _is_broker(endpoint) and not is_same_broker(route.source, endpoint):
            endpoint.options.setdefault("dropTemporaryReplyTo", "true")


def _is_broker(endpoint: Endpoint) -> bool:
    return endpoint.kind in (BROKER, PROVIDER)


def _check_dead_letters(steps: list[Step]) -> None:
    """Check that steps with state precede functions: failed rows leave the batch at a function."""
    has_function = False
    for step in steps:
        has_function = has_function or isinstance(step, CallFunction)
        if has_function and isinstance(step, (Aggregate, Deduplicate)):
            raise step.location.error("with dead letters, put functions after aggregate and deduplicate")


def _check_state(steps: list[Step], may_keep: bool) -> None:
    """Check that steps with state precede the first endpoint or branch, and share one watermark, as Spark demands."""
    first: Aggregate | Deduplicate | None = None
    for step in steps:
        if isinstance(step, (Aggregate, Deduplicate)):
            first = first or step
            if (step.watermark, step.time) != (first.watermark, first.time):
                raise step.location.error(
                    f"a route has one watermark: write {first.watermark} of {first.time} here, as in the step before"
                )
        if isinstance(step, (Aggregate, Deduplicate)) and not may_keep:
            raise step.location.error("put aggregate and deduplicate before the first to, wireTap or branch of a route")
        if isinstance(step, (Delay, Throttle)) and not may_keep:
            raise step.location.error("put delay and throttle before the first to, wireTap or branch of a route")
        if is_branching(step):
            may_keep = False
        for branch in branches_of(step):
            _check_state(branch, may_keep=False)


def _function_calls(steps: list[Step]) -> list[CallFunction]:
    calls: list[CallFunction] = []
    for step in steps:
        if isinstance(step, CallFunction):
            calls.append(step)
        for branch in branches_of(step):
            calls += _function_calls(branch)
    return calls
