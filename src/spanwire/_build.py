"""The build of the installation: pure Python, or hot packages compiled by mypyc.

The module is compiled together with the hot packages, so the name of its own file tells the build. `spanwire --version`
and every benchmark result print `version_text()`.
"""

from __future__ import annotations

import sys
from typing import Final

from spanwire import __version__

COMPILED: Final = not __file__.endswith(".py")


def version_text() -> str:
    """Return one line, such as `spanwire 0.1.0 (compiled: no, Python 3.11.7)`."""
    answer = "yes" if COMPILED else "no"
    interpreter = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    return f"spanwire {__version__} (compiled: {answer}, Python {interpreter})"
