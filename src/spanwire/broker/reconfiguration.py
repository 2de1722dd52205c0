"""Changes the configuration of a running broker (ActiveMQ, "Runtime Configuration").

The changeable parts are policies, virtual destinations, authentication and authorization.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.virtual_route import VirtualRoutes
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.virtual_settings import VirtualSettings
from spanwire.broker.ports import Authenticator, Authorizer
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.security.login import Logins
from spanwire.broker.timers import Timers


class Reconfiguration:
    """Applies new settings to a running broker, to many destinations a few in each turn.

    The settings were validated before, so that no change fails.

    Existing destinations adopt the policy settings that they read at each use: limits, flow control, dead letters,
    expiry, advisories about messages if enabled before, removal when idle. Settings that determine the kind of a queue
    or topic (order, dispatch, groups, recovery, eviction, slow consumers) apply only to new destinations. Connections
    keep their user, and consumers continue.
    """

    def __init__(
        self,
        destinations: DestinationMap,
        policies: PolicyMap,
        routes: VirtualRoutes,
        access: AccessControl,
        logins: Logins,
        parked: ParkedSends,
        timers: Timers,
    ) -> None:
        self._destinations: Final[DestinationMap] = destinations
        self._policies: Final[PolicyMap] = policies
        self._routes: Final[VirtualRoutes] = routes
        self._access: Final[AccessControl] = access
        self._logins: Final[Logins] = logins
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow
        self._timers: Final[Timers] = timers

    def use_policies(self, entries: list[PolicyEntry]) -> None:
        """Replace the policy entries."""
        self._policies.replace(entries)
        self._destinations.retune()
        self._timers.use_expiry_periods(self._policies.expiry_periods())
        self._flow.use_store_mark(self._policies.lowest_store_mark())
        self._parked.unpark()

    def use_virtual_destinations(self, settings: VirtualSettings) -> None:
        """Replace the virtual topics, composite destinations and mirrored queues."""
        self._routes.replace(settings)
        self._destinations.reroute()

    def use_authenticator(self, authenticator: Authenticator) -> None:
        """Replace the authenticator for future logins."""
        self._logins.authenticator = authenticator

    def use_authorizer(self, authorizer: Authorizer) -> None:
        """Replace the authorizer for all future checks."""
        self._access.authorizer = authorizer
        self._destinations.reread()
