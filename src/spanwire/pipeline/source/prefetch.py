"""Prefetches the next batch in a thread while Spark processes the current batch."""

from __future__ import annotations

import logging
import threading
from typing import Final

from spanwire.model.errors import JmsError
from spanwire.pipeline.source.staging import Staging

logger = logging.getLogger(__name__)


class SegmentPrefetch:
    """Stages one segment in a thread; call `wait` before any other use of the `Staging`."""

    def __init__(self, staging: Staging) -> None:
        self._staging: Final[Staging] = staging
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def start(self, last: int, max_rows: int) -> None:
        """Begin to stage the segment after ``last``. The next call to `Staging` reports a lost connection."""
        self._thread = threading.Thread(
            target=self._run, args=(last, max_rows), name="spanwire-read-ahead", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until no segment is being staged; raise the failure of the thread, except a lost connection."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self, last: int, max_rows: int) -> None:
        try:
            self._staging.stage_after(last, max_rows)
        except JmsError as error:
            logger.warning("reading ahead has failed, so the next batch reads by itself: %s", error)
        except Exception as error:  # noqa: BLE001 - `wait` raises every failure
            self._failure = error
