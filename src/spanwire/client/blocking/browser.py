"""A queue browser of a blocking session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.blocking.consumer import Consumer
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination

BROWSED_AT_ONCE: Final = 1000  # messages that a browser takes from the connection at once

Subscribe = Callable[[Destination | str, ConsumerOptions], Consumer]


class Browser:
    """Reads a queue from its head to its end and leaves it as it is."""

    def __init__(self, subscribe: Subscribe, destination: Destination | str, selector: str | None) -> None:
        self._subscribe: Final = subscribe
        self._destination: Final = destination
        self._selector: Final = selector

    def __iter__(self) -> Iterator[Message]:
        for messages in self.portions():
            yield from messages

    def portions(self) -> Iterator[list[Message]]:
        """The same messages, as many at a time as have come."""
        options = ConsumerOptions(self._selector, browser=True)
        consumer = self._subscribe(self._destination, options)
        try:
            while messages := consumer.receive_many(BROWSED_AT_ONCE):
                yield messages
        finally:
            consumer.close()
