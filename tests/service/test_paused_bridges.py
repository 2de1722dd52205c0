"""The names of paused bridges from a newer Spanwire: the broker does not start, and an operator creates no bridge."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.children.paused_bridges import FILE_NAME, FORMAT
from spanwire.service.config.loading import load_configuration
from spanwire.service.service import BrokerService
from tests.service.test_refusals import refused
from tests.support.ports import free_port

NEWER: Final = json.dumps({"format": FORMAT + 1, "paused": {"b": "until Monday"}})
TEXT: Final = """
<beans>
  <broker brokerName="paused" dataDirectory="{data}" persistent="false">
    <transportConnectors><transportConnector uri="tcp://127.0.0.1:{port}"/></transportConnectors>
    {bridges}
  </broker>
  {bean}
</beans>
"""
BEAN: Final = """
<bean id="far" class="org.apache.activemq.ActiveMQConnectionFactory">
  <property name="brokerURL" value="tcp://127.0.0.1:1"/>
</bean>
"""
BRIDGES: Final = """
<jmsBridgeConnectors>
  <jmsQueueConnector outboundQueueConnectionFactory="#far">
    <outboundQueueBridges><outboundQueueBridge outboundQueueName="B" localQueueName="A"/></outboundQueueBridges>
  </jmsQueueConnector>
</jmsBridgeConnectors>
"""
CREATED: Final = {
    "definition": '[bridges.b]\nsourceConnectionFactory = "vm:"\nsourceDestination = "queue://A"\n'
    'targetConnectionFactory = "tcp://127.0.0.1:1"\ntargetDestination = "queue://B"\n',
    "format": "toml",
    "file": "b.toml",
    "replace": False,
}


def written(directory: Path, bridges: str) -> tuple[Path, Path]:
    """A configuration, and the names of paused bridges in its data directory."""
    configuration, names = directory / "activemq.xml", directory / "data" / FILE_NAME
    names.parent.mkdir()
    names.write_text(NEWER, "utf-8")
    text = TEXT.format(data=names.parent, port=free_port(), bridges=bridges, bean=BEAN if bridges else "")
    configuration.write_text(text, "utf-8")
    return configuration, names


class Watched:
    """A connector that notes its start."""

    def __init__(self, connector: Any) -> None:
        self._connector: Final = connector
        self.starts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    async def start(self, *arguments: Any) -> None:
        self.starts += 1
        await self._connector.start(*arguments)


def service_of(configuration: Path) -> BrokerService:
    return BrokerService(load_configuration(str(configuration), environment={}), configuration.parent / "data")


def test_a_broker_with_bridges_refuses_names_of_a_newer_spanwire_in_one_line(tmp_path: Path) -> None:
    configuration, names = written(tmp_path, BRIDGES)
    assert f"{names} has the format 2 of a newer Spanwire" in refused(str(configuration))
    assert names.read_text("utf-8") == NEWER


def test_names_of_a_newer_spanwire_are_refused_before_a_connector_accepts(tmp_path: Path) -> None:
    configuration, _ = written(tmp_path, BRIDGES)

    async def scenario() -> None:
        service = service_of(configuration)
        watched = service.connectors[0] = Watched(service.connectors[0])  # type: ignore[call-overload]
        with pytest.raises(ConfigurationError, match="of a newer Spanwire"):
            await service.start()
        assert watched.starts == 0

    asyncio.run(scenario())


def test_an_operator_creates_no_bridge_beside_names_of_a_newer_spanwire(tmp_path: Path) -> None:
    configuration, names = written(tmp_path, "")

    async def scenario() -> None:
        service = service_of(configuration)
        await service.start()
        try:
            for _ in range(2):
                with pytest.raises(ConfigurationError, match="of a newer Spanwire"):
                    await service._bridges.operations()["bridge-create"](CREATED)
                assert service._bridges.rows() == []
                assert service._bridges._child is None
            with pytest.raises(ConfigurationError, match="this broker has no bridges"):
                await service._bridges.operations()["bridge-pause"]({"bridges": ["b"]})
        finally:
            await service.stop()
        assert names.read_text("utf-8") == NEWER

    asyncio.run(scenario())
