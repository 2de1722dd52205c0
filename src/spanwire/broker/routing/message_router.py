"""The way of a message into the broker: targets, rights, storage and dispatch.

`FlowControl` decides about room.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState, ParkedSend
from spanwire.broker.connections.transaction import TransactedSend, Transaction
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.history.departures import DUPLICATE, SECOND_COPY
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.deferred_dispatch import DeferredDispatch, Dispatcher
from spanwire.broker.persistence.duplicate_ids import SendIdentity
from spanwire.broker.persistence.network_copies import COPY, NEARER, NEW
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import PendingReply, ReplyQueue, WithheldMessage
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.routing.dead_letters import EXPIRED, DeadLetters
from spanwire.broker.routing.flow_control import MEMORY, ROOM, TURN, FlowControl
from spanwire.broker.routing.identified_sends import LEAST_MARKED, IdentifiedSends, is_marked
from spanwire.broker.routing.message_takers import ControlTaker, DelayedSender
from spanwire.broker.routing.parked_sends import ParkedSender, ParkedSends, send_reply
from spanwire.broker.routing.send_targets import SendTargets
from spanwire.broker.routing.unscheduled import LOOKED_AT, Unscheduled
from spanwire.broker.routing.virtual_destinations import Target
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import SCHEDULE, SUBSCRIPTION, Destination
from spanwire.model.errors import JmsError
from spanwire.model.ledger import TOPIC_LINK
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX

NO_IDENTITIES: Final[list[SendIdentity]] = []


class MessageRouter(ParkedSender, Dispatcher):
    """Takes messages from connections.

    A transaction keeps its messages until `LocalTransactions` hands them over.
    """

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        formats: MessageFormats,
        access: AccessControl,
        replies: ReplyQueue,
        unsynced: UnsyncedBytes,
        dead_letters: DeadLetters,
        parked: ParkedSends,
        audit: ProducerAudit,
        targets: SendTargets,
        identified: IdentifiedSends,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._access: Final[AccessControl] = access
        self._replies: Final[ReplyQueue] = replies
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._dead_letters: Final[DeadLetters] = dead_letters
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow
        self._audit: Final[ProducerAudit] = audit
        self.targets: Final[SendTargets] = targets
        self.identified: Final[IdentifiedSends] = identified
        self._unscheduled: Final[Unscheduled] = Unscheduled(formats)
        self.delayed: DelayedSender | None = None
        self.control: ControlTaker | None = None
        self.deferred: Final[DeferredDispatch] = DeferredDispatch(self, context)

    def send(self, state: ConnectionState, message: Message, transaction: Transaction | None, token: int) -> bool:
        """Take ``message``.

        Returns:
            True if the send can be answered now.

        Raises:
            JmsError: the message is refused.
        """
        if message.tail_start - message.properties_start > LEAST_MARKED or message.format_id >= FORMAT_STOMP:
            identities = self.identified.identities(message) if is_marked(message) else NO_IDENTITIES
            if len(identities) > 0 and (transaction is None or transaction.identity is None):
                return self._send_identified(state, message, transaction, token, identities)
        delayed = self.delayed
        if delayed is None:
            if message.sequence <= LOOKED_AT:
                self._unscheduled.look(message)
        elif delayed.concerns(message):
            return self._send_later(delayed, state, message, transaction, token)
        name = message.destination
        destination = self._map.find(name)
        if destination is None or name.is_composite or destination.fans_out:
            return self._send_to_many(state, message, transaction, token)
        self._access.check_write(state, destination.name)
        if transaction is not None:
            transaction.messages += 1
            self._gather(transaction, destination, message)
            return True
        is_stored = self._context.store is not None and destination.persists(message)
        obstacle = self._flow.obstacle_before(destination, message, is_stored)
        if (obstacle != ROOM or state.parked_bytes > 0) and not self._passes(state, destination, message, obstacle):
            return self._parked.park(state, destination, message, token, obstacle if obstacle != ROOM else TURN)
        return self._accept(state, destination, message, token, is_stored)

    def _send_identified(
        self,
        state: ConnectionState,
        message: Message,
        transaction: Transaction | None,
        token: int,
        identities: list[SendIdentity],
    ) -> bool:
        """Send a message with a duplicate id to the destinations that have not accepted the id yet.

        In a transaction the commit decides.
        """
        if transaction is not None:
            before = transaction.messages
            for part, identity in zip(message.destination.parts(), identities, strict=True):
                transaction.identity = identity
                try:
                    self.send(state, self.identified.part_of(message, part), transaction, token)
                finally:
                    transaction.identity = None
            transaction.messages = min(transaction.messages, before + 1)
            return True
        new = self.identified.new_part(state, message, identities)
        if new is None:
            return not message.persistent or self.answer_when_stored(state, token)
        if self.delayed is not None and self.delayed.concerns(new):
            return self.delayed.take(state, new, token)
        return self._send_to_many(state, new, None, token)

    def _passes(self, state: ConnectionState, destination: BrokerDestination, message: Message, obstacle: int) -> bool:
        """Return True if another broker forwards ``message`` and the reserve for such messages has room."""
        return obstacle == MEMORY and not state.parked and self._flow.has_reserve(state, destination, message)

    def _send_later(
        self,
        delayed: DelayedSender,
        state: ConnectionState,
        message: Message,
        transaction: Transaction | None,
        token: int,
    ) -> bool:
        if transaction is None:
            return delayed.take(state, message, token)
        transaction.messages += 1
        destination = delayed.destination_of(state, message)
        if destination is not None:
            transaction.sender = state.principal
            self._gather(transaction, destination, message)
        return True

    def _send_to_many(
        self, state: ConnectionState, message: Message, transaction: Transaction | None, token: int
    ) -> bool:
        """Send to composite, wildcard, virtual or new destinations, after a check of all targets."""
        if self.control is not None and is_control(message.destination):
            self.control.take(state, message, transaction)
            return True
        targets = self.targets.of(state, message)
        if state.parked and transaction is None and targets:
            return self._parked.park(state, targets[0].destination, message, token, TURN)
        if transaction is not None:
            transaction.messages += 1
            for target, copy in zip(targets, self.targets.copies(targets, message), strict=True):
                self._gather(transaction, target.destination, copy)
            return True
        for target in targets:
            obstacle = self._flow.obstacle(target.destination, message)
            if obstacle != ROOM and not self._passes(state, target.destination, message, obstacle):
                return self._parked.park(state, target.destination, message, token, obstacle)
        return self._deliver_all(
            state, targets, self.targets.copies(targets, message), token, self.identified.identities(message)
        )

    def send_forwarded(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take a message of a bridge, and count the message at the destination. Returns and raises as `send`."""
        is_queue = message.destination.is_queue
        message.origin = state.link if is_queue else TOPIC_LINK
        answered = self.send(state, message, None, token) if is_queue else self.send_over_link(state, message, token)
        destination = self._map.find(message.destination)
        if destination is not None:
            destination.from_brokers += 1
        return answered

    def send_over_link(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take a topic's message from another broker, once only although copies may come over several routes.

        Returns and raises as `send`.
        """
        audited = self._is_audited(message.destination)
        verdict = self._audit.copies.judge(message) if audited else NEW
        if verdict == COPY:
            self._context.note_duplicate(SECOND_COPY, message, state.connection_id)
            return not message.persistent or self.answer_when_stored(state, token)
        parked = len(state.parked)
        if verdict == NEW:
            answered = self.send(state, message, None, token)
        else:
            answered = self._send_to_bridges(state, message, token)
        if audited and len(state.parked) == parked:
            self._audit.copies.note(message)
        return answered

    def _is_audited(self, topic: Destination) -> bool:
        if topic.is_advisory:
            return False  # each broker publishes its own advisories
        destination = self._map.find(topic)
        return destination is None or destination.policy.topic.audits_copies

    def _send_to_bridges(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take a `NEARER` copy, for the bridges of this broker and their durable subscriptions only."""
        targets = [target for target in self.targets.of(state, message) if self._leads_on(target.destination)]
        for target in targets:
            obstacle = self._flow.obstacle(target.destination, message)
            if (obstacle != ROOM or state.parked) and not self._passes(state, target.destination, message, obstacle):
                reason = obstacle if obstacle != ROOM else TURN
                return self._parked.park(state, target.destination, message, token, reason)
        self._deliver_to_bridges(state, targets, message)
        return not message.persistent or self.answer_when_stored(state, token)

    def _leads_on(self, destination: BrokerDestination) -> bool:
        """Return True for a topic, and for the queue of a bridge's durable subscription."""
        if isinstance(destination, Topic):
            return True
        durable = self._map.durables.get(destination.name.name) if destination.name.kind == SUBSCRIPTION else None
        return durable is not None and durable.terms.name.startswith(BRIDGE_DURABLE_PREFIX)

    def _deliver_to_bridges(self, state: ConnectionState, targets: list[Target], message: Message) -> None:
        expanded: list[Target] = []
        copies: list[Message] = []
        for target, copy in zip(targets, self.targets.copies(targets, message), strict=True):
            if isinstance(target.destination, Topic):
                target.destination.accept_for_bridges(copy)
            else:
                expanded.append(target)
                copies.append(copy)
        self._deliver_all(state, expanded, copies, NO_TOKEN, NO_IDENTITIES)

    def is_repeated(self, state: ConnectionState, message: Message) -> bool:
        """Return True if the store has the message already: a client repeats its sends after a reconnect.

        Only answer such a send.
        """
        if state.forwards:
            is_repeated = self._audit.is_repeated_over_link(message, state.info.audit_makers)
        else:
            is_repeated = message.persistent and self._audit.is_repeated(message.message_id)
        if is_repeated:
            self._context.note_duplicate(DUPLICATE, message, state.connection_id)
        return is_repeated

    def _gather(self, transaction: Transaction, destination: BrokerDestination, message: Message) -> None:
        """Keep ``message`` for the commit."""
        transaction.note_begin(self._context.monotonic)
        self._flow.check_transacted(destination, message)
        send = TransactedSend(destination, message, self._flow.usage_in_transaction(destination, message))
        send.identity = transaction.identity
        transaction.add_send(send)

    def _deliver_all(
        self,
        state: ConnectionState,
        targets: list[Target],
        copies: list[Message],
        token: int,
        identities: list[SendIdentity],
    ) -> bool:
        """Deliver several copies with one answer, due once all stored copies are safe.

        The copies are stored together or not at all, so that a repeated send finds all of them or no copy. The
        duplicate ids ``identities`` are stored with them.
        """
        stored: list[WithheldMessage] = []
        others: list[WithheldMessage] = []
        has_store = self._context.store is not None
        metadata: list[MetadataRecord] = []
        if has_store and len(identities) > 0 and copies and copies[0].persistent:
            metadata = [identity.metadata_record() for identity in identities]
        for target, copy in zip(targets, copies, strict=True):
            destination = target.destination
            to_store = has_store and destination.persists(copy) and not copy.is_expired(self._context.wall_ms)
            (stored if to_store else others).append(WithheldMessage(destination, copy, 0))
        if stored:
            self._store_together(state, stored, metadata)
        elif metadata:
            self._context.units.append_unit([], [], metadata)
        for identity in identities:
            self.identified.note(identity)
        for entry in others:
            self._deliver(state, entry.destination, entry.message, NO_TOKEN)
        if not copies or not copies[0].persistent:
            return True
        if not (stored or metadata or copies[0].is_expired(self._context.wall_ms)):
            return True
        return self.answer_when_stored(state, token)

    def _store_together(
        self, state: ConnectionState, copies: list[WithheldMessage], metadata: list[MetadataRecord]
    ) -> None:
        store = self._context.store
        assert store is not None
        if len(copies) == 1 and not metadata:
            sequences = [store.append(copies[0].destination.name, copies[0].message)]
        elif not metadata and all(entry.message.shares_bytes(copies[0].message) for entry in copies):
            sequences = self._context.units.append_shared(
                [entry.destination.name for entry in copies], copies[0].message
            )
        else:
            additions: list[tuple[Destination, Message]] = []
            for entry in copies:
                additions.append((entry.destination.name, entry.message))
            sequences = self._context.units.append_unit(additions, [], metadata)
        for entry, sequence in zip(copies, sequences, strict=True):
            self._stored(state, entry.destination, entry.message, sequence, NO_TOKEN)

    def answer_when_stored(self, state: ConnectionState, token: int) -> bool:
        """Return True if all earlier writes are safe; otherwise the answer to ``token`` waits for the store."""
        store = self._context.store
        if token == NO_TOKEN or store is None:
            return True
        position = store.position()
        if self._replies.is_stored(position):
            return True
        self._replies.add(PendingReply(position, state.output, token, None))
        return False

    def go_on(self, state: ConnectionState, parked: ParkedSend) -> None:
        """Take a send after a wait. AccessControl and the existence of the destination are checked again."""
        error: JmsError | None = None
        done = True
        try:
            if parked.destination.name.kind == SCHEDULE and self.delayed is not None:
                done = self.delayed.keep(state, parked.message, parked.token)
            else:
                done = self._take_parked(state, parked)
        except JmsError as refused:
            error = refused
        if done or error is not None:
            send_reply(state, parked.token, error)

    def _take_parked(self, state: ConnectionState, parked: ParkedSend) -> bool:
        message = parked.message
        audited = state.forwards and not message.destination.is_queue and self._is_audited(message.destination)
        verdict = self._audit.copies.judge(message) if audited else NEW  # another copy may have been taken meanwhile
        if verdict == NEW:
            done = self._take_new(state, message, parked.token)
        else:
            if verdict == NEARER:
                targets = [target for target in self.targets.of(state, message) if self._leads_on(target.destination)]
                self._deliver_to_bridges(state, targets, message)
            done = not message.persistent or self.answer_when_stored(state, parked.token)
        if audited:
            self._audit.copies.note(message)
        return done

    def _take_new(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Deliver a message after a wait; another message with the same duplicate id may have come meanwhile."""
        new = self.identified.new_part(state, message, self.identified.identities(message))
        if new is None:
            return not message.persistent or self.answer_when_stored(state, token)
        targets = self.targets.of(state, new)
        copies = self.targets.copies(targets, new)
        return self._deliver_all(state, targets, copies, token, self.identified.identities(new))

    def find_or_create(self, destination: Destination) -> BrokerDestination | None:
        """Return the destination for a returning message, None if the destination is removed for good."""
        if destination.kind == SUBSCRIPTION:
            durable = self._map.durables.get(destination.name)
            return None if durable is None else durable.queue
        return self._map.find(destination) if destination.is_temporary else self._destinations.ensure_own(destination)

    def hand_in(self, state: ConnectionState, message: Message) -> bool:
        """Deliver a message of the broker's own, without an answer. Return False if there is no room now."""
        targets = self.targets.of(state, message)
        for target in targets:
            if self._flow.obstacle(target.destination, message) != ROOM:
                return False
        self._deliver_all(state, targets, self.targets.copies(targets, message), NO_TOKEN, NO_IDENTITIES)
        return True

    def hand_in_when_stored(self, state: ConnectionState, message: Message) -> None:
        """Deliver a message that reports changes of the store, once the changes are safe."""
        store = self._context.store
        targets = self.targets.of(state, message)
        sends = [
            WithheldMessage(target.destination, copy, 0)
            for target, copy in zip(targets, self.targets.copies(targets, message), strict=True)
        ]
        position = 0 if store is None else store.position()
        if store is None or self._replies.is_stored(position):
            for entry in sends:
                self._deliver(state, entry.destination, entry.message, NO_TOKEN)
        else:
            self.withhold(PendingReply(position, state.output, NO_TOKEN, sends))

    def _deliver(self, state: ConnectionState, destination: BrokerDestination, message: Message, token: int) -> bool:
        is_stored = self._context.store is not None and destination.persists(message)
        return self._accept(state, destination, message, token, is_stored)

    def _accept(
        self, state: ConnectionState, destination: BrokerDestination, message: Message, token: int, is_stored: bool
    ) -> bool:
        if message.expiration_ms > 0 and message.is_expired(self._context.wall_ms):
            self._expired(destination, message)
            return not message.persistent or self.answer_when_stored(state, token)
        if is_stored:
            return self._store(state, destination, message, token)
        if not destination.policy.producer_flow_control and self._flow.spills(destination):
            return self._store(state, destination, message, NO_TOKEN)
        if destination.withheld > 0:
            store = self._context.store
            position = 0 if store is None else store.position()
            self.withhold(PendingReply(position, state.output, NO_TOKEN, [WithheldMessage(destination, message, 0)]))
        else:
            destination.accept(message, 0)
        return True

    def _expired(self, destination: BrokerDestination, message: Message) -> None:
        destination.expired += 1
        self._dead_letters.dead_on_arrival(destination, message, EXPIRED)

    def withhold(self, reply: PendingReply) -> None:
        """Dispatch the messages of ``reply`` when the store has reached the position.

        No later message overtakes.
        """
        if reply.messages is not None:
            for entry in reply.messages:
                entry.destination.withheld += 1
                entry.destination.hold(entry.message)
        if self._context.store is None:
            self.deferred.take(reply)
        else:
            self._replies.add(reply)

    def expect(self, reply: PendingReply) -> None:
        """Withhold messages already counted by memory and destinations."""
        self._replies.add(reply)

    def release_one(self, entry: WithheldMessage) -> None:
        """Dispatch one message for `Dispatcher.release_one`."""
        destination = entry.destination
        message = entry.message
        sequence = entry.sequence if entry.additions is None else entry.additions.first + entry.sequence
        destination.withheld -= 1
        if not destination.removed:
            if not message.is_expired(self._context.wall_ms) or destination.name.kind == SCHEDULE:
                destination.accept(message, sequence)  # the lifetime of a scheduled message begins with its delivery
            elif sequence == 0:
                self._expired(destination, message)
            else:
                destination.enqueued += 1
                destination.hold(message)
                destination.expire(MessageReference(destination, message, sequence, 0, 0))
        if entry.usage is None:
            destination.release(message)
        else:
            entry.usage.add(-message.size)

    def _store(self, state: ConnectionState, destination: BrokerDestination, message: Message, token: int) -> bool:
        store = self._context.store
        assert store is not None
        return self._stored(state, destination, message, store.append(destination.name, message), token)

    def _stored(
        self, state: ConnectionState, destination: BrokerDestination, message: Message, sequence: int, token: int
    ) -> bool:
        """Dispatch a stored message, now or once the message is safe on disk."""
        store = self._context.store
        assert store is not None
        self._unsynced.add(message.size)
        if state.forwards:
            self._audit.came_over_link(message)
        else:
            state.audited = self._audit.stored(state.audited, message.producer_id, message.sequence)
        if destination.policy.dispatch_before_sync and destination.withheld == 0:
            destination.accept(message, sequence)
            return token == NO_TOKEN or self.answer_when_stored(state, token)
        self.withhold(
            PendingReply(store.position(), state.output, token, [WithheldMessage(destination, message, sequence)])
        )
        return token == NO_TOKEN
