"""Units of size, for computations.

Constants of compiled modules are written with literals: mypyc takes a constant into its code only if the expression
names no other module, and looks up other constants by name at each use.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024  # bytes
MIB: Final = 1024 * 1024  # bytes
