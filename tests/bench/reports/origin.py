"""Says which sources and which machine a figure comes from."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]


def commit() -> str:
    """The commit that is measured, marked when the tree differs from it."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def machine() -> str:
    """Cores, architecture and kernel."""
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {kernel}"
