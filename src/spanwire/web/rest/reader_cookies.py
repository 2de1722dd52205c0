"""The cookie of a reader of topics without ``clientId``: its session, as in ActiveMQ's servlet.

Only a topic needs the cookie. The consumer of a queue holds no message between two reads, so a queue keeps messages for
all.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from spanwire.web.login.cookies import cookie_name, has_tls

NAME: Final = "spanwire-reader-"  # followed by the port, because browsers send a cookie to all ports of a host
TOKEN_BYTES: Final = 16  # random bytes; only the login that began the session can use it
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
PREFIX: Final = "cookie "  # of a name in place of a clientId
DIGITS: Final = 16  # of the digest in such a name


def new_token() -> str:
    """Return the value of a new cookie."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_of(request: Request) -> str | None:
    """Return the value of a request's cookie, or None."""
    if "cookie" not in request.headers:
        return None
    token = request.cookies.get(cookie_name(request, NAME))
    return token if token is not None and TOKEN.fullmatch(token) else None


def reader_name(token: str) -> str:
    """Return the name of a session in place of a ``clientId``."""
    return PREFIX + hashlib.sha256(token.encode()).hexdigest()[:DIGITS]


def set_token(request: Request, response: Response, token: str) -> None:
    """Give the client a cookie until the end of the browser."""
    response.set_cookie(
        cookie_name(request, NAME), token, path="/", secure=has_tls(request), httponly=True, samesite="strict"
    )
