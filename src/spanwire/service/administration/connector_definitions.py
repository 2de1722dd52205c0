"""Definitions of connectors: the attributes for equal connectors of a configuration or an operator.

Secrets are left out and named. Attributes with a default value are not listed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from spanwire.service.config.tables.attributes import AttributeTable
from spanwire.service.config.tables.broker_attributes import NETWORK_CONNECTOR, TRANSPORT_CONNECTOR

if TYPE_CHECKING:
    from spanwire.network.connector.link import NetworkConnectorSettings
    from spanwire.service.config.security.tls import Stores
    from spanwire.tls.settings import ClientTlsSettings
    from spanwire.transports.base import ConnectorSettings

View = dict[str, object]
LOGIN: Final = re.compile(r"//[^/\s,()?]*@")  # user and password before a host, up to the last @ as in urllib
_SECRET: Final = r"([?&])([\w.]*(?:password|passphrase|secret|token)[\w.]*)="
SECRET_OPTION: Final = re.compile(f"{_SECRET}[^&]*", re.IGNORECASE)
SECRET_OF_ONE: Final = re.compile(f"{_SECRET}[^&,()]*", re.IGNORECASE)  # of one address among several in parentheses
JOINED: Final = ("name", "networkTTL")  # listed on its own; said by messageTTL and consumerTTL


def network_definition(settings: NetworkConnectorSettings, *, is_started: bool, stores: Stores | None) -> View:
    """Return the definition of a network connector.

    Args:
        settings: the settings of the connector.
        is_started: False after a stop by an operator, or before the first start.
        stores: key and trust store of the broker, used by a connector from an operator.
    """
    bridge = settings.bridge
    uri, left_out = without_secrets(settings.written)
    attributes = _attributes(NETWORK_CONNECTOR, bridge)
    if not settings.auto_start:
        attributes["autoStart"] = "false"
    if settings.discovery is not None and settings.discovery.sends_login:
        attributes["sendLoginToDiscovered"] = "true"
    if bridge.password is not None:
        left_out.append("password")
    if bridge.remote_password is not None:
        left_out.append("remotePassword")
    if any(not _is_of(tls, stores) for tls in _contexts(settings)):
        left_out.append("sslContext")
    return {
        "kind": "network_connector",
        "name": bridge.name,
        "uri": uri,
        "started": is_started,
        "settings": attributes,
        "excludedDestinations": [destination.qualified_name for destination in bridge.excluded],
        "dynamicallyIncludedDestinations": [
            destination.qualified_name + ("?forceDurable=true" if destination in bridge.forced_durable else "")
            for destination in bridge.included
        ],
        "staticallyIncludedDestinations": [destination.qualified_name for destination in bridge.static],
        "left_out": left_out,
    }


def connector_definition(settings: ConnectorSettings, *, is_started: bool) -> View:
    """Return the definition of a transport connector with the port of the configuration, possibly 0."""
    options = "&".join(f"{name}={quote(value, safe='/:,*')}" for name, value in settings.options.items())
    uri, left_out = without_secrets(f"{settings.uri()}?{options}" if options else settings.uri())
    attributes = _attributes(TRANSPORT_CONNECTOR, settings)
    if "allowLinkStealing" in settings.options:
        attributes.pop("allowLinkStealing", None)  # the option says it
    if settings.cluster_filter:
        attributes["updateClusterFilter"] = ",".join(settings.cluster_filter)
    if settings.discovery_uri:
        group, hidden = without_secrets(settings.discovery_uri)
        attributes["discoveryUri"] = group
        left_out += hidden
    if settings.published is not None:
        left_out.append("publishedAddressPolicy")
    return {
        "kind": "connector",
        "name": settings.name,
        "uri": uri,
        "started": is_started,
        "settings": attributes,
        "left_out": left_out,
    }


def without_secrets(uri: str) -> tuple[str, list[str]]:
    """Return a URI without logins and secret options, and the names of the omitted parts."""
    left_out = ["login in uri"] if LOGIN.search(uri) else []
    option = SECRET_OF_ONE if "(" in uri else SECRET_OPTION
    left_out += [f"{match[2]} in uri" for match in option.finditer(uri)]
    shorter = option.sub(r"\1", LOGIN.sub("//", uri))
    shorter = re.sub(r"\?&+", "?", re.sub(r"&{2,}", "&", shorter))
    return re.sub(r"[?&]+(?=[,)]|$)", "", shorter), left_out


def _attributes(table: AttributeTable, settings: object) -> dict[str, str]:
    """Return the attributes of a table with other values than the defaults, in the spelling of a file."""
    found = {}
    for row in table.rows:
        field = row.field.split()[0]
        value = getattr(settings, field)
        if row.name not in JOINED and value is not None and value != table.default_value(row):
            found[row.name] = row.kind.written(value)
    return found


def _contexts(settings: NetworkConnectorSettings) -> list[ClientTlsSettings]:
    if settings.discovery is not None:
        return [settings.discovery.tls]
    addresses = [address for remote in settings.remotes for address in (remote, *remote.others)]
    return [address.tls for address in addresses if address.tls is not None]


def _is_of(tls: ClientTlsSettings, stores: Stores | None) -> bool:
    """Return True if an address uses the key and trust store of the broker."""
    own = (None, None) if stores is None else (stores.trust_store, stores.key_store)
    return (tls.trust_store, tls.key_store) == own
