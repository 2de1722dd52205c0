"""The addresses of linked members, in the store of the broker.

A broker that starts while its seeds are gone finds the network there. Addresses in the store have no right of their
own: a connector links to them only within its ``networks``, and only where the kept name answers.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import Final

from spanwire.broker.moves.kept_orders import KeptNames
from spanwire.discovery.addresses.address import read_address
from spanwire.network.reports.known_brokers import MAX_TEXT

KEY: Final = b"linked"  # of the only record
MAX_KEPT: Final = 100  # members, as many as a connector has links; less than 400 KiB as JSON
KEEP_S: Final = 5.0  # seconds between two writes; a network that changes all the time must not fill the journal

logger = logging.getLogger(__name__)


class KeptMembers:
    """One record with an address of each member that was linked lately."""

    def __init__(self, kept: KeptNames | None, wake: Callable[[], None]) -> None:
        """``kept`` is the table in the store, None without a store. ``wake`` ends a turn of the broker soon."""
        self._kept: Final = kept
        self._wake: Final = wake
        self._first: Final = recalled(None if kept is None else kept.values.get(KEY))
        self._last = self._first
        self._kept_at = -math.inf

    def recall(self) -> dict[str, str]:
        """Return an address of each member by name, of this run and of the last one.

        A connector that starts later finds what the last run of the broker knew, though others have kept theirs.
        """
        return {**self._first, **self._last}

    def keep(self, members: Mapping[str, str], now: float) -> None:
        """Keep the first `MAX_KEPT` addresses, unless they are kept, or others were kept just now."""
        chosen = dict(list(members.items())[:MAX_KEPT])
        if self._kept is None or chosen == self._last or now - self._kept_at < KEEP_S:
            return
        self._last, self._kept_at = chosen, now
        self._kept.put(KEY, json.dumps(chosen, separators=(",", ":"), sort_keys=True).encode("ascii"))
        self._wake()


def recalled(value: bytes | None) -> dict[str, str]:
    """Return the addresses of a record by name. A record of another form is a line in the log."""
    if value is None:
        return {}
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        logger.warning("gossip: the kept addresses of members cannot be read: only the seeds are asked")
        return {}
    return {
        name: uri
        for name, uri in list(content.items())[:MAX_KEPT]
        if isinstance(uri, str) and len(name) <= MAX_TEXT and len(uri) <= MAX_TEXT and read_address(uri) is not None
    }
