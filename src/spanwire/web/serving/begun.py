"""A call after its begin.

Most reads of a request have their bytes at once, and then need neither timer nor task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Begun(Generic[Result]):
    """Runs an awaitable up to its first wait.

    With ``is_over`` the awaitable did not wait, and ``result`` is the returned value. Otherwise awaiting this object
    goes on with the awaitable. An error before the first wait is raised by the constructor.
    """

    __slots__ = ("_first", "_steps", "is_over", "result")

    result: Result

    def __init__(self, awaitable: Awaitable[Result]) -> None:
        """Begin ``awaitable``."""
        self._steps: Generator[Any, Any, Result] = awaitable.__await__()
        self.is_over = False
        try:
            self._first: object = next(self._steps)
        except StopIteration as end:
            self.is_over = True
            self.result = end.value

    def __await__(self) -> Generator[Any, Any, Result]:
        """Go on, as ``yield from`` does with a generator before its begin (PEP 380)."""
        waits_for = self._first
        while True:
            try:
                answer = yield waits_for
            except BaseException as error:  # noqa: BLE001 - passed on, as a cancellation must be
                step = partial(self._steps.throw, error)
            else:
                step = partial(self._steps.send, answer)
            try:
                waits_for = step()
            except StopIteration as end:
                self.is_over = True
                self.result = end.value
                return self.result
