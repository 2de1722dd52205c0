"""The page of traces: starts a trace, shows the steps of messages, and asks for a dry run."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.management.control_client import ControlError
from spanwire.management.tables.operation_table import OBSERVATIONS, TRACE, TRACE_DRY_RUN, TRACE_END
from spanwire.web.arguments import check_arguments
from spanwire.web.calls import Call
from spanwire.web.console.formats import link
from spanwire.web.console.forms import HOME, Form, read_form, read_words
from spanwire.web.console.operations.actions import whole_number
from spanwire.web.console.rendering import HEADERS, page
from spanwire.web.problems import ProblemError

PATH: Final = f"{HOME}/trace"
END_PATH: Final = f"{PATH}/end"
NUMBERS: Final = ("one_in", "seconds", "messages")
MAX_SHOWN: Final = 2_000  # steps of one page; as many as the last answers have
ROWS: Final = 500  # steps of one answer of the broker
Row = dict[str, object]
STATE: Final[Row] = {"silence": "", "offset_ms": 0, "uncertain_ms": 0}  # of a broker that has told steps alone so far


async def show_trace(call: Call) -> Response:
    """Show one trace, a dry run, or the form and all traces."""
    words = read_words(call)
    name, dry = words.text("trace"), words.text("dry_run")
    values: Row = {
        "asked": {key: words.text(key) for key in ("name", "from", "properties", "is_topic")},
        "dry": dry,
        "fault": "",
    }
    values |= {"trace": None, "traces": [], "steps": [], "hops": [], "delivered": False}
    try:
        if name:
            values |= await _trace(call, name)
        elif dry:
            values |= await _dry_run(call, words)
    except ControlError as error:
        values["fault"] = str(error)
    if not values["trace"] and not dry:
        answer = await call.ask(OBSERVATIONS.command)
        values["traces"] = _rows(answer.get("traces")) if isinstance(answer, dict) else []
    return page(call, "trace.html", "Trace", views="broker" if values["trace"] else "", **values)


async def start_trace(call: Call) -> Response:
    """Start the trace of the form and lead to the page of the trace."""
    form = await read_form(call)
    arguments: dict[str, object] = {"destination": form.text("destination").strip()}
    if form.text("is_topic") and "://" not in form.text("destination"):
        arguments["destination"] = f"topic://{form.text('destination').strip()}"
    if form.text("selector").strip():
        arguments["selector"] = form.text("selector").strip()
    ids = form.text("ids").split()
    if ids:
        arguments["ids"] = ids
    arguments |= {name: whole_number(name, form.text(name)) for name in NUMBERS if form.text(name).strip()}
    if form.is_checked("network"):
        arguments["network"] = True
    check_arguments(TRACE.arguments, arguments)
    answer = await call.ask(TRACE.command, **arguments)
    name = str(answer.get("trace")) if isinstance(answer, dict) else ""
    return RedirectResponse(link(PATH, trace=name), HTTPStatus.SEE_OTHER, HEADERS)


async def end_trace(call: Call) -> Response:
    """End the trace of the form and lead back to the page of the trace."""
    form = await read_form(call)
    name = form.text("trace")
    await call.ask(TRACE_END.command, trace=name)
    return RedirectResponse(link(PATH, trace=name), HTTPStatus.SEE_OTHER, HEADERS)


async def _trace(call: Call, name: str) -> Row:
    """Return a trace with its steps by message, in the order of brokers on the way and of numbers at each."""
    steps: list[Row] = []
    trace: Row = {}
    while len(steps) < MAX_SHOWN:
        answer = await call.ask(OBSERVATIONS.command, trace=name, after=str(len(steps)))
        if not isinstance(answer, dict):
            raise ProblemError(HTTPStatus.BAD_GATEWAY, "the broker answers in another form than expected")
        trace = answer
        rows = _rows(answer.get("observations"))
        steps += rows
        if len(rows) < ROWS:
            break
    by_message: dict[str, list[Row]] = {}
    for row in steps:
        by_message.setdefault(str(row.get("message_id")), []).append(row)
    messages = [(message, sorted(rows, key=_hops)) for message, rows in by_message.items()]
    brokers = [{**STATE, **row} for row in _rows(trace.get("brokers"))]
    shown = {
        key: trace.get(key) for key in ("trace", "destination", "selector", "ended", "left_s", "marked", "dropped")
    }
    return {"trace": {**shown, "complete": trace.get("complete", True), "brokers": brokers}, "steps": messages}


async def _dry_run(call: Call, words: Form) -> Row:
    destination = words.text("name")
    if words.text("is_topic") and "://" not in destination:
        destination = f"topic://{destination}"
    asked = {"destination": destination, "from": words.text("from"), "properties": words.text("properties")}
    arguments: dict[str, object] = {key: value for key, value in asked.items() if value}
    check_arguments(TRACE_DRY_RUN.arguments, arguments)
    answer = await call.ask(TRACE_DRY_RUN.command, **arguments)
    if not isinstance(answer, dict):
        raise ProblemError(HTTPStatus.BAD_GATEWAY, "the broker answers in another form than expected")
    return {"hops": _rows(answer.get("hops")), "delivered": answer.get("delivered") is True}


def _hops(row: Row) -> int:
    hops = row.get("hops")
    return hops if isinstance(hops, int) else 0


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
