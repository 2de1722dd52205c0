"""Endpoint URIs in Camel's form, for brokers and for files.

    activemq:queue:ORDERS?selector=…      a bean or broker of the file by that name, or activemq, spanwire, jms
    rabbit:queue:ORDERS                   a broker of another system, with the provider or the URL that its name has
    activemq:topic:PRICES?…               a durable subscription, named after the route unless the URI names one
    parquet:/data/orders?compression=zstd   csv json orc text and parquet, with Spark's options
    jdbc:postgresql://host/base?…         with the parameter dbtable
    format:NAME?…                         any format that Spark has or is given a jar for

Parameters stand after the question mark or, in YAML, under ``parameters``. A value in RAW(…) is used unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote_plus

from spanwire.client.addressing.address import parse_url
from spanwire.documents.spelling import closest, suggestion
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import (
    COMMON,
    DEFAULT_URL,
    DUPLICATES_OK,
    ONCE_AND_ONLY_ONCE,
    QUALITY,
    READ,
    WRITE,
    ReadOptions,
    WriteOptions,
    read_options,
    write_options,
)
from spanwire.routes import consumers, providers
from spanwire.routes.consumers import ONE, read_consumers
from spanwire.routes.direct import DIRECT
from spanwire.routes.masking import mask, shown_name
from spanwire.routes.model import BROKER, COMPONENT, FORMAT, PROVIDER, Endpoint
from spanwire.routes.readers.nodes import MAX_SHOWN, Location
from spanwire.tls.context import client_context

FILE_FORMATS: Final = ("parquet", "csv", "json", "orc", "text")
BUILT_IN_BROKERS: Final = ("activemq", "spanwire", "jms")
JDBC: Final = "jdbc"
LOG: Final = "log"
BEAN: Final = "bean"
COMPONENTS: Final = ("file", "timer", LOG, "http", "https", BEAN, DIRECT)  # of the engine embedded, but for direct
IN_MEMORY: Final = ("seda", "disruptor", "vm")
ANY_FORMAT: Final = "format"
QUEUE: Final = "queue"
TOPIC: Final = "topic"
MAX_PARAMETERS: Final = 100
PARAMETER: Final = re.compile(r"(?:=RAW\(.*?\)(?=&|$)|[^&])+")

# The data source's names for parameters of Camel's JMS component.
READ_NAMES: Final[dict[str, str]] = {
    "brokerURL": "url",
    "brokerUrl": "url",
    "username": "user",
    "userName": "user",
    "clientID": "clientId",
    "durableSubscriptionName": "subscription",
    "subscriptionName": "subscription",
}
WRITE_NAMES: Final[dict[str, str]] = {
    "brokerURL": "url",
    "brokerUrl": "url",
    "username": "user",
    "userName": "user",
    "clientID": "clientId",
    "deliveryPersistent": "persistent",
    "timeToLive": "timeToLiveMs",
}
# Known parameters without effect, because Spark decides the number of tasks, and messages are mapped to rows.
WITHOUT_EFFECT: Final = (
    *consumers.NAMES,  # but for the engine embedded
    "mapJmsMessage",
    "transacted",
    "cacheLevelName",
    "disableReplyTo",
    "preserveMessageQos",
)
PATHS: Final = ("trustStore", "keyStore", "keyStoreKey")
THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
LOCAL: Final = "localhost"
THIS_BROKER: Final = "vm:"  # URL of the broker that runs the routes; it fills in its address
ANY_URL: Final = "tcp://127.0.0.1:61616"  # in place of this broker's address, for the checks
ANY_DESTINATION: Final = "queue://A"
CHECKED_READ: Final = ("selector", "maxRowsPerBatch", "qualityOfServiceMode", providers.BATCH_TIME)
OWN_STATE: Final = ("stagingDirectory", "mode", "filterPushdown", "duplicateIdPrefix")  # set by the runner of routes


@dataclass(frozen=True, slots=True)
class Host:
    """The broker with the routes: ``vm://`` with a name of the broker, or a missing URL.

    ``vm://NAME?create=false`` is the broker by any name, because the process has no other broker.
    """

    names: frozenset[str] = frozenset()
    prefix: str = ""  # of the names of routes without an id
    takes_options: bool = True  # False for files that a broker reads while it runs

    @property
    def url(self) -> str:
        """Return the URL of a broker without one."""
        return THIS_BROKER if self.names else DEFAULT_URL

    def is_own(self, url: str) -> bool:
        """Return True for a URL of the broker with the routes."""
        address, _, options = url.partition("?")
        if not self.names or not address.startswith("vm:"):
            return False
        return address.removeprefix("vm:").strip("/") in self.names or "create=false" in options.split("&")

    def advice(self, name: str) -> str:
        """Return how to give the broker of a URI scheme another URL."""
        if not self.takes_options:
            return "a brokerURL in the file"
        return f"-D camel.component.{name}.brokerURL=URL" if self.names else f"--broker {name}=URL"


NO_HOST: Final = Host()


COMPONENT_PROPERTY: Final = re.compile(r"camel\.component\.([^.]+)\.(?:brokerURL|broker-url)")  # as Camel names it


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker of a URI scheme, or the reason for an unreachable broker."""

    location: Location
    options: dict[str, str] = field(repr=False)  # a password may be among them
    reason: str = ""
    read_options: dict[str, str] = field(default_factory=dict)  # for sources only
    write_options: dict[str, str] = field(default_factory=dict)  # for targets only
    consumers: dict[str, str] = field(default_factory=dict)  # words of `spanwire.routes.consumers`, for sources only


