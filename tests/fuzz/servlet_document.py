"""An OpenAPI document of ActiveMQ's servlets for messages, for the fuzzer alone.

The served document leaves the servlets out: any further parameter becomes a property of the message, and an answer has
the type of the message's body, so a client made from such a document would be of little use.
"""

from __future__ import annotations

from typing import Any, Final

from spanwire.web.rest import queue_browse
from spanwire.web.rest.answers import BINARY, JSON
from spanwire.web.rest.feeds import FEEDS
from spanwire.web.rest.requests import DIGITS, FORM

Node = dict[str, Any]

TEXT: Final[Node] = {"type": "string"}
EMPTY: Final[Node] = {"schema": {}}
FLAG: Final[Node] = {"enum": ["true", "false"]}
NUMBER: Final[Node] = {"type": "integer", "minimum": 0, "maximum": 10**DIGITS - 1}
WAIT: Final[Node] = {"type": "integer", "minimum": 0, "maximum": 20}  # milliseconds; a longer wait is allowed
KIND: Final[Node] = {"enum": ["queue", "topic"]}
NAME: Final[Node] = {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$"}
HEADERS: Final[dict[str, Node]] = {
    "JMSCorrelationID": TEXT,
    "JMSReplyTo": {"type": "string", "pattern": "^(queue|topic)://[A-Z]{1,5}$"},
    "JMSType": TEXT,
    "JMSPriority": {"type": "integer", "minimum": 0, "maximum": 9},
    "JMSTimeToLive": NUMBER,
    "JMSDeliveryMode": {"enum": ["persistent", "non-persistent"]},
}
# Without ``json``, which gives any text the type of JSON, as Classic's servlet does.
READ: Final[dict[str, Node]] = {
    "type": KIND,
    "clientId": {"type": "string", "pattern": "^[a-c]$"},
    "oneShot": FLAG,
    "xml": FLAG,
    "selector": {"enum": ["", "a = 1", "JMSPriority > 3", "a LIKE '%x' OR b IS NULL"]},
}
BROWSED: Final[dict[str, Node]] = {
    "view": {"enum": list(queue_browse.VIEWS)},
    "contentType": {"enum": list(queue_browse.CONTENT_TYPES)},
    "feedType": {"enum": list(FEEDS)},
    "maxMessages": NUMBER,
    "msgId": TEXT,
}


def document() -> Node:
    """Return the document."""
    sent = {"text/plain": {"schema": {"enum": ["Message sent", "Unsubscribed"]}}}
    taken = dict.fromkeys(("text/plain", "application/xml", JSON, BINARY), EMPTY)
    form: Node = {"type": "object", "properties": {"body": TEXT}, "required": ["body"], "additionalProperties": False}
    bodies = {"text/plain": {"schema": TEXT}, BINARY: {"schema": TEXT}, FORM: {"schema": form}}
    wait: Node = {"name": "readTimeout", "in": "query", "required": True, "schema": WAIT}
    read = _operation("read a message", [wait, *_query(READ)], taken, {"204": {"description": "no message"}})
    send = _operation("send a message", _query({"type": KIND, **HEADERS}), sent, {})
    send["requestBody"] = {"required": True, "content": bodies}
    pages = dict.fromkeys(queue_browse.CONTENT_TYPES, EMPTY)
    browse = _operation("browse a queue", _query(BROWSED), pages, {})
    path: Node = {"parameters": [{"name": "name", "in": "path", "required": True, "schema": NAME}]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Servlets for messages", "version": "1"},
        "paths": {
            "/api/message/{name}": {**path, "post": send, "get": read, "delete": read},
            "/api/queueBrowse/{name}": {**path, "get": browse},
        },
    }


def _query(schemas: dict[str, Node]) -> list[Node]:
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]


def _operation(summary: str, parameters: list[Node], content: Node, more: Node) -> Node:
    problem = {"application/problem+json": {"schema": {"type": "object", "required": ["title", "status", "detail"]}}}
    responses = {"200": {"description": "done", "content": content}, **more}
    responses["default"] = {"description": "a problem (RFC 9457)", "content": problem}
    return {"summary": summary, "parameters": parameters, "responses": responses}
