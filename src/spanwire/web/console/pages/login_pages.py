"""Pages to log in and out; `spanwire.web.login` has the session."""

from __future__ import annotations

import base64
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.web.calls import Call
from spanwire.web.console.forms import read_form, read_words, safe_target
from spanwire.web.console.rendering import HEADERS, LOGIN, login_page
from spanwire.web.login.cookies import clear_token, set_token, token_of
from spanwire.web.problems import ProblemError

REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


async def show_login(call: Call) -> Response:
    """Show the login form."""
    return login_page(call.request, safe_target(read_words(call).text("next")))


async def log_in(call: Call) -> Response:
    """Begin a session for user and password of the form."""
    form = await read_form(call)
    user, target = form.text("user"), safe_target(form.text("next"))
    if ":" in user:
        return login_page(call.request, target, "A user name has no colon.", HTTPStatus.BAD_REQUEST)
    secret = base64.b64encode(f"{user}:{form.text('password')}".encode("utf-8", "replace")).decode("ascii")
    authorization = f"Basic {secret}"
    try:
        caller = await call.log_in(authorization)
    except ProblemError as error:
        if error.status not in REFUSALS:
            raise
        return login_page(call.request, target, error.detail, error.status)
    old = token_of(call.request)
    if old is not None:
        call.sessions.end(old)
    response = RedirectResponse(target, HTTPStatus.SEE_OTHER, HEADERS)
    set_token(call.request, response, call.sessions.begin(caller.user, authorization))
    return response


async def log_out(call: Call) -> Response:
    """End the session of the cookie, and lead to the login page."""
    await read_form(call)
    token = token_of(call.request)
    if token is not None:
        call.sessions.end(token)
    response = RedirectResponse(LOGIN, HTTPStatus.SEE_OTHER, HEADERS)
    clear_token(call.request, response)
    return response
