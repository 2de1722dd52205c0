"""Units of size."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024  # bytes
MIB: Final = 1024 * 1024  # bytes
