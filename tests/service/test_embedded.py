"""Brokers inside a program: in its own loop, on a thread, and found or made by `vm:` URLs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.client.addressing.address import BROKER_URI
from spanwire.client.protocol.transport.in_process import InProcessTransport
from spanwire.model.errors import ConfigurationError, IllegalStateError, JmsError, SpanwireError
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.service.config.model import BrokerConfiguration, LockConfiguration, PersistenceConfiguration
from spanwire.service.embedding.broker_thread import BrokerThread
from spanwire.service.embedding.embedded import connect, start_broker
from spanwire.service.embedding.embedded_broker import IN_PROCESS, EmbeddedBroker
from spanwire.service.embedding.vm_url import parse_vm_url
from spanwire.transports.base import ConnectorSettings

WAIT_S = 30.0
VOLATILE = {"broker.persistent": "false"}
GREETING = FrameEncoder().encode(wire_format_info(WireFormatPreferences()))


def configuration(name: str, *connectors: ConnectorSettings) -> BrokerConfiguration:
    return BrokerConfiguration(
        broker_name=name, connectors=connectors, persistence=PersistenceConfiguration(persistent=False)
    )


class Client:
    """A client of this process that waits for the broker's first words, or for the end."""

    def __init__(self, url: str, options: dict[str, str] | None = None, start: bool = True) -> None:
        self.transport: InProcessTransport = connect(url, options or {})
        self.received_bytes = b""
        self.ends: list[str | None] = []
        self._changed = threading.Condition()
        if start:
            self.transport.start(self)

    def received(self, data: bytes) -> None:
        with self._changed:
            self.received_bytes += data
            self._changed.notify_all()

    def writable(self) -> None:
        pass

    def closed(self, reason: str | None) -> None:
        with self._changed:
            self.ends.append(reason)
            self._changed.notify_all()

    def greeted(self) -> bool:
        """Whether the broker's WireFormatInfo has come; False after an end without it."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.received_bytes or self.ends, WAIT_S)
            return b"ActiveMQ" in self.received_bytes

    def ended(self) -> str | None:
        """Waits for the end; its reason."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.ends, WAIT_S)
            return self.ends[0]


def gone(name: str) -> bool:
    """Waits until no broker of this name is in this process."""
    end = time.monotonic() + WAIT_S
    while IN_PROCESS.find(name) is not None and time.monotonic() < end:
        threading.Event().wait(0.005)
    return IN_PROCESS.find(name) is None


def test_a_broker_lives_in_the_callers_loop_and_is_found_by_its_name() -> None:
    async def run() -> None:
        threads = set(threading.enumerate())
        async with await start_broker(configuration("own-loop")) as broker:
            assert broker.vm_url == "vm://own-loop"
            assert set(threading.enumerate()) <= threads
            client = Client("vm://own-loop", {"create": "false"})
            client.transport.write(GREETING)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            while not client.received_bytes:
                await asyncio.sleep(0.001)
            assert broker.service.in_process.connection_count == 1
            assert IN_PROCESS.find("own-loop") is broker
        assert client.ends == [None]

    asyncio.run(run())
    assert IN_PROCESS.find("own-loop") is None


