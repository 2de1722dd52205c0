"""A configuration file that changes while its broker runs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from spanwire.broker.broker import Broker
from spanwire.model.destination import parse_destination
from spanwire.model.errors import AuthenticationError, ConfigurationError, SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration, PersistenceConfiguration
from spanwire.service.service import BrokerService
from spanwire.transports.base import ConnectorSettings
from tests.service.started import Started, spanwire

FILE = """\
<broker brokerName="changing" persistent="false" {attributes}>
  <destinationPolicy><policyEntries>{policies}</policyEntries></destinationPolicy>
  <networkConnectors>{links}</networkConnectors>
  <plugins>
    <runtimeConfigurationPlugin checkPeriod="{period}"/>
    <simpleAuthenticationPlugin {anonymous}>
      <users><authenticationUser username="ann" password="{password}" groups="staff"/></users>
    </simpleAuthenticationPlugin>
  </plugins>
  <transportConnectors><transportConnector name="all" uri="tcp://{host}:0"/></transportConnectors>
</broker>
"""
POLICIES = (
    "policies of <destinationPolicy>: changed; existing queues and topics keep order, dispatch, groups, recovery, "
    "eviction and slow consumers, and begin no advisories about messages"
)
SECRET = "unguessable"
LINK = '<networkConnector name="{}" uri="static:(tcp://127.0.0.1:{})"/>'
PATIENCE_S = 30.0


class Changing:
    """A broker in this process and its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.service = BrokerService(self.read(), None, reread=self.read)
        self._age = 0

    @property
    def broker(self) -> Broker:
        return self.service.broker

    def read(self) -> BrokerConfiguration:
        return load_configuration(str(self.path), environment={})

    def becomes(self, **parts: str) -> None:
        """The file is written anew, with another time of change, however coarse the file system's clock is."""
        write(self.path, **parts)
        self._age += 1
        os.utime(self.path, ns=(self.path.stat().st_mtime_ns + self._age * 10**9,) * 2)

    async def reloads(self, **parts: str) -> list[str]:
        self.becomes(**parts)
        return await self.service.reload({})

    def links(self) -> list[object]:
        return [link["name"] for link in self.service.links()]


class Silent:
    """Duck-typed to `spanwire.broker.ports.ClientConnection`: a connection that says nothing."""

    def close_with(self, error: SpanwireError) -> None:
        pass

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        pass


def write(path: Path, **parts: str) -> None:
    values = {**dict.fromkeys(("attributes", "policies", "links", "anonymous"), ""), "period": "0"}
    path.write_text(FILE.format(**{**values, "password": SECRET, "host": "127.0.0.1", **parts}), "utf-8")


def played(directory: Path, play: Callable[[Changing], Awaitable[None]], **parts: str) -> None:
    """Play with a broker that runs with such a file."""
    path = directory / "activemq.xml"
    write(path, **parts)

    async def run() -> None:
        changing = Changing(path)
        await changing.service.start()
        try:
            await play(changing)
        finally:
            await changing.service.stop()

    asyncio.run(run())


def limit_of(broker: Broker, name: str) -> int:
    home = broker.find_destination(parse_destination(name))
    assert home is not None
    return home.usage.limit_bytes


def test_a_changed_file_is_taken_over_line_by_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(changing: Changing) -> None:
        changing.broker.configure_destination(parse_destination("queue://A"))
        assert await changing.reloads(links=LINK.format("n", 1)) == []
        assert await changing.reloads(
            policies='<policyEntry queue="A" memoryLimit="1mb"/>',
            links=LINK.format("n", 2) + LINK.format("m", 3),
            attributes='schedulerSupport="true"',
        ) == [
            "network connector n: changed, its links start anew",
            "network connector m: added",
            POLICIES,
            "schedulerSupport: changed, takes effect at the next start",
        ]
        assert limit_of(changing.broker, "queue://A") == 1024 * 1024
        assert changing.links() == ["n", "m"]
        assert await changing.reloads() == [
            "network connector m: removed",
            "network connector n: removed",
            POLICIES,
        ]
        assert changing.links() == []
        assert limit_of(changing.broker, "queue://A") == 0

    with caplog.at_level(logging.INFO, "spanwire.service.runtime_configuration"):
        played(tmp_path, play, links=LINK.format("n", 1))
    path = tmp_path / "activemq.xml"
    assert f"{path}: nothing has changed" in caplog.messages
    assert caplog.messages.count(f"{path}: network connector m: removed") == 1


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"policies": '<policyEntry queue="A" memoryLimt="1mb"/>'}, "activemq.xml:2: unknown attribute"),
        ({"policies": "<policyEntry"}, "activemq.xml:2"),
        ({"attributes": 'brokerId="b" useJmx="maybe"'}, "activemq.xml:1: useJmx of <broker>"),
    ],
)
def test_an_error_in_the_file_changes_nothing_and_says_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, parts: dict[str, str], expected: str
) -> None:
    async def play(changing: Changing) -> None:
        changing.broker.configure_destination(parse_destination("queue://A"))
        with pytest.raises(ConfigurationError, match=expected):
            await changing.reloads(**{"links": LINK.format("n", 1), **parts})
        assert changing.links() == []
        assert limit_of(changing.broker, "queue://A") == 0
        runtime = changing.service.runtime
        assert runtime is not None
        changing.becomes(**parts)
        await runtime.check_file()
        assert await changing.reloads(links=LINK.format("n", 1))
        assert changing.links() == ["n"]

    played(tmp_path, play)
    assert any(f"stays as it was: {tmp_path}/{expected}" in line for line in caplog.messages)


