"""The broker core: connections, destinations and messages, without socket, file or clock.

Protocol connections call the methods of `Broker` with the requests of their peers. The broker calls back through the
ports (``broker/ports.py``). The shell (``service``, ``transports``) supplies time, store progress and reads::

    connection.receive_data(…) → Broker.send / acknowledge / add_consumer …
    for connection in broker.take_dirty(): write the connection's output
    broker.stored(position, now), broker.fetched(request, messages, now)
    broker.run(now) when broker.next_timeout() is due

A method that refuses a request raises a `JmsError` and leaves the state unchanged.
"""

from __future__ import annotations

from typing import Final, NoReturn

from spanwire.broker.admin.views import BrokerStatistics, ConnectionView, DestinationView
from spanwire.broker.advisories.advisory_replay import replay
from spanwire.broker.advisories.advisory_topics import may_hear
from spanwire.broker.assembly import DEFAULT_SETTINGS, BrokerAssembly, BrokerSettings
from spanwire.broker.connections.connection_job import complete
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.ports import ClientConnection, MessageConsumer, Principal, Store
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.acks import MessageAck, SequenceRun
from spanwire.model.destination import Destination
from spanwire.model.environment import Environment, IdGenerator, Time
from spanwire.model.errors import JmsError, StoreError
from spanwire.model.ids import AnyTransactionId, ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message


