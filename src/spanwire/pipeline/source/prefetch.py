"""One batch is received while Spark works on the batch before: both cores of a small machine have something to do."""

from __future__ import annotations

import logging
import threading
from typing import Final

from spanwire.model.errors import JmsError
from spanwire.pipeline.source.staging import Staging

logger = logging.getLogger(__name__)


class SegmentPrefetch:
    """Stages one segment in a thread of its own. Whoever uses the `Staging` calls `wait` before, always."""

    def __init__(self, staging: Staging) -> None:
        self._staging: Final[Staging] = staging
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def start(self, last: int, max_rows: int) -> None:
        """Stage the segment after ``last``, which stays untouched. A lost connection is for the next call to tell."""
        self._thread = threading.Thread(
            target=self._run, args=(last, max_rows), name="spanwire-read-ahead", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is being staged. Raises what went wrong, but for a lost connection."""
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
            logger.warning("reading ahead: %s", error)
        except Exception as error:  # noqa: BLE001 - whatever it is: `wait` raises it
            self._failure = error
