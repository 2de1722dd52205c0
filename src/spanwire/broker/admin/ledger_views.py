"""Views of the ledger: the equation of each destination, and the messages across links.

Each queue and durable subscription has two rows. ``stored`` counts persistent messages since the ledger of the store
began, over all restarts and crashes. ``since start`` counts all messages since the start of the broker; messages only
in memory at the end of the previous broker are forgotten, so the count begins with 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.history.departures import KINDS, Departures
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.destination import QUEUE, SUBSCRIPTION, TEMP_QUEUE
from spanwire.model.ids import MessageId
from spanwire.model.ledger import ARRIVED, FORWARDED, NAMES, OTHER_LINKS, Sums

STORED: Final = "stored"
SINCE_START: Final = "since start"
REMOVED: Final = "removed destinations"  # the name in the row of all of them
OTHER_BROKERS: Final = "other brokers"  # beyond the limit of links that are counted apart
MAX_SUSPECTS: Final = 20  # messages named for an equation that does not add up
MAX_LOOKED_AT: Final = 5_000  # remembered departures compared for one equation: some milliseconds
COUNTED: Final = (QUEUE, TEMP_QUEUE, SUBSCRIPTION)


@dataclass(frozen=True)
class LedgerView:
    """The equation of one destination in one scope; all counts are messages.

    ``difference`` is arrivals less departures and pending messages: 0 if the equation holds. Otherwise ``suspects`` are
    the latest unacknowledged departures, as far as remembered, each with a cause. ``duplicates`` were dropped before
    arrival, since the start. ``lost`` were only in memory when the run before was stopped in order, and are no part of
    the equation; otherwise ``lost_is_known`` is False.
    """

    destination: str
    scope: str
    found: int
    sent: int
    arrived: int
    moved_in: int
    dead_letters: int
    acknowledged: int
    forwarded: int
    expired: int
    dead_lettered: int
    discarded: int
    purged: int
    moved_out: int
    replaced: int
    pending: int
    difference: int
    adds_up: bool
    duplicates: int
    suspects: list[str]
    lost: int
    lost_is_known: bool


@dataclass(frozen=True)
class LedgerLinkView:
    """Messages of queues across the links to and from one broker.

    ``forwarded`` were acknowledged by ``remote``, ``arrived`` came from there: persistent ones since the ledger began,
    and all since the start of the broker. ``in_flight`` were dispatched to links and have no answer.
    """

    remote: str
    forwarded: int
    arrived: int
    forwarded_since_start: int
    arrived_since_start: int
    in_flight: int


LEDGER_FIELDS: Final = tuple(field.name for field in fields(LedgerView))


def ledger_view(
    name: str, scope: str, sums: Sums, pending: int, duplicates: int = 0, departures: Departures | None = None
) -> LedgerView:
    """Return the row of one destination; ``departures`` has the suspects."""
    difference = sums.balance() - pending
    counts = dict(zip(NAMES, sums.counts, strict=True))
    return LedgerView(
        destination=name,
        scope=scope,
        pending=pending,
        difference=difference,
        adds_up=difference == 0,
        duplicates=duplicates,
        suspects=[] if difference == 0 or departures is None else suspects_of(name, departures),
        lost=0,
        lost_is_known=False,
        **counts,
    )


def suspects_of(name: str, departures: Departures) -> list[str]:
    """Return the latest departures of a destination as texts: the kind and the id."""
    found: list[str] = []
    for left in departures.losses.latest_first(0, MAX_LOOKED_AT):
        if left.destination.qualified_name == name:
            found.append(f"{KINDS[left.kind]} {MessageId(left.producer_id, left.sequence, left.text_view)}")
            if len(found) == MAX_SUSPECTS:
                break
    return found


class Ledger:
    """Makes the rows of one broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context: Final[BrokerContext] = context

    def rows(self, destinations: list[BrokerDestination], durables: list[DurableSubscription]) -> Iterator[LedgerView]:
        """Yield the rows of all queues and durable subscriptions, and last of all removed ones."""
        ledger, departures = self._context.ledger, self._context.departures
        for name in ledger.counted():
            entry = ledger.sums(name) if name.kind in COUNTED else None
            if entry is not None:
                yield ledger_view(name.qualified_name, STORED, entry.sums, entry.pending, 0, departures)
        entry = ledger.sums(None)
        if entry is not None:
            yield ledger_view(REMOVED, STORED, entry.sums, entry.pending)
        duplicates = self._context.duplicates
        lost = dict(self._context.lost.counts)
        is_known = self._context.lost.is_known
        queues = [found for found in destinations if isinstance(found, Queue)]
        for queue in [*queues, *(durable.queue for durable in durables)]:
            if not queue.removed:
                text = queue.name.qualified_name
                pending = queue.waiting() + queue.in_flight
                view = ledger_view(text, SINCE_START, queue.all_sums(), pending, duplicates.get(text, 0), departures)
                yield replace(view, lost=lost.pop(text, 0), lost_is_known=is_known)
        for text, count in lost.items():  # nothing has come to it since the start
            yield replace(ledger_view(text, SINCE_START, Sums(), 0), lost=count, lost_is_known=is_known)
        yield replace(ledger_view(REMOVED, SINCE_START, self._context.removed_sums, 0), lost_is_known=is_known)

    def links(self, destinations: list[BrokerDestination], in_flight: dict[int, int]) -> list[LedgerLinkView]:
        """Return the messages across the links to and from each broker.

        ``in_flight`` counts by number of the link.
        """
        stored, recent = Sums(), Sums()
        stored.join(self._context.ledger.link_sums())
        for queue in destinations:
            if isinstance(queue, Queue) and queue.sums.over is not None:
                recent.join(queue.sums)
        recent.join(self._context.removed_sums)
        names = {**self._context.links.names(), OTHER_LINKS: OTHER_BROKERS}
        rows: list[LedgerLinkView] = []
        for number, name in names.items():
            kept, new = stored.link_counts(number), recent.link_counts(number)
            row = LedgerLinkView(
                remote=name,
                forwarded=kept[FORWARDED],
                arrived=kept[ARRIVED],
                forwarded_since_start=new[FORWARDED],
                arrived_since_start=new[ARRIVED],
                in_flight=in_flight.get(number, 0),
            )
            if number != OTHER_LINKS or any(kept) or any(new):
                rows.append(row)
        return rows
