"""What a policy entry says about advisories on the messages, consumers and producers of its destinations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdvisoryPolicy:
    """Which of them are told, each attribute as ActiveMQ's policy entry has it: messages that are ``delivered`` to the
    destination, ``dispatched`` to a consumer, ``consumed`` and ``discarded`` for a slow subscriber; ``slow_consumers``,
    ``fast_producers`` and that the destination is ``full``. Messages that find ``no_consumers`` are passed on
    themselves. What is told of a message has its body if ``whole_messages``.
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
        """Whether a destination itself has something to tell, beside who sends to it and who takes from it."""
        return self.delivered or self.consumed or self.discarded or self.slow_consumers or self.no_consumers