class EndpointReader:
    """Reads URIs with the names of the brokers in a file."""

    def __init__(self, brokers: AnyMapping[str, Broker], host: Host = NO_HOST) -> None:
        self._brokers: Final[AnyMapping[str, Broker]] = brokers
        self._host: Final[Host] = host

    def source(
        self, uri: str, parameters: AnyMapping[str, str], location: Location, route: str, is_durable: bool = True
    ) -> Endpoint:
        """Return the endpoint of a ``from``.

        ``is_durable`` selects a durable subscription for a topic without a subscription name.

        Raises:
            ConfigurationError: the URI or a parameter is invalid.
        """
        endpoint = self._endpoint(uri, parameters, location, route)
        if endpoint.kind in (BROKER, PROVIDER):
            endpoint = self._with_consumers(endpoint, uri, parameters, location)
        if endpoint.kind == BROKER:
            _subscribe(endpoint.options, route, is_durable)
            _check(endpoint, read_options)
        elif endpoint.kind == PROVIDER:
            providers.subscribe(endpoint.options, endpoint.format, route, is_durable)
            _check(_with_any_broker(endpoint, CHECKED_READ), read_options)
        return endpoint

    def _with_consumers(
        self, endpoint: Endpoint, uri: str, parameters: AnyMapping[str, str], location: Location
    ) -> Endpoint:
        """Return a source with its numbers of receivers. A topic has one, unless the endpoint itself says more."""
        broker = self._brokers.get(uri.partition(":")[0])
        own = {**parse_query(uri.partition("?")[2], location), **parameters}
        numbers = read_consumers(own, {} if broker is None else broker.consumers, location)
        if endpoint.destination.startswith("topic://") and not numbers.is_own:
            numbers = ONE
        return replace(endpoint, consumers=numbers)

    def target(self, uri: str, parameters: AnyMapping[str, str], location: Location) -> Endpoint:
        """Return the endpoint of a ``to``.

        Raises:
            ConfigurationError: the URI or a parameter is invalid.
        """
        endpoint = self._endpoint(uri, parameters, location, None)
        if endpoint.kind == BROKER:
            _check(endpoint, write_options)
        elif endpoint.kind == PROVIDER:
            _check(_with_any_broker(endpoint, providers.WRITE), write_options)
        return endpoint

    def _endpoint(self, uri: str, parameters: AnyMapping[str, str], location: Location, route: str | None) -> Endpoint:
        scheme, colon, rest = uri.partition(":")
        if not colon or not rest:
            raise location.error(f"{mask(uri)[:80]!r} is no endpoint; write scheme:queue:NAME, parquet:/path or jdbc:…")
        if scheme == JDBC:
            return self._jdbc(uri, parameters, location)
        path, _, query = rest.partition("?")
        options = {**parse_query(query, location), **parameters}
        if scheme in self._brokers or scheme in BUILT_IN_BROKERS:
            return self._broker(scheme, path, options, location, route)
        if scheme in FILE_FORMATS:
            return Endpoint(location, uri.partition("?")[0], FORMAT, scheme, {**options, "path": _local_path(path)})
        if scheme in COMPONENTS:
            plain = path if scheme in ("http", "https") else _local_path(path)
            return Endpoint(location, f"{scheme}:{path}", COMPONENT, scheme, {**options, "path": plain})
        if scheme == ANY_FORMAT:
            return Endpoint(location, f"format:{path}", FORMAT, path, options)
        if scheme in IN_MEMORY:
            raise location.error(
                f"{scheme}: is a queue in the memory of Camel, which loses its messages at a crash; write direct:, or "
                "a queue of a broker"
            )
        raise self._unknown(scheme, location)

    def _unknown(self, scheme: str, location: Location) -> ConfigurationError:
        """Return the error about an unknown scheme; a similar name of a broker comes before similar formats."""
        schemes = [*self._brokers, *BUILT_IN_BROKERS, *COMPONENTS, *FILE_FORMATS, JDBC, ANY_FORMAT]
        near = closest(scheme, self._brokers)
        if near is not None:
            return location.unknown("endpoint scheme", scheme, [near])
        shown = shown_name(scheme)[:MAX_SHOWN]
        known = suggestion(shown, schemes)
        then = f"{known} For" if known.endswith("?") else f"{known}; for"
        is_xml = location.file.endswith(".xml")
        own = f"write a bean of its component with the id {shown!r}" if is_xml else "name it in brokers of the file"
        option = f"write {self._host.advice(shown)}, or " if self._host.takes_options else ""
        return location.error(f"there is no endpoint scheme {shown!r}{then} a broker {option}{own}")

    def _jdbc(self, uri: str, parameters: AnyMapping[str, str], location: Location) -> Endpoint:
        if "dbtable" not in parameters:
            raise location.error("a jdbc endpoint needs the parameter dbtable")
        quality = parameters.get(QUALITY, DUPLICATES_OK)
        if quality not in (DUPLICATES_OK, ONCE_AND_ONLY_ONCE):
            raise location.error(f"{QUALITY} of a jdbc table is {DUPLICATES_OK} or {ONCE_AND_ONLY_ONCE}")
        return Endpoint(location, f"jdbc table {parameters['dbtable']}", FORMAT, JDBC, {**parameters, "url": uri})

    def _broker(
        self, scheme: str, path: str, parameters: AnyMapping[str, str], location: Location, route: str | None
    ) -> Endpoint:
        broker = self._brokers.get(scheme)
        if broker is not None and broker.reason:
            raise location.error(f"{scheme} {broker.reason}")
        base: dict[str, str] = {}
        if broker is not None:
            base = broker.options | (broker.write_options if route is None else broker.read_options)
        names = READ_NAMES if route is not None else WRITE_NAMES
        own_parameters = {names.get(name, name): value for name, value in parameters.items()}
        provider = providers.provider_of({**base, **own_parameters}, location)
        if provider != providers.OPENWIRE:
            options = _of_provider(base, own_parameters, location, is_source=route is not None)
            options["destination"] = _destination(path, location)
            return Endpoint(location, f"{scheme}:{path}", PROVIDER, provider, options)
        allowed = READ if route is not None else WRITE
        known = {name for name in (*COMMON, *allowed) if name not in OWN_STATE and name != "destination"}
        options = {"url": self._host.url, **base}
        options.pop(providers.WORD, None)
        for name, value in parameters.items():
            if name in WITHOUT_EFFECT:
                continue
            own = names.get(name, name)
            if own not in known:
                raise location.unknown("parameter", name, {*known, *names, *WITHOUT_EFFECT})
            options[own] = value
        if self._host.is_own(options["url"]):
            options["url"] = THIS_BROKER
        options["destination"] = _destination(path, location)
        for name in PATHS:
            if name in options:
                options[name] = os.path.abspath(options[name])  # executors have other working directories
        return Endpoint(location, f"{scheme}:{path}", BROKER, "spanwire", options)


