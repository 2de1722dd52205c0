"""Spanwire, a message broker that speaks the wire protocols of the ActiveMQ family.

The packages below are layers; `docs/internals/architecture.md` names them top to bottom and follows one
message through them.
Importing this module imports none of them.
"""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
