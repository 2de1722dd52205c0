"""Differences between two configurations: for the running broker, and for the next start."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

from spanwire.model.destination import Destination
from spanwire.service.config.model import BrokerConfiguration

if TYPE_CHECKING:
    from spanwire.network.connector.link import NetworkConnectorSettings

# Names of a configuration's fields in its file.
WORDS: Final[dict[str, str]] = {
    "broker_name": "brokerName",
    "broker_id": "brokerId",
    "data_directory": "dataDirectory",
    "advisory_support": "advisorySupport",
    "anonymous_producer_advisories": "anonymousProducerAdvisorySupport",
    "delete_all_messages_on_startup": "deleteAllMessagesOnStartup",
    "temporary_by_send": "allowTempAutoCreationOnSend",
    "start": "start",
    "start_async": "startAsync",
    "connectors": "<transportConnectors>",
    "network_connectors": "<networkConnectors>",
    "bridges": "<jmsBridgeConnectors>",
    "routes": "<camelContext>",
    "persistence": "<persistenceAdapter>",
    "usage": "<systemUsage>",
    "max_uncommitted": "maxUncommittedCount",
    "departures": "rememberedDepartures",
    "destinations": "<destinations>",
    "policies": "<destinationPolicy>",
    "virtual": "<destinationInterceptors>",
    "scheduler": "schedulerSupport",
    "upkeep": "schedulePeriodForDestinationPurge or offlineDurableSubscriberTimeout",
    "plugins": "<plugins>",
    "authentication": "the users",
    "authorization": "<authorizationPlugin>",
    "runtime": "<runtimeConfigurationPlugin>",
    "web": "<web>",
    "tracing": "<tracing>",
    "stores": "<sslContext>",
}
OF_THE_READING: Final = ("source", "warnings", "skipped", "presumed_base")


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences of two configurations.

    ``added`` and ``removed`` are network connectors; a changed connector is in both. ``destinations`` are new
    destinations. ``later`` are the changed settings without effect before the next start.
    """

    policies: bool = False
    virtual: bool = False
    users: bool = False
    rights: bool = False
    destinations: tuple[Destination, ...] = ()
    added: tuple[NetworkConnectorSettings, ...] = ()
    removed: tuple[NetworkConnectorSettings, ...] = ()
    later: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Return True if there is any difference."""
        return self != NONE


NONE: Final = Changes()


def changes(before: BrokerConfiguration, after: BrokerConfiguration) -> Changes:
    """Return the differences of ``after``."""
    different = [
        field.name
        for field in fields(BrokerConfiguration)
        if field.name not in OF_THE_READING and getattr(before, field.name) != getattr(after, field.name)
    ]
    policies = "policies" in different
    virtual = "virtual" in different and _has_equal_announcements(before, after)
    users = "authentication" in different and _has_users_alike(before, after)
    rights = "authorization" in different and before.authorization is not None and after.authorization is not None
    known = set(before.destinations)
    applied = {
        "policies": policies,
        "virtual": virtual,
        "authentication": users,
        "authorization": rights,
        "destinations": True,
        "network_connectors": True,
    }
    return Changes(
        policies,
        virtual,
        users,
        rights,
        tuple(destination for destination in after.destinations if destination not in known),
        tuple(one for one in after.network_connectors if one not in before.network_connectors),
        tuple(one for one in before.network_connectors if one not in after.network_connectors),
        tuple(WORDS[name] for name in different if not applied.get(name, False)),
    )


def apply_changes(before: BrokerConfiguration, after: BrokerConfiguration, differences: Changes) -> BrokerConfiguration:
    """Return ``before`` with the parts of ``after`` that a running broker can apply."""
    return replace(
        before,
        policies=after.policies,
        virtual=after.virtual if differences.virtual else before.virtual,
        authentication=after.authentication if differences.users else before.authentication,
        authorization=after.authorization if differences.rights else before.authorization,
        destinations=after.destinations,
        network_connectors=after.network_connectors,
    )


def _has_equal_announcements(before: BrokerConfiguration, after: BrokerConfiguration) -> bool:
    """Return True if other brokers learn of the same virtual destinations as before."""
    return (
        before.virtual.counts_as_demand == after.virtual.counts_as_demand
        and before.virtual.announced_on_creation == after.virtual.announced_on_creation
    )


def _has_users_alike(before: BrokerConfiguration, after: BrokerConfiguration) -> bool:
    """Return True if both have authentication, and only users may differ, inside and outside of TLS."""
    old, new = before.authentication, after.authentication
    return old is not None and new is not None and (old.encrypted is None) == (new.encrypted is None)
