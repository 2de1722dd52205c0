"""Brokers inside a program: `start_broker` in the caller's loop, and what ``vm:`` URLs stand for.

    async with await start_broker(configuration) as broker:
        connection = await aio.connect(broker.vm_url)

A broker with a thread of its own is `spanwire.service.embedding.broker_thread.BrokerThread`; tests have more
comfortable ones in `spanwire.testing`. The client finds `connect` through `spanwire.registry`, so that it loads a
broker only if a program opens such a URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spanwire.client.ports import InProcessTransport
from spanwire.model.errors import JmsError
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.embedding.broker_thread import TransientBroker
from spanwire.service.embedding.embedded_broker import IN_PROCESS, EmbeddedBroker
from spanwire.service.embedding.vm_url import VmUrl, parse_vm_url
from spanwire.transports.vm import VmClient


async def start_broker(
    configuration: BrokerConfiguration | str | Path, directory: Path | None = None, *, allow_anonymous: bool = False
) -> EmbeddedBroker:
    """A started broker in the running loop; stop it with `EmbeddedBroker.stop` or use it in ``async with``.

    ``configuration`` may be what `spanwire start` takes, the path of an XML or TOML file. The loop must go on turning:
    what blocks it, such as a blocking client, blocks the broker. Raises as `EmbeddedBroker.start`, and
    `ConfigurationError` for a file that cannot be honoured.
    """
    if not isinstance(configuration, BrokerConfiguration):
        configuration = load_configuration(str(configuration))
    broker = EmbeddedBroker(configuration, directory, allow_anonymous=allow_anonymous)
    await broker.start()
    return broker


def connect(url: str, options: Mapping[str, str]) -> InProcessTransport:
    """A connection to the broker of this process that ``url`` names, made on demand unless ``create=false``.

    Returns at once; raises `JmsError` for a URL that cannot be honoured. A broker that is made here stops when its last
    client of this process has gone; until then the URL's options are those of its first client.
    """
    target = parse_vm_url(url, options)
    if IN_PROCESS.find(target.name) is not None:
        return VmClient(target.address, lambda client: _join(target, client))
    if not target.create:
        if target.wait_seconds <= 0:
            raise JmsError(
                f"{target.address}: no broker of this name runs in this process; start one, or leave create=false out"
            )
        return VmClient(target.address, lambda client: IN_PROCESS.expect(target.name, client, target.wait_seconds))
    configuration = target.configuration()
    return VmClient(target.address, lambda client: _find_or_make(target, configuration, client))


def _join(target: VmUrl, client: VmClient) -> None:
    """Connect to a broker that was there a moment ago."""
    broker = IN_PROCESS.find(target.name)
    if broker is not None and broker.accept(client):
        return
    if not target.create:
        client.closed("the broker has stopped")
        return
    try:
        configuration = target.configuration()
    except JmsError as error:
        client.closed(str(error))
        return
    _find_or_make(target, configuration, client)


def _find_or_make(target: VmUrl, configuration: BrokerConfiguration, client: VmClient) -> None:
    broker, is_new = IN_PROCESS.find_or_enter(
        target.name, lambda: EmbeddedBroker(configuration, allow_anonymous=target.allow_anonymous)
    )
    if not broker.accept(client):
        IN_PROCESS.leave(broker)
        _find_or_make(target, configuration, client)
    elif is_new:
        TransientBroker(broker, lambda late: _find_or_make(target, configuration, late)).start()
