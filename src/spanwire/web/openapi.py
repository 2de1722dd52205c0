"""The OpenAPI document of the API, made from the tables of views, operations and routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spanwire import __version__
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, NUMBER, OBJECT, TEXT, Attribute, ViewTable
from spanwire.management.tables.listing import DEFAULT_SIZE, MAX_PAGE, MAX_PATTERN, MAX_SIZE, MAX_WILDCARDS
from spanwire.management.tables.operation_table import OPERATIONS, Argument, Operation, Role
from spanwire.management.tables.view_table import BROKER, QUEUES, TOPICS, VIEWS
from spanwire.web.arguments import MAX_ITEMS
from spanwire.web.calls import Node, RouteRow, json_refusal

PROBLEM: Final = "#/components/schemas/Problem"
PREFIX: Final = "/api/v1"
EVENTS_PATH: Final = f"{PREFIX}/events"
JOLOKIA: Final = "/api/jolokia"
HEALTH: Final = ("/health/live", "/health/ready")
MEDIA_TYPES: Final = {
    EVENTS_PATH: ("text/event-stream",),
    "/metrics": ("text/plain", "application/openmetrics-text"),
    **dict.fromkeys(HEALTH, ("application/health+json",)),
}
TASK: Final[Node] = {
    "description": "a task has begun",
    "headers": {"Location": {"description": "path of the task", "schema": {"type": TEXT}}},
    "content": {
        "application/json": {
            "schema": {
                "type": OBJECT,
                "properties": {
                    "result": {"type": OBJECT, "properties": {"task": {"type": TEXT}}, "required": ["task"]}
                },
                "required": ["result"],
            }
        }
    },
}
COMPARISON: Final = "^[<>]?-?[0-9]{1,18}([.][0-9]{1,9})?$"  # of a number in a filter


def document(routes: Sequence[RouteRow]) -> Node:
    """Return the document of some routes."""
    paths: dict[str, Node] = {}
    for route in routes:
        if (route.is_messaging and route.schema is None) or route.refusal is not json_refusal:
            continue  # Classic's servlets and the console, which have pages of their own
        path = route.path.replace("{name:path}", "{name}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Spanwire management API", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": "spanwire-session-8161"},
            },
            "schemas": {"Problem": _problem(), **{view.name: _schema(view) for view in VIEWS}},
        },
    }


def _operation(route: RouteRow, path: str) -> Node:
    answer: Node = {"schema": _answer(path, route)}
    responses: Node = {
        "200": {"description": "done", "content": dict.fromkeys(_media_types(path, route), answer)},
        "default": {
            "description": "a problem (RFC 9457)",
            "content": {"application/problem+json": {"schema": {"$ref": PROBLEM}}},
        },
    }
    if path in HEALTH:
        responses["503"] = responses["200"]
    node: Node = {
        "summary": route.summary,
        "operationId": _identifier(route.method, path),
        "x-role": route.role.name.lower(),
        "security": _security(route),
        "parameters": _parameters(route, path),
        "responses": responses,
    }
    if route.method == "POST":
        body = _body(path, route)
        needs_body = bool(body.get("required") or path == JOLOKIA)
        node["requestBody"] = {"required": needs_body, "content": {"application/json": {"schema": body}}}
    operation = _operation_of(path)
    if operation is not None and operation.may_begin_task:
        responses["202"] = TASK
    return node


def _body(path: str, route: RouteRow) -> Node:
    if route.schema is not None:
        return route.schema.body or {}
    if path == JOLOKIA:
        return {"type": [OBJECT, LIST], "description": "a request of Jolokia's protocol, or a list of them"}
    operation = _operation_of(path)
    return {} if operation is None else arguments_schema(operation.arguments)


def _operation_of(path: str) -> Operation | None:
    return next((one for one in OPERATIONS if PREFIX + one.path == path), None)


def _security(route: RouteRow) -> list[Node]:
    """Return the ways to log in; a route of messages is open to all where the broker has no users."""
    ways: list[Node] = [{"basic": []}, {"session": []}]
    if route.is_messaging:
        return [*ways, {}]
    return [] if route.role is Role.NONE else ways


def _media_types(path: str, route: RouteRow) -> tuple[str, ...]:
    if route.schema is not None:
        return (route.schema.media_type,)
    return MEDIA_TYPES.get(path, ("application/json",))


def _identifier(method: str, path: str) -> str:
    words = [word.strip("{}") for word in path.removeprefix(PREFIX).replace(".", "/").split("/") if word]
    return "_".join([method.lower(), *words])


def _view_of(path: str) -> ViewTable | None:
    return next((view for view in VIEWS if view is not BROKER and path == f"{PREFIX}/{view.name}"), None)


def _parameters(route: RouteRow, path: str) -> list[Node]:
    parameters: list[Node] = []
    for name in ("name", "lease"):
        if f"{{{name}}}" in path:
            parameters.append({"name": name, "in": "path", "required": True, "schema": {"type": TEXT}})
    if route.schema is not None:
        return [*parameters, *route.schema.parameters]
    if path == EVENTS_PATH:
        one_of: Node = {"type": LIST, "items": {"enum": [view.name for view in VIEWS]}}
        names: Node = {"type": LIST, "items": {"type": TEXT}}
        return [
            {**query("views", one_of, "views, with commas between"), "required": True, "explode": False},
            query("destination", names, "queues and topics, by name; without one all"),
        ]
    view = _view_of(path) if route.method == "GET" else None
    if view is None:
        return parameters
    filters = [attribute for attribute in view.attributes if not attribute.detail]
    attributes = [attribute.name for attribute in filters]
    least: Node = {"type": "integer", "minimum": 1}
    parameters += [
        query("page", {**least, "maximum": MAX_PAGE, "default": 1}, "number of the page"),
        query("size", {**least, "maximum": MAX_SIZE, "default": DEFAULT_SIZE}, "rows of a page"),
        query("sort", {"enum": [*attributes, *(f"-{name}" for name in attributes)]}, "order; with a minus descending"),
    ]
    parameters += [query(one.name, _filter(one), f"filter by {one.name}") for one in filters]
    return parameters


def _filter(attribute: Attribute) -> Node:
    """Return the schema of a filter's values (`spanwire.management.tables.listing`)."""
    if attribute.type == BOOLEAN:
        return {"enum": ["true", "false"]}
    if attribute.type in (INTEGER, NUMBER):
        return {"type": TEXT, "pattern": COMPARISON}
    return {"type": TEXT, "maxLength": MAX_PATTERN, "pattern": f"^([^*]*[*]){{0,{MAX_WILDCARDS}}}[^*]*$"}


