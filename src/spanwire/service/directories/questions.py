"""Asks a directory about logins in threads, a limited number at a time.

All methods but the check itself run in the broker's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from spanwire.broker.ports import DirectoryAsker, Principal
from spanwire.model.errors import SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.service.directories.daemon import in_daemon

THREAD: Final = "spanwire-login"
THREADS: Final = 4  # questions of one login module at a time; a directory answers some hundred each second
MAX_QUESTIONS: Final = 1_000  # questions that wait for a thread, as many as logins may wait in the broker
ANSWER_S: Final = 9.0  # seconds from the question to the answer; the client has 10 to log in
LOG_S: Final = 30.0  # seconds between two log lines about one fault of a directory

Check = Callable[[str, str], frozenset[str] | None]

logger = logging.getLogger(__name__)


class _Question:
    """A question of a login with a deadline and the state of the answer."""

    def __init__(self, info: ConnectionInfo, asker: DirectoryAsker) -> None:
        self.info: Final = info
        self.asker: Final = asker
        self.deadline: asyncio.TimerHandle | None = None
        self.is_answered = False


class DirectoryQuestions:
    """Answers logins by ``check``: a blocking call with the groups of a user as result.

    Has the shape of `spanwire.broker.ports.Directory`; an interpreted class cannot inherit from a compiled port.

    ``where`` names the directory in the log; ``wake`` ends the turn of the broker after an answer.
    """

    def __init__(self, where: str, check: Check, wake: Callable[[], None], threads: int = THREADS) -> None:
        self._where: Final = where
        self._check: Final = check
        self._wake: Final = wake
        self._threads: Final = threads
        self._running = 0
        self._waiting: Final[deque[_Question]] = deque()
        self._failures = 0  # questions without an answer since the last line in the log
        self._logged_at = float("-inf")
        self._is_failing = False
        self._is_closed = False

    def ask(self, info: ConnectionInfo, asker: DirectoryAsker) -> None:
        """Ask now, or as soon as a thread is free. Beyond `MAX_QUESTIONS` there is no answer."""
        question = _Question(info, asker)
        if self._is_closed:
            self._answer(question, None, is_available=False)
            return
        if len(self._waiting) >= MAX_QUESTIONS:
            self._drop_unwanted()
        if len(self._waiting) >= MAX_QUESTIONS:
            self._fail(question, f"{MAX_QUESTIONS} logins wait for it, more are refused")
            return
        loop = asyncio.get_running_loop()
        question.deadline = loop.call_later(ANSWER_S, self._on_deadline, question)
        self._waiting.append(question)
        self._start_next()

    def close(self) -> None:
        """Answer all waiting questions, and ask no more. Running threads end at the deadline."""
        self._is_closed = True
        while self._waiting:
            self._answer(self._waiting.popleft(), None, is_available=False)

    def _drop_unwanted(self) -> None:
        """Remove the questions of closed connections."""
        for question in [one for one in self._waiting if one.asker.is_dropped]:
            self._waiting.remove(question)
            self._answer(question, None, is_available=False)

    def _start_next(self) -> None:
        while self._waiting and self._running < self._threads:
            question = self._waiting.popleft()
            if question.is_answered or question.asker.is_dropped:
                self._answer(question, None, is_available=False)
                continue
            self._running += 1
            info = question.info
            future = in_daemon(partial(self._check, info.user_name or "", info.password or ""), THREAD)
            future.add_done_callback(partial(self._on_checked, question))

    def _on_checked(self, question: _Question, done: asyncio.Future[frozenset[str] | None]) -> None:
        self._running -= 1
        error = done.exception()
        if isinstance(error, SpanwireError):
            self._fail(question, str(error))
        elif error is not None:
            logger.error("%s: unexpected error in a login", self._where, exc_info=error)
            self._answer(question, None, is_available=False)
        else:
            self._recover()
            groups = done.result()
            name = question.info.user_name or ""
            self._answer(question, None if groups is None else Principal(name, groups), is_available=True)
        if not self._is_closed:
            self._start_next()

    def _on_deadline(self, question: _Question) -> None:
        if not question.is_answered:
            self._fail(question, f"{self._where} has not answered within {ANSWER_S:g} s")

    def _answer(self, question: _Question, principal: Principal | None, *, is_available: bool) -> None:
        """Answer once; a later answer comes too late."""
        if question.deadline is not None:
            question.deadline.cancel()
        if question.is_answered:
            return
        question.is_answered = True
        question.asker.on_answer(principal, is_available)
        self._wake()

    def _fail(self, question: _Question, reason: str) -> None:
        """Answer that the directory is not available, with a line in the log from time to time."""
        self._failures += 1
        self._is_failing = True
        now = asyncio.get_running_loop().time()
        if now >= self._logged_at + LOG_S:
            logger.error("logins are refused: %s (%d since the last line)", reason, self._failures)
            self._logged_at = now
            self._failures = 0
        self._answer(question, None, is_available=False)

    def _recover(self) -> None:
        if self._is_failing:
            self._is_failing = False
            self._logged_at = float("-inf")
            self._failures = 0
            logger.info("%s answers logins again", self._where)
