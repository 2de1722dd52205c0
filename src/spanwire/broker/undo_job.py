"""What a transaction that was rolled back has gathered is forgotten a slice at a time.

It has happened by then: the acknowledged messages are back, and nothing else is left of it but memory.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.policy import PolicyEntry
from spanwire.broker.reference import BrokerDestination
from spanwire.broker.transactions import TransactedAck, TransactedSend
from spanwire.broker.usage import MemoryUsage
from spanwire.model.destination import QUEUE, Destination

UNDO_STEPS: Final = 1_000  # sends, or acknowledgements, of one slice

_NOWHERE: Final = Destination(QUEUE, "-")


class UndoJob(BrokerDestination):
    """Forgets sends, of which the first ``counted`` count in memory, and acknowledgements. A job of the broker and no
    place for messages.
    """

    def __init__(self, sends: list[TransactedSend], counted: int, acks: list[TransactedAck]) -> None:
        super().__init__(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0))
        self._sends: Final[list[TransactedSend]] = sends
        self._counted: Final[int] = counted
        self._acks: Final[list[TransactedAck]] = acks

    @property
    def left(self) -> int:
        """How much is not forgotten yet."""
        return len(self._sends) + len(self._acks)

    def work(self) -> bool:
        """One slice; True while there is more."""
        steps = UNDO_STEPS
        while self._sends and steps > 0:
            steps -= 1
            send = self._sends.pop()
            if len(self._sends) < self._counted:
                send.usage.add(-send.message.size)
        if steps > 0:
            del self._acks[-steps:]
        return self.left > 0
