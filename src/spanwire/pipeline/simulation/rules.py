"""Settings of the connectors of a simulated network.

A setting is one value for all links, or an array with a value for each link.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spanwire.model.routing import DEFAULT_PRIORITY_BASE, MAX_PATH


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for a destination; each value holds for all links, or is an array with one per link.

    ``consumer_ttl`` and ``message_ttl`` are limits in hops, `MAX_PATH` for no limit. A link that ``hears`` receives
    advisories about consumers; one that ``wants`` consumers creates subscriptions. ``conduit`` counts the consumers of
    a broker as one, ``joins`` also the demand of other bridges there. ``suppress`` leaves a consumer to a better route.
    With ``decreases`` the nearest consumers come first.
    """

    consumer_ttl: int | np.ndarray = 1
    message_ttl: int | np.ndarray = 1
    hears: bool | np.ndarray = True
    wants: bool | np.ndarray = True
    conduit: bool | np.ndarray = True
    joins: bool | np.ndarray = False
    suppress: bool | np.ndarray = False
    decreases: bool = True
    priority_base: int = DEFAULT_PRIORITY_BASE
    is_topic: bool = False

    @property
    def farthest_demand(self) -> int:
        """Return the most hops of a subscription over any link."""
        return int(np.max(self.consumer_ttl, initial=0))

    @property
    def farthest_message(self) -> int:
        """Return the most hops of a message over any link."""
        return int(np.max(self.message_ttl, initial=0))

    @property
    def has_joins(self) -> bool:
        """Return True if some link may count consumers of different brokers as one."""
        return bool(np.any(self.joins))

    @property
    def has_suppress(self) -> bool:
        """Return True if there may be fewer subscriptions than routes."""
        return bool(np.any(self.suppress))

    @property
    def is_uniform(self) -> bool:
        """Return True if the rules for messages are equal on all links."""
        each = (self.consumer_ttl, self.message_ttl, self.hears, self.wants)
        return all(np.ndim(value) == 0 for value in each) and bool(self.hears) and bool(self.wants)


def limited(ttl: int) -> int:
    """Return a TTL as a number of hops."""
    return MAX_PATH if ttl < 0 else min(ttl, MAX_PATH)
