"""Renews the lease of a broker on its store, for as long as the broker works.

The event loop renews the lease: a hanging loop does not. A start blocks the loop, so a thread renews meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Final

from spanwire.model.errors import FencedError, StoreError
from spanwire.stores.epoch import Epoch

logger = logging.getLogger(__name__)


class Lease:
    """The lease of an epoch, renewed every ``period_s``.

    The lease is ``length_s`` seconds long; ``clock`` is monotonic.
    """

    def __init__(
        self, epoch: Epoch, length_s: float, period_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._epoch: Final = epoch
        self._length_s: Final = length_s
        self._period_s: Final = period_s
        self._clock: Final = clock
        self._renewed = clock()
        self._failed = False
        self._ended: Final = Event()
        self._thread: Thread | None = None

    def renew(self) -> None:
        """Renew the lease. A failure is logged; once the lease has run out it is an error.

        Raises:
            StoreError: the lease has run out, or another broker has taken over the store (`FencedError`).
        """
        try:
            self._epoch.renew()
        except OSError as error:
            if self._clock() - self._renewed >= self._length_s:
                raise StoreError(
                    f"the lease in {self._epoch.path} could not be renewed for {self._length_s:g} s:"
                    f" {error.strerror or error}; this broker ends, so that a standby takes over"
                ) from error
            if not self._failed:
                self._failed = True
                logger.warning(
                    "the lease in %s cannot be renewed: %s; a standby takes over unless this ends within %g s",
                    self._epoch.path,
                    error.strerror or error,
                    self._length_s,
                )
            return
        self._renewed = self._clock()
        self._failed = False

    def __enter__(self) -> None:
        """Renew the lease on a thread until the end of the context."""
        self._ended.clear()
        self._thread = Thread(target=self._run, name="spanwire-lease", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._renewed = self._clock()

    def _run(self) -> None:
        while not self._ended.wait(self._period_s):
            try:
                with suppress(OSError):  # the loop reports it, or the first sync does
                    self._epoch.renew()
            except FencedError:
                return
