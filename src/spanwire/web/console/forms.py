"""Queries and forms of pages.

Reads the words of a link, and the fields of a POST from a page of this host.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from spanwire.web.calls import Call
from spanwire.web.login.cookies import proves_origin
from spanwire.web.problems import ProblemError

FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_FIELDS: Final = 1_000  # fields of a form; a list has at most as many rows to choose


HOME: Final = "/admin"
MAX_TARGET: Final = 2_000  # characters of the path to go to after a form


class Form:
    """The fields of a form."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields: Final = fields

    def text(self, name: str) -> str:
        """Return the first value of a field; empty without one."""
        return next((value for field, value in self.fields if field == name), "")

    def texts(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for field, value in self.fields if field == name]

    def is_checked(self, name: str) -> bool:
        """Return True for a checked box."""
        return self.text(name) != ""


def read_words(call: Call) -> Form:
    """Return the words of a request's query. Raises `ProblemError`.

    Names may have one half of a surrogate pair.
    """
    return Form(_fields(bytes(call.request.scope.get("query_string", b""))))


async def read_form(call: Call) -> Form:
    """Return the form of a request.

    Raises:
        ProblemError: the request proves no origin, or its body is no form
    """
    request = call.request
    if not proves_origin(request.method, request.headers):
        raise ProblemError(HTTPStatus.FORBIDDEN, "a form of the console is sent by a page of this host alone")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body has the type {FORM_TYPE}")
    return Form(_fields(bytes(await request.body())))


def _fields(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            text.decode("ascii"), keep_blank_values=True, errors="surrogatepass", max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the words of the request are malformed, or too many") from error


def safe_target(path: str) -> str:
    """Return a path of the console; another address leads to the overview."""
    is_path = path == HOME or path.startswith((f"{HOME}/", f"{HOME}?"))
    is_plain = path.isprintable() and "\\" not in path and len(path) <= MAX_TARGET
    return path if is_path and is_plain else HOME
