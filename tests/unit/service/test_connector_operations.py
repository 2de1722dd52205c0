"""Transport connectors that operators add and remove: names, number, addresses, counters."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.administration.connector_operations import MAX_CONNECTORS, ConnectorOperations, connector_maker
from spanwire.transports.admission import Admission
from spanwire.transports.connector import TransportConnector


class Operated:
    """Operations on connectors that are opened without a socket."""

    def __init__(self) -> None:
        self.connectors: list[TransportConnector] = []
        self.opened: list[str] = []
        self.slowly = asyncio.Event()
        self.slowly.set()
        self.operations = ConnectorOperations(
            self.connectors, self.open, lambda connector: None, connector_maker(None, Admission())
        )

    async def open(self, connector: TransportConnector) -> None:
        await self.slowly.wait()
        if connector.settings.host == "0.0.0.0":
            raise ConfigurationError("without users only this machine may connect")
        if connector.settings.port == 0:
            await connector.bind()
        self.opened.append(connector.uri)

    def add(self, uri: object, name: object = None) -> list[dict[str, object]]:
        return asyncio.run(self.operations.add({"uri": uri, "name": name}))


def test_an_added_connector_is_opened_under_its_name_or_address() -> None:
    operated = Operated()
    assert operated.add("stomp://127.0.0.1:61613")[0]["name"] == "stomp://127.0.0.1:61613"
    assert operated.add("tcp://127.0.0.1:1?wireFormat.maxFrameSize=1048576", "own")[0]["name"] == "own"
    assert operated.opened == ["stomp://127.0.0.1:61613", "tcp://127.0.0.1:1"]
    assert [connector.settings.max_frame_size for connector in operated.connectors][1] == 1_048_576


@pytest.mark.parametrize(
    ("uri", "name", "text"),
    [
        ("tcp://127.0.0.1", None, "names no port"),
        ("pigeon://127.0.0.1:1", None, "unknown transport"),
        ("vm://tested", None, "need no connector"),
        ("ENC(abc)", None, "is encrypted"),
        ("tcp://127.0.0.1:1", "", "texts"),
        (7, None, "texts"),
        ("tcp://0.0.0.0:1", None, "only this machine"),
    ],
)
def test_a_refused_connector_leaves_nothing(uri: object, name: object, text: str) -> None:
    operated = Operated()
    with pytest.raises(ConfigurationError, match=text):
        operated.add(uri, name)
    assert operated.connectors == []


def test_a_name_is_given_once_and_the_number_is_bounded() -> None:
    operated = Operated()
    operated.add("tcp://127.0.0.1:1", "own")
    with pytest.raises(ConfigurationError, match="there is a connector own already"):
        operated.add("tcp://127.0.0.1:2", "own")
    for number in range(MAX_CONNECTORS - 1):
        operated.add(f"tcp://127.0.0.1:{number + 2}")
    with pytest.raises(ConfigurationError, match="there are 100 connectors"):
        operated.add("tcp://127.0.0.1:500")


def test_a_removed_connector_is_forgotten() -> None:
    operated = Operated()
    operated.add("tcp://127.0.0.1:1", "own")
    rows = asyncio.run(operated.operations.remove({"connectors": ["own"]}))
    assert [row["name"] for row in rows] == ["own"]
    assert operated.connectors == []
    with pytest.raises(ConfigurationError, match="unknown connector own"):
        asyncio.run(operated.operations.remove({"connectors": ["own"]}))


def test_the_counters_of_a_connector_are_reset() -> None:
    operated = Operated()
    operated.add("tcp://127.0.0.1:1", "own")
    connector = operated.connectors[0]
    connector.accepted, connector.refused, connector.connection_count = 5, 2, 1
    (row,) = asyncio.run(operated.operations.reset({"connectors": ["own"]}))
    assert {name: row[name] for name in ("connections_ever", "refused", "connections")} == {
        "connections_ever": 0, "refused": 0, "connections": 1,
    }  # fmt: skip


def test_a_connector_that_is_removed_while_it_opens_listens_no_more() -> None:
    async def scene() -> None:
        operated = Operated()
        operated.slowly.clear()
        adding = asyncio.ensure_future(operated.operations.add({"uri": "tcp://127.0.0.1:0", "name": "own"}))
        await asyncio.sleep(0)
        (connector,) = operated.connectors
        await operated.operations.remove({"connectors": ["own"]})
        operated.slowly.set()
        with pytest.raises(ConfigurationError, match="connector own has been removed meanwhile"):
            await adding
        assert operated.connectors == []
        assert_closed(operated, connector)

    asyncio.run(scene())


def test_a_connector_that_fails_to_open_after_its_removal_tells_the_fault() -> None:
    async def scene() -> None:
        operated = Operated()
        operated.slowly.clear()
        adding = asyncio.ensure_future(operated.operations.add({"uri": "tcp://0.0.0.0:1", "name": "own"}))
        await asyncio.sleep(0)
        await operated.operations.remove({"connectors": ["own"]})
        operated.slowly.set()
        with pytest.raises(ConfigurationError, match="only this machine"):
            await adding

    asyncio.run(scene())


def test_a_connector_whose_removal_waits_for_its_clients_cannot_be_started() -> None:
    async def scene() -> None:
        operated = Operated()
        await operated.operations.add({"uri": "tcp://127.0.0.1:0", "name": "own"})
        (connector,) = operated.connectors
        connector.connection_count = 1  # a client that is slow to close
        removing = asyncio.ensure_future(operated.operations.remove({"connectors": ["own"]}))
        await asyncio.sleep(0)
        with pytest.raises(ConfigurationError, match="unknown connector own"):
            await operated.operations.start({"connectors": ["own"]})
        connector.connection_count = 0
        assert [row["name"] for row in await removing] == ["own"]
        assert_closed(operated, connector)

    asyncio.run(scene())


def test_a_connector_that_is_removed_while_it_starts_again_listens_no_more() -> None:
    async def scene() -> None:
        operated = Operated()
        await operated.operations.add({"uri": "tcp://127.0.0.1:0", "name": "own"})
        (connector,) = operated.connectors
        await operated.operations.stop({"connectors": ["own"]})
        operated.slowly.clear()
        starting = asyncio.ensure_future(operated.operations.start({"connectors": ["own"]}))
        await asyncio.sleep(0)
        await operated.operations.remove({"connectors": ["own"]})
        operated.slowly.set()
        with pytest.raises(ConfigurationError, match="connector own has been removed meanwhile"):
            await starting
        assert_closed(operated, connector)

    asyncio.run(scene())


def assert_closed(operated: Operated, connector: TransportConnector) -> None:
    assert operated.opened
    assert connector._listener is None
    assert not connector.is_started
