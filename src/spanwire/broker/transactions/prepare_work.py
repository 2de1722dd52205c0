"""Prepare of a branch in slices. The records are gathered and handed to the store as one unit."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import SlicedWork
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import TransactedAck, TransactedSend
from spanwire.broker.connections.xa_branch import Branch, RecordDraft, branch_destination
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.message_reference import MessageHolder, MessageReference
from spanwire.broker.persistence.store_unit import LEAST_STRETCH, StoreUnit
from spanwire.broker.scheduler.schedule import Schedule
from spanwire.broker.transactions.commit_work import Run, note_run
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import SUBSCRIPTION, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.ledger import CLIENT
from spanwire.model.message import Message

SORTED_IN_STEP: Final = 20  # acknowledged messages; sorting so many takes the time of one step


class Prepares(Protocol):
    """The parts of a prepare that need the rest of the broker."""

    def letters(self, ack: TransactedAck, reference: MessageReference) -> list[TransactedSend]:
        """Return the dead letters of one message that a consumer gave up."""
        ...

    def check_kept(self, work: PrepareWork, destination: BrokerDestination, message: Message) -> bool:
        """Return True if the store is to keep the message.

        Raises:
            JmsError: the store or the schedule has no room, or the message cannot be scheduled.
        """
        ...

    def keeps_for_later(self, destination: BrokerDestination, message: Message) -> bool:
        """Return True if the store is to keep the message for durable subscriptions made before the commit."""
        ...

    def current_topic(self, destination: BrokerDestination) -> BrokerDestination:
        """Return the current topic in place of a removed one."""
        ...

    def add_late_copies(self, branch: Branch, index: int, topic: BrokerDestination, until: int) -> int:
        """Add copies for later durable subscriptions; see `Transaction.add_late_copies`."""
        ...

    def keep(self, work: PrepareWork) -> None:
        """Hand the branch to the store and answer.

        Raises:
            JmsError: the prepare has no effect.
        """
        ...

    def prepare_refused(self, work: PrepareWork, error: JmsError) -> SlicedWork | None:
        """Report the rollback of the branch, and return the work that undoes the branch."""
        ...


class PrepareWork(SlicedWork):
    """One prepare under way.

    The messages go to the staging destination with this ``number`` in the store; ``targets`` lists their final
    destinations. ``runs`` lists messages that a client may send again. ``sequences`` has the acknowledged messages by
    the names of ``destinations``. ``moves`` is True while the commit may move the stored messages. ``for_later`` counts
    the last of them, which only durable subscriptions with numbers above ``until`` may get, made before the commit.
    """

    def __init__(
        self, owner: Prepares, branch: Branch, state: ConnectionState, token: int, number: int, until: int
    ) -> None:
        super().__init__()
        self._owner: Final[Prepares] = owner
        self.branch: Final[Branch] = branch
        self.state: Final[ConnectionState] = state
        self.token: Final[int] = token
        self.number: Final[int] = number
        self.until: Final[int] = until
        self.is_sliced = False
        self.is_answered = False
        self.unit: Final[StoreUnit] = StoreUnit()
        self.draft: Final[RecordDraft] = RecordDraft()
        self.targets: Final[list[Destination]] = []
        self.runs: Final[list[Run]] = []
        self.stored_bytes = 0
        self.scheduled = 0  # messages that the commit will schedule
        self.moves = True
        self.for_later = 0
        self._later: Final[list[TransactedSend]] = []
        self._stretches = 0  # consecutive messages for one destination
        self._last: BrokerDestination | None = None
        self.destinations: Final[dict[str, MessageHolder]] = {}
        self.sequences: Final[dict[str, list[int]]] = {}
        self._destination: Final[Destination] = branch_destination(number)
        self._ack = branch.lettered  # index of the next acknowledgement that may leave dead letters
        self._send = 0
        self._held = 0  # index of the next acknowledgement to gather
        self._reference = 0  # index in the acknowledgement
        self._names: Final[list[str]] = []  # names of destinations with acknowledged messages
        self._sorted = 0  # number of sorted destinations
        self._is_over = False

    def go_on(self, at_most: int) -> bool:
        """Do at most ``at_most`` steps; see `SlicedWork.go_on`."""
        end = self.steps + at_most
        if self._is_over:
            return True
        if not (self._add_letters(end) and self._gather_sends(end) and self._gather_later(end)):
            return False
        if not (self._gather_acks(end) and self._sort(end)):
            return False
        self._owner.keep(self)
        self._is_over = True
        return True

    def refuse(self, error: JmsError) -> SlicedWork | None:
        """End a prepare that has not taken effect; see `SlicedWork.refuse`."""
        if self._is_over:
            return None
        self._is_over = True
        return self._owner.prepare_refused(self, error)

    def _add_letters(self, end: int) -> bool:
        acks = self.branch.acks
        while self._ack < len(acks):
            ack = acks[self._ack]
            if ack.ack_type == POISON_ACK or ack.ack_type == EXPIRED_ACK:
                while self._reference < len(ack.references):
                    if self.steps >= end:
                        return False
                    self.steps += 1
                    for letter in self._owner.letters(ack, ack.references[self._reference]):
                        self.steps += 1
                        self.branch.add_send(letter)
                    self._reference += 1
            self._ack += 1
            self._reference = 0
        return True

    def _gather_sends(self, end: int) -> bool:
        sends = self.branch.sends
        while self._send < len(sends):
            if self.steps >= end:
                return False
            self.steps += 1
            send = sends[self._send]
            topic = self._late_topic(send)
            if topic is not None:
                self.steps += self._owner.add_late_copies(self.branch, self._send, topic, self.until)
                if not self.is_sliced:
                    return False  # copies and selectors may be too much for this turn
                continue
            self._send += 1
            if send.destination.removed and send.destination.name.kind == SUBSCRIPTION:
                continue  # its name may be that of another subscription now
            message = send.message
            if self._owner.check_kept(self, send.destination, message):
                self._keep(send)
                note_run(self.runs, message.message_id)
                self._number(send)
            elif self._owner.keeps_for_later(send.destination, message):
                if self.branch.has_identities:  # beside its copies: they share the duplicate id after a restart
                    self._keep(send)  # and those without an id as well, in the order of the sends
                    self.moves = False
                else:
                    self._later.append(send)
        return True

    def _late_topic(self, send: TransactedSend) -> BrokerDestination | None:
        """Return the topic of a message with durable subscriptions made after the send, None without any."""
        topic = send.destination
        if topic.removed and send.served < self.until and topic.name.kind == TOPIC:
            topic = self._owner.current_topic(topic)
        return topic if min(topic.served, self.until) > send.served else None

    def _keep(self, send: TransactedSend) -> None:
        self.unit.add(self._destination, send.message)
        self.draft.send(send.destination.name)
        self.targets.append(send.destination.name)
        self.stored_bytes += send.message.size

    def _gather_later(self, end: int) -> bool:
        """Gather the messages to topics, behind the others: those can be moved in long stretches."""
        while self.for_later < len(self._later):
            if self.steps >= end:
                return False
            self.steps += 1
            self._keep(self._later[self.for_later])
            self.for_later += 1
        return True

    def _number(self, send: TransactedSend) -> None:
        """Note the place of a stored message, and whether a commit can move it as a message of a client."""
        send.staged = len(self.targets)
        if send.destination is not self._last:
            self._last = send.destination
            self._stretches += 1
            if isinstance(send.destination, Schedule):
                self.moves = False
        if send.identity is not None or send.message.origin != CLIENT:
            self.moves = False

    @property
    def is_worth_moving(self) -> bool:
        """Return True if notes about moved messages cost the store less than to write the messages again."""
        return self.moves and 0 < self._stretches * LEAST_STRETCH <= len(self.targets) - self.for_later

    def _gather_acks(self, end: int) -> bool:
        acks = self.branch.acks
        while self._held < len(acks):
            references = acks[self._held].references
            while self._reference < len(references):
                if self.steps >= end:
                    return False
                self.steps += 1
                reference = references[self._reference]
                self._reference += 1
                if reference.sequence > 0:
                    name = reference.destination.name.qualified_name
                    own = self.sequences.get(name)
                    if own is None:
                        own = []
                        self.sequences[name] = own
                        self.destinations[name] = reference.destination
                        self._names.append(name)
                    own.append(reference.sequence)
            self.steps += 1
            self._held += 1
            self._reference = 0
        return True

    def _sort(self, end: int) -> bool:
        """Sort the acknowledged messages of each destination. Return True at the end."""
        while self._sorted < len(self._names):
            if self.steps >= end:
                return False
            name = self._names[self._sorted]
            own = self.sequences[name]
            self.steps += 1 + len(own) // SORTED_IN_STEP
            own.sort()
            self.draft.acknowledge(self.destinations[name].name, own)
            self._sorted += 1
        return True
