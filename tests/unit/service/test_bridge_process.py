"""The process with a broker's bridges as a child: definitions in, reports and log lines out."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory, Source, Target
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.children.bridge_process import BridgeChildProcess, own_address
from spanwire.service.children.paused_bridges import FILE_NAME
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectorSettings
from spanwire.transports.connector import TransportConnector

WAIT_S: Final = 60.0
# Reports what it was told, and then lives until its input ends, or for ever.
CHILD: Final = """
import json, sys, time
first = json.loads(sys.stdin.readline())
source = first["bridges"][0]["source"]["factory"]
names = [bridge["name"] for bridge in first["bridges"]]
error = " ".join([source["url"], source["password"], *first["paused"]])
row = {"name": names[0], "state": "running", "since_ms": 5000, "received": 3, "failures": 2, "lag_ms": 1500}
print(json.dumps({"bridges": [{**row, "last_error": error}]}), flush=True)
log = {"level": "WARNING", "logger": "spanwire.bridges", "message": "a word\\nanother line"}
print(json.dumps(log), file=sys.stderr, flush=True)
MORE
"""
ENDS: Final = "sys.stdin.read()"
NEVER_ENDS: Final = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"


def bridge(name: str = "b", url: str = "vm:") -> BridgeDefinition:
    queue = Destination(QUEUE, "Q")
    factory = ConnectionFactory(url, "u", Secret("canary"))
    return BridgeDefinition(name, Source(factory, queue), Target(ConnectionFactory("tcp://h:1"), queue))


def connectors(*settings: ConnectorSettings) -> list[TransportConnector]:
    return [TransportConnector(one, Admission()) for one in settings]


def listening(host: str, protocol: str = "openwire", port: int = 61616) -> ConnectorSettings:
    return ConnectorSettings(name="c", scheme="tcp", host=host, port=port, protocol=protocol)


async def reported(process: BridgeChildProcess) -> dict[str, object]:
    async with asyncio.timeout(WAIT_S):
        while process.rows()[0]["state"] != "running":
            await asyncio.sleep(0)
    return process.rows()[0]


def process_of(more: str, directory: Path | None, stop_s: float = WAIT_S) -> BridgeChildProcess:
    command = [sys.executable, "-c", CHILD.replace("MORE", more)]
    return BridgeChildProcess([bridge()], directory, command=command, stop_s=stop_s, wall_ms=lambda: 65_000)


def test_a_row_has_what_the_child_reports(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def scenario() -> None:
        process = process_of(ENDS, tmp_path)
        assert (process.rows()[0]["state"], process.rows()[0]["source"]) == ("stopped", "queue://Q at vm:")
        process.start(connectors(listening("0.0.0.0")))
        row = await reported(process)
        assert (row["since_s"], row["received"], row["retries"], row["lag_s"], row["up"]) == (60, 3, 2, 1.5, True)
        assert row["last_error"] == "tcp://127.0.0.1:61616 canary"  # the child knows address and password
        await process.stop()
        await process.stop()

    asyncio.run(scenario())
    assert "has ended" not in caplog.text


def test_a_bridge_is_starting_until_the_child_reports_it_and_stopped_with_the_child() -> None:
    async def scenario() -> None:
        process = process_of(ENDS, None)
        process.start(connectors(listening("127.0.0.1")))
        assert states(process) == ["starting"]
        assert process.take(bridge("at-once"))["state"] == "starting"
        assert process.take(replace(bridge("later"), auto_start=False))["state"] == "paused"
        await reported(process)
        assert process.take(bridge("now"))["state"] == "starting"
        assert states(process) == ["running", "starting", "paused", "starting"]
        await process.stop()
        assert "starting" not in states(process)

    asyncio.run(scenario())


def test_a_bridge_that_was_never_reported_is_stopped_while_no_child_runs() -> None:
    async def scenario() -> None:
        command = [sys.executable, "-c", "import sys; sys.exit('broken')"]
        process = BridgeChildProcess([bridge()], None, command=command, stop_s=WAIT_S)
        process.start(connectors(listening("127.0.0.1")))
        assert states(process) == ["starting"]
        async with asyncio.timeout(WAIT_S):
            while states(process) != ["stopped"]:
                await asyncio.sleep(0.01)
        await process.stop()

    asyncio.run(scenario())


def states(process: BridgeChildProcess) -> list[object]:
    return [row["state"] for row in process.rows()]


def test_the_lines_of_the_childs_log_stand_in_the_brokers(caplog: pytest.LogCaptureFixture) -> None:
    class Line(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "spanwire.bridges":
                logged.set()

    logged = asyncio.Event()

    async def scenario() -> None:
        logging.getLogger().addHandler(handler)
        process = process_of(ENDS, None)
        process.start(connectors(listening("127.0.0.1")))
        await asyncio.wait_for(logged.wait(), WAIT_S)
        await process.stop()

    handler = Line()
    try:
        asyncio.run(scenario())
    finally:
        logging.getLogger().removeHandler(handler)
    assert ("spanwire.bridges", logging.WARNING, "a word?another line") in caplog.record_tuples


FOLLOWED: Final = """
for line in sys.stdin:
    for message_id in json.loads(line).get("name", ()):
        step = [message_id, "taken", "bridge b", "", "ID:there", 7 if first["follow"] else 5]
        print(json.dumps({"steps": [step]}), flush=True)
