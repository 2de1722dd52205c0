"""The cookie of a session, and the credentials of a request.

A browser sends the cookie to this host alone (`SameSite=Strict`, no domain), and hides the cookie from scripts. A
request with the cookie proves its origin before a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from spanwire.web.login.sessions import TOTAL_S, Sessions
from spanwire.web.problems import ProblemError

NAME: Final = "spanwire-session-"  # followed by the port, because browsers send a cookie to all ports of a host
SECURE_PREFIX: Final = "__Host-"  # browsers take such a cookie over TLS alone, and from no other host
SAFE_METHODS: Final = ("GET", "HEAD")


def credentials(request: Request, sessions: Sessions, *, is_use: bool = True) -> str | None:
    """Return the ``Authorization`` header of a request, or that of its cookie's session.

    A cookie without a session does not count, as an earlier process may have set the cookie. Without ``is_use`` the
    idle time of the session goes on.

    Raises:
        ProblemError: the request comes from a session, without a proof of the origin
    """
    authorization: str | None = request.headers.get("authorization")
    token = None if authorization is not None else token_of(request)
    if token is None:
        return authorization
    session = sessions.find(token, is_use=is_use)
    if session is None:
        return None
    if not proves_origin(request.method, request.headers):
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "a session needs the header Origin or Sec-Fetch-Site for this method, as browsers send",
        )
    return session.authorization


def proves_origin(method: str, headers: Mapping[str, str]) -> bool:
    """Return True if a request with a cookie may run its method.

    The guard has refused foreign origins before, so an unsafe request must show some origin.
    """
    return method in SAFE_METHODS or "origin" in headers or headers.get("sec-fetch-site") == "same-origin"


def token_of(request: Request) -> str | None:
    """Return the token in the cookie of a request."""
    if "cookie" not in request.headers:
        return None
    token: str | None = request.cookies.get(cookie_name(request, NAME))
    return token


def end_refused(request: Request, sessions: Sessions) -> None:
    """End the session after the broker has refused its credentials."""
    token = token_of(request)
    if token is not None and "authorization" not in request.headers:
        sessions.end(token)


def set_token(request: Request, response: Response, token: str) -> None:
    """Give the browser a token."""
    _set(request, response, token, TOTAL_S)


def clear_token(request: Request, response: Response) -> None:
    """Let the browser forget the token."""
    _set(request, response, "", 0)


def _set(request: Request, response: Response, token: str, seconds: int) -> None:
    name = cookie_name(request, NAME)
    response.set_cookie(
        name, token, max_age=seconds, path="/", secure=has_tls(request), httponly=True, samesite="strict"
    )


def cookie_name(request: Request, name: str) -> str:
    """Return the name of a cookie at the port of a request."""
    server = request.scope.get("server") or ("", 0)
    return f"{SECURE_PREFIX if has_tls(request) else ''}{name}{server[1]}"


def has_tls(request: Request) -> bool:
    """Return True if a request came over TLS."""
    return bool(request.scope["scheme"] == "https")
