"""The commit of many messages, a slice at a time: gathered for the store, handed over as one unit, settled.

While it is gathered nothing of it has happened: it is undone as a whole, or goes on as a whole, whatever becomes of its
connection. Later sends of the connection wait for it, and later commits for each other.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connection_state import ConnectionState
from spanwire.broker.context import BrokerContext
from spanwire.broker.facts import Fact
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.schedule import Plans
from spanwire.broker.store_unit import StoreUnit, UnitLine
from spanwire.broker.transactions import TransactedAck, TransactedSend, Transaction, TransactionEnd
from spanwire.broker.usage import MemoryUsage
from spanwire.broker.waiting import WithheldMessage
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import QUEUE, SCHEDULE, Destination
from spanwire.model.errors import JmsError
from spanwire.model.ids import MessageId
from spanwire.model.message import Message

COMMIT_STEPS: Final = 500  # messages and acknowledged messages of one slice; what has no more is committed at once

FREED_IN_STEP: Final = 10  # sends that are forgotten in the time of one step

_NOWHERE: Final = Destination(QUEUE, "-")

GATHERING: Final = 0
SETTLING: Final = 1
OVER: Final = 2


class Commits(Protocol):
    """What the slices of a commit need from `Committing`."""

    def home_now(
        self, state: ConnectionState, transaction: Transaction, home: BrokerDestination
    ) -> BrokerDestination | None:
        """Return the destination as it is now, made again if need be; None if it is gone with all that was sent to it.
        Raises `JmsError` if it may not be made.
        """
        ...

    def check_send(self, transaction: Transaction, home: BrokerDestination, message: Message) -> bool:
        """Return True if the store is to have ``message``. Raises `ResourceAllocationError` if it has no room."""
        ...

    def letters_of(self, ack: TransactedAck, reference: MessageReference) -> list[WithheldMessage]:
        """Return the dead letters of one message that was given up."""
        ...

    def plans_of(self, state: ConnectionState, transaction: Transaction) -> Plans:
        """Return its scheduled messages. Raises as `Schedule.plan`."""
        ...

    def facts_of(self, state: ConnectionState, transaction: Transaction) -> list[Fact]:
        """Return what the store keeps of it beside; noted as committed."""
        ...

    def hand_on(self, job: CommitJob, is_stored: bool) -> None:
        """The store has it: dispatch and answer when that is safe."""
        ...

    def settle_one(self, ack: TransactedAck, reference: MessageReference) -> None:
        """Forget one message that was acknowledged."""
        ...

    def ended(self, job: CommitJob, error: JmsError | None) -> None:
        """The store has it, or it is refused with ``error``: the next one of its connection goes on."""
        ...


class Run:
    """Messages of one producer that follow one another."""

    __slots__ = ("count", "first")

    def __init__(self, first: MessageId) -> None:
        self.first: Final[MessageId] = first
        self.count = 1


class CommitJob(BrokerDestination):
    """One commit under way. A job of the broker and no place for messages.

    ``messages`` are those that go on, with ``homes`` as the number for each destination; ``runs`` those of them that
    the store gets and a client may send again. ``others`` are later requests for the same commit.
    """

    def __init__(
        self,
        commits: Commits,
        end: TransactionEnd,
        context: BrokerContext,
        state: ConnectionState,
        transaction: Transaction,
        token: int,
    ) -> None:
        super().__init__(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0))
        self._commits: Final[Commits] = commits
        self._end: Final[TransactionEnd] = end
        self._context: Final[BrokerContext] = context
        self.state: Final[ConnectionState] = state
        self.transaction: Final[Transaction] = transaction
        self.token: Final[int] = token
        self.others: Final[list[tuple[ConnectionState, int]]] = []
        self.messages: list[WithheldMessage] = []  # belong to whom they are handed on to, in the end
        self.homes: Final[dict[BrokerDestination, int]] = {}
        self.runs: Final[list[Run]] = []
        self.stored_bytes = 0
        self._unit: StoreUnit = StoreUnit()
        self._stage = GATHERING
        self._send = 0  # of the sends
        self._removal = 0  # of the removals
        self._ack = 0  # of the acknowledgements
        self._reference = 0  # of the messages of that one
        self._ended = 0  # so many acknowledgements no longer count at their consumers
        self._unsent: Final[list[TransactedSend]] = []  # that go nowhere now, and count in memory
        self._own: Final[list[WithheldMessage]] = []  # that count in memory because of the commit
        self.steps = 0

    def work(self) -> bool:
        """One slice; True while there is more."""
        end = self.steps + COMMIT_STEPS
        if self._stage == GATHERING:
            try:
                if not self._gather(end) or not self._hand_over():
                    return True
            except JmsError as error:
                self._stage = OVER
                self._count_own_no_more()
                self._commits.ended(self, error)
                return False
            self._stage = SETTLING
            self._commits.ended(self, None)
        if self._stage == SETTLING and self._settle(end):
            self._stage = OVER
            self._end.settled(self.transaction)
            return False
        return self._stage != OVER

    # -- gathering -----------------------------------------------------------------------------------------------------

    def _gather(self, end: int) -> bool:
        """Look at some more of it; True when that was all. Changes nothing outside."""
        transaction = self.transaction
        sends = transaction.sends
        while self._send < len(sends):
            if self.steps >= end:
                return False
            self.steps += 1
            self._gather_send(sends[self._send], self._send < transaction.counted)
            self._send += 1
        removals = transaction.removals
        while self._removal < len(removals):
            if self.steps >= end:
                return False
            self.steps += 1
            self._unit.remove(removals[self._removal][0], removals[self._removal][1])
            self._removal += 1
        return self._gather_acks(end)

    def _gather_acks(self, end: int) -> bool:
        transaction = self.transaction
        while self._ack < len(transaction.acks):
            ack = transaction.acks[self._ack]
            gives_up = self._ack >= transaction.lettered and (ack.ack_type == POISON_ACK or ack.ack_type == EXPIRED_ACK)
            self.steps += 1
            while self._reference < len(ack.references):
                if self.steps >= end:
                    return False
                self.steps += 1
                reference = ack.references[self._reference]
                self._reference += 1
                if reference.sequence > 0:
                    self._unit.remove(reference.home.destination, reference.sequence)
                if gives_up:
                    for letter in self._commits.letters_of(ack, reference):
                        self.steps += 1
                        self._add(letter, None)
            self._ack += 1
            self._reference = 0
        self._ack = 0
        return True

    def _gather_send(self, send: TransactedSend, counted: bool) -> None:
        home: BrokerDestination | None = send.home
        if send.home.destination.kind == SCHEDULE:
            home = None  # it is for later
        elif send.home.removed:
            home = self._commits.home_now(self.state, self.transaction, send.home)
        if home is None:
            if counted:
                self._unsent.append(send)
            return
        entry = WithheldMessage(home, send.message, 0)
        self._add(entry, send.usage if counted else None)
        if entry.line is not None and send.message.persistent:
            self._note(send.message.message_id)

    def _add(self, entry: WithheldMessage, usage: MemoryUsage | None) -> None:
        """One more message; it counts in ``usage``, or from now on in that of its destination."""
        home = entry.home
        if self._commits.check_send(self.transaction, home, entry.message):
            line = self._unit.add(home.destination, entry.message)
            entry.line = line
            entry.sequence = line.count - 1
            self.stored_bytes += entry.message.size
        if usage is None:
            usage = home.usage
            usage.add(entry.message.size)
            self._own.append(entry)
        entry.usage = usage
        self.messages.append(entry)
        self.homes[home] = self.homes.get(home, 0) + 1

    def _note(self, message_id: MessageId) -> None:
        if self.runs:
            last = self.runs[-1]
            if last.first.producer_id is message_id.producer_id and last.first.sequence + last.count == (
                message_id.sequence
            ):
                last.count += 1
                return
        self.runs.append(Run(message_id))

    # -- the one step --------------------------------------------------------------------------------------------------

    def _hand_over(self) -> bool:
        """The store gets all of it in one call; False when a destination was removed meanwhile, and it is gathered
        again. Raises `JmsError` if the store cannot have it: nothing has happened then.
        """
        state = self.state
        for home in self.homes:
            if home.removed:
                self._begin_again()
                return False
        plans = self._commits.plans_of(state, self.transaction)
        lines: list[UnitLine] = []
        for destination, message in plans.additions():
            lines.append(self._unit.add(destination, message))
        store = self._context.store
        is_stored = store is not None and not (self._unit.is_empty() and not self.transaction.facts and not plans.count)
        if store is not None and is_stored:
            facts = self._commits.facts_of(state, self.transaction)
            store.append_gathered(self._unit, facts + plans.facts())
        first = lines[0].first if lines else 0
        plans.enter(list(range(first, first + len(lines))))
        self.stored_bytes += plans.size()
        self._commits.hand_on(self, is_stored)
        return True

    def _begin_again(self) -> None:
        self._count_own_no_more()
        self.messages = []
        self.homes.clear()
        self.runs.clear()
        self.stored_bytes = 0
        self._unit = StoreUnit()
        self._unsent.clear()
        self._send = 0
        self._removal = 0

    def _count_own_no_more(self) -> None:
        for entry in self._own:
            if entry.usage is not None:
                entry.usage.add(-entry.message.size)
        self._own.clear()

    # -- what it acknowledged ------------------------------------------------------------------------------------------

    def _settle(self, end: int) -> bool:
        """Forget some more of what it acknowledged; True when that was all."""
        transaction = self.transaction
        while transaction.sends:
            if self.steps >= end:
                return False
            self.steps += 1
            del transaction.sends[-FREED_IN_STEP:]
        while self._unsent:
            if self.steps >= end:
                return False
            self.steps += 1
            send = self._unsent.pop()
            send.usage.add(-send.message.size)
        while self._ack < len(transaction.acks):
            ack = transaction.acks[self._ack]
            if self._ended == self._ack:
                self._ended += 1
                self.steps += 1
                if ack.subscription is not None:
                    ack.subscription.transaction_ended(len(ack.references))
            while self._reference < len(ack.references):
                if self.steps >= end:
                    return False
                self.steps += 1
                self._commits.settle_one(ack, ack.references[self._reference])
                self._reference += 1
            self._ack += 1
            self._reference = 0
        return True
