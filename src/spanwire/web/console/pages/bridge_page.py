"""The page of a bridge: state, operations and parameters, with a form that sets parameters while the bridge runs."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.bridges.model.definition import Quality
from spanwire.management.beans.operations import BRIDGE_PARAMETERS as CHANGEABLE
from spanwire.management.control_client import ControlError
from spanwire.management.handles import REFUSED
from spanwire.management.tables.network_tables import BRIDGES
from spanwire.management.tables.operation_table import BRIDGE_PARAMETERS, OPERATIONS, Role
from spanwire.web.api import view_rows
from spanwire.web.calls import Call
from spanwire.web.console.formats import NONE, link, yes_or_no
from spanwire.web.console.forms import Form, read_form, read_words
from spanwire.web.console.operations.prompts import CHANGED
from spanwire.web.console.pages.list_pages import label_of, shown
from spanwire.web.console.pages.other_lists import BRIDGE_LIST, BRIDGE_PATH
from spanwire.web.console.rendering import HEADERS, page_with
from spanwire.web.problems import ProblemError

WAS: Final = "was_"  # begins the name of a field with the value that the form has shown
WITHOUT: Final = "without_"  # begins the name of a box that takes a password away
PASSWORDS: Final = ("sourcePassword", "targetPassword")
NUMBERS: Final = ("failureRetryInterval", "maxRetries", "maxBatchSize", "maxBatchTime", "failoverTimeout")
FLAGS: Final = ("addMessageIDInHeader", "duplicateDetection")
QUALITY: Final = "qualityOfServiceMode"
MEANINGS: Final = {
    "sourceUsername": "user at the source",
    "sourcePassword": "password at the source",
    "targetUsername": "user at the target",
    "targetPassword": "password at the target",
    "selector": "only messages that it matches; empty for all",
    "failureRetryInterval": "ms between two attempts; -1 for pauses that grow",
    "maxRetries": "attempts in a row after a failure; -1 without end",
    QUALITY: "what happens to a message when a broker or the bridge fails",
    "maxBatchSize": "messages of a batch",
    "maxBatchTime": "ms without a new message until a smaller batch is sent; -1 for full batches alone",
    "subscriptionName": "name of a durable subscription at a topic; empty for none",
    "clientID": "client id of a durable subscription",
    "addMessageIDInHeader": "whether a property gets the ids at the source",
    "messageIDHeader": "name of that property",
    "failoverTimeout": "ms after the loss of a broker in which attempts do not count as retries",
    "duplicateDetection": "whether the target drops messages that come again, for DUPLICATES_OK",
}
CHANGE: Final = next(one for one in OPERATIONS if one.command == CHANGED)


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter in the form: what was shown, what is written, and the choices if there are any."""

    name: str
    meaning: str
    was: str
    value: str
    choices: tuple[str, ...]
    is_number: bool
    is_password: bool
    has_password: bool


async def show_bridge(call: Call) -> Response:
    """Show one bridge."""
    return await _page(call, read_words(call).text("name"))


async def change_bridge(call: Call) -> Response:
    """Set the parameters of the form that differ from what it has shown, and lead back; a refused form stays."""
    form, name = await read_form(call), read_words(call).text("name")
    settings = changes(form)
    if not settings:
        return await _page(call, name, form, "no field differs from what the bridge has", HTTPStatus.BAD_REQUEST)
    try:
        await call.ask(CHANGE.command, name=name, settings=settings)
    except ControlError as error:
        if error.code != REFUSED:
            raise
        return await _page(call, name, form, str(error), HTTPStatus.CONFLICT)
    return RedirectResponse(link(BRIDGE_PATH, name=name, did=CHANGED, count=0), HTTPStatus.SEE_OTHER, HEADERS)


def changes(form: Form) -> dict[str, object]:
    """Return the parameters that a form changes; None takes one away.

    A field is compared with what the form has shown, so what another operator has set meanwhile stays.
    """
    found: dict[str, object] = {}
    for name in CHANGEABLE:
        value, was = (form.text(word).replace("\r\n", "\n") for word in (name, WAS + name))
        if name in PASSWORDS and form.is_checked(WITHOUT + name):
            found[name] = None
        elif value != was:
            found[name] = value or None
    return found


async def _page(
    call: Call, name: str, form: Form | None = None, fault: str = "", code: HTTPStatus = HTTPStatus.OK
) -> Response:
    row = next((row for row in await view_rows(BRIDGES, call.view) if row.get("name") == name), None)
    if row is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no bridge {name[:200]}")
    answer = await call.ask(BRIDGE_PARAMETERS.command, name=name)
    given = answer.get("parameters") if isinstance(answer, dict) else None
    parameters: dict[str, object] = given if isinstance(given, dict) else {}
    may_change = call.caller.role >= CHANGE.role
    values = {
        "fault": fault,
        "name": name,
        "row": row,
        "views": BRIDGES.name,
        "actions": [
            (one.label, one.target(row, link(BRIDGE_PATH, name=name) if one.role < Role.ADMIN else BRIDGE_LIST.path))
            for one in BRIDGE_LIST.actions
            if call.caller.role >= one.role and one.is_offered(row) and one.path != "/bridge"
        ],
        "facts": [(label_of(one.name), one.meaning, shown(one, row.get(one.name))) for one in BRIDGES.attributes],
        "parameters": [
            (word, MEANINGS.get(word, ""), _shown(value))
            for word, value in parameters.items()
            if not may_change or word not in CHANGEABLE
        ],
        "fields": [_field(word, parameters.get(word), form) for word in CHANGEABLE if word in parameters]
        if may_change
        else [],
        "was": WAS,
        "without": WITHOUT,
        "path": link(BRIDGE_PATH, name=name),
        "is_route": not parameters,
    }
    return page_with(code, call, "bridge.html", name, values)


def _field(name: str, value: object, form: Form | None) -> Field:
    """Return the field of a parameter, as it is or as it was written; a password is shown in neither case."""
    is_password = name in PASSWORDS
    text = "" if value is None or is_password else str(value).lower() if isinstance(value, bool) else str(value)
    was = text if form is None else form.text(WAS + name)
    written = text if form is None else form.text(name)
    choices = tuple(one.value for one in Quality) if name == QUALITY else ("true", "false") if name in FLAGS else ()
    return Field(
        name, MEANINGS[name], was, "" if is_password else written, choices, name in NUMBERS, is_password,
        is_password and value is not None,
    )  # fmt: skip


def _shown(value: object) -> str:
    return NONE if value is None else yes_or_no(value) if isinstance(value, bool) else str(value)