class Broker:
    """A message broker. All of its state belongs to the calling thread."""

    def __init__(
        self,
        name: str,
        broker_id: str,
        environment: Environment,
        store: Store | None,
        formats: MessageFormats,
        settings: BrokerSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.name: Final[str] = name
        self.broker_id: Final[str] = broker_id
        self.environment: Final[Environment] = environment
        self.formats: Final[MessageFormats] = formats
        self.ids: Final[IdGenerator] = IdGenerator(environment)
        assembly = BrokerAssembly(name, store, formats, self.ids, settings)
        self.assembly: Final = assembly
        self.access: Final = assembly.access
        self.advisories: Final = assembly.advisories
        self.operations: Final = assembly.operations
        self.moves: Final = assembly.moves
        self.remote_subscribers: Final = assembly.durables.remote_subscribers
        self.xa: Final = assembly.xa
        self.reconfiguration: Final = assembly.reconfiguration
        self.administration: Final = assembly.administration
        self.overview: Final = assembly.overview
        # the parts that every message or turn needs: one step less on the way to them
        self._context: Final = assembly.context
        self._router: Final = assembly.router
        self._acknowledgements: Final = assembly.acknowledgements
        self._consumer_registry: Final = assembly.consumer_registry
        self._parked: Final = assembly.parked
        self._unsynced: Final = assembly.unsynced
        self._replies: Final = assembly.replies
        self._dirty: Final = assembly.dirty
        self._timers: Final = assembly.timers

    def add_connection(
        self, connection: ClientConnection, info: ConnectionInfo, now: Time, principal: Principal | None = None
    ) -> ConnectionState:
        """Log a client in, unless its ``principal`` is known, and return the state of the new connection.

        Raises:
            AuthenticationError: the credentials are not valid.
            InvalidClientIdError: the connection id or client id is in use.
            ResourceAllocationError: the broker has too many connections or logins, or a directory does not answer.
        """
        self._context.begin_request(now)
        if principal is None:
            principal = self.assembly.logins.log_in(info, connection)
        for holder in self.assembly.connections.holders(info):
            if holder.is_leaving:
                complete(holder)
        self.assembly.connections.check_room()
        predecessor = self.assembly.connections.predecessor(info, principal)
        if predecessor is not None:
            complete(predecessor)
            predecessor.output.close_with(JmsError("the client has connected again"))
            self.remove_connection(predecessor, now)
            complete(predecessor)
        state = self.assembly.connections.enter(connection, info, principal)
        state.connected_ms = now.wall_ms
        if self.advisories is not None:
            self.advisories.connection_added(info)
        return state

    def is_held(self, connection: ClientConnection, info: ConnectionInfo, now: Time) -> bool:
        """Return True if `add_connection` should wait for a directory or the end of a predecessor's job."""
        self._context.begin_request(now)
        return self.assembly.connections.has_job_of(info) or self.assembly.logins.connection_must_wait(connection, info)

    def awaits_login(self, connection: object) -> bool:
        """Return True if a directory has not answered about a login; `take_dirty` returns ``connection`` then."""
        return self.assembly.logins.is_waiting(connection)

    def remove_connection(self, state: ConnectionState, now: Time) -> None:
        """Roll back, return messages and remove all objects of a closed connection, after the unfinished job.

        A second call has no effect.
        """
        if state.removed or state.is_leaving:
            return
        self._context.begin_request(now)
        self.assembly.connection_cleanup.leave(state)

    def complete(self, state: ConnectionState) -> None:
        """Finish the connection's job at once, because the transport delivers further input."""
        complete(state)

    @property
    def steps(self) -> int:
        """Steps of work since the start. A connection measures the work of its requests by the difference."""
        return self._context.steps

    def mark_dirty(self, state: ConnectionState) -> None:
        """Flush the connection at the end of this turn."""
        state.output.mark_dirty()

    def answer_when_stored(self, state: ConnectionState, token: int) -> bool:
        """Return True if the disk has all changes so far.

        Otherwise ``token`` is answered once the changes are stored.
        """
        complete(state)
        return self._router.answer_when_stored(state, token)

    def output_progress(self, state: ConnectionState, unsent_bytes: int, now: Time) -> None:
        """Record that the transport still holds ``unsent_bytes`` of the connection's output."""
        became_writable = state.output.progress(unsent_bytes)
        if state.removed or not (became_writable or state.automatic or self._parked.connections):
            return
        self._context.begin_request(now)
        if unsent_bytes == 0 and state.automatic:
            self._consumer_registry.acknowledge_flushed(state)
        if became_writable:
            self._consumer_registry.refill_all(state)
        if self._parked.connections:
            self._parked.unpark()

    def add_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """Add a session of this connection. A repeated announcement has no effect."""
        self.access.check_own(state, session_id.connection_id)
        self.assembly.sessions.add(state, session_id.value)

    def remove_session(
        self, state: ConnectionState, session_id: SessionId, last_delivered_sequence: int, now: Time
    ) -> None:
        """Close a session with its consumers and producers."""
        self._context.begin_request(now)
        complete(state)
        self.access.check_own(state, session_id.connection_id)
        self.assembly.sessions.remove(state, session_id, last_delivered_sequence)
        self._parked.unpark()

    def add_producer(self, state: ConnectionState, info: ProducerInfo, now: Time) -> None:
        """Add a producer of this connection. A destination, if any, is checked and created now."""
        self._context.begin_request(now)
        self.access.check_own(state, info.producer_id.connection_id)
        self.assembly.sessions.check(state, info.producer_id.session_id, "Cannot add a producer")
        self.assembly.producer_registry.add(state, info)

    def remove_producer(self, state: ConnectionState, producer_id: ProducerId, now: Time) -> None:
        """Remove a producer."""
        self._context.begin_request(now)
        self.assembly.producer_registry.remove(state, str(producer_id))

    def add_consumer(
        self,
        state: ConnectionState,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        now: Time,
        automatic: bool = False,
    ) -> Subscription:
        """Add a consumer of this connection. Dispatch begins with `start_consumer`.

        ``automatic`` acknowledges all messages flushed to the socket (STOMP ``ack:auto``).
        """
        self._context.begin_request(now)
        self.access.check_own(state, info.consumer_id.connection_id)
        self.assembly.sessions.check(state, info.consumer_id.session_id, f"{self.name} Cannot add a consumer")
        subscription = self._consumer_registry.add(state, info, consumer, automatic)
        if self.advisories is not None and may_hear(subscription):
            replay(self.advisories, self.assembly.map, self.assembly.connections.all(), subscription, self._context)
        return subscription

    def start_consumer(self, subscription: Subscription, now: Time) -> None:
        """Begin dispatch after the answer to the consumer's announcement is encoded."""
        self._context.begin_request(now)
        self._consumer_registry.start(subscription)

    def remove_consumer(
        self, state: ConnectionState, consumer_id: ConsumerId, last_delivered_sequence: int, now: Time
    ) -> None:
        """Remove a consumer. ``last_delivered_sequence`` is the last message that the application received.

        For special values see ``acks.LAST_DELIVERED_…``.
        """
        self._context.begin_request(now)
        complete(state)
        self._consumer_registry.remove(state, str(consumer_id), last_delivered_sequence)
        self._parked.unpark()

    def unsubscribe(self, state: ConnectionState, name: str, now: Time) -> None:
        """Delete a durable subscription of this client."""
        self._context.begin_request(now)
        self.assembly.durables.unsubscribe(state, name)
        self._parked.unpark()

    def set_prefetch(self, subscription: Subscription, prefetch_size: int, now: Time) -> None:
        """Change the prefetch of a consumer."""
        self._context.begin_request(now)
        self._consumer_registry.set_prefetch(subscription, prefetch_size)

    def add_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Create a destination. A temporary destination belongs to this connection."""
        self._context.begin_request(now)
        self.assembly.destinations.add_all(state, destination.parts())

    def remove_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Remove a destination without consumers."""
        self._context.begin_request(now)
        self.assembly.destinations.remove_all(state, destination.parts())
        self._parked.unpark()

    def add_remote_temporary(
        self, state: ConnectionState, destination: Destination, broker_path: tuple[str, ...], now: Time
    ) -> None:
        """Add a temporary destination reached through the brokers of ``broker_path``.

        The bridge's connection owns a new one.
        """
        self._context.begin_request(now)
        self.assembly.destinations.add_remote_temporary(state, destination, broker_path)

    def configure_destination(self, destination: Destination) -> None:
        """Create a destination named in the configuration."""
        self.assembly.destinations.ensure_own(destination)

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """Take a message.

        Returns:
            True to answer now. False if `ClientConnection.on_completed` will be called with ``token``.
        """
        self._context.begin_request(now)
        if state.job is not None:
            complete(state)
        if transaction_id is None:
            if state.repeats:
                if self._router.is_repeated(state, message):
                    return self._router.answer_when_stored(state, token)
                if state.forwards:
                    return self._router.send_forwarded(state, message, token)
            return self._router.send(state, message, None, token)
        transaction = self.xa.gathering(state, transaction_id)
        if transaction.is_repeated or (state.repeats and self._router.is_repeated(state, message)):
            return True
        try:
            return self._router.send(state, message, transaction, token)
        except JmsError as error:
            transaction.spoil(error)
            raise

    def refuse_message(
        self, state: ConnectionState, transaction_id: AnyTransactionId | None, error: JmsError
    ) -> NoReturn:
        """Refuse a message. The message's transaction, if any, can only be rolled back afterwards.

        Raises:
            JmsError: always; the given ``error``.
        """
        if transaction_id is not None:
            self.xa.gathering(state, transaction_id).spoil(error)
        raise error

    def acknowledge(
        self,
        state: ConnectionState,
        subscription: Subscription,
        ack: MessageAck,
        transaction_id: AnyTransactionId | None,
        token: int,
        now: Time,
    ) -> bool:
        """Take an acknowledgement.

        Returns:
            True to answer now. False if `ClientConnection.on_completed` will be called with ``token``.

        Raises:
            IllegalStateError: a message is not in flight to this consumer.
        """
        self._context.begin_request(now)
        if state.job is not None:
            complete(state)
        transaction = None if transaction_id is None else self.xa.gathering(state, transaction_id)
        if transaction is not None and transaction.is_repeated:
            return True
        return self._acknowledgements.acknowledge(state, subscription, ack, transaction, token)

    def acknowledge_run(
        self, subscription: Subscription, producer_id: ProducerId, sequences: SequenceRun, now: Time
    ) -> int:
        """Take single acknowledgements of one producer's messages.

        The run ends at the first message out of the order of dispatch.

        The acknowledgements have no transaction and need no answer.

        Returns:
            The number of acknowledgements taken. The caller passes the others to `acknowledge`.
        """
        self._context.begin_request(now)
        return self._acknowledgements.acknowledge_run(subscription, producer_id, sequences)

    def acknowledge_numbered(self, subscription: Subscription, numbers: SequenceRun, now: Time) -> int:
        """Take single acknowledgements by the numbers of their dispatches, in any order.

        The acknowledgements have no transaction and need no answer.

        Returns:
            The number of acknowledgements taken, up to the first of a message that is not in flight.
        """
        self._context.begin_request(now)
        return self._acknowledgements.acknowledge_numbered(subscription, numbers)

    def pull(self, subscription: Subscription, timeout_ms: int, now: Time) -> None:
        """Request one message for a consumer without prefetch. ``timeout_ms`` 0 waits forever, -1 not at all."""
        self._context.begin_request(now)
        self._consumer_registry.pull(subscription, timeout_ms)

    def begin(self, state: ConnectionState, transaction_id: TransactionId, now: Time) -> None:
        """Open a local transaction."""
        self._context.begin_request(now)
        complete(state)
        self.assembly.local_transactions.begin(state, transaction_id)

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int, now: Time) -> bool:
        """Commit a local transaction. Returns the same values as `send`."""
        self._context.begin_request(now)
        complete(state)
        return self.assembly.local_transactions.commit(state, transaction_id, token)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId, now: Time) -> None:
        """Roll back a local transaction. Messages acknowledged in the transaction are in flight again."""
        self._context.begin_request(now)
        complete(state)
        self.assembly.local_transactions.rollback(state, transaction_id)

    def stored(self, position: int, now: Time) -> None:
        """Record that all changes up to ``position`` survive a power failure, and send the withheld answers."""
        self._context.begin_request(now)
        self._unsynced.stored(position)
        self._parked.flow.refresh()
        for reply in self._replies.advance(position):
            self._router.deferred.take(reply)
        if self._parked.connections:
            self._parked.unpark()

    def room_changed(self, now: Time) -> None:
        """Reevaluate blocked sends: the store's disk is full or has room again, or an operator freed memory."""
        self._context.begin_request(now)
        self._parked.flow.refresh()
        self._parked.unpark()
        self.assembly.dead_letters.room_changed()

    def store_failed(self, error: StoreError, now: Time) -> None:
        """Refuse all withheld answers and close all connections after a failure of the store."""
        self._context.begin_request(now)
        self._replies.refuse_all(error)
        self.assembly.connections.fail(error)

    def on_fetched(self, request: int, messages: list[Message | None], now: Time) -> None:
        """Take the store's result of one read."""
        self._context.begin_request(now)
        destination = self._context.take_fetching(request)
        if destination is not None:
            destination.on_fetched(request, messages)

    def take_dirty(self) -> list[ClientConnection]:
        """Remove and return the connections with output or a decided login. Each must be flushed once."""
        connections: list[ClientConnection] = []
        for output in self._dirty:
            output.dirty = False
            connections.append(output.connection)
        self._dirty.clear()
        return connections + self.assembly.logins.take_decided()

    def is_behind(self) -> bool:
        """Return True if persistent sends wait because too many bytes are on their way to the disk."""
        return self._unsynced.is_full()

    def next_timeout(self) -> float | None:
        """Return the time of the next `run` in monotonic seconds, or None; 0.0 while a job is unfinished."""
        return self._timers.next_timeout()

    def run(self, now: Time) -> None:
        """Run due timers and one slice of some unfinished jobs (at most 500 messages each)."""
        self._context.begin_request(now)
        self._timers.run()

    def recover(
        self,
        recovered: list[RecoveredDestination],
        clean: bool,
        now: Time,
        metadata: dict[int, dict[bytes, bytes]] | None = None,
    ) -> None:
        """Restore the contents of the store: destinations, and metadata records by table and key.

        Call before the first connection.

        Raises:
            StoreError: the contents are inconsistent.
        """
        self._context.begin_request(now)
        self._context.restore({} if metadata is None else metadata, clean)
        self.assembly.state_recovery.recover(recovered, clean, {} if metadata is None else metadata)

    def became_master(self, now: Time) -> None:
        """Publish the advisory of a started broker, the only user of the store."""
        self._context.begin_request(now)
        if self.advisories is not None:
            self.advisories.became_master()

    def begin_stop(self, now: Time) -> None:
        """Stop all dispatch. Messages already sent are still stored and answered (`awaits_disk`)."""
        self._context.begin_request(now)
        self.assembly.connections.stop_dispatch()

    def awaits_disk(self) -> bool:
        """Return True while the store can still finish work of the broker.

        Withheld answers, deferred dispatches, jobs of connections and removals of scheduled messages count.
        """
        if not self._context.store_usage.has_room():
            return False
        if len(self._replies) > 0 or self._router.deferred.is_busy or self.assembly.connections.has_jobs():
            return True
        scheduler = self.assembly.scheduler
        return scheduler is not None and scheduler.is_removing

    def stop(self, now: Time) -> None:
        """Close every connection in order.

        Unacknowledged messages stay in the store and are not dispatched again.
        """
        self.begin_stop(now)
        for state in self.assembly.connections.all():
            complete(state)
            state.output.close_with(JmsError("the broker is stopping"))
            self.remove_connection(state, now)
            complete(state)
        self.assembly.connection_cleanup.finish()
        for queue in (queues := [*self.assembly.map.queues.values(), *self.assembly.durables.queues()]):
            queue.note_uncertain()
        self._context.lost.note_stop([(queue.name, queue.waiting() + queue.in_flight) for queue in queues])

    def find_destination(self, destination: Destination) -> BrokerDestination | None:
        """Return the queue or topic for an operator's inspection, or None."""
        return self.assembly.map.find(destination)

    def durable_subscriptions(self) -> list[DurableSubscription]:
        """Return all durable subscriptions with their pending messages."""
        return list(self.assembly.map.durables.values())

    def destination_views(self) -> list[DestinationView]:
        """Return all queues and topics, including advisory topics."""
        return self.overview.destination_views()

    def connection_views(self) -> list[ConnectionView]:
        """Return all connections."""
        return self.overview.connection_views()

    def statistics(self) -> BrokerStatistics:
        """Return totals over all destinations and durable subscriptions."""
        return self.overview.statistics()