def query(name: str, schema: Node, meaning: str) -> Node:
    """Return a parameter of the query."""
    return {"name": name, "in": "query", "description": meaning, "schema": schema}


def _answer(path: str, route: RouteRow) -> Node:
    """Return the schema of the answer of a route."""
    if route.schema is not None:
        return route.schema.answer
    if path == EVENTS_PATH:
        return {"type": TEXT}
    if route.method == "POST" and path.startswith(PREFIX):
        return {"type": OBJECT, "properties": {"result": {}}, "required": ["result"]}
    if path == f"{PREFIX}/broker":
        return _reference(BROKER)
    for view in (QUEUES, TOPICS):
        if path == f"{PREFIX}/{view.name}/{{name}}":
            return _reference(view)
    view_of_path = _view_of(path)
    if view_of_path is None:
        return {}
    number: Node = {"type": "integer"}
    properties: Node = {
        "items": {"type": LIST, "items": _reference(view_of_path)},
        "total": number,
        "page": number,
        "size": number,
    }
    return {"type": OBJECT, "properties": properties, "required": list(properties)}


def _reference(view: ViewTable) -> Node:
    return {"$ref": f"#/components/schemas/{view.name}"}


def _schema(view: ViewTable) -> Node:
    return {
        "type": OBJECT,
        "description": view.meaning,
        "properties": {attribute.name: _attribute(attribute) for attribute in view.attributes},
        "required": list(view.keys),
        "additionalProperties": False,
    }


def _attribute(attribute: Attribute) -> Node:
    kind: object = [attribute.type, "null"] if attribute.nullable else attribute.type
    unit: Node = {"x-unit": attribute.unit} if attribute.unit else {}
    return {"type": kind, "description": attribute.meaning, **unit}


def arguments_schema(arguments: Sequence[Argument]) -> Node:
    """Return the schema of a JSON object of arguments."""
    return {
        "type": OBJECT,
        "additionalProperties": False,
        "properties": {argument.name: _argument(argument) for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
    }


def _argument(argument: Argument) -> Node:
    node: Node = {"type": argument.type, "description": argument.meaning}
    if argument.type == LIST:
        node.update({"items": {"type": TEXT}, "minItems": 1, "maxItems": MAX_ITEMS})
    if argument.type == INTEGER:
        node["minimum"] = argument.least or 0
    if argument.choices:
        node["enum"] = list(argument.choices)
    if argument.most is not None:
        node["maximum"] = argument.most
    return node


def _problem() -> Node:
    text: Node = {"type": TEXT}
    properties: Node = {"type": text, "title": text, "status": {"type": "integer"}, "detail": text}
    return {"type": OBJECT, "properties": properties, "required": list(properties)}
