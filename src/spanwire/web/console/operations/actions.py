"""Operations as forms: a page with all arguments, and the POST for the operation of the HTTP API.

``/admin/do/queues/purge?name=queue://ORDERS`` has a form for the operation ``/queues/{name}/purge``. Words of the query
fill the fields, and ``id`` chooses messages. A POST leads to the page in ``back``, or shows the form again with the
reason of a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.management.control_client import ControlError
from spanwire.management.handles import REFUSED
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, OBJECT, TEXT
from spanwire.management.tables.operation_table import DRY_RUN, OPERATIONS, SELECTOR, TARGET, Argument, Operation
from spanwire.management.tables.view_table import QUEUES
from spanwire.web.api import ONE, listed, run, subject
from spanwire.web.arguments import MAX_ITEMS, check_arguments
from spanwire.web.calls import Call
from spanwire.web.console.formats import link
from spanwire.web.console.forms import Form, read_form, read_words, safe_target
from spanwire.web.console.operations.prompts import BEGUN, PROMPTS, messages
from spanwire.web.console.pages.dead_letters import chosen
from spanwire.web.console.pages.list_pages import DO_PATH, label_of
from spanwire.web.console.rendering import HEADERS, page_with
from spanwire.web.problems import ProblemError

TASKS_PATH: Final = "/admin/tasks"
AS_TASK: Final = "as_task"
LEFT_OUT: Final = (AS_TASK, "file")  # arguments that no form asks for
FIXED: Final = "fixed"  # names the arguments that the link to a form has chosen
LINES: Final = "_lines"  # ends the name of a field with a value a line; other fields of a list have one value each
BROWSED: Final = 400  # messages counted where a selector chooses; the most that a browse shows
POLLS: Final = 10  # looks at a task that has just begun, so that a short one has its result at once
POLL_S: Final = 0.1  # seconds between two of them
MAX_PROPERTIES: Final = 100  # lines of an argument that is an object
OFFERED: Final = tuple(operation for operation in OPERATIONS if operation.command in PROMPTS)


def path_of(operation: Operation) -> str:
    """Return the path of an operation's page."""
    return DO_PATH + operation.path.replace("/{name}", "")


async def ask(operation: Operation, call: Call) -> Response:
    """Show the form of an operation, with the number of concerned messages."""
    return await _form(operation, read_words(call), call)


async def _form(
    operation: Operation, words: Form, call: Call, fault: str = "", code: HTTPStatus = HTTPStatus.OK
) -> Response:
    """Return the form with the words as values; ``fault`` is the reason of a refusal, ``code`` its status."""
    names = words.texts("name")
    if operation.subject:
        _subject(operation, names, is_form=True)
    prompt = PROMPTS[operation.command]
    selector = _selector(words)
    count, is_least = await _count(operation, names, selector, call) if prompt.needs_count else (0, False)
    values: dict[str, object] = {
        "fault": fault,
        "prompt": prompt,
        "path": path_of(operation),
        "names": names,
        "subject": operation.subject,
        "button": prompt.button.format(count=("at least " if is_least else "") + messages(count)),
        "count": count,
        "is_least": is_least,
        "ids": words.texts("id"),
        "fields": [
            (one, words.texts(one.name), _shown(one, words, selector))
            for one in operation.arguments
            if one.name not in LEFT_OUT and one is not DRY_RUN
        ],
        "lines": LINES,
        "fixed": words.texts(FIXED) if fault else [one.name for one in operation.arguments if _is_fixed(one, words)],
        "label_of": label_of,
        "back": safe_target(words.text("back")),
    }
    return page_with(code, call, "action.html", prompt.title.format(subject=operation.subject), values)


def _is_fixed(argument: Argument, words: Form) -> bool:
    """Return True for what the link to the form has chosen, such as the id of a task."""
    has_value = argument.required and argument.type == TEXT and words.text(argument.name) != ""
    return has_value and argument is not TARGET


def _shown(argument: Argument, words: Form, selector: str) -> str:
    if argument is SELECTOR:
        return selector
    return words.text(argument.name + LINES if argument.type == LIST else argument.name)


async def act(operation: Operation, call: Call) -> Response:
    """Run an operation with the fields of its form, and lead back; a refused form is shown again."""
    form, words = await read_form(call), read_words(call)
    try:
        return await _run(operation, form, words, call)
    except ControlError as error:
        if error.code != REFUSED:
            raise
        refused = ProblemError(HTTPStatus.CONFLICT, str(error))
    except ProblemError as error:
        refused = error
    return await _form(operation, Form([*words.fields, *form.fields]), call, refused.detail, refused.status)


