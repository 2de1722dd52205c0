"""Actions of an operator on messages, branches, consumers and jobs; some end in a later turn."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.connections import Connections
from spanwire.broker.connections.transaction import UncommittedLimit
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.slow_consumer_strategy import GRACE_SECONDS
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import ClientConnection, Principal
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.scheduler.removal_job import remove_jobs
from spanwire.broker.scheduler.scheduler import Scheduler
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.topic.durable_subscription import subscription_key
from spanwire.broker.transactions.xa_transactions import XaTransactions
from spanwire.model.destination import Destination
from spanwire.model.environment import IdGenerator, Time
from spanwire.model.errors import InvalidDestinationError, JmsError, ResourceAllocationError, SpanwireError
from spanwire.model.ids import ConsumerId, XaTransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import Message
from spanwire.selector.parser import parse_selector

TOKEN: Final = 1  # of the one request of an operator's connection
ADDRESS: Final = "an operator"
ENDED: Final = "an operator has ended this consumer"


class ActionObserver(Protocol):
    """Gets the end of an action."""

    def on_answered(self, error: SpanwireError | None) -> None:
        """Take the outcome; None if the action took effect and is stored."""
        ...


class OperatorConnection(ClientConnection):
    """A connection without a client, which passes the answer on to an observer."""

    def __init__(self, observer: ActionObserver) -> None:
        self._observer: Final[ActionObserver] = observer

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Pass the answer on."""
        self._observer.on_answered(error)

    def close_with(self, error: SpanwireError) -> None:
        """Pass the failure on."""
        self._observer.on_answered(error)


class ConsumerEnd(Alarm):
    """Removes a consumer not closed in time by the client."""

    def __init__(self, subscription: Subscription, context: BrokerContext) -> None:
        self._subscription: Final[Subscription] = subscription
        self._context: Final[BrokerContext] = context

    def wake(self) -> None:
        """Remove the consumer, unless gone already."""
        remover = self._context.remover
        if remover is not None and not self._subscription.removed:
            remover.remove_consumer(self._subscription)


class OperatorActions:
    """Acts for an operator on the parts of one broker, each time on a connection of its own."""

    def __init__(
        self,
        context: BrokerContext,
        usage: MemoryUsage,
        access: AccessControl,
        router: MessageRouter,
        parked: ParkedSends,
        destination_map: DestinationMap,
        durables: DurableSubscriptions,
        connections: Connections,
        xa: XaTransactions,
        scheduler: Scheduler | None,
        ids: IdGenerator,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._usage: Final[MemoryUsage] = usage
        self._access: Final[AccessControl] = access
        self._router: Final[MessageRouter] = router
        self._parked: Final[ParkedSends] = parked
        self._map: Final[DestinationMap] = destination_map
        self._durables: Final[DurableSubscriptions] = durables
        self._connections: Final[Connections] = connections
        self._xa: Final[XaTransactions] = xa
        self._scheduler: Final[Scheduler | None] = scheduler
        self.connection_id: Final[str] = ids.next_id()

    def send(self, principal: Principal, message: Message, observer: ActionObserver, now: Time) -> None:
        """Send ``message`` with the rights of ``principal``.

        Raises:
            JmsError: the message is refused, or has no room now.
        """
        self._context.begin_request(now)
        state = self._state(principal, None, observer)
        is_answered = self._router.send(state, message, None, TOKEN)
        if state.parked:
            self._parked.forget(state)
            raise ResourceAllocationError(f"{message.destination.qualified_name} has no room for the message now")
        if is_answered:
            observer.on_answered(None)

    def create_subscription(
        self, principal: Principal, client_id: str, name: str, topic: Destination, selector: str | None, now: Time
    ) -> None:
        """Create a durable subscription without a subscriber, with the rights of ``principal``.

        Raises:
            JmsError: the subscription exists, or is refused.
        """
        self._context.begin_request(now)
        if subscription_key(client_id, name) in self._map.durables:
            raise JmsError(f"there is a durable subscription {name} of client {client_id} already: remove it first")
        state = self._state(principal, client_id, None)
        for part in topic.parts():
            self._access.check_read(state, part)
        chooser = parse_selector(selector) if selector is not None and selector.strip() else None
        consumer_id = ConsumerId(self.connection_id, 1, 1)
        info = ConsumerInfo(consumer_id, topic, selector=selector, subscription_name=name, client_id=client_id)
        self._durables.claim(state, info, chooser)

    def finish_branch(self, xid: str, commit: bool, observer: ActionObserver, now: Time) -> None:
        """Commit or roll back a prepared branch left by the transaction manager.

        Raises:
            JmsError: there is no such branch, the manager is connected, or the commit is refused.
        """
        self._context.begin_request(now)
        branch = next((one for one in self._xa.prepared_branches() if str(one.xid) == xid), None)
        if branch is None:
            raise InvalidDestinationError(f"there is no prepared branch {xid[:200]}")
        if branch.siblings is not None:
            raise JmsError("the connection that began the branch is open: its transaction manager decides")
        state = self._state(Principal(branch.user), None, observer)
        if self._finish(state, branch.xid, commit, now):
            observer.on_answered(None)

    def _finish(self, state: ConnectionState, xid: XaTransactionId, commit: bool, now: Time) -> bool:
        if commit:
            return self._xa.commit(state, xid, False, TOKEN, now)
        return self._xa.rollback(state, xid, TOKEN, now)

    def end_consumer(self, consumer_id: str, now: Time) -> None:
        """Ask the client to close a consumer, and remove the consumer after a second.

        Raises:
            InvalidDestinationError: there is no such consumer.
        """
        self._context.begin_request(now)
        state = self._connections.find(consumer_id.rsplit(":", 2)[0])
        subscription = None if state is None else state.consumers.get(consumer_id)
        if subscription is None:
            raise InvalidDestinationError(f"there is no consumer {consumer_id[:200]}")
        subscription.consumer.close(JmsError(ENDED))
        subscription.output.mark_dirty()
        self._context.wake_at(ConsumerEnd(subscription, self._context), self._context.monotonic + GRACE_SECONDS)

    def remove_job(self, job_id: str, now: Time) -> None:
        """Remove a scheduled message.

        Raises:
            JmsError: there is no such job, or the store refuses.
        """
        self._context.begin_request(now)
        scheduler = self._scheduler
        job = None if scheduler is None else scheduler.schedule.find(job_id)
        if scheduler is None or job is None:
            raise InvalidDestinationError(f"there is no scheduled message {job_id[:200]}")
        remove_jobs(self._context, scheduler.schedule, [job])

    def _state(self, principal: Principal, client_id: str | None, observer: ActionObserver | None) -> ConnectionState:
        connection = OperatorConnection(_Nobody() if observer is None else observer)
        info = ConnectionInfo(self.connection_id, client_id=client_id, user_name=principal.name, remote_address=ADDRESS)
        output = ConnectionOutput(connection, [], self._usage)
        output.dirty = True  # nothing is flushed; the list would refer to the output, which refers to the list
        return ConnectionState(output, info, principal, UncommittedLimit())


class _Nobody(ActionObserver):
    """Takes the answer of an action without an observer."""

    def on_answered(self, error: SpanwireError | None) -> None:
        """Take no action."""
