"""Routes of a route file as routes that run message by message."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from spanwire.bridges.files.endpoint_options import source_of, target_of
from spanwire.bridges.model.definition import DEFAULT_BATCH_SIZE, BatchLimits, RetryPolicy
from spanwire.bridges.model.route_definition import (
    FileSource,
    FileTarget,
    HttpTarget,
    RouteDefinition,
    RouteSource,
    RouteTarget,
    TimerSource,
)
from spanwire.client.addressing.redaction import redacted
from spanwire.model.errors import ConfigurationError
from spanwire.routes.model import BROKER, PROVIDER, Endpoint, Route, endpoints_of
from spanwire.routes.readers.bridge_parameters import FOREVER
from spanwire.routes.simple import parse_template

HTTP: Final = ("http", "https")
METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
EXISTS: Final = ("Override", "Append", "Fail", "Ignore")
BOOLEANS: Final = {"true": True, "false": False}
MAX_MS: Final = 86_400_000  # milliseconds; a day
MAX_COUNT: Final = 1_000_000_000
SLOW_BATCH: Final = 100  # messages of a file or HTTP target in one batch, which may be sent twice after a failure
HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
REQUESTED: Final = re.compile(r"[!-~]*")  # characters that a request may have in its path
TIME: Final = re.compile(r"(\d+)(ms|s|m|h)?")
UNITS: Final = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def route_definition(route: Route) -> RouteDefinition:
    """Return the definition of a route.

    Raises:
        ConfigurationError: an endpoint has an option that the engine embedded does not have.
    """
    endpoints: list[Endpoint] = []
    for endpoint in [*endpoints_of(route.steps), *([] if route.dead_letters is None else [route.dead_letters])]:
        if endpoint not in endpoints:
            endpoints.append(endpoint)
    targets = [_target(route, endpoint) for endpoint in endpoints]
    size = int(route.source.options.get("maxRowsPerBatch", DEFAULT_BATCH_SIZE))
    if any(isinstance(target, (FileTarget, HttpTarget)) for target in targets):
        size = min(size, SLOW_BATCH)
    return RouteDefinition(
        route.name,
        _source(route, route.source),
        route.steps,
        endpoints,
        targets,
        None if route.dead_letters is None else endpoints.index(route.dead_letters),
        BatchLimits(size),
        RetryPolicy(FOREVER, FOREVER),
        route.is_started,
        route.source.consumers,
        str(route.location),
    )


def _source(route: Route, endpoint: Endpoint) -> RouteSource:
    if endpoint.kind in (BROKER, PROVIDER):
        return source_of(route, endpoint)
    options = _Options(endpoint)
    if endpoint.format == "timer":
        options.check(("period", "delay", "repeatCount", "fixedRate"))
        return TimerSource(
            endpoint.destination or route.name,
            options.time("period", 1_000, 1),
            options.time("delay", 1_000, 0),
            options.number("repeatCount", 0, 0, MAX_COUNT),
        )
    if endpoint.format == "file":
        options.check(("delete", "move", "moveFailed", "include", "delay", "initialDelay"))
        move = options.name("move", ".camel")
        failed = options.name("moveFailed", ".error")
        include = options.text("include")
        if include is not None:
            try:
                re.compile(include)
            except re.error as error:
                raise endpoint.location.error(f"include {include[:60]!r} is no regular expression: {error}") from None
        directory = options.directory()
        return FileSource(directory, options.flag("delete"), move, failed, include, options.time("delay", 500, 10))
    raise endpoint.location.error(f"{endpoint.format} is a target, and no source of a route")


def _target(route: Route, endpoint: Endpoint) -> RouteTarget:
    if endpoint.kind in (BROKER, PROVIDER):
        return target_of(route, endpoint)
    options = _Options(endpoint)
    if endpoint.format == "file":
        options.check(("fileName", "fileExist", "charset"))
        name = options.text("fileName") or ""
        try:
            parse_template(name)
        except ConfigurationError as error:
            raise endpoint.location.error(f"fileName: {error}") from None
        return FileTarget(options.directory(), name, options.one_of("fileExist", EXISTS))
    if endpoint.format in HTTP:
        options.check(("httpMethod", "connectTimeout", "bridgeEndpoint"))
        url = f"{endpoint.format}:{endpoint.options['path']}"
        if not url.startswith(f"{endpoint.format}://"):
            url = f"{endpoint.format}://{endpoint.options['path']}"
        _check_url(endpoint, url)
        return HttpTarget(url, options.one_of("httpMethod", METHODS), options.time("connectTimeout", 30_000, 1))
    raise endpoint.location.error(f"{endpoint.format} is a source, and no target of a route")


def _check_url(endpoint: Endpoint, url: str) -> None:
    """Refuse a URL to which no request can be sent."""
    try:
        parts = urlsplit(url)
        is_right = parts.port != 0 and HOST.fullmatch((parts.hostname or "").encode("idna").decode()) is not None
    except ValueError:  # of the port, the brackets of IPv6, or a name that DNS cannot have
        is_right = False
    if not is_right:
        raise endpoint.location.error(f"{redacted(url)} names no host, or a wrong host or port")
    if not REQUESTED.fullmatch(parts.path + parts.query):
        raise endpoint.location.error(f"{redacted(url)}: write spaces and letters beyond ASCII in the path as %XX")


class _Options:
    """The options of one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint

    def check(self, known: tuple[str, ...]) -> None:
        """Refuse unknown options."""
        for name in self._endpoint.options:
            if name not in known and name != "path":
                raise self._endpoint.location.unknown(f"option of {self._endpoint.format}", name, known)

    def text(self, name: str) -> str | None:
        """Return an option as it is."""
        return self._endpoint.options.get(name)

    def directory(self) -> str:
        """Return the directory of a file endpoint."""
        path = self._endpoint.options["path"]
        if not path.startswith("/"):
            raise self._endpoint.location.error(
                f"file:{path[:60]} must name a whole path, such as file:/var/spool/orders"
            )
        return path

    def name(self, option: str, default: str) -> str:
        """Return an option that is the name of a directory below."""
        text = self.text(option) or default
        if "/" in text or "$" in text or text in (".", ".."):
            raise self._endpoint.location.error(f"{option} is {text[:60]!r}; it must be the name of a directory below")
        return text

    def flag(self, name: str) -> bool:
        """Return an option that is true or false; false by default."""
        value = BOOLEANS.get((self.text(name) or "false").lower())
        if value is None:
            raise self._endpoint.location.error(f"{name} is neither true nor false")
        return value

    def one_of(self, name: str, known: tuple[str, ...]) -> str:
        """Return an option out of known words; the first one by default."""
        text = self.text(name) or known[0]
        if text not in known:
            raise self._endpoint.location.unknown(name, text, known)
        return text

    def time(self, name: str, default: int, low: int) -> int:
        """Return milliseconds, of a number or of Camel's form such as 5s."""
        text = self.text(name)
        if text is None:
            return default
        match = TIME.fullmatch(text)
        value = -1 if match is None else int(match[1]) * UNITS[match[2]]
        return self._within(name, text, value, low, MAX_MS)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number."""
        text = self.text(name)
        if text is None:
            return default
        return self._within(name, text, int(text) if text.isascii() and text.isdigit() else -1, low, high)

    def _within(self, name: str, text: str, value: int, low: int, high: int) -> int:
        if not low <= value <= high:
            raise self._endpoint.location.error(f"{name} is {text[:60]!r}; it must lie between {low} and {high}")
        return value
