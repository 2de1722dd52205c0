"""Sessions of browsers: a token in place of the credentials, for a bounded time.

A session keeps the credentials in memory, because the broker checks them again each minute: a changed password ends the
session. Tokens are kept as digests.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

IDLE_S: Final = 15 * 60  # seconds without a request; an unattended browser is of no use for longer
TOTAL_S: Final = 8 * 60 * 60  # seconds; a working day
MAX_SESSIONS: Final = 1_000  # sessions; as many as callers; the one that was idle longest ends when there are more
MAX_OF_USER: Final = 20  # sessions of one user, so that one user ends no other's
TOKEN_BYTES: Final = 32  # random bytes of a token


@dataclass(slots=True)
class Session:
    """A logged-in browser."""

    user: str
    authorization: str
    ends: float
    idle_ends: float


class Sessions:
    """Begins, finds and ends sessions."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now: Final = now
        self._sessions: Final[dict[bytes, Session]] = {}  # the one that was idle longest first

    def begin(self, user: str, authorization: str) -> str:
        """Return the token of a new session."""
        now = self._now()
        for key, session in list(self._sessions.items()):
            if _has_ended(session, now):
                del self._sessions[key]
        of_user = [key for key, session in self._sessions.items() if session.user == user]
        if len(of_user) >= MAX_OF_USER:
            del self._sessions[of_user[0]]
        elif len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._sessions[_digest(token)] = Session(user, authorization, now + TOTAL_S, now + IDLE_S)
        return token

    def find(self, token: str, *, is_use: bool = True) -> Session | None:
        """Return the session of a token, or None after the end. A use begins the idle time again."""
        key, now = _digest(token), self._now()
        if not is_use:
            known = self._sessions.get(key)
            return None if known is None or _has_ended(known, now) else known
        session = self._sessions.pop(key, None)
        if session is None or _has_ended(session, now):
            return None
        session.idle_ends = now + IDLE_S
        self._sessions[key] = session
        return session

    def end(self, token: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(token), None)


def _has_ended(session: Session, now: float) -> bool:
    return now >= session.ends or now >= session.idle_ends


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
