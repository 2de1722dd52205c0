"""Queue browser of the blocking client (JMS 1.1 §4.4.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.blocking.consumer import Consumer
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination

BROWSED_AT_ONCE: Final = 1000  # messages of one `receive_many`

Subscribe = Callable[[Destination | str, ConsumerOptions], Consumer]


class Browser:
    """Iterates over the messages of a queue from head to tail. The messages stay in the queue."""

    def __init__(self, subscribe: Subscribe, destination: Destination | str, selector: str | None) -> None:
        self._subscribe: Final = subscribe
        self._destination: Final = destination
        self._selector: Final = selector

    def __iter__(self) -> Iterator[Message]:
        for messages in self.portions():
            yield from messages

    def portions(self) -> Iterator[list[Message]]:
        """Iterate over the messages in lists of those that have arrived."""
        options = ConsumerOptions(self._selector, browser=True)
        consumer = self._subscribe(self._destination, options)
        try:
            while messages := consumer.receive_many(BROWSED_AT_ONCE):
                yield messages
        finally:
            consumer.close()
