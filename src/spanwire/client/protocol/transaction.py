"""Local transaction of a session (JMS 1.1 §4.4.7)."""

from __future__ import annotations

from typing import Final

from spanwire.client.messages.message_encoder import NULL, nested_octets
from spanwire.client.protocol.response_correlator import COMMIT, Request, ResponseCorrelator
from spanwire.protocols.openwire.codec import _marshallers as wire

MAX_REPLAY_BYTES: Final = 64 * 1024 * 1024  # bytes of one transaction; a larger one breaks with its link
BEGIN: Final = 0
COMMIT_ONE_PHASE: Final = 2
ROLLBACK: Final = 4


class TransactedSend:
    """An encoded message of an open transaction; ``number`` is the command id, 0 without a response."""

    def __init__(self, raw: bytes, version: int, number: int) -> None:
        self.raw: Final[bytes] = raw
        self.version: Final[int] = version
        self.number: Final[int] = number


class LocalTransaction:
    """The open transaction of a session. ``octets`` is the encoded id for messages and acknowledgements.

    While ``is_replayable``, ``sends`` holds all messages sent in the transaction, to be repeated to another broker.
    Otherwise a lost link breaks the transaction: the broker rolls the transaction back, and the commit fails.
    """

    def __init__(
        self, correlator: ResponseCorrelator, connection_id: str, session: int, is_transacted: bool, keeps: bool = False
    ) -> None:
        self.is_transacted: Final[bool] = is_transacted
        self.octets = NULL
        self.is_broken = False
        self.is_replayable: bool = keeps
        self.sends: list[TransactedSend] = []
        self.closed_producers: dict[int, wire.ProducerInfo] = {}  # by number; have sent in the transaction
        self._replays_sends: Final[bool] = keeps
        self._replay_bytes = 0
        self._senders: dict[int, None] = {}
        self._correlator: Final[ResponseCorrelator] = correlator
        self._connection_id: Final[wire.ConnectionId] = wire.ConnectionId(connection_id)
        self.session: Final[int] = session
        self._id: wire.TransactionId | None = None

    @property
    def is_begun(self) -> bool:
        """True after the broker was told of the transaction."""
        return self._id is not None

    def begin(self) -> None:
        """Begin the transaction at the broker, unless already begun."""
        if self._id is not None or self.is_broken or not self.is_transacted:
            return
        transaction_id = wire.LocalTransactionId(
            value=self._correlator.next_transaction(), connection_id=self._connection_id
        )
        self.set_id(transaction_id)
        self._correlator.send(self.begin_command())

    def begin_command(self) -> wire.TransactionInfo:
        """Return the command to begin the transaction."""
        return self._info(BEGIN)

    def rollback_command(self) -> wire.TransactionInfo:
        """Return the command to roll the transaction back."""
        return self._info(ROLLBACK)

    def fits(self, limit: int) -> bool:
        """Return True if no kept message exceeds ``limit`` bytes; 0 for no limit."""
        if limit > 0:
            for sent in self.sends:
                if len(sent.raw) > limit:
                    return False
        return True

    def keep(self, raw: bytes, version: int, number: int, producer: int) -> None:
        """Keep a sent message for a replay.

        Above `MAX_REPLAY_BYTES` the transaction is not replayable any more.
        """
        self._replay_bytes += len(raw)
        if self._replay_bytes > MAX_REPLAY_BYTES:
            self.forget()
            return
        self.sends.append(TransactedSend(raw, version, number))
        self._senders[producer] = None

    def on_refused(self, number: int) -> None:
        """Stop the replay of a transaction after the broker has refused a message.

        Without the refused message, another broker would commit an incomplete transaction.
        """
        for sent in self.sends:
            if sent.number == number:
                self.forget()
                return

    def on_producer_closed(self, number: int, info: wire.ProducerInfo, is_remembered: bool) -> None:
        """Keep the ProducerInfo of a closed producer for a replay.

        If infos of closed producers are not kept, the transaction is not replayable any more.
        """
        if not self.is_replayable or number not in self._senders:
            return
        if is_remembered:
            self.closed_producers[number] = info
        else:
            self.forget()

    def forget(self) -> None:
        """Keep no messages: a lost link breaks the transaction, at once if there is no link now."""
        self.is_replayable = False
        self._clear()
        if not self._correlator.is_online:
            self.mark_broken()
            self._correlator.complete_in_transaction(self.session, None)

    def _clear(self) -> None:
        if self._senders:
            self.sends = []
            self.closed_producers = {}
            self._senders = {}
        self._replay_bytes = 0

    def set_id(self, transaction_id: wire.TransactionId) -> None:
        """Set the id for further messages and acknowledgements."""
        self._id = transaction_id
        self.octets = nested_octets(transaction_id)

    def commit(self) -> Request:
        """Commit in one phase; the transaction is over for the session."""
        command = self._info(COMMIT_ONE_PHASE)
        self.reset()
        return self._correlator.request(command, COMMIT, self.session)

    def rollback(self) -> Request:
        """Roll back; the transaction is over for the session."""
        command = self._info(ROLLBACK)
        self.reset()
        return self._correlator.request(command, owner=self.session)

    def mark_broken(self) -> None:
        """Note that a lost link has rolled the transaction back."""
        if self._id is not None:
            self.is_broken = True
            self.reset()

    def reset(self) -> None:
        """Clear the id and the kept messages."""
        self._id = None
        self.octets = NULL
        self.is_replayable = self._replays_sends
        self._clear()

    def _info(self, kind: int) -> wire.TransactionInfo:
        return self.step(kind, self._id)

    def step(self, kind: int, transaction_id: wire.TransactionId | None) -> wire.TransactionInfo:
        """Return the TransactionInfo for one step of a transaction."""
        return wire.TransactionInfo(connection_id=self._connection_id, transaction_id=transaction_id, type=kind)
