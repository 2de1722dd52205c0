"""Errors as problem details (RFC 9457), the same for every route."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import JSONResponse, Response

from spanwire.management.control_client import ControlError
from spanwire.management.handles import FORBIDDEN, REFUSED, UNAUTHENTICATED

CONTENT_TYPE = "application/problem+json"
CHALLENGE = 'Basic realm="spanwire", charset="UTF-8"'
STATUS_OF_CODE = {
    UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    FORBIDDEN: HTTPStatus.FORBIDDEN,
    REFUSED: HTTPStatus.CONFLICT,
}


class ProblemError(Exception):
    """Raised by a route to answer with a problem."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def problem(status: HTTPStatus, detail: str) -> Response:
    """Return the response of a problem; a 401 asks for credentials."""
    headers = {"WWW-Authenticate": CHALLENGE} if status is HTTPStatus.UNAUTHORIZED else None
    content = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    return JSONResponse(content, int(status), headers, CONTENT_TYPE)


def problem_of(error: ControlError) -> ProblemError:
    """Return the problem of a refusal by the broker; without a code the broker is not there."""
    return ProblemError(STATUS_OF_CODE.get(error.code, HTTPStatus.SERVICE_UNAVAILABLE), str(error))
