"""Reads the steps of a route from nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.routes.endpoints import BEAN, LOG, EndpointReader
from spanwire.routes.expressions import (
    LANGUAGE_WORDS,
    condition_of,
    sql_of,
    value_expression,
    value_of,
)
from spanwire.routes.message_steps import MessageStepReader
from spanwire.routes.model import (
    COMPONENT,
    CONSTANT,
    SQL,
    TIME,
    Aggregate,
    CallFunction,
    Choice,
    Deduplicate,
    Endpoint,
    Expression,
    Filter,
    Join,
    Log,
    Multicast,
    RemoveHeader,
    SetHeader,
    Split,
    Step,
    To,
    Transform,
)
from spanwire.routes.readers.beans import texts_of
from spanwire.routes.readers.nodes import Location, Mapping, Node, Word, items_of, mapping_of, text_of

REMARKS: Final = ("id", "description")
ENDPOINT_WORDS: Final = ("uri", "parameters", *REMARKS)
JAVA: Final = "it calls Java; write process with ref for a convertor in Python"
FIXED: Final = "endpoints are fixed here; write choice with a to for each"
FORMATS: Final = "write transform with sql, such as to_json or from_json"
BINARY: Final = f"{FORMATS}; Avro and Protobuf are for programs: avro_as, protobuf_as"
FAILURES: Final = "rows that fail go to the deadLetter of the route"
LEFT_OUT: Final = "leave it out"
# Unsupported steps of Camel, with the alternative.
UNSUPPORTED_STEPS: Final[dict[str, str]] = {
    **dict.fromkeys(("script", "transformer", "claimCheck"), JAVA),
    **dict.fromkeys(("toD", "recipientList", "routingSlip", "dynamicRouter", "loadBalance", "serviceCall"), FIXED),
    **dict.fromkeys(("convertBodyTo", "removeProperties", "setHeaders", "setVariable"), FORMATS),
    **dict.fromkeys(("marshal", "unmarshal"), BINARY),
    **dict.fromkeys(("onException", "doTry", "doCatch", "doFinally", "onFallback", "circuitBreaker"), FAILURES),
    **dict.fromkeys(("rollback", "saga", "throwException", "validate"), FAILURES),
    **dict.fromkeys(("enrich", "pollEnrich"), "write join with a table"),
    **dict.fromkeys(("inOnly", "inOut"), "write to"),
    **dict.fromkeys(("resequence", "sort"), "rows of a batch have no order"),
    **dict.fromkeys(("sample",), "write throttle, or filter"),
    **dict.fromkeys(("step", "stop", "loop", "threads", "transacted", "setExchangePattern", "kamelet"), LEFT_OUT),
    **dict.fromkeys(("onCompletion", "intercept", "interceptFrom", "interceptSendToEndpoint", "policy"), LEFT_OUT),
}
DEFAULT_KEY: Final = "JMSMessageID"
BODY: Final = "text"


class StepReader:
    """Reads steps, with an `EndpointReader` for endpoints."""

    def __init__(self, endpoints: EndpointReader, classes: dict[str, str] | None = None) -> None:
        """``classes`` has the classes of beans by name."""
        self._endpoints: Final[EndpointReader] = endpoints
        messages = MessageStepReader(self.steps, classes or {})
        self._messages: Final[MessageStepReader] = messages
        self._readers: Final[dict[str, Callable[[Node, Location], Step]]] = {
            "filter": self._filter,
            "setHeader": self._set_header,
            "setProperty": self._set_header,
            "removeHeader": self._remove_header,
            "removeHeaders": self._remove_header,
            "removeProperty": self._remove_header,
            "setBody": self._set_body,
            "transform": self._transform,
            "split": self._split,
            "aggregate": self._aggregate,
            "deduplicate": self._deduplicate,
            "idempotentConsumer": self._deduplicate,
            "join": self._join,
            "choice": self._choice,
            "multicast": self._multicast,
            "wireTap": self._tap,
            "to": self._to,
            "throttle": messages.throttle,
            "delay": messages.delay,
            "log": messages.log,
            "process": messages.process,
            "bean": messages.process,
        }

    def steps(self, node: Node | None) -> list[Step]:
        """Return the steps of a list.

        Raises:
            ConfigurationError: a step is faulty.
        """
        return [self._step(item) for item in items_of(node, "steps")]

    def endpoint(self, node: Node, location: Location) -> Endpoint:
        """Return the endpoint of a step such as ``to``: a URI, or a mapping with uri and parameters."""
        if isinstance(node, Word):
            return self._endpoints.target(text_of(node, "uri"), {}, location)
        mapping = mapping_of(node, "an endpoint")
        mapping.check("word of an endpoint", ENDPOINT_WORDS)
        return self._endpoints.target(mapping.require("uri", "an endpoint"), parameters_of(mapping), mapping.location)

    def _step(self, node: Node) -> Step:
        mapping = mapping_of(node, "a step")
        if len(mapping.entries) != 1:
            raise mapping.location.error("a step has one name, such as filter or to; put a dash before each step")
        ((name, entry),) = mapping.entries.items()
        reader = self._readers.get(name)
        if reader is None and name in UNSUPPORTED_STEPS:
            raise entry.location.error(f"the step {name} of Camel is not supported; {UNSUPPORTED_STEPS[name]}")
        if reader is None:
            raise entry.location.unknown("step", name, list(self._readers))
        return reader(entry.value, entry.location)

    def _filter(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "filter")
        mapping.check("word of filter", (*LANGUAGE_WORDS, "steps", *REMARKS))
        return Filter(condition_of(mapping), self.steps(mapping.node("steps")), mapping.node("steps") is not None)

    def _set_header(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "setHeader")
        mapping.check("word of setHeader", (*LANGUAGE_WORDS, "name", *REMARKS))
        return SetHeader(location, mapping.require("name", "setHeader"), value_expression(mapping))

    def _remove_header(self, node: Node, location: Location) -> Step:
        if isinstance(node, Word):
            return RemoveHeader(location, text_of(node, "removeHeader"))
        mapping = mapping_of(node, "removeHeader")
        mapping.check("word of removeHeader", ("name", "pattern", *REMARKS))
        return RemoveHeader(location, mapping.text("pattern") or mapping.require("name", "removeHeader"))

    def _set_body(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "setBody")
        mapping.check("word of setBody", (*LANGUAGE_WORDS, *REMARKS))
        return _set_body(value_expression(mapping), location)

    def _transform(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "transform")
        known = (*LANGUAGE_WORDS, "columns", "select", "function", *REMARKS)
        mapping.check("word of transform", known)
        function = mapping.text("function")
        if function is not None:
            module, dot, name = function.rpartition(".")
            if not dot or not module.isidentifier() or not name.isidentifier():
                raise location.error(f"function is {function[:60]!r}; write module.name, of a module beside the file")
            return CallFunction(location, module, name)
        for word in ("columns", "select"):
            columns = mapping.node(word)
            if columns is not None:
                return Transform(location, pairs_of(columns, word), only=word == "select")
        return _set_body(value_expression(mapping), location)

    def _split(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "split")
        if SQL not in mapping.entries:
            return self._messages.split(mapping, location)
        mapping.check("word of split", (SQL, *REMARKS))
        return Split(location, mapping.require(SQL, "split"))

    def _aggregate(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "aggregate")
        if "window" not in mapping.entries and "columns" not in mapping.entries:
            return self._messages.gather(mapping, location)
        mapping.check("word of aggregate", ("window", "slide", "watermark", "by", "columns", "time", *REMARKS))
        by, columns = mapping.node("by"), mapping.node("columns")
        if columns is None:
            raise location.error("aggregate needs columns, each a name with an aggregate such as count(*)")
        return Aggregate(
            location,
            mapping.require("window", "aggregate"),
            mapping.text("slide"),
            mapping.require("watermark", "aggregate"),
            [] if by is None else pairs_of(by, "by"),
            pairs_of(columns, "columns"),
            mapping.text("time") or TIME,
        )

    def _deduplicate(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "deduplicate")
        if any(word in mapping.entries for word in LANGUAGE_WORDS):
            return self._messages.idempotent(mapping, location)
        mapping.check("word of deduplicate", ("key", "watermark", "time", *REMARKS))
        key = mapping.text("key") or DEFAULT_KEY
        watermark = mapping.require("watermark", "deduplicate")
        return Deduplicate(location, key, watermark, mapping.text("time") or TIME)

    def _join(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "join")
        mapping.check("word of join", ("table", "on", "columns", "type", *REMARKS))
        table, columns = mapping.node("table"), mapping.node("columns")
        if table is None or columns is None:
            raise location.error("join needs table, on and columns")
        kind = mapping.text("type") or "inner"
        if kind not in ("inner", "left"):
            raise location.error(f"the type of a join is {kind[:60]!r}, neither inner nor left")
        endpoint = self.endpoint(table, location)
        if endpoint.format == "spanwire":
            raise location.error("a join's table is a file or a jdbc table, not a queue")
        return Join(location, endpoint, mapping.require("on", "join"), pairs_of(columns, "columns"), kind == "left")

    def _choice(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "choice")
        mapping.check("word of choice", ("when", "otherwise", *REMARKS))
        branches: list[tuple[Expression, list[Step]]] = []
        for item in items_of(mapping.node("when"), "when"):
            when = mapping_of(item, "when")
            when.check("word of when", (*LANGUAGE_WORDS, "steps", *REMARKS))
            branches.append((condition_of(when), self.steps(when.node("steps"))))
        if not branches:
            raise location.error("choice needs when, a list")
        otherwise = mapping.node("otherwise")
        if otherwise is None:
            return Choice(location, branches, [])
        rest = mapping_of(otherwise, "otherwise")
        rest.check("word of otherwise", ("steps", *REMARKS))
        return Choice(location, branches, self.steps(rest.node("steps")))

    def _multicast(self, node: Node, location: Location) -> Step:
        mapping = mapping_of(node, "multicast")
        mapping.check("word of multicast", ("steps", "parallelProcessing", *REMARKS))
        branches: list[list[Step]] = []
        for item in items_of(mapping.node("steps"), "steps"):
            pipeline = item.node("pipeline") if isinstance(item, Mapping) else None
            if pipeline is not None:
                branches.append(self.steps(mapping_of(pipeline, "pipeline").node("steps")))
            else:
                branches.append([self._step(item)])
        if not branches:
            raise location.error("multicast needs steps, one for each copy")
        return Multicast(location, branches)

    def _to(self, node: Node, location: Location) -> Step:
        return self._send(self.endpoint(node, location), location, is_tap=False)

    def _tap(self, node: Node, location: Location) -> Step:
        return self._send(self.endpoint(node, location), location, is_tap=True)

    def _send(self, endpoint: Endpoint, location: Location, is_tap: bool) -> Step:
        if endpoint.kind == COMPONENT and endpoint.format == LOG:
            level = endpoint.options.get("level", "INFO").upper()
            text = "${body}" if endpoint.options.get("showBody", "true").lower() == "true" else "${id}"
            return Log(location, value_of(location, text), level, endpoint.destination)
        if endpoint.kind == COMPONENT and endpoint.format == BEAN:
            return self._messages.called(endpoint.destination, endpoint.options.get("method"), location)
        return To(endpoint, is_tap)


def _set_body(value: Expression, location: Location) -> Step:
    if value.language == SQL:
        return Transform(location, [(BODY, value.text)], only=False)
    columns = [(BODY, sql_of(value))] if value.language == CONSTANT else []
    return Transform(location, columns, only=False, body=value)


def parameters_of(mapping: Mapping) -> dict[str, str]:
    """Return the parameters of an endpoint."""
    node = mapping.node("parameters")
    return {} if node is None else texts_of(mapping_of(node, "parameters"))


def pairs_of(node: Node, name: str) -> list[tuple[str, str]]:
    """Return names with SQL expressions, in order."""
    pairs = list(texts_of(mapping_of(node, name)).items())
    if not pairs:
        raise node.location.error(f"{name} is empty")
    return pairs