async def _run(operation: Operation, form: Form, words: Form, call: Call) -> Response:
    arguments = {
        one.name: value
        for one in operation.arguments
        if one is not DRY_RUN and (value := _value(one, form)) is not None
    }  # fmt: skip
    selector = _selector(form)
    if selector and SELECTOR in operation.arguments:
        arguments[SELECTOR.name] = selector
    has_task = any(one.name == AS_TASK for one in operation.arguments)
    if has_task:
        arguments[AS_TASK] = True
    check_arguments(operation.arguments, arguments)
    if operation.subject:
        arguments.update(_subject(operation, [*words.texts("name"), *form.texts("name")]))
    result = await run(operation, arguments, call)
    back = safe_target(form.text("back"))
    if not isinstance(result, dict) or not isinstance(result.get("task"), str):
        return _led(back, operation.command, 0)
    return await _ended(operation, str(result.get("task")), back, call)


async def _ended(operation: Operation, task_id: str, back: str, call: Call) -> Response:
    """Wait a moment for the end of a task; the page of tasks shows a longer task."""
    for _ in range(POLLS):
        rows = await call.ask("tasks")
        found = [row for row in rows if row.get("id") == task_id] if isinstance(rows, list) else []
        task: dict[str, object] = found[0] if found else {}
        if task.get("state") == "failed":
            raise ProblemError(HTTPStatus.CONFLICT, str(task.get("error")))
        if task.get("state") in ("done", "cancelled"):
            call.snapshots.forget()
            return _led(back, operation.command, task.get("processed"))
        await asyncio.sleep(POLL_S)
    return _led(TASKS_PATH, BEGUN, 0)


def _led(target: str, operation: str, count: object) -> Response:
    mark = "&" if "?" in target else "?"
    there = target + link("", did=operation, count=count).replace("?", mark, 1)
    return RedirectResponse(there, HTTPStatus.SEE_OTHER, HEADERS)


def _subject(operation: Operation, names: Sequence[str], *, is_form: bool = False) -> dict[str, object]:
    """Return the argument with the destinations. Raises `ProblemError` for an unsuited name."""
    plain = []
    for name in names:
        scheme, mark, rest = name.rpartition("://")
        if mark and scheme != operation.subject:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"{name[:200]} is no {operation.subject}")
        plain.append(rest)
    if is_form and not plain and operation.command == "create":
        return {}
    most = 1 if operation.command in ONE else MAX_ITEMS
    if not 0 < len(plain) <= most or not all(plain):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"choose 1 to {most} of the {operation.subject}s")
    return subject(operation, plain)


def _selector(words: Form) -> str:
    """Return the selector from the field, or a selector for the chosen messages."""
    ids = words.texts("id")
    if not ids:
        return words.text(SELECTOR.name).strip()
    return chosen(ids)


async def _count(operation: Operation, names: Sequence[str], selector: str, call: Call) -> tuple[int, bool]:
    """Return the number of messages, and True if there may be more."""
    if not selector:
        rows = await listed(QUEUES, call)
        pending = [row.get("pending") for row in rows if row.get("destination") in names]
        flights = [row.get("in_flight") for row in rows if row.get("destination") in names]
        count = sum(one for one in pending if isinstance(one, int)) - sum(
            one for one in flights if isinstance(one, int)
        )
        return max(count, 0), False
    total, is_least = 0, False
    for name in names:
        answer = await call.ask("browse", destination=name, selector=selector, limit=BROWSED)
        if isinstance(answer, dict):
            found = len(answer["messages"])
            total, is_least = total + found, is_least or found >= BROWSED or answer["looked"] < answer["waiting"]
    return total, is_least


def _value(argument: Argument, form: Form) -> object | None:
    """Return the argument in a field; None for an empty field. Raises `ProblemError`."""
    texts = [text for text in form.texts(argument.name) if text.strip()]
    if argument.type == LIST:
        texts += [line.strip() for line in form.text(argument.name + LINES).splitlines() if line.strip()]
    if argument.type == BOOLEAN:
        if argument.stays and not texts:
            return None
        return form.text(argument.name) == "true"
    if not texts:
        return None
    if argument.type == INTEGER:
        is_signed = argument.least is not None and argument.least < 0
        return whole_number(argument.name, texts[0], may_be_negative=is_signed)
    if argument.type == LIST:
        return texts
    return properties(texts[0]) if argument.type == OBJECT else texts[0]


def whole_number(name: str, text: str, *, may_be_negative: bool = False) -> int:
    """Return the number in a field. Raises `ProblemError`."""
    digits = text.strip().removeprefix("-") if may_be_negative else text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"{name.replace('_', ' ')} is a whole number from 0 on")
    return int(text)


def properties(text: str) -> dict[str, object]:
    """Return the pairs in lines ``name=value``. Raises `ProblemError`."""
    lines = [line for line in text.splitlines() if line.strip()]
    pairs = [line.partition("=") for line in lines]
    if len(pairs) > MAX_PROPERTIES or not all(mark and name.strip() for name, mark, _ in pairs):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"each line is name=value, at most {MAX_PROPERTIES}")
    return {name.strip(): value.strip() for name, _, value in pairs}


ACTIONS: Final = tuple(
    (method, path_of(operation), operation.role, partial(handler, operation), operation.meaning)
    for operation in OFFERED
    for method, handler in (("GET", ask), ("POST", act))
)
