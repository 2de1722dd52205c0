"""What the connectors of a simulated network say, as arrays beside the links, or one value where all say the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spanwire.model.routing import DEFAULT_PRIORITY_BASE, MAX_PATH


@dataclass(frozen=True, slots=True)
class Rules:
    """How a destination travels. Each value is one for all links, or an array with one for each of them.

    ``consumer_ttl`` and ``message_ttl`` are what their names say, without limit already `MAX_PATH`. A link that
    ``hears`` is told of consumers, one that ``wants`` them makes subscriptions; ``conduit`` ones count consumers of a
    broker as one, ``joins`` ones also what other bridges there ask for; ``suppress`` ones leave a consumer to a better
    route. With ``decreases`` the nearest consumers come first.
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
        """The most hops of a subscription over any link."""
        return int(np.max(self.consumer_ttl, initial=0))

    @property
    def farthest_message(self) -> int:
        """The most hops of a message over any link."""
        return int(np.max(self.message_ttl, initial=0))

    @property
    def any_joins(self) -> bool:
        """Whether consumers of different brokers may count as one somewhere."""
        return bool(np.any(self.joins))

    @property
    def any_suppress(self) -> bool:
        """Whether there may be fewer subscriptions than routes."""
        return bool(np.any(self.suppress))

    @property
    def is_uniform(self) -> bool:
        """Whether the rules by which messages travel are the same on all links."""
        each = (self.consumer_ttl, self.message_ttl, self.hears, self.wants)
        return all(np.ndim(value) == 0 for value in each) and bool(self.hears) and bool(self.wants)


def limited(ttl: int) -> int:
    """A TTL as a number of hops."""
    return MAX_PATH if ttl < 0 else min(ttl, MAX_PATH)
