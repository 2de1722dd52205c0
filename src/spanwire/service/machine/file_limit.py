"""The process's limit of open files."""

from __future__ import annotations

import logging
import resource
from typing import Final

FILE_LIMIT: Final = 16_384  # open files; enough for 10,000 connections and the journal's segments

logger = logging.getLogger(__name__)


def raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows, up to the needs of a full broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILE_LIMIT if hard == resource.RLIM_INFINITY else min(FILE_LIMIT, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        logger.info("at most %d files can be open, which limits the connections", soft)
