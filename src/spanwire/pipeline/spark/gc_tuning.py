"""Python's search for reference cycles while messages pass through a process.

Messages, rows and columns are freed when nobody has them any more; there is not a cycle among them. But they are so
many that the interpreter, as it is set by default, looks through the last 700 of them again and again: a quarter of all
the time of a process that does nothing else. Here it looks less often. It is not switched off, for the process may have
other work beside, which does make cycles.
"""

from __future__ import annotations

import gc
import sys
import threading
from types import TracebackType
from typing import Final

COLLECT_AFTER: Final = 100_000  # objects more than before: a batch of messages is no reason to look for cycles


class RareCollections:
    """A context in which collections are rare; for a task of Spark's, whose process afterwards works for others.

        with RARE_COLLECTIONS:
            ...

    Contexts may overlap in any order: what was set before the first is set again behind the last. Who collects less
    often than this by himself, or never, is left alone, and so is who sets something else inside.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._depth = 0
        self._outer = gc.get_threshold()
        self._inner = self._outer

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._outer = gc.get_threshold()
                if 0 < self._outer[0] < COLLECT_AFTER:
                    gc.set_threshold(COLLECT_AFTER, *self._outer[1:])
                self._inner = gc.get_threshold()
            self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and gc.get_threshold() == self._inner:
                gc.set_threshold(*self._outer)


class LoadedModules:
    """What a worker process of Spark's has loaded, which is there until its end.

    Behind every task such a process looks through all that it has: 30 ms for Arrow, pandas and Spark, as much as
    10,000 messages take to be sent. From the first task of ours on it looks at what has come since. Spark itself loads
    pandas behind the first task that writes.
    """

    def __init__(self) -> None:
        self._count = 0

    def freeze(self) -> None:
        """What is there now is not looked at again before the next call that finds a new module: then all is looked
        through once, so that cycles of the tasks in between, which may have been others', go. Does nothing when no
        module has come since the last call.
        """
        count = len(sys.modules)
        if count > self._count:
            self._count = count
            gc.unfreeze()
            gc.collect()
            gc.freeze()


LOADED_MODULES: Final = LoadedModules()
RARE_COLLECTIONS: Final = RareCollections()  # of this process, as the collector is
