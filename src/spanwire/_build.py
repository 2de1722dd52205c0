"""Which build this is: pure Python, or the hot packages compiled by mypyc.

The module is compiled together with them, so its own file answers the question. `spanwire --version` and every
benchmark result print `version_text()`.
"""

from __future__ import annotations

import sys
from typing import Final

from spanwire import __version__

COMPILED: Final = not __file__.endswith(".py")


def version_text() -> str:
    """One line, such as `spanwire 0.1.0 (compiled: no, Python 3.11.7)`."""
    answer = "yes" if COMPILED else "no"
    interpreter = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    return f"spanwire {__version__} (compiled: {answer}, Python {interpreter})"
