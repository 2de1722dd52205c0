"""`spanwire bridge create`: the bridge is there after `kill -9` and a take-over, and gone after its deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.cli.main import main
from spanwire.testing import Broker
from tests.service.started import TIMEOUT_S, Started
from tests.service.test_moves import killed
from tests.service.test_networks import eventually
from tests.service.test_standby import Waiting

SHOVEL: Final = """\
[connectionFactories.far]
url = "{far}"
userName = "u"
password = "{password}"
[bridges.shovel]
sourceConnectionFactory = "{near}"
sourceDestination = "queue://A"
targetConnectionFactory = "far"
targetDestination = "queue://{target}"
"""
ROUTE: Final = "- route: {id: route, from: {uri: 'activemq:queue:R', steps: [{to: 'activemq:queue:R.OUT'}]}}\n"
VARIABLE: Final = "{{env:SPANWIRE_BRIDGE_PASSWORD}}"


class Shovels:
    """A broker, another one behind its bridges, and the commands of an operator."""

    def __init__(self, broker: Started, far: Broker, directory: Path) -> None:
        self.broker: Final = broker
        self._far: Final = far
        self._directory: Final = directory
        self.here: Final = ["--data-directory", str(broker.data)]

    def create(self, target: str = "B", password: str = VARIABLE, *words: str) -> int:
        file = self._directory / "shovel.toml"
        text = SHOVEL.format(far=self._far.url, near=self.broker.broker_url, password=password, target=target)
        file.write_text(text)
        return main(["bridge", "create", str(file), *words, *self.here])

    def states(self) -> dict[object, object]:
        return {row["name"]: row["state"] for row in self.broker.network("bridges")}

    def crosses(self, text: str, target: str = "B") -> bool:
        """Whether a message that is sent here arrives there, also behind one that a kill lets come again."""
        with client.connect(self.broker.broker_url) as connection, connection.session() as session:
            session.create_producer("queue://A").send(text)
        with client.connect(self._far.url) as connection, connection.session() as session:
            consumer = session.create_consumer(f"queue://{target}")
            while (message := consumer.receive(TIMEOUT_S)) is not None:
                if message.text == text:
                    return True
        return False


def test_a_created_bridge_outlives_kill_9_until_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPANWIRE_BRIDGE_PASSWORD", "canary")
    with Started(tmp_path / "a") as broker, Broker() as far:
        shovels = Shovels(broker, far, tmp_path)
        assert shovels.create() == 0
        assert "bridge shovel: created, queue://A at tcp://127.0.0.1" in capsys.readouterr().out
        assert shovels.crosses("first")
        killed(broker)
        assert shovels.crosses("second")
        assert shovels.create("C", VARIABLE, "--replace") == 0
        killed(broker)
        assert shovels.crosses("third", "C")
        assert not any(b"canary" in file.read_bytes() for file in broker.data.rglob("*") if file.is_file())
        assert main(["bridge", "delete", "shovel", *shovels.here]) == 0
        assert "bridge shovel: deleted" in capsys.readouterr().out
        assert eventually(lambda: shovels.states() == {})
        killed(broker)
        assert shovels.states() == {}


def test_a_bridge_with_a_password_in_clear_lasts_until_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Started(tmp_path / "a") as broker, Broker() as far:
        shovels = Shovels(broker, far, tmp_path)
        assert shovels.create(password="canary") == 0
        assert "bridge shovel lasts until the next start only: its password is not kept" in capsys.readouterr().out
        assert shovels.crosses("first")
        killed(broker)
        assert shovels.states() == {}
        assert not any("canary" in line for line in broker.errors)  # the audit log is a part of the log


def test_parameters_of_a_bridge_are_shown_and_set_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPANWIRE_BRIDGE_PASSWORD", "canary")
    with Started(tmp_path / "a") as broker, Broker() as far:
        shovels = Shovels(broker, far, tmp_path)
        assert shovels.create() == 0
        assert shovels.crosses("first")
        capsys.readouterr()
        settings = ["addMessageIDInHeader=true", "maxBatchSize=7"]
        assert main(["bridge", "parameters", "shovel", *settings, *shovels.here]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert {"maxBatchSize = 7", "targetPassword = ****", "targetUsername = u"} <= set(printed)
        assert eventually(lambda: shovels.states() == {"shovel": "running"})
        with client.connect(broker.broker_url) as connection, connection.session() as session:
            session.create_producer("queue://A").send("second")
        with client.connect(far.url) as connection, connection.session() as session:
            message = session.create_consumer("queue://B").receive(TIMEOUT_S)
            assert message is not None
            assert "ACTIVEMQ_BRIDGE_MSG_ID_LIST" in message.properties
        bean = "connector=jmsConnectors,jmsConnectors=shovel"
        assert main(["query", "--objname", bean, *shovels.here]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert {"MaxBatchSize = 7", "TargetPassword = ****", "AbortedMessageCount = 0"} <= set(printed)
        killed(broker)
        assert main(["bridge", "parameters", "shovel", *shovels.here]) == 0
        assert "maxBatchSize = 500" in capsys.readouterr().out
        assert not any("canary" in line for line in broker.errors)


def test_a_created_route_is_paused_and_a_standby_has_it(tmp_path: Path) -> None:
    file = tmp_path / "route.yaml"
    file.write_text(ROUTE)
    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        here = ["--data-directory", str(master.data)]
        assert main(["bridge", "create", str(file), *here]) == 0
        assert main(["bridge", "pause", "route", *here]) == 0
        assert [main(["bridge", command, "nope", *here]) for command in ("status", "pause", "parameters")] == [1, 1, 1]
        master.kill()
        standby.takes_over()
        (row,) = master.network("bridges")  # asked over the socket in the directory that both have
        assert (row["name"], row["state"]) == ("route", "paused")
