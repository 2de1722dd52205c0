"""The broker core: what clients announce, send, take and acknowledge, without a socket, a file or a clock.

Protocol connections call the methods of `Broker` with what their peers sent; the broker calls back through the ports
(``broker/ports.py``). The shell (``service``, ``transports``) feeds it time, store progress and reads::

    connection.receive_data(…) → Broker.send / acknowledge / add_consumer …
    for connection in broker.take_dirty(): write what it has to send
    broker.stored(position, now), broker.fetched(request, messages, now)
    broker.run(now) when broker.next_timeout() is due

A method that refuses a request raises a `JmsError` and leaves the state as it was.
"""

from __future__ import annotations

from typing import Final, NoReturn

from spanwire.broker.admin.views import BrokerStatistics, ConnectionView, DestinationView
from spanwire.broker.advisories.advisory_replay import replay
from spanwire.broker.advisories.advisory_topics import may_hear
from spanwire.broker.assembly import Rooms
from spanwire.broker.connections.connection_job import ConnectionJob, complete
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import MAX_UNCOMMITTED
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.dispatch.virtual_settings import VirtualSettings
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.persistence.reply_queue import answer
from spanwire.broker.policy.policy_entry import PolicyMap
from spanwire.broker.ports import (
    AdvisoryFormat,
    Authenticator,
    Authorizer,
    ClientConnection,
    MessageConsumer,
    MessageStore,
)
from spanwire.broker.routing.dead_letters import POISONED
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.broker.security.audit_log import printable
from spanwire.broker.security.authorization import OpenAuthenticator, OpenAuthorizer
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.destination import Destination
from spanwire.model.environment import Environment, IdGenerator, Time
from spanwire.model.errors import IllegalStateError, JmsError, StoreError
from spanwire.model.ids import AnyTransactionId, ConsumerId, MessageId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message


