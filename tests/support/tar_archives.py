"""Tar archives of recorded directories, unpacked by every supported release of Python."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive; Python has the filter against paths that lead out of ``folder`` from 3.11.4 on."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