def test_users_change_and_those_who_are_there_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def logs_in(changing: Changing, password: str) -> bool:
        info = ConnectionInfo(f"ID:{password}:1", None, "ann", password)
        try:
            changing.broker.add_connection(Silent(), info, changing.service.environment.now())
        except AuthenticationError:
            return False
        return True

    async def play(changing: Changing) -> None:
        assert logs_in(changing, SECRET)
        lines = await changing.reloads(password="another one")
        assert lines == ["users: changed, applies to new logins"]
        assert logs_in(changing, "another one")
        assert not logs_in(changing, SECRET)

    with caplog.at_level(logging.DEBUG):
        played(tmp_path, play)
    assert not any(SECRET in line or "another one" in line for line in caplog.messages)


def test_a_change_does_not_open_to_others_what_a_start_would_not(tmp_path: Path) -> None:
    async def play(changing: Changing) -> None:
        with pytest.raises(ConfigurationError, match=r"would open tcp://0\.0\.0\.0:[0-9]+ to other machines"):
            await changing.reloads(
                host="0.0.0.0", anonymous='anonymousAccessAllowed="true"', policies='<policyEntry queue="A"/>'
            )
        assert await changing.reloads(host="0.0.0.0") == []

    played(tmp_path, play, host="0.0.0.0")


async def until(true: Callable[[], bool]) -> None:
    """Waits for it, with a limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not true() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert true()


def test_a_link_comes_up_and_ends_with_its_connector(tmp_path: Path) -> None:
    other = BrokerConfiguration(
        broker_name="other",
        connectors=(ConnectorSettings(name="a", scheme="tcp", host="127.0.0.1", port=0, protocol="openwire"),),
        persistence=PersistenceConfiguration(persistent=False),
    )

    async def play(changing: Changing) -> None:
        service = BrokerService(other, None)
        await service.start()
        try:
            link = LINK.format("n", service.connectors[0].port)
            await changing.reloads(links=link.replace("uri=", f'userName="ann" password="{SECRET}" uri='))
            await until(lambda: [link["state"] for link in changing.service.links()] == ["running"])
            await until(lambda: len(service.broker.connection_views()) == 1)
            assert await changing.reloads() == ["network connector n: removed"]
            await until(lambda: not service.broker.connection_views())
        finally:
            await service.stop()

    played(tmp_path, play)


def test_another_name_is_another_broker(tmp_path: Path) -> None:
    async def play(changing: Changing) -> None:
        text = changing.path.read_text("utf-8").replace('"changing"', '"changed"')
        changing.path.write_text(text, "utf-8")
        with pytest.raises(ConfigurationError, match="brokerName is another one: restart the broker for that"):
            await changing.service.reload({})

    played(tmp_path, play)


def test_the_file_is_looked_at_every_period(tmp_path: Path) -> None:
    async def play(changing: Changing) -> None:
        changing.becomes(links=LINK.format("n", 1), period="20")
        await until(lambda: changing.links() == ["n"])

    played(tmp_path, play, period="20")


def test_the_command_and_the_signal_reload(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        before = broker.configuration.read_text("utf-8")
        policies = '<destinationPolicy><policyEntries><policyEntry queue="A"/></policyEntries></destinationPolicy>'
        after = before.replace("</transportConnectors>", f"</transportConnectors>{policies}")
        broker.configuration.write_text(after, "utf-8")
        told = spanwire("reload", "--data-directory", str(broker.data))
        assert told.stdout.splitlines() == [POLICIES]
        broker.configuration.write_text(before.replace("dataDirectory", "dataDirectori"), "utf-8")
        told = spanwire("reload", "--data-directory", str(broker.data))
        assert told.returncode == 1
        assert (
            "activemq.xml:1: unknown attribute of <broker> 'dataDirectori'; did you mean dataDirectory?" in told.stderr
        )
        broker.configuration.write_text(before, "utf-8")
        broker.signal(signal.SIGHUP)
        broker.awaits("policies of", 2)
        assert broker.stop() == 0
