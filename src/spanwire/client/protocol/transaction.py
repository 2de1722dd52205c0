"""The local transaction of one session (JMS 1.1 §4.4.7): begun with its first message, over with commit or rollback."""

from __future__ import annotations

from typing import Final

from spanwire.client.messages.message_encoder import NULL, nested_octets
from spanwire.client.protocol.response_correlator import COMMIT, Request, ResponseCorrelator
from spanwire.protocols.openwire.codec import _marshallers as wire

MAX_REPLAY_BYTES: Final = 64 * 1024 * 1024  # of one transaction; a larger one is rolled back when its connection breaks
BEGIN: Final = 0
COMMIT_ONE_PHASE: Final = 2
ROLLBACK: Final = 4


class TransactedSend:
    """A message of an open transaction, in the layout of ``version``; with a command id if it was answered."""

    def __init__(self, raw: bytes, version: int, number: int) -> None:
        self.raw: Final[bytes] = raw
        self.version: Final[int] = version
        self.number: Final[int] = number


class LocalTransaction:
    """What of a session is not final yet. ``octets`` stand in its messages and acknowledgements.

    While it is *sends*, ``sends`` holds everything that was sent in it, so that another broker can be told. Otherwise a
    transaction whose link broke is *broken*: the broker has rolled it back, and so must its commit.
    """

    def __init__(
        self, correlator: ResponseCorrelator, connection_id: str, session: int, is_transacted: bool, keeps: bool = False
    ) -> None:
        self.is_transacted: Final[bool] = is_transacted
        self.octets = NULL
        self.is_broken = False
        self.is_replayable: bool = keeps
        self.sends: list[TransactedSend] = []
        self.closed_producers: dict[int, wire.ProducerInfo] = {}  # producers of what was sent that are closed already
        self._replays_sends: Final[bool] = keeps
        self._replay_bytes = 0
        self._senders: dict[int, None] = {}
        self._correlator: Final[ResponseCorrelator] = correlator
        self._connection_id: Final[wire.ConnectionId] = wire.ConnectionId(connection_id)
        self.session: Final[int] = session
        self._id: wire.TransactionId | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the broker knows of it."""
        return self._id is not None

    def begin(self) -> None:
        """Tell the broker, unless it knows."""
        if self._id is not None or self.is_broken or not self.is_transacted:
            return
        transaction_id = wire.LocalTransactionId(
            value=self._correlator.next_transaction(), connection_id=self._connection_id
        )
        self.set_id(transaction_id)
        self._correlator.send(self.begin_command())

    def begin_command(self) -> wire.TransactionInfo:
        """The command that begins it."""
        return self._info(BEGIN)

    def rollback_command(self) -> wire.TransactionInfo:
        """The command that undoes what this broker was told of it."""
        return self._info(ROLLBACK)

    def fits(self, limit: int) -> bool:
        """Whether a broker that takes messages of up to ``limit`` bytes, 0 for any, can take all that is kept."""
        if limit > 0:
            for sent in self.sends:
                if len(sent.raw) > limit:
                    return False
        return True

    def keep(self, raw: bytes, version: int, number: int, producer: int) -> None:
        """A message was sent; in a transaction of more than `MAX_REPLAY_BYTES` they are kept no longer."""
        self._replay_bytes += len(raw)
        if self._replay_bytes > MAX_REPLAY_BYTES:
            self.forget()
            return
        self.sends.append(TransactedSend(raw, version, number))
        self._senders[producer] = None

    def on_refused(self, number: int) -> None:
        """The broker has refused a message that was answered, and spoiled the transaction. To tell another one of the
        rest, or of all, would make it one that can be committed: it ends with its link.
        """
        for sent in self.sends:
            if sent.number == number:
                self.forget()
                return

    def on_producer_closed(self, number: int, info: wire.ProducerInfo, is_remembered: bool) -> None:
        """A producer is closed before the transaction is over. If it is not remembered, what it sent is not kept."""
        if not self.is_replayable or number not in self._senders:
            return
        if is_remembered:
            self.closed_producers[number] = info
        else:
            self.forget()

    def forget(self) -> None:
        """Keep nothing: the transaction ends with its link, at once when that is gone. Its commit tells."""
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
        """The transaction that messages and acknowledgements name from now on."""
        self._id = transaction_id
        self.octets = nested_octets(transaction_id)

    def commit(self) -> Request:
        """Ask for everything at once; the transaction is over."""
        command = self._info(COMMIT_ONE_PHASE)
        self.reset()
        return self._correlator.request(command, COMMIT, self.session)

    def rollback(self) -> Request:
        """Undo everything; the transaction is over."""
        command = self._info(ROLLBACK)
        self.reset()
        return self._correlator.request(command, owner=self.session)

    def mark_broken(self) -> None:
        """The link is gone, and with it what was done so far."""
        if self._id is not None:
            self.is_broken = True
            self.reset()

    def reset(self) -> None:
        """Messages and acknowledgements name no transaction."""
        self._id = None
        self.octets = NULL
        self.is_replayable = self._replays_sends
        self._clear()

    def _info(self, kind: int) -> wire.TransactionInfo:
        return self.step(kind, self._id)

    def step(self, kind: int, transaction_id: wire.TransactionId | None) -> wire.TransactionInfo:
        """The command for one step of a transaction."""
        return wire.TransactionInfo(connection_id=self._connection_id, transaction_id=transaction_id, type=kind)
