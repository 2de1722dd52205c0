"""Addresses behind NAT: what a broker announces is where others reach it, not where it listens."""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from typing import Final

import pytest

from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from spanwire.testing.wire import Wire
from tests.support.client_shells import SHELLS, opened
from tests.support.ports import free_port

WAIT_S: Final = 30.0
SILENT: Final = "wireFormat.maxInactivityDuration=0"
POLICY: Final = """
<publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy="IPADDRESS">
  <portMapping><entry key="{port}" value="{published}"/></portMapping>
</publishedAddressPolicy></publishedAddressPolicy>"""
TEXT: Final = """
<broker brokerName="{name}" persistent="false">{links}<transportConnectors>
  <transportConnector uri="tcp://localhost:{port}" {more}>{policy}</transportConnector>
</transportConnectors></broker>"""


@pytest.mark.parametrize("shell", SHELLS)
def test_clients_learn_the_published_address(shell: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(published: str) -> None:
        connection = await opened(shell, f"failover:(tcp://127.0.0.1:{port}?{SILENT})?initialReconnectDelay=10")
        told = f"Adding new broker connection URL: {published}"
        assert await asyncio.to_thread(wait_until, lambda: told in caplog.messages, WAIT_S)
        await connection.close()

    port = free_port()
    caplog.set_level(logging.INFO)
    with Wire(lambda: port) as wire:
        policy = POLICY.format(port=port, published=wire.port)
        text = TEXT.format(name="nat", links="", port=port, more='updateClusterClients="true"', policy=policy)
        with Broker(text, keep_ports=True):
            asyncio.run(scenario(wire.url))


def test_other_brokers_find_the_published_address() -> None:
    port, registry = free_port(), f"http://127.0.0.1:{free_port()}/discovery-registry/nat"
    agent = f'discoveryUri="{registry}?updateInterval=200&amp;startEmbeddRegistry=true"'
    connector = f'<networkConnector uri="{registry}?updateInterval=200&amp;initialReconnectDelay=100"/>'
    with Wire(lambda: port) as wire:
        policy = POLICY.format(port=port, published=wire.port)
        links = f"<networkConnectors>{connector}</networkConnectors>"
        with (
            Broker(TEXT.format(name="far", links="", port=port, more=agent, policy=policy), keep_ports=True),
            Broker(TEXT.format(name="near", links=links, port=0, more="", policy="")) as near,
        ):
            assert wait_until(lambda: any(link["state"] == "running" for link in near.links()), WAIT_S)
            with urllib.request.urlopen(registry, timeout=WAIT_S) as answer:
                assert answer.read().decode().split() == [wire.url]