def test_a_broker_can_be_started_from_the_file_that_the_command_takes(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text('broker_name = "from-file"\npersistent = false\n', "utf-8")

    async def run() -> None:
        async with await start_broker(path) as broker:
            assert broker.vm_url == "vm://from-file"
        path.write_text('broker_nam = "x"\n', "utf-8")
        with pytest.raises(ConfigurationError, match="did you mean broker_name"):
            await start_broker(f"xbean:{path}")

    asyncio.run(run())


def test_the_collector_of_a_program_is_left_alone() -> None:
    program = (
        "import asyncio, gc; before = gc.get_threshold(), gc.get_freeze_count()\n"
        "from spanwire.testing import Broker\n"
        "with Broker(): print((gc.get_threshold(), gc.get_freeze_count()) == before)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "True\n"


def test_two_brokers_of_one_name_are_refused_and_the_first_goes_on() -> None:
    async def run() -> None:
        async with await start_broker(configuration("twin")) as first:
            with pytest.raises(ConfigurationError, match="a broker named twin runs in this process already"):
                await start_broker(configuration("twin"))
            assert IN_PROCESS.find("twin") is first
        async with await start_broker(configuration("twin")):
            pass

    asyncio.run(run())


def test_a_broker_that_cannot_start_gives_its_name_free() -> None:
    taken = ConnectorSettings(name="open", scheme="tcp", host="0.0.0.0", port=0, protocol="openwire")

    async def run() -> None:
        with pytest.raises(ConfigurationError, match=r"connector open would open tcp://0\.0\.0\.0"):
            await start_broker(configuration("exposed", taken))

    asyncio.run(run())
    assert IN_PROCESS.find("exposed") is None


def test_a_thread_runs_a_broker_and_answers_calls() -> None:
    thread = BrokerThread(EmbeddedBroker(configuration("threaded")))
    thread.start()
    assert thread.call(lambda broker: broker.service.broker.name) == "threaded"
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda broker: 1 // 0)
    thread.stop()
    thread.stop()
    with pytest.raises(IllegalStateError, match="broker threaded does not run"):
        thread.call(lambda broker: broker.name)


def test_a_call_that_is_not_answered_in_time_says_so() -> None:
    thread = BrokerThread(EmbeddedBroker(configuration("busy")))
    thread.start()

    async def never(broker: EmbeddedBroker) -> None:
        await asyncio.Event().wait()

    with pytest.raises(SpanwireError, match=r"broker busy has not answered within 0\.01 s"):
        thread.run(never, timeout=0.01)
    thread.stop()


def test_a_vm_url_makes_a_broker_which_stops_when_its_last_client_has_gone() -> None:
    first = Client("vm://made", VOLATILE)
    assert first.greeted()
    broker = IN_PROCESS.find("made")
    assert broker is not None
    second = Client("vm://made", {"create": "false"})
    assert second.greeted()
    first.transport.close()
    assert Client("vm://made", start=False).transport is not None, "a client that never begins holds nothing"
    third = Client("vm://made", {"create": "false"})
    assert third.greeted()
    assert IN_PROCESS.find("made") is broker
    third.transport.close()
    second.transport.close()
    assert gone("made")


def test_clients_that_come_and_go_always_find_a_broker() -> None:
    for _ in range(30):
        client = Client("vm://busy-door", VOLATILE)
        assert client.greeted()
        client.transport.close()
    assert gone("busy-door")


def test_clients_of_many_threads_share_one_broker() -> None:
    brokers: list[object] = []

    def come_and_go() -> None:
        for _ in range(10):
            client = Client("vm://crowd", VOLATILE)
            assert client.greeted()
            brokers.append(IN_PROCESS.find("crowd"))
            client.transport.close()

    anchor = Client("vm://crowd", VOLATILE)
    threads = [threading.Thread(target=come_and_go) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(brokers) == 50 and len(set(map(id, brokers))) == 1
    anchor.transport.close()
    assert gone("crowd")


def test_a_vm_url_that_must_not_create_says_that_there_is_no_broker() -> None:
    with pytest.raises(JmsError, match=r"vm://nobody: no broker of this name runs in this process; start one"):
        connect("vm://nobody?create=false", {"create": "false"})


def test_a_client_can_wait_for_the_start_of_a_broker() -> None:
    client = Client("vm://late", {"create": "false", "waitForStart": "30000"})
    client.transport.write(GREETING)
    thread = BrokerThread(EmbeddedBroker(configuration("late")))
    thread.start()
    assert client.greeted()
    thread.stop()
    assert client.ended() is None


def test_a_client_that_waited_in_vain_is_told() -> None:
    client = Client("vm://never", {"create": "false", "waitForStart": "20"})
    assert client.ended() == "vm://never: no broker of this name started in this process within 0.02 s"


def test_a_broker_that_a_url_cannot_start_is_told_to_its_client(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, no directory", "utf-8")
    client = Client("vm://stuck", {"broker.dataDirectory": str(tmp_path / "data")})
    reason = client.ended()
    assert reason is not None and reason.startswith("vm://stuck: the data directory ") and "\n" not in reason
    assert gone("stuck")


def test_a_persistent_broker_of_a_url_keeps_its_directory_to_itself_and_gives_it_back(tmp_path: Path) -> None:
    options = {"broker.dataDirectory": str(tmp_path / "data")}
    for _ in range(3):
        client = Client("vm://kept", options)
        assert client.greeted()
        client.transport.close()
    assert gone("kept")
    assert (tmp_path / "data" / "journal").is_dir()


def test_a_configuration_file_can_be_named_and_must_name_the_same_broker(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text('<broker brokerName="filed" persistent="false"/>', "utf-8")
    client = Client("vm://filed", {"brokerConfig": f"xbean:{path}"})
    assert client.greeted()
    client.transport.close()
    assert gone("filed")
    with pytest.raises(JmsError, match="configures the broker filed"):
        connect("vm://other", {"brokerConfig": f"xbean:{path}"})


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("vm://x", {"crate": "false"}, "vm://x: unknown option 'crate'; did you mean create?"),
        ("vm://x", {"create": "perhaps"}, "vm://x: the option create must be true or false"),
        ("vm://x", {"waitForStart": "soon"}, "vm://x: the option waitForStart must be a number of milliseconds"),
        ("vm://x", {"broker.persistant": "true"}, "vm://x:1: unknown attribute of <broker> 'persistant'; did you mean"),
        ("peer://gr%oup/x", {}, "a peer: URL names a group and a broker; write peer://GROUP/NAME"),
        ("peer://group/x", {"persistant": "true"}, "peer://group/x:1: unknown attribute of <broker>"),
        ("peer://group/x", {"bindAddress": "a b"}, "peer://group: bindAddress is no address of this machine"),
        ("peer://group/x", {"allowAnonymous": "yes"}, "peer://group: the option allowAnonymous must be true or false"),
        ("vm://x y", {}, "a vm: URL names no broker of this process; write vm://NAME"),
        ("vm:(…)", {BROKER_URI: "tcp://localhost:6000"}, "the parentheses of a vm: URL must contain a broker"),
        ("vm:(…)", {BROKER_URI: "broker:(x://h:1)"}, "the broker: uri:1: unknown transport 'x'"),
        ("vm:(…)", {BROKER_URI: "broker:()", "broker.x": "1"}, "vm:(…): the option broker.x belongs to vm://NAME"),
        (
            "vm:(…)",
            {BROKER_URI: "broker:()", "marshall": "1"},
            "vm://localhost: unknown option 'marshall'; did you mean",
        ),
        ("vm:(…)", {BROKER_URI: "xbean:http://evil/x.xml"}, "http:/evil/x.xml: there is no such file"),
        ("vm://x", {"brokerConfig": "xbean:none.xml"}, "vm://x: none.xml: there is no such file"),
    ],
)
def test_a_url_that_cannot_be_honoured_is_refused_in_one_line(url: str, options: dict[str, str], reason: str) -> None:
    with pytest.raises(JmsError) as caught:
        connect(url, options)
    assert str(caught.value).startswith(reason)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["vm:", "vm://", "vm:localhost", "vm://localhost", "vm://localhost?create=false", "vm:///"]
)
def test_without_a_name_a_url_means_localhost(url: str) -> None:
    assert parse_vm_url(url, {"marshal": "false", "async": "true"}).name == "localhost"


def test_a_forked_child_begins_without_brokers() -> None:
    thread = BrokerThread(EmbeddedBroker(configuration("parent")))
    thread.start()
    child = os.fork()
    if child == 0:
        os._exit(_findings(thread))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert thread.call(lambda broker: broker.name) == "parent"
    thread.stop()


def _findings(thread: BrokerThread) -> int:
    """How much of what is expected holds in the child."""
    held = int(IN_PROCESS.find("parent") is None)
    for call in (lambda: thread.call(lambda broker: broker.name), thread.stop):
        try:
            call()
        except IllegalStateError:
            held += 1
    return held


def test_a_forked_child_that_ends_says_nothing_about_the_broker_of_its_parent() -> None:
    program = (
        "import os, sys\n"
        "from spanwire.testing import Broker\n"
        "with Broker(sockets=False) as broker:\n"
        "    child = os.fork()\n"
        "    if child == 0: sys.exit(3)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), broker.destinations())"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert answer.stdout == "3 []\n"
    assert "atexit" not in answer.stderr


def test_a_program_that_ends_with_a_broker_running_ends_in_order(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from spanwire.testing import Broker\n"
        f"broker = Broker(name='forgotten', directory=Path({str(tmp_path / 'data')!r})); broker.start()\n"
        "print('end')"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert (answer.stdout, answer.stderr) == ("end\n", "")
    assert not (tmp_path / "data" / "control.sock").exists()


def test_a_broker_with_start_async_waits_for_its_store_behind_the_back_of_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lasting = PersistenceConfiguration(lock=LockConfiguration(retry_ms=20))

    def stored(name: str) -> BrokerThread:
        settings = replace(configuration(name), persistence=lasting, start_async=True)
        return BrokerThread(EmbeddedBroker(settings, tmp_path / "data"))

    def is_open(thread: BrokerThread) -> bool:
        try:
            return bool(thread.call(lambda broker: broker.service.broker.name))
        except (AssertionError, IllegalStateError):
            return False

    def eventually(what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60.0
        while not what():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    first, second = stored("first"), stored("second")
    first.start()
    eventually(lambda: is_open(first))
    second.start()  # returns, although the first one holds the lock
    eventually(lambda: "standby: waits for the lock" in caplog.text)
    assert not is_open(second)
    first.stop()
    eventually(lambda: is_open(second))
    second.stop()


def test_a_failure_of_a_start_async_is_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "data").write_text("no directory")
    settings = replace(configuration("failing"), persistence=PersistenceConfiguration(), start_async=True)
    thread = BrokerThread(EmbeddedBroker(settings, tmp_path / "data"))
    thread.start()
    thread.stop()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    reason = f"the data directory {tmp_path / 'data'} cannot be used: it is a file; name a directory"
    assert lines == [f"broker failing cannot start: {reason}"]