def _subscribe(options: dict[str, str], route: str, is_durable: bool) -> None:
    """Complete the options of a reader of a topic."""
    if not options["destination"].startswith("topic://"):
        options.pop("subscriptionDurable", None)
        return
    default = str(is_durable or "subscription" in options).lower()
    if options.setdefault("subscriptionDurable", default).lower() != "false":
        options.setdefault("subscription", route)
        options.setdefault("clientId", f"spanwire.{route}")


def _of_provider(
    base: dict[str, str], parameters: AnyMapping[str, str], location: Location, is_source: bool
) -> dict[str, str]:
    """Return the options of an endpoint that a provider of bridges reaches."""
    allowed = (*providers.READ, providers.BATCH_TIME) if is_source else providers.WRITE
    for name in (*base, *parameters):
        if name not in WITHOUT_EFFECT and not providers.is_known(name, allowed):
            raise location.unknown("parameter", name, {*providers.FACTORY, *allowed, *WITHOUT_EFFECT})
    options = {name: value for name, value in {**base, **parameters}.items() if name not in WITHOUT_EFFECT}
    for name in PATHS:
        if name in options:
            options[name] = os.path.abspath(options[name])
    return options


def _with_any_broker(endpoint: Endpoint, names: tuple[str, ...]) -> Endpoint:
    """Return an endpoint at an OpenWire broker with the given options; values have the same limits there."""
    options = {name: endpoint.options[name] for name in names if name in endpoint.options}
    return replace(endpoint, options={"url": ANY_URL, "destination": ANY_DESTINATION, **options})