class Broker:
    """One broker. All of its state belongs to the thread that calls it."""

    def __init__(
        self,
        name: str,
        broker_id: str,
        environment: Environment,
        store: MessageStore | None,
        formats: MessageFormats,
        *,
        advisory_format: AdvisoryFormat | None = None,
        anonymous_producer_advisories: bool = False,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        policies: PolicyMap | None = None,
        limits: UsageLimits | None = None,
        producer_audit: ProducerAudit | None = None,
        max_uncommitted: int = MAX_UNCOMMITTED,
        virtual: VirtualSettings | None = None,
        scheduler: SchedulerSettings | None = None,
        upkeep: UpkeepSettings | None = None,
        temporary_by_send: bool = False,
    ) -> None:
        self.name: Final[str] = name
        self.broker_id: Final[str] = broker_id
        self.environment: Final[Environment] = environment
        self.formats: Final[MessageFormats] = formats
        self.ids: Final[IdGenerator] = IdGenerator(environment)
        self.producer_audit: Final[ProducerAudit] = producer_audit if producer_audit is not None else ProducerAudit()
        rooms = Rooms(
            name,
            store,
            formats,
            self.ids,
            advisory_format=advisory_format,
            anonymous_producer_advisories=anonymous_producer_advisories,
            authenticator=authenticator if authenticator is not None else OpenAuthenticator(),
            authorizer=authorizer if authorizer is not None else OpenAuthorizer(),
            policies=policies if policies is not None else PolicyMap(),
            limits=limits if limits is not None else UsageLimits(),
            producer_audit=self.producer_audit,
            max_uncommitted=max_uncommitted,
            virtual=virtual if virtual is not None else VirtualSettings(),
            scheduler=scheduler,
            upkeep=upkeep,
            temporary_by_send=temporary_by_send,
        )
        self._usage: Final = rooms.usage
        self._context: Final = rooms.context
        self.unfinished_logins: Final = rooms.unfinished_logins
        self._logins: Final = rooms.logins
        self._rights: Final = rooms.rights
        self._map: Final = rooms.map
        self.advisories: Final = rooms.advisories
        self._waiting: Final = rooms.waiting
        self._destinations: Final = rooms.destinations
        self._unstored: Final = rooms.unstored
        self._flow: Final = rooms.flow
        self._dead_letters: Final = rooms.dead_letters
        self.operations: Final = rooms.operations
        self._sending: Final = rooms.sending
        self._scheduler: Final = rooms.scheduler
        self._committing: Final = rooms.committing
        self._producing: Final = rooms.producing
        self._sessions: Final = rooms.sessions
        self._durables: Final = rooms.durables
        self.remote_subscribers: Final = rooms.durables.remote_subscribers
        self._consuming: Final = rooms.consuming
        self._acknowledgements: Final = rooms.acknowledgements
        self.xa: Final = rooms.xa
        self._reopening: Final = rooms.reopening
        self._dirty: Final = rooms.dirty
        self._connections: Final = rooms.connections
        self._departures: Final = rooms.departures
        self._timers: Final = rooms.timers
        self.reconfiguration: Final = rooms.reconfiguration
        self.administration: Final = rooms.administration
        self.overview: Final = rooms.overview

    def add_connection(self, connection: ClientConnection, info: ConnectionInfo, now: Time) -> ConnectionState:
        """Log a client in. Raises `AuthenticationError`, `InvalidClientIdError` or `ResourceAllocationError`."""
        self._turn(now)
        principal = self._logins.log_in(info)
        for holder in self._connections.holders(info):
            if holder.is_leaving:
                complete(holder)
        self._connections.check_room()
        predecessor = self._connections.predecessor(info, principal)
        if predecessor is not None:
            complete(predecessor)
            predecessor.outlet.close_with(JmsError("the client has connected again"))
            self.remove_connection(predecessor, now)
            complete(predecessor)
        state = self._connections.enter(connection, info, principal)
        if self.advisories is not None:
            self.advisories.connection_added(info)
        return state

    def is_held(self, info: ConnectionInfo) -> bool:
        """Return True if the connection that ``info`` replaces, or whose client id it asks for, still has something to
        end: its outcome must stand before anybody asks for it. Then `add_connection` should wait for some turns.
        """
        for holder in self._connections.holders(info):
            if holder.job is not None:
                return True
        return False

    def remove_connection(self, state: ConnectionState, now: Time) -> None:
        """The client is gone: roll back, give back what it held, drop all it announced; all that behind what is under
        way for it. A second call does nothing.
        """
        if state.removed or state.is_leaving:
            return
        self._turn(now)
        self._departures.leave(state)

    def complete(self, state: ConnectionState) -> None:
        """Do what is under way for the connection at once: its transport brings more in spite of that."""
        complete(state)

    @property
    def steps(self) -> int:
        """Steps of work since the start, by which a connection sees how much its requests have taken."""
        return self._context.steps

    def mark_dirty(self, state: ConnectionState) -> None:
        """The connection has something to send: flush it at the end of this turn."""
        state.outlet.mark_dirty()

    def answer_when_stored(self, state: ConnectionState, token: int) -> bool:
        """True if the disk has all that clients did so far; else ``token`` is answered when it has."""
        complete(state)
        return self._sending.answer_when_stored(state, token)

    def output_progress(self, state: ConnectionState, unsent_bytes: int, now: Time) -> None:
        """The transport still holds ``unsent_bytes`` of the connection's output."""
        became_writable = state.outlet.progress(unsent_bytes)
        if state.removed or not (became_writable or state.automatic or self._flow.parked):
            return
        self._turn(now)
        if unsent_bytes == 0 and state.automatic:
            self._consuming.acknowledge_flushed(state)
        if became_writable:
            for subscription in list(state.consumers.values()):
                if not state.outlet.writable:
                    break  # the others have their turn when the client has read
                self._consuming.refill(subscription)
        if self._flow.parked:
            self._flow.unpark()

    def add_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """A session of this connection; announcing it twice changes nothing."""
        self.check_own(state, session_id.connection_id)
        self._sessions.add(state, session_id.value)

    def remove_session(
        self, state: ConnectionState, session_id: SessionId, last_delivered_sequence: int, now: Time
    ) -> None:
        """End a session with its consumers and producers."""
        self._turn(now)
        complete(state)
        self.check_own(state, session_id.connection_id)
        self._sessions.remove(state, session_id, last_delivered_sequence)
        self._flow.unpark()

    def add_producer(self, state: ConnectionState, info: ProducerInfo, now: Time) -> None:
        """A producer of this connection; its destination, if it has one, is checked and made now."""
        self._turn(now)
        self.check_own(state, info.producer_id.connection_id)
        self._sessions.check(state, info.producer_id.session_id, "Cannot add a producer")
        self._producing.add(state, info)

    def remove_producer(self, state: ConnectionState, producer_id: ProducerId, now: Time) -> None:
        """A producer leaves."""
        self._turn(now)
        self._producing.remove(state, str(producer_id))

    def add_consumer(
        self,
        state: ConnectionState,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        now: Time,
        automatic: bool = False,
    ) -> Subscription:
        """A consumer of this connection. Nothing is dispatched to it before `start_consumer`.

        ``automatic``: what has been flushed to the socket counts as acknowledged (STOMP ``ack:auto``).
        """
        self._turn(now)
        self.check_own(state, info.consumer_id.connection_id)
        self._sessions.check(state, info.consumer_id.session_id, f"{self.name} Cannot add a consumer")
        subscription = self._consuming.add(state, info, consumer, automatic)
        if self.advisories is not None and may_hear(subscription):
            replay(self.advisories, self._map, self._connections.all(), subscription, self._context)
        return subscription

    def start_consumer(self, subscription: Subscription, now: Time) -> None:
        """The answer to the announcement is on its way: dispatch may begin."""
        self._turn(now)
        self._consuming.start(subscription)

    def remove_consumer(
        self, state: ConnectionState, consumer_id: ConsumerId, last_delivered_sequence: int, now: Time
    ) -> None:
        """A consumer leaves; ``last_delivered_sequence`` tells what the application saw (``acks.LAST_DELIVERED_…``)."""
        self._turn(now)
        complete(state)
        self._consuming.remove(state, str(consumer_id), last_delivered_sequence)
        self._flow.unpark()

    def unsubscribe(self, state: ConnectionState, name: str, now: Time) -> None:
        """Delete a durable subscription of this client."""
        self._turn(now)
        self._durables.unsubscribe(state, name)
        self._flow.unpark()

    def set_prefetch(self, subscription: Subscription, prefetch_size: int, now: Time) -> None:
        """The consumer asks for another window."""
        self._turn(now)
        self._consuming.set_prefetch(subscription, prefetch_size)

    def add_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Make a destination; a temporary one belongs to this connection."""
        self._turn(now)
        self._destinations.add_all(state, destination.parts())

    def remove_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Remove a destination without consumers."""
        self._turn(now)
        self._destinations.remove_all(state, destination.parts())
        self._flow.unpark()

    def check_bridge(self, state: ConnectionState) -> None:
        """Raises `AuthorizationError` unless this connection may be another broker's bridge."""
        self._rights.check_bridge(state)

    def add_remote_temporary(
        self, state: ConnectionState, destination: Destination, broker_path: tuple[str, ...], now: Time
    ) -> None:
        """A temporary destination beyond the brokers of ``broker_path``; the bridge's connection owns a new one."""
        self._turn(now)
        self._destinations.add_remote_temporary(state, destination, broker_path)

    def configure_destination(self, destination: Destination) -> None:
        """Make a destination that the configuration names."""
        self._destinations.ensure_own(destination)

    def check_own(self, state: ConnectionState, connection_id: str) -> None:
        """Raises `AuthorizationError` for an id of another connection inside a command (CVE-2026-74761)."""
        if connection_id != state.connection_id:
            self._rights.refuse(state, f"act for connection {printable(connection_id)}")

    def refuse(self, state: ConnectionState, what: str) -> None:
        """Always raises `AuthorizationError`, with a line in the audit: the connection may not do ``what``."""
        self._rights.refuse(state, what)

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """Take a message. True: answer now. False: `ClientConnection.completed` will be called with ``token``."""
        self._turn(now)
        if state.job is not None:
            complete(state)
        if transaction_id is None:
            if state.repeats:
                if self._sending.is_repeated(state, message):
                    return self._sending.answer_when_stored(state, token)
                if state.forwards and not message.destination.is_queue:
                    return self._sending.send_over_link(state, message, token)
            return self._sending.send(state, message, None, token)
        transaction = self.xa.gathering(state, transaction_id)
        if transaction.is_repeated or (state.repeats and self._sending.is_repeated(state, message)):
            return True
        try:
            return self._sending.send(state, message, transaction, token)
        except JmsError as error:
            transaction.spoil(error)
            raise

    def refuse_message(
        self, state: ConnectionState, transaction_id: AnyTransactionId | None, error: JmsError
    ) -> NoReturn:
        """Always raises ``error``: a message is not taken, and its transaction can only be rolled back."""
        if transaction_id is not None:
            self.xa.gathering(state, transaction_id).spoil(error)
        raise error

    def acknowledge(
        self,
        state: ConnectionState,
        subscription: Subscription,
        ack_type: int,
        first: MessageId | None,
        last: MessageId | None,
        count: int,
        transaction_id: AnyTransactionId | None,
        token: int,
        now: Time,
        cause: str = POISONED,
    ) -> bool:
        """Take an acknowledgement of ``count`` messages from ``first`` (None: the oldest out) to ``last``. ``cause`` is
        why the consumer gave up on poisoned ones.

        The answer is as with `send`. Raises `IllegalStateError` when a message is not out at this consumer.
        """
        self._turn(now)
        if state.job is not None:
            complete(state)
        if last is None:
            raise IllegalStateError("the acknowledgement names no message")
        transaction = None if transaction_id is None else self.xa.gathering(state, transaction_id)
        if transaction is not None and transaction.is_repeated:
            return True
        return self._acknowledgements.acknowledge(
            state, subscription, ack_type, first, last, count, transaction, token, cause
        )

    def acknowledge_run(
        self, subscription: Subscription, producer_id: ProducerId, sequences: list[int], now: Time
    ) -> int:
        """Single acknowledgements of one producer's messages, without transaction and answer, as far as they come in
        the order of dispatch; gives how many that were. The rest is for `acknowledge`."""
        self._turn(now)
        return self._acknowledgements.acknowledge_run(subscription, producer_id, sequences)

    def pull(self, subscription: Subscription, timeout_ms: int, now: Time) -> None:
        """A consumer without prefetch asks for one message; ``timeout_ms`` 0 waits for ever, -1 not at all."""
        self._turn(now)
        self._consuming.pull(subscription, timeout_ms)

    def begin(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Open a local transaction."""
        complete(state)
        self._committing.begin(state, transaction_id)

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int, now: Time) -> bool:
        """Commit a local transaction; the answer is as with `send`."""
        self._turn(now)
        complete(state)
        return self._committing.commit(state, transaction_id, token)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId, now: Time) -> None:
        """Roll a local transaction back; what its consumers acknowledged is out at them again."""
        self._turn(now)
        complete(state)
        self._committing.rollback(state, transaction_id)

    def stored(self, position: int, now: Time) -> None:
        """Everything up to ``position`` survives a power cut: give the answers that waited for it."""
        self._turn(now)
        self._unstored.stored(position)
        self._flow.refresh()
        for waiting in self._waiting.advance(position):
            self._sending.deferred.take(waiting)
        if self._flow.parked:
            self._flow.unpark()

    def room_changed(self, now: Time) -> None:
        """The disk of the store is full or has room again, or an operator made room in memory."""
        self._turn(now)
        self._flow.refresh()
        self._flow.unpark()
        self._dead_letters.room_changed()

    def store_failed(self, error: StoreError, now: Time) -> None:
        """Nothing is stored from now on: every answer that waits becomes a refusal, every connection ends."""
        self._turn(now)
        for waiting in self._waiting.take_all():
            answer(waiting, error)
        for state in self._connections.all():
            if isinstance(state.job, ConnectionJob):
                state.job.fail(JmsError(str(error)))
        for state in self._connections.all():
            state.outlet.close_with(error)

    def fetched(self, request: int, messages: list[Message | None], now: Time) -> None:
        """The store's answer to one read."""
        self._turn(now)
        home = self._context.take_fetching(request)
        if home is not None:
            home.fetched(request, messages)

    def take_dirty(self) -> list[ClientConnection]:
        """The connections that have something to send; each is to be flushed once."""
        connections: list[ClientConnection] = []
        for outlet in self._dirty:
            outlet.dirty = False
            connections.append(outlet.connection)
        self._dirty.clear()
        return connections

    def is_behind(self) -> bool:
        """Whether so much is on its way to the disk that persistent sends wait."""
        return self._unstored.is_full()

    def next_timeout(self) -> float | None:
        """When to call `run`, in monotonic seconds; 0.0 while a job is under way."""
        return self._timers.next_timeout()

    def run(self, now: Time) -> None:
        """Timers that are due, and one slice of each job under way (at most 500 messages each)."""
        self._turn(now)
        self._timers.run()

    def recover(
        self,
        recovered: list[RecoveredDestination],
        clean: bool,
        now: Time,
        facts: dict[int, dict[bytes, bytes]] | None = None,
    ) -> None:
        """What the store kept, its facts by table and key; call before the first connection. Raises `StoreError` when
        it makes no sense.
        """
        self._turn(now)
        self._reopening.recover(recovered, clean, {} if facts is None else facts)

    def became_master(self, now: Time) -> None:
        """It has started, and nobody else serves its store: tell who listens."""
        self._turn(now)
        if self.advisories is not None:
            self.advisories.became_master()

    def begin_stop(self, now: Time) -> None:
        """Dispatch to nobody any more. What was sent is still stored and answered (`awaits_disk`)."""
        self._turn(now)
        for state in self._connections.all():
            for subscription in state.consumers.values():
                subscription.started = False

    def awaits_disk(self) -> bool:
        """Return True while somebody waits for an answer that the store can still give, or something is on its way
        into the store or from there to its destination.
        """
        store = self._context.store
        if store is None or not store.has_room():
            return False
        return len(self._waiting) > 0 or self._sending.deferred.is_busy or self._connections.has_jobs()

    def stop(self, now: Time) -> None:
        """End every connection in order; what they held is back in the store's care and goes to nobody else."""
        self.begin_stop(now)
        for state in self._connections.all():
            complete(state)
            state.outlet.close_with(JmsError("the broker is stopping"))
            self.remove_connection(state, now)
            complete(state)
        self._departures.finish()
        for queue in [*self._map.queues.values(), *self._durables.lines()]:
            queue.note_uncertain()

    def _turn(self, now: Time) -> None:
        context = self._context
        context.steps += 1
        context.wall_ms = now.wall_ms
        context.monotonic = now.monotonic

    def home_of(self, destination: Destination) -> BrokerDestination | None:
        """The queue or topic itself, for an operator's look into it; None when there is none."""
        return self._map.find(destination)

    def durable_subscriptions(self) -> list[DurableSubscription]:
        """All durable subscriptions, with what waits for them."""
        return list(self._map.durables.values())

    def destination_views(self) -> list[DestinationView]:
        """All queues and topics, advisory topics included."""
        return self.overview.destination_views()

    def connection_views(self) -> list[ConnectionView]:
        """All connections."""
        return self.overview.connection_views()

    def statistics(self) -> BrokerStatistics:
        """Totals over all destinations and durable subscriptions."""
        return self.overview.statistics()
