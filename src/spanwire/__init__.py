"""Spanwire, a message broker for the wire protocols of the ActiveMQ family.

The packages are layers; `docs/internals/architecture.md` names the layers and follows one message through all layers.
The import of ``spanwire`` alone loads no package below.
"""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