def _check(endpoint: Endpoint, read: Callable[[AnyMapping[str, str]], ReadOptions | WriteOptions]) -> None:
    """Check the options and open the key stores, before a connection is opened.

    Raises:
        ConfigurationError: an option or a store is invalid.
    """
    options = endpoint.options
    if options["url"] == THIS_BROKER:
        options = {**options, "url": ANY_URL}
    try:
        tls = read(options).login.tls
        if tls is not None:
            client_context(tls)
    except ConfigurationError as error:
        raise endpoint.location.error(str(error).removeprefix("spanwire: ")) from None


def is_same_broker(first_endpoint: Endpoint, second_endpoint: Endpoint) -> bool:
    """Return True if two endpoints may belong to one broker, because their URLs share an address."""
    if PROVIDER in (first_endpoint.kind, second_endpoint.kind):  # one login of one broker, or else another broker
        first, second = (
            {name: value for name, value in endpoint.options.items() if name in providers.FACTORY or "." in name}
            for endpoint in (first_endpoint, second_endpoint)
        )
        return first_endpoint.kind == second_endpoint.kind and first == second
    urls = first_endpoint.options["url"], second_endpoint.options["url"]
    if THIS_BROKER in urls:
        return urls[0] == urls[1]
    first_addresses, second_addresses = (
        {
            (LOCAL if address.host in THIS_MACHINE else address.host, address.port)
            for address in parse_url(url).addresses
        }
        for url in urls
    )
    return urls[0] == urls[1] or not first_addresses.isdisjoint(second_addresses)


def _destination(path: str, location: Location) -> str:
    kind, colon, name = path.partition(":")
    if not colon or kind not in (QUEUE, TOPIC):
        kind, name = QUEUE, path
    name = name.lstrip("/")
    if "://" in name:
        raise location.error(
            f"{mask(name)[:80]!r} is no name of a {kind}; a broker's address is the parameter brokerURL"
        )
    return f"{kind}://{name}"


def _local_path(path: str) -> str:
    return path[2:] if path.startswith("//") else path


def parse_query(query: str, location: Location) -> dict[str, str]:
    """Return the parameters after a question mark."""
    parameters: dict[str, str] = {}
    for number, part in enumerate(PARAMETER.findall(query), 1):
        name, equals, value = part.partition("=")
        if not equals or not name:  # not shown, because it may be a part of a password
            raise location.error(
                f"the parameter number {number} has no name; write name=value, and & in a value as RAW(…)"
            )
        is_raw = value.startswith("RAW(") and value.endswith(")")
        parameters[unquote_plus(name)] = value[4:-1] if is_raw else unquote_plus(value)
    if len(parameters) > MAX_PARAMETERS:
        raise location.error(f"more than {MAX_PARAMETERS} parameters")
    return parameters
