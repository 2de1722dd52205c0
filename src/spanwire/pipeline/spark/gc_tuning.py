"""Tunes Python's cyclic garbage collector while messages pass through a process.

Messages, rows and columns form no cycles and are freed by reference counting. With the default threshold the collector
examines the last 700 objects so often that it takes a quarter of the process's time. The threshold is raised instead of
disabling the collector, because other work in the process may create cycles.
"""

from __future__ import annotations

import gc
import sys
import threading
from types import TracebackType
from typing import Final

COLLECT_AFTER: Final = 100_000  # new objects before a collection; a batch of messages should not start one


class RareCollections:
    """A context with rare collections, for a task of Spark whose process later works for others.

            with RARE_COLLECTIONS:
                ...

    Contexts may overlap in any order: the last exit restores the threshold of the first entry. A program's own higher
    threshold, disabled collector, or threshold set inside the context is not changed.
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
    """Freezes the loaded modules of a Spark worker, which stay until the process ends.

    After the first task of the data source a collection examines only newer objects. Spark loads pandas after the first
    task that writes.

    A worker runs a full collection after each task: 30 ms for Arrow, pandas and Spark, the time to send 10,000
    messages.
    """

    def __init__(self) -> None:
        self._count = 0

    def freeze(self) -> None:
        """Exclude all present objects from collections if a module was loaded since the last call.

        A full collection runs before, so that cycles of the tasks in between are freed.
        """
        count = len(sys.modules)
        if count > self._count:
            self._count = count
            gc.unfreeze()
            gc.collect()
            gc.freeze()


LOADED_MODULES: Final = LoadedModules()
RARE_COLLECTIONS: Final = RareCollections()  # one per process, like the collector
