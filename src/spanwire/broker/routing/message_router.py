"""The way of a message into the broker: targets, rights, storage and dispatch. `FlowControl` decides about room."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState, ParkedSend
from spanwire.broker.connections.transaction import TransactedSend, Transaction
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.pattern_index import check_compared
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.fan_out import MAX_FAN_OUT, MAX_STEPS_OF_SEND
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.deferred_dispatch import DeferredDispatch, Dispatcher
from spanwire.broker.persistence.network_copies import COPY, NEARER, NEW
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import PendingReply, ReplyQueue, WithheldMessage
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.reserved_destinations import check_apart, is_control
from spanwire.broker.routing.dead_letters import EXPIRED, DeadLetters
from spanwire.broker.routing.flow_control import MEMORY, ROOM, TURN, FlowControl, ParkedSender, tell
from spanwire.broker.routing.message_takers import ControlTaker, DelayedSender
from spanwire.broker.routing.unscheduled import LOOKED_AT, Unscheduled
from spanwire.broker.routing.virtual_destinations import Target, VirtualDestinations
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import SCHEDULE, SUBSCRIPTION, Destination
from spanwire.model.errors import DestinationDoesNotExistError, JmsError, ResourceAllocationError
from spanwire.model.message import Message
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX

MAX_WILDCARD_TARGETS: Final = 5_000  # destinations of one message to wildcards, 2 microseconds each


class MessageRouter(ParkedSender, Dispatcher):
    """Takes messages from connections. A transaction keeps its messages until `LocalTransactions` hands them over."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        formats: MessageFormats,
        access: AccessControl,
        waiting: ReplyQueue,
        unsynced: UnsyncedBytes,
        dead_letters: DeadLetters,
        flow: FlowControl,
        audit: ProducerAudit,
        virtual: VirtualDestinations,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._access: Final[AccessControl] = access
        self._waiting: Final[ReplyQueue] = waiting
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._dead_letters: Final[DeadLetters] = dead_letters
        self._flow: Final[FlowControl] = flow
        self._audit: Final[ProducerAudit] = audit
        self._virtual: Final[VirtualDestinations] = virtual
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
        delayed = self.delayed
        if delayed is None:
            if message.message_id.sequence <= LOOKED_AT:
                self._unscheduled.look(message)
        elif delayed.concerns(message):
            return self._send_later(delayed, state, message, transaction, token)
        destination = message.destination
        home = self._map.find(destination)
        if home is None or destination.is_composite or home.fans_out:
            return self._send_to_many(state, message, transaction, token)
        self._access.check_write(state, home.destination)
        if transaction is not None:
            transaction.messages += 1
            self._gather(transaction, home, message)
            return True
        obstacle = self._flow.obstacle(home, message)
        if (obstacle != ROOM or state.parked) and not self._passes(state, home, message, obstacle):
            return self._flow.park(state, home, message, token, obstacle if obstacle != ROOM else TURN)
        return self._deliver(state, home, message, token)

    def _passes(self, state: ConnectionState, home: BrokerDestination, message: Message, obstacle: int) -> bool:
        """Return True if another broker forwards ``message``, and the reserve of memory for forwarded messages has
        room.
        """
        return obstacle == MEMORY and not state.parked and self._flow.has_reserve(state, home, message)

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
        home = delayed.home_of(state, message)
        if home is not None:
            transaction.sender = state.principal
            self._gather(transaction, home, message)
        return True

    def _send_to_many(
        self, state: ConnectionState, message: Message, transaction: Transaction | None, token: int
    ) -> bool:
        """Send to composite, wildcard, virtual or new destinations. All are checked before the first gets a copy."""
        if self.control is not None and is_control(message.destination):
            self.control.take(state, message, transaction)
            return True
        targets = self.targets(state, message)
        if state.parked and transaction is None and targets:
            return self._flow.park(state, targets[0].home, message, token, TURN)
        if transaction is not None:
            transaction.messages += 1
            for target, copy in zip(targets, self.copies(targets, message), strict=True):
                self._gather(transaction, target.home, copy)
            return True
        for target in targets:
            obstacle = self._flow.obstacle(target.home, message)
            if obstacle != ROOM and not self._passes(state, target.home, message, obstacle):
                return self._flow.park(state, target.home, message, token, obstacle)
        return self._deliver_all(state, targets, self.copies(targets, message), token)

    def send_over_link(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take a topic's message from another broker, once only although copies may come over several routes.

        Returns and raises as `send`.
        """
        audited = self._is_audited(message.destination)
        verdict = self._audit.copies.judge(message) if audited else NEW
        if verdict == COPY:
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
        home = self._map.find(topic)
        return home is None or home.policy.topic.audits_copies

    def _send_to_bridges(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Take a `NEARER` copy, for the bridges of this broker and their durable subscriptions only."""
        targets = [target for target in self.targets(state, message) if self._leads_on(target.home)]
        for target in targets:
            obstacle = self._flow.obstacle(target.home, message)
            if (obstacle != ROOM or state.parked) and not self._passes(state, target.home, message, obstacle):
                return self._flow.park(state, target.home, message, token, obstacle if obstacle != ROOM else TURN)
        self._deliver_to_bridges(state, targets, message)
        return not message.persistent or self.answer_when_stored(state, token)

    def _leads_on(self, home: BrokerDestination) -> bool:
        """Return True for a topic, and for the queue of a bridge's durable subscription."""
        if isinstance(home, Topic):
            return True
        durable = self._map.durables.get(home.destination.name) if home.destination.kind == SUBSCRIPTION else None
        return durable is not None and durable.terms.name.startswith(BRIDGE_DURABLE_PREFIX)

    def _deliver_to_bridges(self, state: ConnectionState, targets: list[Target], message: Message) -> None:
        lines: list[Target] = []
        copies: list[Message] = []
        for target, copy in zip(targets, self.copies(targets, message), strict=True):
            if isinstance(target.home, Topic):
                target.home.accept_for_bridges(copy)
            else:
                lines.append(target)
                copies.append(copy)
        self._deliver_all(state, lines, copies, NO_TOKEN)

    def is_repeated(self, state: ConnectionState, message: Message) -> bool:
        """Return True if the store has the message already: a client repeats its sends after a reconnect. Only answer
        such a send.
        """
        if state.forwards:
            return self._audit.is_repeated_over_link(message, state.info.audit_makers)
        return message.persistent and self._audit.is_repeated(message.message_id)

    def _gather(self, transaction: Transaction, home: BrokerDestination, message: Message) -> None:
        """Keep ``message`` for the commit."""
        self._flow.check_transacted(home, message)
        transaction.add_send(TransactedSend(home, message, self._flow.usage_in_transaction(home, message)))

    def targets(self, state: ConnectionState, message: Message) -> list[Target]:
        """Return the queues and topics that get the message in the end.

        Raises:
            JmsError: a target is refused, or is the control destination: requests are taken at the send.
        """
        homes = self._resolve(state, message.destination)
        if any(home.fans_out for home in homes):
            targets = self._virtual.expand(state, homes, message)
            self._context.steps += len(targets)
            for target in targets:
                if target.home.fans_out:
                    check_apart(target.home.destination)
            return targets
        if len(homes) > 1:
            self._check_fan_out(message.destination, homes)
        return [Target(home, home.destination) for home in homes]

    def copies(self, targets: list[Target], message: Message) -> list[Message]:
        """Return the message for each target, with the address of the target."""
        copies: list[Message] = []
        for target in targets:
            address = target.address
            source = message
            if target.via is not None:
                source = self._formats.format(message.format_id).readdressed(message, target.via, False)
            if address is not None and address != source.destination:
                copies.append(self._formats.format(message.format_id).readdressed(source, address))
            else:
                copies.append(message.twin() if source is message and len(targets) > 1 else source)
        return copies

    def _deliver_all(self, state: ConnectionState, targets: list[Target], copies: list[Message], token: int) -> bool:
        """Deliver several copies with one answer, due once all stored copies are safe.

        The copies are stored together or not at all, so that a repeated send finds all of them or no copy.
        """
        stored: list[WithheldMessage] = []
        others: list[WithheldMessage] = []
        has_store = self._context.store is not None
        for target, copy in zip(targets, copies, strict=True):
            home = target.home
            to_store = has_store and home.persists(copy) and not copy.is_expired(self._context.wall_ms)
            (stored if to_store else others).append(WithheldMessage(home, copy, 0))
        if stored:
            self._store_together(state, stored)
        for entry in others:
            self._deliver(state, entry.home, entry.message, NO_TOKEN)
        if not copies or not copies[0].persistent or not (stored or copies[0].is_expired(self._context.wall_ms)):
            return True
        return self.answer_when_stored(state, token)

    def _store_together(self, state: ConnectionState, copies: list[WithheldMessage]) -> None:
        store = self._context.store
        assert store is not None
        if len(copies) == 1:
            sequences = [store.append(copies[0].home.destination, copies[0].message)]
        elif all(entry.message.shares_bytes(copies[0].message) for entry in copies):
            sequences = self._context.units.append_shared(
                [entry.home.destination for entry in copies], copies[0].message
            )
        else:
            additions: list[tuple[Destination, Message]] = []
            for entry in copies:
                additions.append((entry.home.destination, entry.message))
            sequences = self._context.units.append_unit(additions, [], [])
        for entry, sequence in zip(copies, sequences, strict=True):
            self._stored(state, entry.home, entry.message, sequence, NO_TOKEN)

    def answer_when_stored(self, state: ConnectionState, token: int) -> bool:
        """Return True if all earlier writes to the store are safe; else the answer to ``token`` waits for the store."""
        store = self._context.store
        if token == NO_TOKEN or store is None:
            return True
        position = store.position()
        if self._waiting.is_stored(position):
            return True
        self._waiting.add(PendingReply(position, state.output, token, None))
        return False

    def _resolve(self, state: ConnectionState, destination: Destination) -> list[BrokerDestination]:
        """Return the physical destinations, each once. Destinations are made only after all are allowed."""
        wanted: dict[str, Destination] = {}
        compared = 0
        looked = 0
        for part in destination.parts():
            if part.is_pattern and part.is_temporary:
                raise DestinationDoesNotExistError(part.qualified_name)  # other connections' are private
            if not part.is_pattern or part.is_advisory:
                self._access.check_write(state, part)
                wanted[part.qualified_name] = part
                continue
            looked += 1
            compared += self._map.count_of_kind(part)
            check_compared(looked, compared)
            for home in self._map.matching(part):
                if not home.destination.is_advisory:
                    if len(wanted) >= MAX_WILDCARD_TARGETS:
                        raise ResourceAllocationError(
                            f"a message to {destination} would be copied to more than {MAX_WILDCARD_TARGETS} "
                            f"destinations: send to a narrower wildcard"
                        )
                    self._access.check_write(state, home.destination)
                    wanted[home.destination.qualified_name] = home.destination
        self._context.steps += len(wanted)
        return self._destinations.ensure_all(state, list(wanted.values()), True)

    def _check_fan_out(self, destination: Destination, homes: list[BrokerDestination]) -> None:
        """Raise `ResourceAllocationError` if one message to all ``homes`` would take too many steps."""
        steps = 0
        for home in homes:
            steps += self._context.load_of(home) + home.copy_steps
        if steps > MAX_STEPS_OF_SEND:
            raise ResourceAllocationError(
                f"a message to {destination} would be handed to more than {MAX_FAN_OUT} consumers: "
                f"send to fewer destinations at once"
            )

    def go_on(self, state: ConnectionState, parked: ParkedSend) -> None:
        """Take a send that had waited. AccessControl and the existence of the destination are checked again."""
        error: JmsError | None = None
        done = True
        try:
            if parked.home.destination.kind == SCHEDULE and self.delayed is not None:
                done = self.delayed.keep(state, parked.message, parked.token)
            else:
                done = self._take_parked(state, parked)
        except JmsError as refused:
            error = refused
        if done or error is not None:
            tell(state, parked.token, error)

    def _take_parked(self, state: ConnectionState, parked: ParkedSend) -> bool:
        message = parked.message
        audited = state.forwards and not message.destination.is_queue and self._is_audited(message.destination)
        verdict = self._audit.copies.judge(message) if audited else NEW  # another copy may have been taken meanwhile
        if verdict == NEW:
            targets = self.targets(state, message)
            done = self._deliver_all(state, targets, self.copies(targets, message), parked.token)
        else:
            if verdict == NEARER:
                targets = [target for target in self.targets(state, message) if self._leads_on(target.home)]
                self._deliver_to_bridges(state, targets, message)
            done = not message.persistent or self.answer_when_stored(state, parked.token)
        if audited:
            self._audit.copies.note(message)
        return done

    def home_again(self, destination: Destination) -> BrokerDestination | None:
        """Return the destination for a returning message, None if the destination is removed for good."""
        if destination.kind == SUBSCRIPTION:
            durable = self._map.durables.get(destination.name)
            return None if durable is None else durable.line
        return self._map.find(destination) if destination.is_temporary else self._destinations.ensure_own(destination)

    def hand_in(self, state: ConnectionState, message: Message) -> bool:
        """Deliver a message of the broker's own, without an answer. Return False if there is no room now."""
        targets = self.targets(state, message)
        for target in targets:
            if self._flow.obstacle(target.home, message) != ROOM:
                return False
        self._deliver_all(state, targets, self.copies(targets, message), NO_TOKEN)
        return True

    def hand_in_when_stored(self, state: ConnectionState, message: Message) -> None:
        """Deliver a message that reports changes of the store, once the changes are safe."""
        store = self._context.store
        targets = self.targets(state, message)
        sends = [
            WithheldMessage(target.home, copy, 0)
            for target, copy in zip(targets, self.copies(targets, message), strict=True)
        ]
        position = 0 if store is None else store.position()
        if store is None or self._waiting.is_stored(position):
            for entry in sends:
                self._deliver(state, entry.home, entry.message, NO_TOKEN)
        else:
            self.withhold(PendingReply(position, state.output, NO_TOKEN, sends))

    def _deliver(self, state: ConnectionState, home: BrokerDestination, message: Message, token: int) -> bool:
        if message.expiration_ms > 0 and message.is_expired(self._context.wall_ms):
            self._expired(home, message)
            return not message.persistent or self.answer_when_stored(state, token)
        if self._context.store is not None and home.persists(message):
            return self._store(state, home, message, token)
        if not home.policy.producer_flow_control and self._flow.spills(home):
            return self._store(state, home, message, NO_TOKEN)
        if home.withheld > 0:
            store = self._context.store
            position = 0 if store is None else store.position()
            self.withhold(PendingReply(position, state.output, NO_TOKEN, [WithheldMessage(home, message, 0)]))
        else:
            home.accept(message, 0)
        return True

    def _expired(self, home: BrokerDestination, message: Message) -> None:
        home.expired += 1
        self._dead_letters.dead_on_arrival(home, message, EXPIRED)

    def withhold(self, waiting: PendingReply) -> None:
        """Dispatch the messages of ``waiting`` when the store has reached the position. No later message overtakes."""
        if waiting.messages is not None:
            for entry in waiting.messages:
                entry.home.withheld += 1
                entry.home.hold(entry.message)
        if self._context.store is None:
            self.deferred.take(waiting)
        else:
            self._waiting.add(waiting)

    def expect(self, waiting: PendingReply) -> None:
        """Withhold messages that memory and destinations count already."""
        self._waiting.add(waiting)

    def release_one(self, entry: WithheldMessage) -> None:
        """Dispatch one message for `Dispatcher.release_one`."""
        home = entry.home
        message = entry.message
        sequence = entry.sequence if entry.line is None else entry.line.first + entry.sequence
        home.withheld -= 1
        if not home.removed:
            if not message.is_expired(self._context.wall_ms) or home.destination.kind == SCHEDULE:
                home.accept(message, sequence)  # the lifetime of a scheduled message begins with its delivery
            elif sequence == 0:
                self._expired(home, message)
            else:
                home.enqueued += 1
                home.hold(message)
                home.expire(MessageReference(home, message, sequence, 0, 0))
        if entry.usage is None:
            home.release(message)
        else:
            entry.usage.add(-message.size)

    def _store(self, state: ConnectionState, home: BrokerDestination, message: Message, token: int) -> bool:
        store = self._context.store
        assert store is not None
        return self._stored(state, home, message, store.append(home.destination, message), token)

    def _stored(
        self, state: ConnectionState, home: BrokerDestination, message: Message, sequence: int, token: int
    ) -> bool:
        """Dispatch a stored message, now or once the message is safe on disk."""
        store = self._context.store
        assert store is not None
        self._unsynced.add(message.size)
        if state.forwards:
            self._audit.came_over_link(message)
        else:
            state.audited = self._audit.stored(state.audited, message.message_id)
        if home.policy.dispatch_before_sync and home.withheld == 0:
            home.accept(message, sequence)
            return self.answer_when_stored(state, token)
        self.withhold(PendingReply(store.position(), state.output, token, [WithheldMessage(home, message, sequence)]))
        return token == NO_TOKEN
