"""Arguments in the JSON body of a request: reading, and checks against a table of arguments."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Final

from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, OBJECT, TEXT
from spanwire.management.tables.operation_table import Argument
from spanwire.web.problems import ProblemError

JSON_TYPE: Final = "application/json"
MAX_SHOWN: Final = 40  # characters of a wrong value in an answer
MAX_ITEMS: Final = 100  # names in a list of an operation, as on the control socket


def read_arguments(known: tuple[Argument, ...], content_type: str, body: bytes) -> dict[str, object]:
    """Return the arguments in a body; an empty body has none. Raises `ProblemError`."""
    content = read_object(content_type, body)
    check_arguments(known, content)
    return content


def read_object(content_type: str, body: bytes) -> dict[str, object]:
    """Return the JSON object in a body; an empty body is an empty object. Raises `ProblemError`."""
    if body and content_type.partition(";")[0].strip().lower() != JSON_TYPE:
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body has the type {JSON_TYPE}")
    try:
        content = json.loads(body, parse_constant=_refuse_constant) if body else {}
    except (ValueError, RecursionError) as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the body is no JSON, or nested too deep") from error
    if not isinstance(content, dict):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return content


def _refuse_constant(name: str) -> object:
    """Refuse NaN and Infinity, read by Python, but not in JSON (RFC 8259 §6)."""
    raise ValueError(f"{name} is no JSON")


def check_arguments(
    known: tuple[Argument, ...], content: MutableMapping[str, object], others: tuple[str, ...] = ()
) -> None:
    """Raise `ProblemError` for an unknown or missing argument, or a value of another type or outside the choices.

    Errors name ``others`` too.

    A whole number may have a fraction of zero, as from programs without integers, and becomes an integer in
    ``content``.
    """
    names = [*others, *(argument.name for argument in known)]
    for name in content:
        if name not in names[len(others) :]:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                f"unknown argument {str(name)[:60]!r}; there {'are ' + ', '.join(names) if names else 'is none'}",
            )
    for argument in known:
        _check(argument, content)


def _check(argument: Argument, content: MutableMapping[str, object]) -> None:
    """Raise `ProblemError` for a missing argument, or a value of another type or outside the choices."""
    if argument.name not in content:
        if argument.required:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"the argument {argument.name} is missing: {argument.meaning}")
        return
    value = content[argument.name]
    if argument.type == INTEGER and isinstance(value, float) and value.is_integer():
        value = content[argument.name] = int(value)
    if argument.type == TEXT:
        is_right = isinstance(value, str)
    elif argument.type == OBJECT:
        is_right = isinstance(value, dict)
    elif argument.type == BOOLEAN:
        is_right = isinstance(value, bool)
    elif argument.type == INTEGER:
        is_right = isinstance(value, int) and not isinstance(value, bool) and _is_inside(argument, value)
    else:
        assert argument.type == LIST
        is_right = isinstance(value, list) and 0 < len(value) <= MAX_ITEMS and all(isinstance(x, str) for x in value)
    if not is_right:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the argument {argument.name} is wrong: {argument.meaning}")
    if argument.choices and value not in argument.choices:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST,
            f"{argument.name} is {str(value)[:MAX_SHOWN]!r}; it is one of {', '.join(argument.choices)}",
        )


def _is_inside(argument: Argument, value: int) -> bool:
    return value >= (argument.least or 0) and (argument.most is None or value <= argument.most)
