"""The event loop of the broker, of the web process and of bridges."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from typing import Final, cast

from spanwire import registry

UVLOOP: Final = "uvloop:new_event_loop"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop if installed; uvloop saves CPU if every message is a round trip."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    return cast(Callable[[], asyncio.AbstractEventLoop], registry.load(UVLOOP))
