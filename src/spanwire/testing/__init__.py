"""Brokers and networks for tests, with and without pytest.

pytest imports this package in every run, so the broker is loaded on first use of a name only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spanwire import registry

if TYPE_CHECKING:
    from spanwire.testing.broker import Broker as Broker
    from spanwire.testing.clock import VirtualClock as VirtualClock
    from spanwire.testing.network import Network as Network
    from spanwire.testing.wire import Wire as Wire

__all__ = ["Broker", "Network", "VirtualClock", "Wire"]

_EXPORTS: Final = {
    "Broker": "spanwire.testing.broker:Broker",
    "Network": "spanwire.testing.network:Network",
    "VirtualClock": "spanwire.testing.clock:VirtualClock",
    "Wire": "spanwire.testing.wire:Wire",
}


def __getattr__(name: str) -> object:
    """Load a public class on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return registry.load(_EXPORTS[name])
