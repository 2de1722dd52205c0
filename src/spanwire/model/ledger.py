"""The ledger's terms: the ways of messages to a destination and out, and the sums of each.

For each destination the sum of arrivals is equal to the sum of departures and pending messages::

    found + sent + arrived + moved in + dead letters = acknowledged + forwarded + expired + dead-lettered + discarded
                                                       + purged + moved out + replaced + pending

Origins and ways are written by the journal. An *origin* is a small number in `Message.origin`: 0 for a client's send,
`FIRST_LINK` to `OTHER_LINKS` for the link over which another broker forwarded the message. A *way out* is a cause, and
for forwarded messages the link as well.
"""

from __future__ import annotations

from typing import Final

# terms, as bits and indexes; the order is part of the journal's format
FOUND: Final = 0  # in the store before its ledger began
SENT: Final = 1  # by clients, the scheduler and committed transactions
ARRIVED: Final = 2  # over links from other brokers
MOVED_IN: Final = 3  # by operators: moved, copied, retried
LETTERS: Final = 4  # dead letters of other destinations
ACKNOWLEDGED: Final = 5
FORWARDED: Final = 6  # acknowledged by another broker
EXPIRED: Final = 7  # without a dead letter
DEAD_LETTERED: Final = 8
DISCARDED: Final = 9  # died, and no policy wanted a dead letter; or may not be delivered twice
PURGED: Final = 10  # by operators, or with the destination
MOVED_OUT: Final = 11
REPLACED: Final = 12  # in a last-value queue, by newer messages of their keys
TERMS: Final = 13
FIRST_OUT: Final = ACKNOWLEDGED

NAMES: Final = (
    "found", "sent", "arrived", "moved_in", "dead_letters",
    "acknowledged", "forwarded", "expired", "dead_lettered", "discarded", "purged", "moved_out", "replaced",
)  # fmt: skip

# origins, one byte each
CLIENT: Final = 0
FIRST_LINK: Final = 1
OTHER_LINKS: Final = 200  # links to brokers beyond the limit, counted together
TOPIC_LINK: Final = (
    201  # any link, of a topic's message: each durable subscription has a copy, so links do not count it
)
OPERATOR: Final = 254
DEATH: Final = 255
MAX_LINKS: Final = OTHER_LINKS - FIRST_LINK  # brokers at the other ends of links, counted apart; one byte names each
LINK_SHIFT: Final = 8  # of the link in a way out
WAY_MASK: Final = 0x0F  # the cause in a way out, a term
NO_MESSAGE: Final = 0x0F  # the cause of a removal that found no message


def term_of(origin: int) -> int:
    """Return the term that counts messages of an origin."""
    if origin == CLIENT:
        return SENT
    if origin <= TOPIC_LINK:
        return ARRIVED
    return LETTERS if origin == DEATH else MOVED_IN


def way_over(link: int) -> int:
    """Return the way out over a link; 0 stands for any link, of a topic's message."""
    return FORWARDED | link << LINK_SHIFT


class Sums:
    """The sums of one destination by term, and the sums of ``ARRIVED`` and ``FORWARDED`` by link.

    ``over`` has a list as ``counts`` for each link with messages. ``terms`` counts the sums above zero, with the sums
    of links.
    """

    __slots__ = ("counts", "over", "terms")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * TERMS
        self.over: dict[int, list[int]] | None = None
        self.terms = 0

    def add(self, term: int, count: int) -> None:
        """Count ``count`` messages."""
        counts = self.counts
        before = counts[term]
        counts[term] = before + count
        if before == 0 and count != 0:
            self.terms += 1

    def add_over(self, link: int, term: int, count: int) -> None:
        """Count messages of a link, in the sum of the destination as well."""
        self.add(term, count)
        counts = self.link_counts(link)
        before = counts[term]
        counts[term] = before + count
        if before == 0 and count != 0:
            self.terms += 1

    def came(self, origin: int, count: int) -> None:
        """Count messages of an origin."""
        if origin == CLIENT:
            self.add(SENT, count)
        elif origin <= OTHER_LINKS:
            self.add_over(origin, ARRIVED, count)
        else:
            self.add(term_of(origin), count)

    def went(self, way: int, count: int) -> None:
        """Count messages that left by a way."""
        if way < TERMS:
            self.add(way, count)
        else:
            self.add_over(way >> LINK_SHIFT, way & 0xFF, count)

    def link_counts(self, link: int) -> list[int]:
        """Return the sums of a link, open to changes."""
        over = self.over
        if over is None:
            over = {}
            self.over = over
        counts = over.get(link)
        if counts is None:
            counts = [0] * TERMS
            over[link] = counts
        return counts

    def join(self, other: Sums) -> None:
        """Add the sums of ``other``."""
        for term, count in enumerate(other.counts):
            self.add(term, count)
        if other.over is not None:
            for link, counts in other.over.items():
                mine = self.link_counts(link)
                for term, count in enumerate(counts):
                    if mine[term] == 0 and count != 0:
                        self.terms += 1
                    mine[term] += count

    def clear(self) -> None:
        """Set all sums to 0."""
        self.counts = [0] * TERMS
        self.over = None
        self.terms = 0

    def balance(self) -> int:
        """Return arrivals less departures: the number of pending messages, if no message was lost."""
        counts = self.counts
        return sum(counts[:FIRST_OUT]) - sum(counts[FIRST_OUT:])