"""


def test_the_child_is_asked_for_the_steps_of_messages_while_the_broker_follows_any() -> None:
    class Receiver:
        def __init__(self) -> None:
            self.steps: Final[list[tuple[str, str, str, str, str, int]]] = []
            self.came: Final = asyncio.Event()

        def step_outside(self, message_id: str, step: str, place: str, cause: str, there: str, wall_ms: int) -> None:
            self.steps.append((message_id, step, place, cause, there, wall_ms))
            if len(self.steps) == 2:
                self.came.set()

    async def scenario() -> None:
        process, receiver = process_of(FOLLOWED, None), Receiver()
        context = BrokerContext(None)
        process.start(connectors(listening("127.0.0.1")), context)
        assert context.step_source is process
        process.follow(receiver)  # before the child runs, so its first line says it
        await reported(process)
        process.name("ID:1")
        process.name("ID:2")
        await asyncio.wait_for(receiver.came.wait(), WAIT_S)
        assert receiver.steps == [(f"ID:{number}", "taken", "bridge b", "", "ID:there", 7) for number in (1, 2)]
        process.follow(None)
        process.name("ID:3")
        await process.stop()
        assert len(receiver.steps) == 2

    asyncio.run(scenario())


def test_a_child_that_does_not_end_is_killed() -> None:
    async def scenario() -> None:
        process = process_of(NEVER_ENDS, None, stop_s=0.0)
        process.start(connectors(listening("127.0.0.1")))
        await reported(process)
        await process.stop()

    asyncio.run(scenario())


def test_a_broker_without_a_suitable_connector_starts_no_child(caplog: pytest.LogCaptureFixture) -> None:
    process = process_of(ENDS, None)
    process.start(connectors(listening("127.0.0.1", "stomp")))  # outside of a loop, where nothing could be started
    assert "this broker has no OpenWire connector without TLS" in caplog.text
    assert "bridges do not start: b: this broker has no OpenWire connector" in caplog.text
    assert "no OpenWire connector" in str(process.rows()[0]["last_error"])


def test_without_a_connector_the_bridges_between_other_brokers_start_with_the_broker() -> None:
    async def scenario() -> None:
        command = [sys.executable, "-c", CHILD.replace("MORE", ENDS)]
        process = BridgeChildProcess([bridge(), bridge("far", "tcp://far:1")], None, command=command, stop_s=WAIT_S)
        process.start(connectors(listening("127.0.0.1", "stomp")))
        async with asyncio.timeout(WAIT_S):
            while process.rows()[1]["state"] != "running":
                await asyncio.sleep(0)
        assert [row["state"] for row in process.rows()] == ["stopped", "running"]
        await process.stop()

    asyncio.run(scenario())


def test_without_a_connector_only_bridges_of_this_broker_do_not_run() -> None:
    async def scenario() -> None:
        process = process_of(ENDS, None)
        process.start(connectors(listening("127.0.0.1", "stomp")))
        process.take(bridge("far", "tcp://far:1"))
        async with asyncio.timeout(WAIT_S):
            while process.rows()[1]["state"] != "running":
                await asyncio.sleep(0)
        assert [row["state"] for row in process.rows()] == ["stopped", "running"]
        assert [row["name"] for row in await process.command("pause", {"bridges": ["far"]})] == ["far"]
        for names in (["b"], ["far", "b"]):
            with pytest.raises(ConfigurationError, match="no OpenWire connector"):
                await process.command("pause", {"bridges": names})
        await process.stop()

    asyncio.run(scenario())


CHANGES: Final = """
for line in sys.stdin:
    order = json.loads(line)
    for one in order.get("bridges", ()):
        words = f'{order["remove"]} {order["paused"]} {one["batch"]["size"]} {one["source"]["factory"]["url"]}'
        print(json.dumps({"bridges": [{**row, "name": one["name"], "last_error": words}]}), flush=True)
