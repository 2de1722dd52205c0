"""Tries the remote brokers of network connectors: resolve, connect, log in, read advisories.

A check sends no message.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from spanwire.client import blocking
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import SpanwireError
from spanwire.network.connector.link import NetworkConnectorSettings, RemoteAddress
from spanwire.network.demand.bridge_settings import CONSUMER_ADVISORIES, BridgeSettings

ANSWER_MS: Final = 10_000  # for the socket and TLS, for the answer to the login, and for that to the subscription
CLOSE_MS: Final = 2_000  # for the answer to the end of the connection
MOST_AT_ONCE: Final = 16  # addresses tried at the same time; a file with many dead ones still ends soon


@dataclass(frozen=True, slots=True)
class RemoteCheck:
    """The outcome for one address: one line, and whether a link could be made."""

    text: str
    is_usable: bool


def check_remotes(connectors: Sequence[NetworkConnectorSettings]) -> list[RemoteCheck]:
    """Return one outcome for each address of the connectors, in order.

    The checks take at most some 32 s for 16 addresses.
    """
    listed = [
        (connector, address)
        for connector in connectors
        for remote in connector.remotes
        for address in (remote, *remote.others)
    ]
    with ThreadPoolExecutor(MOST_AT_ONCE) as threads:
        outcomes = list(threads.map(lambda pair: _check(*pair), listed))
    found = [
        RemoteCheck(f"{_place(connector)}: the brokers that its agent would find are not tried", True)
        for connector in connectors
        if connector.discovery is not None
    ]
    return outcomes + found


def _check(connector: NetworkConnectorSettings, address: RemoteAddress) -> RemoteCheck:
    bridge = connector.bridge
    scheme = address.uri.partition(":")[0]
    host = f"[{address.host}]" if ":" in address.host else address.host
    shown = f"{scheme}://{host}:{address.port}"
    waits = f"connectionTimeout={ANSWER_MS}&jms.connectResponseTimeout={ANSWER_MS}&jms.closeTimeout={CLOSE_MS}"
    url = f"{shown}?{waits}"
    user, password = _login(bridge)
    try:
        with blocking.connect(url, user, password, None, address.tls) as connection:
            broker = connection.broker_name
            if not bridge.static_bridge:
                with connection.session() as session:
                    advisories = Destination(TOPIC, f"{CONSUMER_ADVISORIES}>")
                    session.create_consumer(advisories, prefetch=1, timeout=ANSWER_MS / 1000)
    except SpanwireError as error:
        return RemoteCheck(f"{_place(connector)}: {shown}: {' '.join(str(error).split())}", False)
    as_whom = "without a login" if user is None else f"as {user}"
    read = "" if bridge.static_bridge else "; advisories of its consumers can be read"
    return RemoteCheck(f"{_place(connector)}: {shown}: broker {broker} lets in {as_whom}{read}", True)


def _login(bridge: BridgeSettings) -> tuple[str | None, str | None]:
    """Return the login at the remote end."""
    user, secret = bridge.remote_user_name, bridge.remote_password
    if user is None:
        user, secret = bridge.user_name, bridge.password
    return user, None if secret is None else secret.reveal()


def _place(connector: NetworkConnectorSettings) -> str:
    return f"line {connector.line}, network connector {connector.bridge.name}"
