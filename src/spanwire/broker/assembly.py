"""Creates the parts of a broker in the order of their dependencies, and closes the cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.admin.adjustments import Adjustments
from spanwire.broker.admin.administration import Administration
from spanwire.broker.admin.broker_overview import Overview
from spanwire.broker.admin.operator_actions import OperatorActions
from spanwire.broker.admin.published_statuses import PublishedStatuses
from spanwire.broker.admin.queue_operations import Operations
from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connection_cleanup import ConnectionCleanup
from spanwire.broker.connections.connections import Connections
from spanwire.broker.connections.transaction import MAX_UNCOMMITTED
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.history.departures import MAX_DEPARTURES, Departures
from spanwire.broker.dispatch.memory_usage import MemoryUsage, UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.virtual_route import VirtualRoutes
from spanwire.broker.exactly_once.cursor_table import CursorTable
from spanwire.broker.exactly_once.cursors import Cursors
from spanwire.broker.exactly_once.requests import Control
from spanwire.broker.exactly_once.reservations.range_reader import CursorRanges
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.metadata import BRIDGES, DRAINS, NETWORK_CONNECTORS, NETWORK_MEMBERS
from spanwire.broker.moves.kept_orders import KeptNames, KeptOrders
from spanwire.broker.moves.moves import Moves
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import ReplyQueue
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes, unsynced_limit
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.virtual_settings import VirtualSettings
from spanwire.broker.ports import (
    AdvisoryFormat,
    Authenticator,
    Authorizer,
    Store,
)
from spanwire.broker.reconfiguration import Reconfiguration
from spanwire.broker.recovery import StateRecovery
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.broker.routing.acknowledgements import Acknowledgements
from spanwire.broker.routing.consumers import ConsumerRegistry
from spanwire.broker.routing.dead_letters import DeadLetters
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.identified_sends import IdentifiedSends
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.routing.producers import ProducerRegistry
from spanwire.broker.routing.send_targets import SendTargets
from spanwire.broker.routing.sessions import Sessions
from spanwire.broker.routing.virtual_destinations import VirtualDestinations
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.broker.scheduler.scheduler import Scheduler
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.security.audit_log import AuditLog
from spanwire.broker.security.authorization import OpenAuthenticator, OpenAuthorizer
from spanwire.broker.security.login import Logins
from spanwire.broker.security.unfinished_logins import UnfinishedLogins
from spanwire.broker.timers import Timers
from spanwire.broker.transactions.local_transactions import LocalTransactions
from spanwire.broker.transactions.xa_recovery import RecoveredBranches
from spanwire.broker.transactions.xa_transactions import XaTransactions
from spanwire.model.environment import IdGenerator


@dataclass(frozen=True)
class BrokerSettings:
    """Policies, limits and ports of a broker. None means the default of the part."""

    advisory_format: AdvisoryFormat | None = None  # None: no advisories
    anonymous_producer_advisories: bool = False
    authenticator: Authenticator | None = None
    authorizer: Authorizer | None = None
    policies: PolicyMap | None = None
    limits: UsageLimits | None = None
    producer_audit: ProducerAudit | None = None
    max_uncommitted: int = MAX_UNCOMMITTED
    virtual: VirtualSettings | None = None
    scheduler: SchedulerSettings | None = None  # None: no scheduler
    upkeep: UpkeepSettings | None = None
    temporary_by_send: bool = False
    departures: int = MAX_DEPARTURES  # messages remembered after they left otherwise than by an acknowledgement


DEFAULT_SETTINGS: Final = BrokerSettings()


class BrokerAssembly:
    """Holds the parts of a `Broker`. They are created layer by layer; each layer uses the layers before."""

    def __init__(
        self, name: str, store: Store | None, formats: MessageFormats, ids: IdGenerator, settings: BrokerSettings
    ) -> None:
        self._name: Final[str] = name
        self._formats: Final[MessageFormats] = formats
        self._ids: Final[IdGenerator] = ids
        self._settings: Final[BrokerSettings] = settings
        self._policies: Final[PolicyMap] = settings.policies if settings.policies is not None else PolicyMap()
        self._limits: Final[UsageLimits] = settings.limits if settings.limits is not None else UsageLimits()
        self.usage: Final[MemoryUsage] = MemoryUsage(self._limits.memory_bytes)
        self.context: Final[BrokerContext] = BrokerContext(store, formats, Departures(settings.departures))
        self.unsynced: Final[UnsyncedBytes] = UnsyncedBytes(store, unsynced_limit(self._limits))
        self.replies: Final[ReplyQueue] = ReplyQueue()
        self.producer_audit: Final[ProducerAudit] = (
            settings.producer_audit if settings.producer_audit is not None else ProducerAudit()
        )
        self._values: Final[MessageEvaluationContext] = MessageEvaluationContext(formats)
        self._add_security()
        self._add_destinations()
        self._add_routing()
        self._add_transactions()
        self._add_connections()
        self._connect()

    def _add_security(self) -> None:
        settings = self._settings
        audit = AuditLog(self.context)
        self.unfinished_logins = UnfinishedLogins()
        authenticator = settings.authenticator if settings.authenticator is not None else OpenAuthenticator()
        self.logins = Logins(authenticator, self.context, audit)
        authorizer = settings.authorizer if settings.authorizer is not None else OpenAuthorizer()
        self.access = AccessControl(authorizer, audit)

    def _add_destinations(self) -> None:
        settings = self._settings
        virtual = settings.virtual if settings.virtual is not None else VirtualSettings()
        self._routes = VirtualRoutes(virtual)
        self.map = DestinationMap(self.context, self._policies, self.usage, self._routes)
        self.advisories: Advisories | None = None
        if settings.advisory_format is not None:
            demand_id = self._ids.next_id() if virtual.announced_on_creation else ""
            self.advisories = Advisories(
                self.context, self.map, settings.advisory_format, self.access, self._formats,
                settings.anonymous_producer_advisories, demand_id,
            )  # fmt: skip
        self.destinations = Destinations(
            self.context, self.map, self.access, self.advisories, settings.temporary_by_send
        )
        self.durables = DurableSubscriptions(
            self.context, self.map, self._policies, self.usage, self.access, self._values, self.advisories
        )

    def _add_routing(self) -> None:
        context, formats, access, unsynced = self.context, self._formats, self.access, self.unsynced
        self.flow = FlowControl(context, self._limits, self._policies.lowest_store_mark(), unsynced)
        self.parked = ParkedSends(context, self.map, self.flow)
        self.dead_letters = DeadLetters(context, self.destinations, formats, unsynced)
        self.operations = Operations(context, self.map, self.destinations, formats, unsynced)
        self.moves = Moves(context, self.map, self.destinations, formats, unsynced, self.flow)
        self.drains = KeptOrders(context.metadata, DRAINS)
        self.added_connectors = KeptNames(context.metadata, NETWORK_CONNECTORS)
        self.network_members = KeptNames(context.metadata, NETWORK_MEMBERS)
        self.added_bridges = KeptNames(context.metadata, BRIDGES)
        self.router = MessageRouter(
            context, self.map, self.destinations, formats, access, self.replies, unsynced, self.dead_letters,
            self.parked, self.producer_audit,
            SendTargets(
                context, self.map, self.destinations, formats, access,
                VirtualDestinations(self.map, self.destinations, access, self.flow, self._values),
            ),
            IdentifiedSends(context, formats, self.map, self._policies, access, self.producer_audit.ids),
        )  # fmt: skip
        self.scheduler: Scheduler | None = None
        if self._settings.scheduler is not None:
            self.scheduler = Scheduler(
                self._settings.scheduler, context, self._policies, self.usage, self.router, self.parked, formats,
                access, self.dead_letters, unsynced, self.producer_audit, self._ids,
            )  # fmt: skip
        cursor_table = CursorTable(context, self.map, self.destinations, access, unsynced)
        self.cursors = Cursors(context, self.map, self.destinations, cursor_table, unsynced, self.flow, self._values)
        self.sinks = Sinks(context, access, self.flow, unsynced, CONTROL)
        self.statuses = PublishedStatuses(context, access, CONTROL)
        self.producer_registry = ProducerRegistry(self.map, self.destinations, access, self.advisories)
        self.consumer_registry = ConsumerRegistry(
            context, self.map, self.destinations, self._policies, access, self._values, self.advisories,
            self.durables, CursorRanges(context, self.cursors.table),
        )  # fmt: skip
        self.acknowledgements = Acknowledgements(context, self.consumer_registry, self.router, self.parked)

    def _add_transactions(self) -> None:
        context = self.context
        self.local_transactions = LocalTransactions(
            context, self.router, self.destinations, self.dead_letters, self.unsynced, self.producer_audit, self.parked
        )
        self._recovered_branches = RecoveredBranches(context, self.map, self.destinations, self.scheduler)
        self.xa = XaTransactions(
            context, self.access, self.local_transactions, self.router, self.consumer_registry, self.parked,
            self._recovered_branches,
        )  # fmt: skip
        self.state_recovery = StateRecovery(
            self.xa, self.destinations, self.durables, self.scheduler, self.cursors.table, self.sinks, self.moves,
            self.drains, self.added_connectors, self.network_members,
            self.added_bridges,
        )  # fmt: skip

    def _add_connections(self) -> None:
        context = self.context
        self.dirty: list[ConnectionOutput] = []
        self.connections = Connections(self._name, self.usage, self.dirty, self._settings.max_uncommitted)
        self.connection_cleanup = ConnectionCleanup(
            context, self.connections, self.xa, self.consumer_registry, self.producer_registry, self.parked,
            self.destinations, self.advisories,
        )  # fmt: skip
        self.sessions = Sessions(self.connection_cleanup)
        self.administration = Administration(
            context, self.connections, self.connection_cleanup, self.destinations, self.durables, self.parked,
            self.logins, self.map,
        )  # fmt: skip
        self.operator_actions = OperatorActions(
            context, self.usage, self.access, self.router, self.parked, self.map, self.durables, self.connections,
            self.xa, self.scheduler, self._ids,
        )  # fmt: skip
        self.adjustments = Adjustments(context, self.usage, self.map, self.connections, self.parked)
        self.overview = Overview(
            context, self.map, self.connections, self.usage, self.parked, self.xa, self.scheduler, self._policies,
        )  # fmt: skip
        self.timers = Timers(
            context, self.map, self.destinations, self.durables, self.consumer_registry, self.parked, self.scheduler,
            self._policies, self._settings.upkeep,
        )  # fmt: skip
        self.reconfiguration = Reconfiguration(
            self.map, self._policies, self._routes, self.access, self.logins, self.parked, self.timers
        )

    def _connect(self) -> None:
        """Close the cycles between parts: the only place to hand a part to an earlier part.

        - Destinations reach dead letters, advisories and the removal of slow consumers through the context; all three
          need the destinations.
        - The router parks sends without room, and is told to send them once there is room.
        - The router hands messages to the scheduler and to the control destination, which send through the router.
        - A long commit is a job of its connection; the clean-up of a connection rolls back the transactions.
        - A transaction of any kind, also a recovered one, ends in `XaTransactions`, which commits through the others.
        """
        self.context.dead_letter_handler = self.dead_letters
        self.context.advisories = self.advisories
        self.context.remover = self.consumer_registry
        self.parked.sender = self.router
        self.router.delayed = self.scheduler
        self.control = Control(
            self.context, self.cursors, self.sinks, self.statuses, self.map, self.destinations, self.router,
            self._formats, self.access, self.unsynced, self.usage, self._ids,
        )  # fmt: skip
        self.router.control = self.control
        self.local_transactions.owner = self.connection_cleanup
        self.local_transactions.end = self.xa
        self._recovered_branches.finisher = self.xa
