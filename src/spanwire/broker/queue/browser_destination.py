"""The queue of what is dispatched to one browser: acknowledging it changes nothing but the memory that counts for it."""

from __future__ import annotations

from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference


class BrowserDestination(BrokerDestination):
    """Lets go of each message that the browser is done with, however that message_added. What is shown, and in which order, is
    for `fill` of those that are such a queue to say.
    """

    def settled(self, reference: MessageReference) -> None:
        """The browser is done with a message."""
        self.release(reference.message)

    def forgotten(self, reference: MessageReference) -> None:
        """The same, in a transaction."""
        self.release(reference.message)

    def given_back(self, references: list[MessageReference]) -> None:
        """The browser left with messages that it did not acknowledge."""
        for reference in references:
            self.release(reference.message)

    def work(self) -> bool:
        """Go on showing."""
        self.fill()
        return False
