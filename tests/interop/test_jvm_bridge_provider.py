"""The provider for Java keeps the promises of all providers, with ActiveMQ's JMS client."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers.jvm.host import JvmHost
from spanwire.bridges.providers.jvm.provider import JvmProvider
from spanwire.model.destination import Destination
from spanwire.model.secret import Secret
from spanwire.service.machine.event_loop import loop_factory
from spanwire.testing import Broker
from tests.conformance.bridge_providers import (
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    LocalTransactionConformance,
    ProviderDriver,
    ReplyConformance,
    SelectorConformance,
    UnlimitedBatchConformance,
)
from tests.conformance.test_openwire_bridge_provider import SpanwireDriver
from tests.support.java_clients import ACTIVEMQ, activemq_jars
from tests.support.peers import require

WAIT_S: Final = 60.0
DEAD: Final = Destination(SOURCE.kind, f"{SOURCE.name}.DLQ")


def factory(url: str, jars: tuple[str, ...]) -> ConnectionFactory:
    return ConnectionFactory(url, provider="jvm", java=JavaFactory(ACTIVEMQ, (("brokerURL", Secret(url)),), jars=jars))


class JavaDriver(SpanwireDriver):
    """Spanwire, reached by ActiveMQ's client; what is beside the provider is our own client."""

    def __init__(self, broker: Broker, jars: tuple[str, ...]) -> None:
        super().__init__(broker)
        self._java: Final = factory(broker.url, jars)

    def provider(self) -> Provider:
        return JvmProvider()

    def source(self, selector: str | None = None) -> Source:
        return Source(self._java, SOURCE, selector)

    def target(self) -> Target:
        return Target(self._java, TARGET)

    def beginning(self) -> Target:
        return Target(self._java, SOURCE)

    def end(self) -> Source:
        return Source(self._java, TARGET)

    def dead_letters(self) -> list[str]:
        return self.texts(DEAD)


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    require("activemq-client", "jpype")
    return activemq_jars(tmp_path_factory.mktemp("jars"))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def driver(broker: Broker, jars: tuple[str, ...]) -> ProviderDriver:
    return JavaDriver(broker, jars)


@pytest.mark.long
class TestJvmProvider(
    BridgeProviderConformance,
    UnlimitedBatchConformance,
    SelectorConformance,
    ReplyConformance,
    LocalTransactionConformance,
):
    pass


@pytest.mark.long
def test_a_signal_for_all_processes_of_a_broker_ends_no_host(jars: tuple[str, ...]) -> None:
    """The loop of the bridges is uvloop where it is installed, whose children ignore no signal at first."""

    async def scenario() -> None:
        host = JvmHost(jars)
        await host.join(lambda header, blobs: None)
        assert host._process is not None
        lines = Path(f"/proc/{host._process.pid}/status").read_text(encoding="ascii").splitlines()
        ignored = int(next(line for line in lines if line.startswith("SigIgn:")).split()[1], 16)
        assert ignored & 1 << (signal.SIGHUP - 1)
        host._stop()
        assert host._task is not None
        await asyncio.gather(host._task, return_exceptions=True)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(asyncio.wait_for(scenario(), WAIT_S))
