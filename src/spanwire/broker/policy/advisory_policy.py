"""Settings of a policy entry for advisories about messages, consumers and producers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdvisoryPolicy:
    """Advisories of a destination, each attribute as in ActiveMQ's policy entry.

    The attributes switch on advisories about messages ``delivered`` to the destination, ``dispatched`` to a consumer,
    ``consumed``, or ``discarded`` for a slow subscriber; about ``slow_consumers`` and ``fast_producers``; and about a
    ``full`` destination. With ``no_consumers`` messages without a consumer are themselves sent to the advisory topic.
    With ``whole_messages`` an advisory about a message includes the body.
    """

    delivered: bool = False
    dispatched: bool = False
    consumed: bool = False
    discarded: bool = False
    slow_consumers: bool = False
    fast_producers: bool = False
    full: bool = False
    no_consumers: bool = False
    whole_messages: bool = False

    def is_of_messages(self) -> bool:
        """Return True if the destination itself publishes advisories.

        Advisories about dispatches, fast producers and full destinations are published elsewhere.
        """
        return self.delivered or self.consumed or self.discarded or self.slow_consumers or self.no_consumers
