"""The addresses of linked members, in the store of the broker.

A broker that starts while its seeds are gone finds the network there. Addresses in the store have no right of their
own: a connector links to them only within its ``networks``, and only where the kept name answers.

    {"b": "tcp://10.0.0.2:61616"}            the member is linked, or was a moment ago
    {"b": ["tcp://10.0.0.2:61616", 7]}       it was linked seven steps of `STEP_S` ago

A member that does not come back is forgotten, however often the broker starts: its steps go on in the next run, and
each start is one. The time between two runs does not count, so a network that was off for a week finds itself again.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from spanwire.broker.moves.kept_orders import KeptNames
from spanwire.discovery.addresses.address import read_address
from spanwire.network.reports.known_brokers import MAX_TEXT

KEY: Final = b"linked"  # of the only record
MAX_KEPT: Final = 100  # members, as many as a connector has links; less than 400 KiB as JSON
STEP_S: Final = 600.0  # seconds of one step; a broker with members that are gone writes once in that time
MAX_STEPS: Final = 1_000_000  # of a record
KEEP_S: Final = 5.0  # seconds between two writes; a network that changes all the time must not fill the journal

logger = logging.getLogger(__name__)


class Linked(NamedTuple):
    """An address of a member, and the seconds since it was linked there."""

    uri: str
    age_s: float


class KeptMembers:
    """One record with an address of each member that was linked lately."""

    def __init__(self, kept: KeptNames | None, wake: Callable[[], None]) -> None:
        """``kept`` is the table in the store, None without a store. ``wake`` ends a turn of the broker soon."""
        self._kept: Final = kept
        self._wake: Final = wake
        self._last = recalled(None if kept is None else kept.values.get(KEY))
        self._first: Final = {name: (uri, steps + 1) for name, (uri, steps) in self._last.items()}
        self._now: dict[str, tuple[str, int]] = {}  # what this run has kept
        self._kept_at = -math.inf

    def recall(self) -> dict[str, Linked]:
        """Return the members by name, of this run and of the last one.

        A connector that starts later finds what the last run of the broker knew, though others have kept theirs.
        """
        return {name: Linked(uri, steps * STEP_S) for name, (uri, steps) in {**self._first, **self._now}.items()}

    def keep(self, members: Mapping[str, Linked], now: float) -> None:
        """Keep the `MAX_KEPT` that were linked last, unless they are kept, or others were kept just now."""
        latest = sorted(members.items(), key=lambda item: (item[1].age_s, item[0]))[:MAX_KEPT]
        chosen = {name: (one.uri, max(0, int(one.age_s / STEP_S))) for name, one in latest}
        if self._kept is None or chosen == self._last:
            return
        is_older = chosen.keys() == self._last.keys() and all(
            uri == self._last[name][0] and steps >= self._last[name][1] for name, (uri, steps) in chosen.items()
        )
        if now - self._kept_at < (STEP_S if is_older else KEEP_S):
            return
        self._last, self._now, self._kept_at = chosen, chosen, now
        content = {name: [uri, steps] if steps else uri for name, (uri, steps) in chosen.items()}
        self._kept.put(KEY, json.dumps(content, separators=(",", ":"), sort_keys=True).encode("ascii"))
        self._wake()


def recalled(value: bytes | None) -> dict[str, tuple[str, int]]:
    """Return addresses and steps of a record by name. A record of another form is a line in the log."""
    if value is None:
        return {}
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        logger.warning("gossip: the kept addresses of members cannot be read: only the seeds are asked")
        return {}
    read = {name: _read(one) for name, one in list(content.items())[:MAX_KEPT] if len(name) <= MAX_TEXT}
    return {name: one for name, one in read.items() if one is not None}


def _read(content: object) -> tuple[str, int] | None:
    uri, steps = content if isinstance(content, list) and len(content) == 2 else (content, 0)
    if not isinstance(uri, str) or len(uri) > MAX_TEXT or read_address(uri) is None:
        return None
    return (uri, steps) if isinstance(steps, int) and 0 <= steps <= MAX_STEPS else None
