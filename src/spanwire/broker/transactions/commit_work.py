"""Commit of one transaction in slices: gather, hand to the store as one unit, settle.

Gathering has no visible effect. The call to the store is the single step in which the transaction takes effect, even if
the connection ends afterwards.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import SlicedWork
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import Staging, TransactedAck, TransactedSend, Transaction
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.duplicate_ids import SendIdentity
from spanwire.broker.persistence.reply_queue import WithheldMessage
from spanwire.broker.persistence.store_unit import StoreUnit, UnitAdditions, UnitTransfer
from spanwire.broker.scheduler.schedule import Plans, Schedule
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import TOPIC
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.ids import MessageId
from spanwire.model.ledger import ACKNOWLEDGED, DEAD_LETTERED, DISCARDED, EXPIRED
from spanwire.model.message import Message

FREED_IN_STEP: Final = 10  # sends; forgetting so many takes the time of one step
MAX_REPETITIONS: Final = 3  # repeated gatherings after the removal of a destination

GATHERING: Final = 0
SETTLING: Final = 1
REFILLING: Final = 2
OVER: Final = 3


class Run:
    """Messages of one producer with consecutive sequences."""

    __slots__ = ("count", "first")

    def __init__(self, first: MessageId) -> None:
        self.first: Final[MessageId] = first
        self.count = 1


def note_run(runs: list[Run], message_id: MessageId) -> None:
    """Add a message behind the messages of ``runs``."""
    if runs:
        last = runs[-1]
        maker = last.first.producer_id
        if last.first.sequence + last.count == message_id.sequence and (
            maker is message_id.producer_id or maker == message_id.producer_id
        ):
            last.count += 1
            return
    runs.append(Run(message_id))


class Commits(Protocol):
    """The parts of a commit that need the rest of the broker."""

    def current_destination(self, work: CommitWork, destination: BrokerDestination) -> BrokerDestination | None:
        """Return the current destination in place of the removed ``destination``; a new one is made if needed.

        Returns:
            None if the destination is gone together with all messages sent there.

        Raises:
            JmsError: the destination may not be made.
        """
        ...

    def is_accepted(self, identity: SendIdentity) -> bool:
        """Return True if the destination has accepted the duplicate id."""
        ...

    def add_late_copies(self, transaction: Transaction, index: int, topic: BrokerDestination, until: int) -> int:
        """Add copies for later durable subscriptions; see `Transaction.add_late_copies`."""
        ...

    def check_send(self, work: CommitWork, destination: BrokerDestination, message: Message) -> None:
        """Raise `ResourceAllocationError` if there is no room for a sent message."""
        ...

    def is_stored(self, destination: BrokerDestination, message: Message) -> bool:
        """Return True if the message goes to the store."""
        ...

    def plan(self, work: CommitWork, schedule: Schedule, message: Message) -> WithheldMessage:
        """Plan a scheduled message, and add its record for the store to ``work``.

        Raises:
            JmsError: the message cannot be scheduled.
        """
        ...

    def letters_of(self, ack: TransactedAck, reference: MessageReference) -> list[WithheldMessage]:
        """Return the dead letters of one message that a consumer gave up."""
        ...

    def hand_over(self, work: CommitWork) -> None:
        """Hand the unit to the store, and note the messages at their destinations.

        Raises:
            JmsError: the transaction has no effect.
        """
        ...

    def settle(self, ack: TransactedAck, reference: MessageReference) -> None:
        """Forget one acknowledged message."""
        ...

    def hand_on(self, work: CommitWork) -> None:
        """Dispatch the messages that the store does not get, and answer.

        All acknowledgements are settled before.
        """
        ...

    def refill(self, subscription: Subscription) -> None:
        """Dispatch to a consumer that can take more."""
        ...

    def on_ended(self, work: CommitWork) -> None:
        """Note the end of the commit."""
        ...

    def on_refused(self, work: CommitWork, error: JmsError) -> SlicedWork | None:
        """Report a commit without effect, and return the work that undoes the transaction."""
        ...


class TransactionWork(SlicedWork):
    """The end of one transaction under way.

    With ``is_sliced`` the answer goes through the connection; otherwise ``is_answered`` says that the caller can
    answer.
    """

    def __init__(self, state: ConnectionState, transaction: Transaction, token: int) -> None:
        super().__init__()
        self.state: Final[ConnectionState] = state
        self.transaction: Final[Transaction] = transaction
        self.token: Final[int] = token
        self.is_sliced = False
        self.is_answered = True

    @property
    def size(self) -> int:
        """The number of changes to carry out. A call of `go_on` that raises it ends early."""
        return self.transaction.size


class CommitWork(TransactionWork):
    """One commit under way.

    ``messages`` are the messages to dispatch, ``destinations`` counts them by destination. ``runs`` lists messages that
    a client may send again, ``unit`` is the part for the store. The messages of a prepared branch are moved where the
    prepare has stored them, unless work was added or a destination has changed since: then all are stored again.
    Durable subscriptions with numbers above ``until`` get no message, so that none gets a part of the transaction.
    """

    def __init__(
        self, commits: Commits, state: ConnectionState, transaction: Transaction, token: int, until: int
    ) -> None:
        super().__init__(state, transaction, token)
        self._commits: Final[Commits] = commits
        self._until: Final[int] = until
        self.messages: list[WithheldMessage] = []
        self.destinations: Final[dict[BrokerDestination, int]] = {}
        self.runs: Final[list[Run]] = []
        self.unit = StoreUnit()
        self.stored_bytes = 0
        self.is_stored = False
        self.plans: Plans | None = None  # of scheduled messages
        self.identities: Final[dict[tuple[str, bytes], SendIdentity]] = {}  # duplicate ids that the commit accepts
        self.duplicates: Final[dict[SendIdentity, Message]] = {}  # messages that the commit drops
        is_as_prepared = transaction.lettered == len(transaction.acks)
        self._staging: Staging | None = transaction.staging if is_as_prepared else None
        self._transfers: Final[dict[BrokerDestination, UnitTransfer]] = {}
        self._stage = GATHERING
        self._repetitions = 0
        self._send = 0  # index of the next send
        self._removal = 0
        self._ack = 0
        self._reference = 0  # index in the acknowledgement
        self._unsent: Final[list[TransactedSend]] = []  # sends without a destination, still counted in memory
        self._own: Final[list[WithheldMessage]] = []  # messages counted in memory by this commit
        self._consumers: Final[dict[Subscription, None]] = {}

    @property
    def size(self) -> int:
        """The number of changes; see `TransactionWork.size`."""
        staging = self._staging
        if staging is None:
            return self.transaction.size
        return self.transaction.count + self.transaction.late + len(staging.removals)

    def go_on(self, at_most: int) -> bool:
        """Do at most ``at_most`` steps; see `SlicedWork.go_on`."""
        end = self.steps + at_most
        if self._stage == GATHERING:
            if not self._gather(end) or not self._hand_over():
                return False
            self._stage = SETTLING
        if self._stage == SETTLING:
            if not self._settle(end):
                return False
            self._stage = REFILLING
            self._commits.hand_on(self)
        if self._stage == REFILLING:
            while self._consumers:
                if self.steps >= end:
                    return False
                self.steps += 1
                subscription = next(iter(self._consumers))
                del self._consumers[subscription]
                if not subscription.removed:
                    self._commits.refill(subscription)
            self._stage = OVER
            self._commits.on_ended(self)
        return True

    def refuse(self, error: JmsError) -> SlicedWork | None:
        """End a commit that has not taken effect; see `SlicedWork.refuse`."""
        if self._stage != GATHERING:
            return None
        self._stage = OVER
        self._forget_own()
        return self._commits.on_refused(self, error)

    def _gather(self, end: int) -> bool:
        """Gather another part of the transaction and return True at the end."""
        transaction = self.transaction
        sends = transaction.sends
        while self._send < len(sends):
            if self.steps >= end:
                return False
            self.steps += 1
            send = sends[self._send]
            topic = self._late_topic(send)
            if topic is not None:
                self.steps += self._commits.add_late_copies(transaction, self._send, topic, self._until)
                if not self.is_sliced:
                    return False  # copies and selectors may be too much for this turn
                continue
            if self._staging is not None and not self._is_as_prepared(send):
                self._staging = None
                self._gather_again()
                return False  # the removals may make it too large for this turn
            self._gather_send(send, self._send < transaction.counted)
            self._send += 1
        removals = transaction.removals if self._staging is None else self._staging.removals
        while self._removal < len(removals):
            if self.steps >= end:
                return False
            self.steps += 1
            self.unit.remove(removals[self._removal][0], removals[self._removal][1])
            self._removal += 1
        while self._ack < len(transaction.acks):
            if self.steps >= end or not self._gather_ack(transaction.acks[self._ack], end):
                return False
            self.steps += 1
            self._ack += 1
            self._reference = 0
        return True

    def _late_topic(self, send: TransactedSend) -> BrokerDestination | None:
        """Return the topic of a message with durable subscriptions made after the send, None without any."""
        topic: BrokerDestination | None = send.destination
        if send.destination.removed and send.served < self._until and send.destination.name.kind == TOPIC:
            topic = self._commits.current_destination(self, send.destination)
        return topic if topic is not None and min(topic.served, self._until) > send.served else None

    def _is_as_prepared(self, send: TransactedSend) -> bool:
        """Return True if the prepare has stored what the commit would store now."""
        destination = send.destination
        if destination.removed or isinstance(destination, Schedule):
            return False
        return self._commits.is_stored(destination, send.message) == (send.staged > 0)

    def _gather_send(self, send: TransactedSend, is_counted: bool) -> None:
        destination: BrokerDestination | None = send.destination
        if send.identity is not None and not self._identify(send, send.identity):
            if is_counted:
                self._unsent.append(send)
            return
        if isinstance(send.destination, Schedule):
            self._add(self._commits.plan(self, send.destination, send.message), send.usage if is_counted else None)
            return
        if send.destination.removed:
            destination = self._commits.current_destination(self, send.destination)
        if destination is None:
            if is_counted:
                self._unsent.append(send)
            return
        self._commits.check_send(self, destination, send.message)
        entry = WithheldMessage(destination, send.message, 0)
        if self._add(entry, send.usage if is_counted else None, send.staged):
            note_run(self.runs, send.message.message_id)

    def _identify(self, send: TransactedSend, identity: SendIdentity) -> bool:
        """Record the duplicate id of a message. Return False if the message is a duplicate."""
        key = (identity.address, identity.digest)
        known = self.identities.get(key)
        if known is identity:
            return True  # another copy of the same send
        if identity.depth == 0:
            return True
        if known is not None or self._commits.is_accepted(identity):
            self.duplicates[identity] = send.message
            return False
        self.identities[key] = identity
        if send.message.persistent:
            self.unit.add_metadata(identity.metadata_record())
        return True

    def _gather_ack(self, ack: TransactedAck, end: int) -> bool:
        is_given_up = self._ack >= self.transaction.lettered and (
            ack.ack_type == POISON_ACK or ack.ack_type == EXPIRED_ACK
        )
        if is_given_up and self._reference == 0:
            ack.dead_lettered.clear()  # notes of an earlier attempt
        references = ack.references
        while self._reference < len(references):
            if self.steps >= end:
                return False
            self.steps += 1
            reference = references[self._reference]
            self._reference += 1
            way = ACKNOWLEDGED
            if is_given_up:
                for letter in self._commits.letters_of(ack, reference):
                    self.steps += 1
                    self._add(letter, None)
                way = way_of(ack, reference)
            if reference.sequence > 0:
                self.unit.remove(reference.destination.name, reference.sequence, way)
        return True

    def _add(self, entry: WithheldMessage, usage: MemoryUsage | None, staged: int = 0) -> bool:
        """Add a message, counted in ``usage`` or from now on in the usage of its destination.

        ``staged`` is its number in the staging that the commit moves, if any.

        Returns:
            True if the message goes to the store.
        """
        destination = entry.destination
        message = entry.message
        is_stored = self._commits.is_stored(destination, message)
        if is_stored:
            if self._staging is None:
                additions = self.unit.add(destination.name, message)
                self.stored_bytes += message.size
            else:
                additions = self._move(self._staging, destination, staged)
            entry.additions = additions
            entry.sequence = additions.count - 1
        if usage is None:
            usage = destination.usage
            usage.add(message.size)
            self._own.append(entry)
        entry.usage = usage
        self.messages.append(entry)
        self.destinations[destination] = self.destinations.get(destination, 0) + 1
        return is_stored

    def _move(self, staging: Staging, destination: BrokerDestination, staged: int) -> UnitAdditions:
        transfer = self._transfers.get(destination)
        if transfer is None:
            transfer = self.unit.transfer(staging.destination, destination.name)
            self._transfers[destination] = transfer
        transfer.add_next(staging.before + staged)
        return transfer.additions

    def _hand_over(self) -> bool:
        """Make the transaction take effect, in a single step.

        Returns:
            False if a destination was removed meanwhile; gathering then starts again.
        """
        for destination in self.destinations:
            if destination.removed:
                self._begin_again(destination)
                return False
        for identity in self.identities.values():
            if self._commits.is_accepted(identity):  # by another send during this commit, which had several slices
                self._gather_again()
                return False
        self._commits.hand_over(self)
        self._own.clear()
        self._ack = 0
        self._reference = 0
        return True

    def _begin_again(self, removed: BrokerDestination) -> None:
        self._repetitions += 1
        if self._repetitions > MAX_REPETITIONS:
            raise ResourceAllocationError(
                f"{removed.name} was removed {self._repetitions} times during the commit of transaction "
                f"{self.transaction.name}: commit smaller ones, or leave the destination"
            )
        self._gather_again()

    def _gather_again(self) -> None:
        self._forget_own()
        self.identities.clear()
        self.duplicates.clear()
        self.messages = []
        self.destinations.clear()
        self.runs.clear()
        self.unit = StoreUnit()
        self._transfers.clear()
        self.stored_bytes = 0
        self._unsent.clear()
        self._send = 0
        self._removal = 0
        self._ack = 0
        self._reference = 0

    def _forget_own(self) -> None:
        if self.plans is not None:
            self.plans.drop()
            self.plans = None
        for entry in self._own:
            if entry.usage is not None:
                entry.usage.add(-entry.message.size)
        self._own.clear()

    def _settle(self, end: int) -> bool:
        """Settle another part of the acknowledgements and return True at the end."""
        acks = self.transaction.acks
        while self._ack < len(acks):
            if self.steps >= end:
                return False
            ack = acks[self._ack]
            subscription = ack.subscription
            if self._reference == 0 and subscription is not None:
                subscription.in_flight.transaction_ended(len(ack.references))
                self._consumers[subscription] = None
            while self._reference < len(ack.references):
                if self.steps >= end:
                    return False
                self.steps += 1
                self._reference += 1
                self._commits.settle(ack, ack.references[self._reference - 1])
            self.steps += 1
            self._ack += 1
            self._reference = 0
        return self._let_go(end)

    def _let_go(self, end: int) -> bool:
        """Free the memory of the transaction, in slices as well. Return True at the end."""
        while self._unsent:
            if self.steps >= end:
                return False
            self.steps += 1
            send = self._unsent.pop()
            send.usage.add(-send.message.size)
        transaction = self.transaction
        transaction.end_count()
        while self.steps < end:
            self.steps += 1
            if not transaction.forget(FREED_IN_STEP):
                return True
        return False


def way_of(ack: TransactedAck, reference: MessageReference) -> int:
    """Return how the ledger counts a message that a transaction acknowledges, with its dead letters made."""
    if ack.ack_type != POISON_ACK and ack.ack_type != EXPIRED_ACK:
        return ACKNOWLEDGED
    if reference in ack.dead_lettered:
        return DEAD_LETTERED
    return EXPIRED if ack.ack_type == EXPIRED_ACK else DISCARDED
