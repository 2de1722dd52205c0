"""Counts the open files of this process."""

from __future__ import annotations

import os
from pathlib import Path


def descriptors_of(path: Path) -> int:
    """How many descriptors of this process are of the file that has the name ``path`` now."""
    status = path.stat()
    found = 0
    for entry in os.listdir("/proc/self/fd"):
        try:
            opened = os.fstat(int(entry))
        except OSError:
            continue  # the descriptor of this very list
        found += (opened.st_dev, opened.st_ino) == (status.st_dev, status.st_ino)
    return found
