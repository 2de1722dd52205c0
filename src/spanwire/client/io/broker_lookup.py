"""Search for announced brokers, for a client without configured addresses.

Every host in reach can announce a broker. So a client with a login uses TLS addresses with the caller's trust store
only, unless the URL says ``sendLoginToDiscovered=true``.
"""

from __future__ import annotations

import logging
import select
import time
from typing import Final

from spanwire.client.addressing.address import MAX_ADDRESSES, BrokerAddress, BrokerUrl, discovered_address
from spanwire.discovery.agents.agent_factory import find_uris, has_extra, name_of
from spanwire.discovery.agents.membership import join_group
from spanwire.discovery.groups.agent_settings import AgentSettings, ZeroconfSettings
from spanwire.discovery.groups.beacon import MAX_DATAGRAM_BYTES, decode_beacon
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.tls.settings import ClientTlsSettings

GRACE: Final = 0.2  # seconds beyond one announcement interval, for a busy machine
MAX_BEACONS: Final = 1_000  # datagrams of one search; a flood must not keep the search busy

logger = logging.getLogger(__name__)


def find_brokers(url: BrokerUrl, group: AgentSettings, tls: ClientTlsSettings | None) -> tuple[BrokerAddress, ...]:
    """Return the usable brokers of a discovery group. Blocks for one announcement interval.

    Raises:
        JmsError: No broker was announced, or no broker may receive the login.
    """
    uris = _uris(group)
    addresses = [address for address in [discovered_address(uri, url) for uri in uris] if address is not None]
    usable = [address for address in addresses if may_send_login(address, url, tls)]
    if usable:
        for address in usable[:MAX_ADDRESSES]:
            logger.info("Adding new broker connection URL: %s", address.url)
        return tuple(usable[:MAX_ADDRESSES])
    if addresses:
        raise JmsError(
            f"none of {len(addresses)} discovered brokers may be sent the login: they are not verified by TLS with a "
            "trust store; add sendLoginToDiscovered=true to send it all the same"
        )
    raise JmsError(f"no broker was discovered in {group.description}")


def may_send_login(address: BrokerAddress, url: BrokerUrl, tls: ClientTlsSettings | None) -> bool:
    """Return True if there is no login to send, or the address may receive the login."""
    settings = url.settings
    if url.sends_login or (settings.user_name is None and settings.password is None):
        return True
    return address.is_secure and tls is not None and tls.trust_store is not None and tls.verify_host_name


def _uris(group: AgentSettings) -> list[str]:
    """Return the announced URIs, unchecked. Raises `JmsError`."""
    if isinstance(group, ZeroconfSettings) and not has_extra(name_of(group)):
        logger.info("the extra zeroconf is not installed: searching for brokers of %s by multicast", group.description)
        group = MulticastSettings(group=group.group)
    if not isinstance(group, MulticastSettings):
        try:
            return find_uris(group)
        except ConfigurationError as missing:
            raise JmsError(str(missing)) from missing
    try:
        return _listen(group)
    except OSError as error:
        raise JmsError(f"cannot join {group.host}:{group.port} for discovery: {error.strerror or error}") from error


def _listen(group: MulticastSettings) -> list[str]:
    """Return the URIs announced by multicast, without the brokers with an announced end."""
    uris: dict[str, None] = {}
    end = time.monotonic() + group.keep_alive_ms / 1000 + GRACE
    with join_group(group) as joined:
        for _ in range(MAX_BEACONS):
            remaining = end - time.monotonic()
            if remaining <= 0 or not select.select([joined], [], [], remaining)[0]:
                break
            beacon = decode_beacon(joined.recv(MAX_DATAGRAM_BYTES + 1), group.group)
            if beacon is None:
                continue
            if not beacon.alive:
                uris.pop(beacon.uri, None)
            else:
                uris[beacon.uri] = None
    return list(uris)