"""


def test_a_changed_bridge_takes_the_place_of_the_old_one() -> None:
    async def scenario() -> None:
        process = process_of(CHANGES, None)
        process.start(connectors(listening("127.0.0.1")))
        await reported(process)
        process.take(bridge("c"))
        shown = process.parameters({"name": "b"})["parameters"]
        assert isinstance(shown, dict)
        assert (shown["maxBatchSize"], shown["sourcePassword"]) == (500, "****")
        (before,) = await process.change({"name": "b", "settings": {"maxBatchSize": 7}})
        assert before["state"] == "running"
        assert process.names() == ["b", "c"]  # in its place of the list
        assert "['b'] [] 7 tcp://127.0.0.1:61616" in str((await reported(process))["last_error"])
        await process.stop()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_a_bridge_that_an_operator_has_started_goes_on_after_a_change() -> None:
    async def scenario(starts: bool) -> str:
        command = [sys.executable, "-c", CHILD.replace("MORE", CHANGES)]
        waiting = replace(bridge(), auto_start=False)
        process = BridgeChildProcess([waiting], None, command=command, stop_s=WAIT_S)
        process.start(connectors(listening("127.0.0.1")))
        await reported(process)
        if starts:
            await process.command("resume", {"bridges": ["b"]})
        await process.change({"name": "b", "settings": {"maxRetries": 1}})
        words = str((await reported(process))["last_error"])
        await process.stop()
        return words

    assert asyncio.run(scenario(starts=True)).startswith("['b'] [] ")
    assert asyncio.run(scenario(starts=False)).startswith("['b'] ['b'] ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"name": "x", "settings": {"maxRetries": 1}}, "unknown bridge x; known are b"),
        ({"name": "b"}, "settings must be an object with parameters"),
        ({"name": "b", "settings": {"maxBatchSize": 0}}, "bridge b: maxBatchSize is 0"),
        ({"name": "b", "settings": {"qualityOfServiceMode": "ONCE_AND_ONLY_ONCE"}}, "is not for"),
    ],
)
def test_a_faulty_change_changes_nothing(arguments: dict[str, object], reason: str) -> None:
    process = BridgeChildProcess([bridge()], None)
    with pytest.raises(ConfigurationError, match=reason):
        asyncio.run(process.change(arguments))
    assert process.names() == ["b"]
    assert process.parameters({"name": "b"}) == BridgeChildProcess([bridge()], None).parameters({"name": "b"})


def test_no_child_is_started_while_the_broker_stops() -> None:
    async def scenario() -> None:
        process = process_of(ENDS, None)
        process.start(connectors(listening("127.0.0.1")))
        await reported(process)
        await process.stop()
        with pytest.raises(ConfigurationError, match="the broker is being stopped"):
            process.take(bridge("late"))
        assert process.names() == ["b"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_a_disk_that_does_not_take_the_names_of_paused_bridges_is_an_error_of_one_line(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / FILE_NAME).write_text('{"paused": ["b"]}')
    process = process_of(ENDS, directory)
    process.start(connectors(listening("127.0.0.1", "stomp")))
    (directory / FILE_NAME).unlink()
    directory.rmdir()
    with pytest.raises(ConfigurationError, match="the disk does not take the names of paused bridges: No such file"):
        asyncio.run(process.give_up(["b"]))
    assert process.names() == ["b"]


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "tcp://127.0.0.1:61616"), ("::", "tcp://[::1]:61616"), ("10.0.0.1", "tcp://10.0.0.1:61616")],
)
def test_the_bridges_connect_to_an_address_of_this_machine(host: str, url: str) -> None:
    assert own_address(connectors(listening("127.0.0.1", "stomp", 1), listening(host))) == url


def test_a_route_that_is_deployed_while_the_child_starts_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec

    async def scenario() -> None:
        process = process_of(ENDS, None)

        async def slow(*words: str, **options: Any) -> asyncio.subprocess.Process:
            assert await process._replace(["b"], [bridge("late")])
            return await start(*words, **options)

        monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
        process.start(connectors(listening("127.0.0.1")))
        assert (await reported(process))["name"] == "late"
        await process.stop()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


@pytest.mark.parametrize("names", [None, [], "b", ["other"], ["b"] * 1_001])
def test_a_request_of_an_operator_names_bridges_that_exist(names: object) -> None:
    process = BridgeChildProcess([bridge()], None)
    with pytest.raises(ConfigurationError, match=r"names of bridges|unknown bridge other; known are b"):
        asyncio.run(process.command("pause", {"bridges": names}))


def test_paused_bridges_are_remembered(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = process_of(ENDS, tmp_path)
        process.start(connectors(listening("127.0.0.1")))
        await reported(process)
        await process.command("pause", {"bridges": ["b"]})
        await process.stop()
        again = process_of(ENDS, tmp_path)
        again.start(connectors(listening("127.0.0.1")))
        assert str((await reported(again))["last_error"]).endswith(" b")
        await again.stop()
        await again.command("resume", {"bridges": ["b"]})

    asyncio.run(scenario())
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {"format": 1, "paused": []}
