"""Handlers of the management API: lists and single objects, and one POST for each operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response

from spanwire.management.beans.totals import WILDCARDS, Reader, broker_with_totals, view_rows_of
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, OBJECT, TEXT, ViewTable
from spanwire.management.tables.listing import read_listing
from spanwire.management.tables.operation_table import OPERATIONS, QUESTIONS, QUEUE, Operation, Role
from spanwire.management.tables.view_table import (
    BROKER,
    QUEUES,
    TOPICS,
    VIEWS,
    listed_rows,
    rows_of,
)
from spanwire.web.arguments import check_arguments, read_arguments
from spanwire.web.calls import Call, Handler, Node, RouteRow, RouteSchema
from spanwire.web.problems import ProblemError

PREFIX: Final = "/api/v1"
ANSWERS: Final = {  # parts of the answers to questions, beside the name of the broker
    "why": (("kind", TEXT), ("explanations", LIST)),
    "bridge-parameters": (("bridge", TEXT), ("parameters", OBJECT)),
    "trace-dry-run": (("destination", TEXT), ("hops", LIST), ("delivered", BOOLEAN)),
    "observations": (("traces", LIST), ("trace", TEXT), ("observations", LIST), ("brokers", LIST), ("next", INTEGER)),
}
ONE: Final = ("browse", "send")  # commands for one destination; others take a list


async def list_view(view: ViewTable, call: Call) -> Response:
    """Answer with a page of a view."""
    listing = read_listing(view, call.request.query_params.multi_items())
    rows = await listed(view, call)
    return JSONResponse(listing.select(rows))


async def listed(view: ViewTable, call: Call) -> list[dict[str, object]]:
    """Return the rows of a view.

    Rows of queues and topics are the mirror's own objects, and must not be changed.
    """
    if view is not QUEUES and view is not TOPICS:
        return await view_rows(view, call.view)
    answer = await call.view(view.command)
    return listed_rows(view, answer) if isinstance(answer, list) else []


async def broker(call: Call) -> Response:
    """Answer with the broker and its totals."""
    return JSONResponse(await broker_with_totals(call.view))


async def view_rows(view: ViewTable, read: Reader) -> list[dict[str, object]]:
    """Return the rows of a view, of the broker as well.

    Args:
        view: the view.
        read: returns the broker's answer to a reading command.
    """
    return [await broker_with_totals(read)] if view is BROKER else await view_rows_of(view, read)


async def one_destination(view: ViewTable, call: Call) -> Response:
    """Answer with one queue or topic."""
    name = f"{'queue' if view is QUEUES else 'topic'}://{call.request.path_params['name']}"
    for row in await view_rows_of(view, call.view):
        if str(row["destination"]).removeprefix("temp-") == name:
            return JSONResponse(await details(view, row, call))
    raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no {name[:200]}")


async def details(view: ViewTable, row: dict[str, object], call: Call) -> dict[str, object]:
    """Return the row of one destination with the attributes not in lists."""
    answer = await call.ask("destination", destination=row["destination"])
    rows = rows_of(view, [answer])
    return rows[0] if rows else row


async def operate(operation: Operation, call: Call) -> Response:
    """Run an operation with the arguments of the body, and answer with the result."""
    arguments = read_arguments(operation.arguments, call.request.headers.get("content-type", ""), await _body(call))
    if operation.subject:
        arguments.update(subject(operation, [str(call.request.path_params["name"])]))
    result = await run(operation, arguments, call)
    if operation.may_begin_task and isinstance(result, dict) and isinstance(result.get("task"), str):
        location = f"{PREFIX}/tasks?id={result.get('task')}"
        return JSONResponse({"result": result}, int(HTTPStatus.ACCEPTED), {"Location": location})
    return JSONResponse({"result": result})


async def run(operation: Operation, arguments: dict[str, object], call: Call) -> object:
    """Return the result of an operation with checked arguments. Raises `ControlError`."""
    return await call.ask(operation.command, **arguments)


async def answer_question(question: Operation, call: Call) -> Response:
    """Answer a question without a change; the query has the arguments."""
    arguments: dict[str, object] = dict(call.request.query_params.multi_items())
    check_arguments(question.arguments, arguments)
    return JSONResponse(await call.ask(question.command, **arguments))


def subject(operation: Operation, names: Sequence[str]) -> dict[str, object]:
    """Return the argument with the destinations of some names. Raises `ProblemError` for a pattern.

    A part of a name may have ``*`` and ``>``; alone between two dots these characters stand for several destinations.
    """
    if any("," in name or set(name.split(".")) & set(WILDCARDS) for name in names):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the path names one destination, not a pattern")
    destinations = [f"{'queue' if operation.subject == QUEUE else 'topic'}://{name}" for name in names]
    return {"destination": destinations[0]} if operation.command in ONE else {"destinations": destinations}


async def _body(call: Call) -> bytes:
    return bytes(await call.request.body())


def _view_routes() -> list[RouteRow]:
    rows = [RouteRow("GET", f"{PREFIX}/broker", Role.VIEW, broker, BROKER.meaning)]
    for view in VIEWS:
        if view is not BROKER:
            rows.append(RouteRow("GET", f"{PREFIX}/{view.name}", Role.VIEW, partial(list_view, view), view.meaning))
    for view in (QUEUES, TOPICS):
        handler = partial(one_destination, view)
        path = f"{PREFIX}/{view.name}/{{name:path}}"
        rows.append(RouteRow("GET", path, Role.VIEW, handler, f"one of the {view.name}"))
    return rows


def _operation_route(operation: Operation) -> RouteRow:
    handler: Handler = partial(operate, operation)
    path = PREFIX + operation.path.replace("{name}", "{name:path}")
    return RouteRow("POST", path, operation.role, handler, operation.meaning)


def _question_route(question: Operation) -> RouteRow:
    parameters: tuple[Node, ...] = tuple(
        {
            "name": argument.name,
            "in": "query",
            "required": argument.required,
            "description": argument.meaning,
            "schema": {"type": TEXT, **({"enum": list(argument.choices)} if argument.choices else {})},
        }
        for argument in question.arguments
    )
    fields = ANSWERS[question.command]
    answer: Node = {
        "type": OBJECT,
        "properties": {"broker": {"type": TEXT}, **{name: {"type": type_} for name, type_ in fields}},
        "required": ["broker"],
    }
    schema = RouteSchema(parameters=parameters, answer=answer)
    handler: Handler = partial(answer_question, question)
    return RouteRow("GET", PREFIX + question.path, question.role, handler, question.meaning, schema=schema)


API_ROUTES: Final = (
    *_view_routes(),
    *(_question_route(question) for question in QUESTIONS),
    *(_operation_route(operation) for operation in OPERATIONS),
)
