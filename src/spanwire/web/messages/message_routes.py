"""The routes of messages as JSON, with their OpenAPI schemas."""

from __future__ import annotations

from typing import Final

from spanwire.management.tables.attributes import LIST, OBJECT, TEXT
from spanwire.management.tables.operation_table import Argument, Role
from spanwire.web.calls import Handler, Node, RouteRow, RouteSchema
from spanwire.web.messages import handlers
from spanwire.web.messages.message_json import BODY, HEADERS
from spanwire.web.messages.message_stream import MEDIA_TYPE, stream
from spanwire.web.openapi import arguments_schema, query

PREFIX: Final = "/api/v1/destinations"
PATH: Final = PREFIX + "/{name:path}/messages"
LEASE_PATH: Final = "/api/v1/leases/{lease}"
TYPE: Final = query("type", {"enum": ["queue", "topic"], "default": "queue"}, "kind of the destination")
QUEUE: Final = query("type", {"enum": ["queue"], "default": "queue"}, "kind of the destination; a topic keeps nothing")
SELECTOR: Final = query("selector", {"type": TEXT}, "a selector; without one all messages")
LIMIT: Final = query(
    "limit",
    {"type": "integer", "minimum": 0, "default": handlers.MAX_LISTED},
    f"most messages, {handlers.MAX_LISTED} at most",
)
INTEGER_NODE: Final[Node] = {"type": "integer"}
IDS: Final[Node] = {"type": LIST, "items": {"type": TEXT}}


def _object(**properties: Node) -> Node:
    return {"type": OBJECT, "properties": properties, "required": list(properties)}


def _new_message() -> Node:
    schema = arguments_schema(HEADERS)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    body: Node = {"description": "a text, base64 for bytes, an object for a map, or a list for a stream"}
    return {**schema, "properties": {BODY: body, **properties}}


def _publish_schema() -> Node:
    listed: Node = {"type": LIST, "items": _new_message(), "minItems": 1, "maxItems": handlers.MAX_PUBLISHED}
    return {"anyOf": [_new_message(), {**_object(messages=listed), "additionalProperties": False}]}


MESSAGES: Final[Node] = {"type": LIST, "items": {"type": OBJECT, "required": ["id", "destination", "kind"]}}


def _post(
    path: str, handler: Handler, summary: str, body: tuple[Argument, ...] | Node, result: Node, *parameters: Node
) -> RouteRow:
    node = arguments_schema(body) if isinstance(body, tuple) else body
    return RouteRow(
        "POST", path, Role.NONE, handler, summary, is_messaging=True, schema=RouteSchema(result, parameters, node)
    )


def _get(path: str, handler: Handler, summary: str, schema: RouteSchema) -> RouteRow:
    return RouteRow("GET", path, Role.NONE, handler, summary, is_messaging=True, schema=schema)


LEASED: Final = _object(lease={"type": [TEXT, "null"]}, messages=MESSAGES)
JSON_ROUTES: Final = (
    _post(PATH, handlers.publish, "sends messages, all or none", _publish_schema(), _object(ids=IDS), TYPE),
    _get(
        PATH,
        handlers.browse,
        "first messages of a queue, which stay there",
        RouteSchema(_object(messages=MESSAGES), (QUEUE, SELECTOR, LIMIT)),
    ),
    _post(f"{PATH}/receive", handlers.receive, "takes messages of a queue under a lease", handlers.RECEIVE, LEASED),
    _get(
        f"{PATH}/stream",
        stream,
        "messages of a queue or topic as server-sent events",
        RouteSchema({"type": TEXT}, (TYPE, SELECTOR), media_type=MEDIA_TYPE),
    ),
    _post(
        f"{LEASE_PATH}/acknowledge",
        handlers.acknowledge,
        "acknowledges messages and ends their lease",
        handlers.ACKNOWLEDGE,
        _object(acknowledged=INTEGER_NODE),
    ),
    _post(f"{LEASE_PATH}/release", handlers.release, "gives messages back", (), _object(released=INTEGER_NODE)),
    _post(
        f"{LEASE_PATH}/extend",
        handlers.extend,
        "sets the time of a lease anew",
        handlers.EXTEND,
        _object(lease={"type": TEXT}, lease_ms=INTEGER_NODE),
    ),
)
