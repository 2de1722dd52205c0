"""A loop for tests of threads: calls posted from any thread run in the test's own, when it waits for something."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Queue
from typing import Final

MAX_WAIT: Final = 60.0  # seconds until a test that waits for a thread gives up


class PostedCalls:
    """``post`` is given to the threads; the test runs what they posted."""

    def __init__(self) -> None:
        self._calls: Final[Queue[Callable[[], None]]] = Queue()

    def post(self, call: Callable[[], None]) -> None:
        self._calls.put(call)

    def run_one(self) -> None:
        """Wait for a call and run it."""
        try:
            call = self._calls.get(timeout=MAX_WAIT)
        except Empty:
            raise AssertionError("no thread has reported anything") from None
        call()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is posted."""
        return self._calls.empty()

    def run_all(self) -> None:
        """Run what was posted so far."""
        while not self._calls.empty():
            self.run_one()
