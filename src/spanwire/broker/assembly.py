"""Creates the components of a broker in the order of their dependencies."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.administration import Administration
from spanwire.broker.admin.broker_overview import Overview
from spanwire.broker.admin.queue_operations import Operations
from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connection_cleanup import ConnectionCleanup
from spanwire.broker.connections.connections import Connections
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage, UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.virtual_route import VirtualRoutes
from spanwire.broker.dispatch.virtual_settings import VirtualSettings
from spanwire.broker.exactly_once.cursors import Cursors
from spanwire.broker.exactly_once.range_reader import CursorRanges
from spanwire.broker.exactly_once.requests import Control
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import ReplyQueue
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes, unsynced_limit
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import (
    AdvisoryFormat,
    Authenticator,
    Authorizer,
    MessageStore,
)
from spanwire.broker.reconfiguration import Reconfiguration
from spanwire.broker.recovery import StateRecovery
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.broker.routing.acknowledgements import Acknowledgements
from spanwire.broker.routing.consumers import ConsumerRegistry
from spanwire.broker.routing.dead_letters import DeadLetters
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.producers import ProducerRegistry
from spanwire.broker.routing.sessions import Sessions
from spanwire.broker.routing.virtual_destinations import VirtualDestinations
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.broker.scheduler.scheduler import Scheduler
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.security.audit_log import AuditLog
from spanwire.broker.security.login import Logins
from spanwire.broker.security.unfinished_logins import UnfinishedLogins
from spanwire.broker.timers import Timers
from spanwire.broker.transactions.local_transactions import LocalTransactions
from spanwire.broker.transactions.xa_recovery import RecoveredBranches
from spanwire.broker.transactions.xa_transactions import XaTransactions
from spanwire.model.environment import IdGenerator


class Rooms:
    """Holds all components of a `Broker`. Contains no logic."""

    def __init__(
        self,
        name: str,
        store: MessageStore | None,
        formats: MessageFormats,
        ids: IdGenerator,
        *,
        advisory_format: AdvisoryFormat | None,
        anonymous_producer_advisories: bool,
        authenticator: Authenticator,
        authorizer: Authorizer,
        policies: PolicyMap,
        limits: UsageLimits,
        producer_audit: ProducerAudit,
        max_uncommitted: int,
        virtual: VirtualSettings,
        scheduler: SchedulerSettings | None,
        upkeep: UpkeepSettings | None,
        temporary_by_send: bool,
    ) -> None:
        self.usage: Final[MemoryUsage] = MemoryUsage(limits.memory_bytes)
        self.context: Final[BrokerContext] = BrokerContext(store, formats)
        audit = AuditLog(self.context)
        self.unfinished_logins: Final[UnfinishedLogins] = UnfinishedLogins()
        self.logins: Final[Logins] = Logins(authenticator, self.context, audit)
        self.access: Final[AccessControl] = AccessControl(authorizer, audit)
        routes = VirtualRoutes(virtual)
        self.map: Final[DestinationMap] = DestinationMap(self.context, policies, self.usage, routes)
        self.advisories: Final[Advisories | None] = None if advisory_format is None else Advisories(
            self.context, self.map, advisory_format, self.access, formats, anonymous_producer_advisories,
            ids.next_id() if virtual.told_on_creation else "",
        )  # fmt: skip
        self.waiting: Final[ReplyQueue] = ReplyQueue()
        self.destinations: Final[Destinations] = Destinations(
            self.context, self.map, self.access, self.advisories, temporary_by_send
        )
        self.unsynced: Final[UnsyncedBytes] = UnsyncedBytes(store, unsynced_limit(limits))
        self.flow: Final[FlowControl] = FlowControl(
            self.context, self.map, limits, policies.lowest_store_mark(), self.unsynced
        )
        self.dead_letters: Final[DeadLetters] = DeadLetters(self.context, self.destinations, formats, self.unsynced)
        self.context.dead_letter_handler = self.dead_letters
        values = MessageEvaluationContext(formats)
        self.operations: Final[Operations] = Operations(
            self.context, self.map, self.destinations, formats, self.unsynced
        )
        self.router: Final[MessageRouter] = MessageRouter(
            self.context,
            self.map,
            self.destinations,
            formats,
            self.access,
            self.waiting,
            self.unsynced,
            self.dead_letters,
            self.flow,
            producer_audit,
            VirtualDestinations(self.map, self.destinations, self.access, self.flow, values),
        )
        self.flow.sender = self.router
        self.scheduler: Final[Scheduler | None] = None if scheduler is None else Scheduler(
            scheduler, self.context, policies, self.usage, self.router, self.flow, formats, self.access,
            self.dead_letters, self.unsynced, producer_audit, ids,
        )  # fmt: skip
        self.router.delayed = self.scheduler
        self.local_transactions: Final[LocalTransactions] = LocalTransactions(
            self.context,
            self.router,
            self.destinations,
            self.dead_letters,
            self.unsynced,
            producer_audit,
            self.flow,
        )
        self.producer_registry: Final[ProducerRegistry] = ProducerRegistry(
            self.map, self.destinations, self.access, self.advisories
        )
        self.durables: Final[DurableSubscriptions] = DurableSubscriptions(
            self.context, self.map, policies, self.usage, self.access, values, self.advisories
        )
        self.consumer_registry: Final[ConsumerRegistry] = ConsumerRegistry(
            self.context,
            self.map,
            self.destinations,
            policies,
            self.access,
            values,
            self.advisories,
            self.durables,
        )
        self.acknowledgements: Final[Acknowledgements] = Acknowledgements(
            self.context, self.consumer_registry, self.router, self.flow
        )
        self.cursors: Final[Cursors] = Cursors(
            self.context, self.map, self.destinations, self.access, self.unsynced, self.flow
        )
        self.consumer_registry.ranges = CursorRanges(self.context, self.cursors)
        self.sinks: Final[Sinks] = Sinks(self.context, self.access, self.flow, self.unsynced, CONTROL)
        self.router.control = Control(
            self.context, self.cursors, self.sinks, self.map, self.destinations, self.router, formats, self.access,
            self.unsynced, self.usage, ids,
        )  # fmt: skip
        recovered = RecoveredBranches(self.context, self.map, self.destinations, self.scheduler)
        self.xa: Final[XaTransactions] = XaTransactions(
            self.context,
            self.access,
            self.local_transactions,
            self.router,
            self.consumer_registry,
            self.flow,
            recovered,
        )
        self.state_recovery: Final[StateRecovery] = StateRecovery(
            self.xa, self.destinations, self.durables, self.scheduler, self.cursors, self.sinks
        )
        self.dirty: Final[list[ConnectionOutput]] = []
        self.connections: Final[Connections] = Connections(name, self.usage, self.dirty, max_uncommitted)
        self.connection_cleanup: Final[ConnectionCleanup] = ConnectionCleanup(
            self.context, self.connections, self.xa, self.consumer_registry, self.producer_registry, self.flow,
            self.destinations, self.advisories,
        )  # fmt: skip
        self.local_transactions.owner = self.connection_cleanup
        self.sessions: Final[Sessions] = Sessions(self.connection_cleanup)
        self.administration: Final[Administration] = Administration(
            self.context, self.connections, self.connection_cleanup, self.destinations, self.durables, self.flow
        )
        self.overview: Final[Overview] = Overview(
            self.context, self.map, self.connections, self.usage, limits, self.flow, self.xa
        )
        self.timers: Final[Timers] = Timers(
            self.context, self.map, self.destinations, self.durables, self.consumer_registry, self.flow, self.scheduler,
            policies, upkeep,
        )  # fmt: skip
        self.reconfiguration: Final[Reconfiguration] = Reconfiguration(
            self.map, policies, routes, self.access, self.logins, self.flow, self.timers
        )
