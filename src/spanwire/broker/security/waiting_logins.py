"""Logins waiting for a directory, by the asking connection or operator.

A connection asks `WaitingLogins.must_wait`. As long as the result is True, the login and all further input wait; once
the login is decided, `LoginObserver` wakes the connection to ask for the principal.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import ClientConnection, DirectoryAsker, LoginObserver, Principal
from spanwire.broker.security.authentication import LoginAttempt

MAX_WAITING: Final = 1_000  # waiting logins of one broker, a second of work for a directory; others are refused


class WaitingLogin(DirectoryAsker):
    """A login before the answer of the directory, or with an answer not yet fetched."""

    def __init__(self, attempt: LoginAttempt, observer: LoginObserver) -> None:
        self.attempt: Final[LoginAttempt] = attempt
        self.is_decided = False
        self._observer: Final[LoginObserver] = observer
        self._is_dropped = False

    @property
    def is_dropped(self) -> bool:
        """True if the asker waits for the answer no more."""
        return self._is_dropped

    def drop(self) -> None:
        """Ignore the answer."""
        self._is_dropped = True

    def go_on(self) -> None:
        """Ask the next directory, or report the decision."""
        directory = self.attempt.next_directory()
        if directory is not None:
            directory.ask(self.attempt.info, self)
            return
        self.is_decided = True
        self._observer.on_login_decided()

    def on_answer(self, principal: Principal | None, is_available: bool) -> None:
        """Go on with the login."""
        if not self._is_dropped:
            self.attempt.add_answer(principal, is_available)
            self.go_on()


class WaitingLogins:
    """Table of the waiting logins."""

    def __init__(self) -> None:
        self._logins: Final[dict[object, WaitingLogin]] = {}

    def __len__(self) -> int:
        return len(self._logins)

    def is_full(self) -> bool:
        """Return True if no further login may wait."""
        return len(self._logins) >= MAX_WAITING

    def find(self, asker: object) -> WaitingLogin | None:
        """Return the login of ``asker``."""
        return self._logins.get(asker)

    def begin(self, asker: object, attempt: LoginAttempt, observer: LoginObserver) -> WaitingLogin:
        """Ask the first directory for ``asker``."""
        waiting = WaitingLogin(attempt, observer)
        self._logins[asker] = waiting
        waiting.go_on()
        return waiting

    def take(self, asker: object) -> LoginAttempt | None:
        """Remove the login of ``asker``, and return the login if decided."""
        waiting = self._logins.pop(asker, None)
        if waiting is None:
            return None
        waiting.drop()
        return waiting.attempt if waiting.is_decided else None


class ConnectionLogin(LoginObserver):
    """Lets a connection go on in the next turn.

    `Broker.take_dirty` returns the ``decided`` connections, too.
    """

    def __init__(self, connection: ClientConnection, decided: list[ClientConnection]) -> None:
        self._connection: Final[ClientConnection] = connection
        self._decided: Final[list[ClientConnection]] = decided

    def on_login_decided(self) -> None:
        """Have the connection flushed."""
        self._decided.append(self._connection)
