"""Checks that an engine can run a route.

Unsupported parts are refused by name, with the replacement.
"""

from __future__ import annotations

from typing import Final

from spanwire.routes.model import (
    COMPONENT,
    EMBEDDED,
    FORMAT,
    PROVIDER,
    SELECTOR,
    SIMPLE,
    SPARK,
    SQL,
    XPATH,
    Aggregate,
    CallFunction,
    Choice,
    Deduplicate,
    Delay,
    Endpoint,
    Expression,
    Filter,
    Gather,
    Idempotent,
    Join,
    Log,
    Process,
    Route,
    SetHeader,
    Split,
    SplitBody,
    Step,
    Throttle,
    Transform,
    branches_of,
    endpoints_of,
    is_id_list,
    location_of,
)

RATE: Final = "maxRowsPerBatch and --trigger say how much is read and when"
# Steps that one engine has, with what to write for the other one.
MESSAGE_STEPS: Final[dict[type, str]] = {
    Throttle: f"throttle is for the engine embedded; {RATE}",
    Delay: f"delay is for the engine embedded; {RATE}",
    Process: "process and bean are for the engine embedded; write transform with function: module.name",
    Log: "log is for the engine embedded; leave it out",
    SplitBody: "tokenize, jsonpath and xpath of split are for the engine embedded; write sql",
    Gather: "correlationExpression of aggregate is for the engine embedded; write window, watermark and columns",
    Idempotent: "idempotentConsumer with an expression is for the engine embedded; write deduplicate with a key in sql",
}
ROW_STEPS: Final[dict[type, str]] = {
    Aggregate: "windows of aggregate need Spark; write correlationExpression and completionSize or completionTimeout",
    Deduplicate: "deduplicate with a watermark needs Spark; write idempotentConsumer with header or simple",
    Join: "join needs Spark",
    Split: "split with sql needs Spark; write tokenize, jsonpath or xpath",
    CallFunction: "function of transform needs Spark; write process with ref, and convert(message) in a convertor",
}


def check_engine(route: Route, engine: str) -> None:
    """Refuse a route that the engine cannot run.

    Raises:
        ConfigurationError: the text names the step, language or endpoint, and the remedy.
    """
    if engine == SPARK and route.bridge is not None and route.bridge.failover_ms:
        raise route.location.error("failoverTimeout is for the engine embedded; remove it")
    endpoints = [route.source, *endpoints_of(route.steps)]
    if route.dead_letters is not None:
        endpoints.append(route.dead_letters)
    for endpoint in endpoints:
        _check_endpoint(endpoint, route, engine)
    _check_steps(route.steps, engine)


def _check_endpoint(endpoint: Endpoint, route: Route, engine: str) -> None:
    if engine == SPARK and endpoint.kind == COMPONENT:
        raise endpoint.location.error(
            f"the engine spark has no endpoint {endpoint.format}; run the route {route.name} with spanwire bridge run"
        )
    if engine == SPARK and endpoint.kind == PROVIDER:
        raise endpoint.location.error(
            f"the engine spark reaches brokers by OpenWire alone, and {endpoint.uri.partition(':')[0]} has the "
            f"provider {endpoint.format}; run the route {route.name} with spanwire bridge run, or give the broker an "
            "OpenWire URL"
        )
    if engine == EMBEDDED and endpoint.kind == FORMAT:
        raise endpoint.location.error(
            f"the engine embedded has no endpoint {endpoint.format}; run the route {route.name} with spanwire pipeline "
            "run"
        )


def _check_steps(steps: list[Step], engine: str) -> None:
    for step in steps:
        reason = (MESSAGE_STEPS if engine == SPARK else ROW_STEPS).get(type(step))
        if reason is not None:
            raise location_of(step).error(reason)
        if engine == EMBEDDED and isinstance(step, Transform) and step.body is None:
            raise step.location.error("columns and sql of transform need Spark; write setBody with simple or constant")
        if not is_id_list(step):
            for expression in _expressions(step):
                _check_language(expression, engine)
        for branch in branches_of(step):
            _check_steps(branch, engine)


def _check_language(expression: Expression, engine: str) -> None:
    if engine == SPARK and expression.language in (SIMPLE, XPATH):
        raise expression.location.error(
            f"the language {expression.language} is for the engine embedded; write it as sql or selector"
        )
    if engine == EMBEDDED and expression.language == SQL:
        raise expression.location.error(f"the language sql needs Spark; write {SELECTOR}, {SIMPLE} or constant")


def _expressions(step: Step) -> list[Expression]:
    if isinstance(step, Filter):
        return [step.condition]
    if isinstance(step, Choice):
        return [condition for condition, _ in step.branches]
    if isinstance(step, SetHeader):
        return [step.value]
    if isinstance(step, Transform):
        return [] if step.body is None else [step.body]
    if isinstance(step, (Gather, Idempotent)):
        return [step.key]
    return [step.message] if isinstance(step, Log) else []
