"""Brokers inside a program: `start_broker` in the caller's loop, and the brokers of ``vm:`` URLs.

    async with await start_broker(configuration) as broker:
        connection = await aio.connect(broker.vm_url)

`spanwire.service.embedding.broker_thread.BrokerThread` is a broker in a thread; `spanwire.testing` has convenient
brokers for tests. The client finds `connect` through `spanwire.registry`, so a broker is loaded only if a
program opens such a URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spanwire.client.protocol.transport.in_process import InProcessTransport
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
    """Start a broker in the running loop; stop with `EmbeddedBroker.stop` or use ``async with``.

    ``configuration`` may be the path of an XML or TOML file, as for `spanwire start`. Code blocking the loop, such
    as a blocking client, blocks the broker. Raises the errors of `EmbeddedBroker.start`.

    Raises:
        ConfigurationError: the file cannot be honoured.
    """
    if not isinstance(configuration, BrokerConfiguration):
        configuration = load_configuration(str(configuration))
    broker = EmbeddedBroker(configuration, directory, allow_anonymous=allow_anonymous)
    await broker.start()
    return broker


def connect(url: str, options: Mapping[str, str]) -> InProcessTransport:
    """Connect to the broker named in ``url``, created on demand in the process unless ``create=false``.

    Returns at once. A broker created here stops after the last client of the process; until then the options of the
    first client apply.

    Raises:
        JmsError: the URL cannot be honoured.
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
    """Connect to a broker found a moment ago."""
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
