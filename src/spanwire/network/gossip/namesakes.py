"""Finds two brokers of one name among the claims of other brokers. Pure.

Members are known by name, so of two brokers with one name each other broker links to one of them only. A broker has
another id after each start. Two ids of one name belong to two brokers if both were heard in the same period.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Final

from spanwire.network.reports.known_brokers import MAX_BROKERS

OVERLAP_S: Final = 10.0  # seconds in which both ids were heard; an answer, and so the age in it, is late by 5 s at most
FORGET_S: Final = 60.0  # seconds after which an id that nobody has heard is forgotten
REPORT_S: Final = 3600.0  # seconds between two log lines; claims of others must not fill the log
NOWHERE: Final = "no address"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Heard:
    broker_id: str
    addresses: tuple[str, ...]
    first: float  # monotonic seconds of this machine
    last: float


class Namesakes:
    """The ids of each name, two at most."""

    def __init__(self) -> None:
        self._heard: Final[dict[str, list[_Heard]]] = {}
        self._reported_at = -math.inf

    def note(self, name: str, broker_id: str, addresses: tuple[str, ...], heard_at: float, now: float) -> None:
        """Note that a broker itself was heard; a second broker of its name is a line in the log.

        Args:
            name: the name of the broker.
            broker_id: the id of the broker, "" if unknown.
            addresses: where others can link to the broker.
            heard_at: when the broker was heard, in monotonic seconds of this machine.
            now: the present time, in monotonic seconds.
        """
        if not broker_id:
            return
        if name not in self._heard and len(self._heard) >= MAX_BROKERS:
            self._forget(now)
            if len(self._heard) >= MAX_BROKERS:
                return
        ids = self._heard.setdefault(name, [])
        found = next((one for one in ids if one.broker_id == broker_id), None)
        if found is None:
            ids.append(_Heard(broker_id, addresses, heard_at, heard_at))
            if len(ids) > 2:
                ids.remove(min(ids, key=lambda one: one.last))
        elif heard_at >= found.last:
            found.last, found.addresses = heard_at, addresses
        else:
            found.first = min(found.first, heard_at)
        if len(ids) == 2 and min(one.last for one in ids) - max(one.first for one in ids) > OVERLAP_S:
            self._report(name, ids, now)

    def _forget(self, now: float) -> None:
        for name in [name for name, ids in self._heard.items() if all(now - one.last > FORGET_S for one in ids)]:
            del self._heard[name]

    def _report(self, name: str, ids: list[_Heard], now: float) -> None:
        if now - self._reported_at < REPORT_S:
            return
        self._reported_at = now
        first, second = (", ".join(one.addresses) or NOWHERE for one in sorted(ids, key=lambda one: one.addresses))
        logger.warning("gossip: two brokers are called %s: the one at %s and the one at %s; no other broker links to "
                       "both, so messages do not reach all consumers: give one of them another brokerName",
                       name, first, second)  # fmt: skip
