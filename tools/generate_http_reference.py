"""Writes docs/reference/http-api.md from the tables of views and operations.

python tools/generate_http_reference.py            # writes the page
python tools/generate_http_reference.py --check    # fails if the page is not what the tables give
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.operation_table import OPERATIONS, WHY, Operation
from spanwire.management.tables.view_table import BROKER, VIEWS
from spanwire.web.calls import RouteRow
from spanwire.web.messages.message_routes import JSON_ROUTES

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "http-api.md"
HEAD: Final = """\
# HTTP API

The routes of `spanwire web` below `/api/v1`. `tools/generate_http_reference.py` writes this page from the tables that
the routes are made from, and `GET /api/v1/openapi.json` has them as an OpenAPI document. [Use the HTTP
API](../operations/http-api.md) has examples.

## Operations

Each is a `POST` with a JSON object of arguments, or with no body. The answer is an object with `result`, which has the
values that the command of the same name shows. `{name}` is one queue or topic, without patterns.

| route | role | effect | arguments |
|---|---|---|---|
"""
QUESTION_HEAD: Final = """\
## Questions

A `GET` with the arguments as parameters of the query. [My message does not arrive](../operations/why.md) explains the
answer: `broker`, `kind`, and a list of `explanations` with `subject`, `cause`, `sentence`, `evidence` and `advice`.

| route | role | effect | arguments |
|---|---|---|---|
"""
MESSAGES_HEAD: Final = """\
## Messages

These need the rights of the user to the destination, and no role. [Messages as JSON](../guides/http/json.md) has
examples.

| route | effect | arguments or parameters |
|---|---|---|
"""
VIEW_HEAD: Final = """\
## Views

Each is a `GET` for the role `view`. `/api/v1/queues/{name}` and `/api/v1/topics/{name}` show one object, and
`/api/v1/broker` the broker. All others are lists. `/api/v1/events` is a stream of [their
changes](../operations/http-api.md#follow-changes).
"""


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            sys.stdout.write(f"{TARGET.name} is not what the tables give: run tools/generate_http_reference.py\n")
            return 1
        return 0
    TARGET.write_text(text, "utf-8")
    return 0


def page() -> str:
    rows = "".join(operation_row(operation) for operation in OPERATIONS)
    messages = "".join(message_row(route) for route in JSON_ROUTES)
    return "\n".join(
        [
            HEAD + rows,
            QUESTION_HEAD + operation_row(WHY),
            MESSAGES_HEAD + messages,
            VIEW_HEAD,
            *(part for view in VIEWS for part in section(view)),
        ]
    )


def operation_row(operation: Operation) -> str:
    arguments = [
        f"`{argument.name}`{'' if argument.required else ' (optional)'}: {argument.meaning}"
        for argument in operation.arguments
    ]
    return f"| `{operation.path}` | {operation.role.name.lower()} | {operation.meaning} | {'; '.join(arguments)} |\n"


def message_row(route: RouteRow) -> str:
    """Return the row of a route of messages."""
    assert route.schema is not None
    names = [str(parameter["name"]) for parameter in route.schema.parameters]
    body = route.schema.body or {}
    properties = body.get("properties")
    if isinstance(properties, dict):
        names += properties
    path = route.path.removeprefix("/api/v1").replace("{name:path}", "{name}")
    shown = ", ".join(f"`{name}`" for name in names)
    if "anyOf" in body:
        shown += ", a message or `messages`"
    return f"| `{route.method} {path}` | {route.summary} | {shown} |\n"


def section(view: ViewTable) -> Iterator[str]:
    """Return the heading of a view and the table of its attributes."""
    yield f"### /api/v1/{view.name}\n"
    kind = "An object" if view is BROKER else "A list"
    yield f"{kind}: {view.meaning}.\n"
    yield "| attribute | type | unit | meaning | ActiveMQ |\n|---|---|---|---|---|"
    for attribute in view.attributes:
        kind = f"{attribute.type} or null" if attribute.nullable else attribute.type
        bean = f"`{attribute.bean}`" if attribute.bean else ""
        yield f"| `{attribute.name}` | {kind} | {attribute.unit} | {attribute.meaning} | {bean} |"
    yield ""


if __name__ == "__main__":
    raise SystemExit(main())
