"""Handlers of the session: its begin and end."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import JSONResponse, Response

from spanwire.web.calls import Call
from spanwire.web.login.cookies import clear_token, set_token, token_of
from spanwire.web.login.sessions import IDLE_S, TOTAL_S
from spanwire.web.problems import ProblemError


async def begin(call: Call) -> Response:
    """Begin a session for the credentials of the request, and give the browser the cookie."""
    authorization = call.request.headers.get("authorization")
    if authorization is None:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "a session begins with credentials in the Authorization header")
    user, role = call.caller.user, call.caller.role.name.lower()
    response = JSONResponse({"result": {"user": user, "role": role, "idle_s": IDLE_S, "total_s": TOTAL_S}})
    set_token(call.request, response, call.sessions.begin(user, authorization))
    return response


async def end(call: Call) -> Response:
    """End the session of the cookie, if present."""
    token = token_of(call.request)
    if token is not None:
        call.sessions.end(token)
    response = JSONResponse({"result": None})
    clear_token(call.request, response)
    return response
