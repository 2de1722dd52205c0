"""Other settings for a broker that runs (ActiveMQ, "Runtime Configuration"): policies, virtual destinations, who may
log in, who may do what.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.virtual_route import VirtualRoutes
from spanwire.broker.dispatch.virtual_settings import VirtualSettings
from spanwire.broker.policy.policy_entry import PolicyEntry, PolicyMap
from spanwire.broker.ports import Authenticator, Authorizer
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.security.access_control import Rights
from spanwire.broker.security.login import Logins
from spanwire.broker.timers import Timers


class Reconfiguration:
    """Changes what is there; of many destinations some in each turn. What it is given was checked before, and nothing
    of it fails.

    Of a policy existing destinations take over what they look up when they need it: limits, flow control, dead letters,
    expiry, advisories about messages where they had some, removal when idle. What made a queue or topic the kind that
    it is (order, dispatch, groups, recovery, eviction, slow consumers) holds for those made from now on. Connections
    that are logged in stay who they are; consumers that are there go on.
    """

    def __init__(
        self,
        destinations: DestinationMap,
        policies: PolicyMap,
        routes: VirtualRoutes,
        rights: Rights,
        logins: Logins,
        flow: FlowControl,
        timers: Timers,
    ) -> None:
        self._destinations: Final[DestinationMap] = destinations
        self._policies: Final[PolicyMap] = policies
        self._routes: Final[VirtualRoutes] = routes
        self._rights: Final[Rights] = rights
        self._logins: Final[Logins] = logins
        self._flow: Final[FlowControl] = flow
        self._timers: Final[Timers] = timers

    def use_policies(self, entries: list[PolicyEntry]) -> None:
        """These entries from now on."""
        self._policies.replace(entries)
        self._destinations.retune()
        self._timers.use_expiry_periods(self._policies.expiry_periods())
        self._flow.use_store_mark(self._policies.lowest_store_mark())
        self._flow.unpark()

    def use_virtual_destinations(self, settings: VirtualSettings) -> None:
        """These virtual topics, composites and mirrors from now on."""
        self._routes.replace(settings)
        self._destinations.reroute()

    def use_authenticator(self, authenticator: Authenticator) -> None:
        """It decides who may log in from now on."""
        self._logins.authenticator = authenticator

    def use_authorizer(self, authorizer: Authorizer) -> None:
        """It decides who may do what from now on."""
        self._rights.authorizer = authorizer
        self._destinations.reread()
