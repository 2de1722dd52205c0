"""The log of a FastStream application: columns for destination and message."""

from __future__ import annotations

import logging
from typing import Any, Final

from faststream._internal.logger import DefaultLoggerStorage
from faststream._internal.logger.logging import get_broker_logger

ID_WIDTH: Final = 10  # characters of a message id, as in FastStream's other logs
MAX_WIDTH: Final = 40  # characters of a destination; a longer one shifts its line


class SpanwireLog(DefaultLoggerStorage):
    """Makes the logger of a broker as wide as the names of its destinations."""

    def __init__(self) -> None:
        super().__init__()
        self._width = 0
        self.logger_log_level = logging.INFO

    def set_level(self, level: int) -> None:
        """Set the level of the logger that will be made."""
        self.logger_log_level = level

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Make room for the destination of a subscriber."""
        self._width = min(MAX_WIDTH, max(self._width, len(params.get("destination", ""))))

    def get_logger(self, *, context: Any) -> Any:
        """Return the logger; the first call makes it."""
        logger = self._get_logger_ref()
        if logger is None:
            logger = get_broker_logger(
                name="spanwire",
                default_context={"destination": ""},
                message_id_ln=ID_WIDTH,
                fmt=f"%(asctime)s %(levelname)-8s - %(destination)-{self._width}s | %(message_id)-{ID_WIDTH}s "
                "- %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger
