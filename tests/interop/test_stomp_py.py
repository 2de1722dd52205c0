"""stomp.py, the usual Python client, in all three versions; it sees on Spanwire what it sees on Classic."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.interop.conftest import assert_alike
from tests.support.broker_process import BrokerProcess
from tests.support.java import Observation
from tests.support.peers import require
from tests.support.stomp_socket import StompSocket

PATIENCE_S = 40.0
SILENCE_S = 0.2
VERSIONS = ("1.0", "1.1", "1.2")
VARYING = ("message-id", "timestamp", "ack", "session", "server")
DEAD_LETTERS = "/queue/ActiveMQ.DLQ"


class Client:
    """One stomp.py connection; what its listener hears comes out of `next`."""

    def __init__(self, port: int, version: str, beats: tuple[int, int] = (0, 0)) -> None:
        import stomp  # noqa: PLC0415 -- a peer that may be missing

        classes = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}
        options: dict[str, Any] = {} if version == "1.0" else {"heartbeats": beats}
        self.version = version
        self.heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.connection = classes[version]([("127.0.0.1", port)], **options)
        self.connection.set_listener("", _listener(self.heard.put))
        self.connection.connect("user", "password", wait=True)
        self.connected = self.next("connected")

    def next(self, event: str, timeout_s: float = PATIENCE_S) -> Any:
        """The next frame of an event; others before it are passed over. None after the time."""
        try:
            while True:
                name, frame = self.heard.get(timeout=timeout_s)
                if name == event:
                    return frame
        except queue.Empty:
            return None

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        """Returns after the receipt."""
        self.connection.send(destination, body, receipt="sent", **headers)
        assert self.next("receipt") is not None

    def subscribe(self, destination: str, ack: str, **headers: str) -> None:
        self.connection.subscribe(destination, id="s", ack=ack, headers=headers)

    def unsubscribe(self, destination: str) -> None:
        self.connection.unsubscribe(destination=destination, id="s")

    def acknowledge(self, frame: Any, **options: str) -> None:
        self._answer(self.connection.ack, frame, **options)

    def refuse(self, frame: Any, **options: str) -> None:
        self._answer(self.connection.nack, frame, **options)

    def _answer(self, command: Callable[..., None], frame: Any, **options: str) -> None:
        if self.version == "1.2":
            command(frame.headers["ack"], **options)
        elif self.version == "1.1":
            command(frame.headers["message-id"], "s", **options)
        else:
            command(frame.headers["message-id"], **options)

    def settle(self) -> None:
        """Everything before has been done when this returns."""
        self.send("/queue/STOMPPY.SETTLED", "")

    def leave(self) -> None:
        self.connection.disconnect(receipt="bye")
        self.next("disconnected")


def _listener(put: Callable[[tuple[str, Any]], None]) -> Any:
    import stomp  # noqa: PLC0415 -- a peer that may be missing

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_connected(self, frame: Any) -> None:
            put(("connected", frame))

        def on_message(self, frame: Any) -> None:
            put(("message", frame))

        def on_receipt(self, frame: Any) -> None:
            put(("receipt", frame))

        def on_error(self, frame: Any) -> None:
            put(("error", frame))

        def on_heartbeat(self) -> None:
            put(("heart-beat", True))

        def on_heartbeat_timeout(self) -> None:
            put(("heart-beat missed", None))

        def on_disconnected(self) -> None:
            put(("disconnected", None))

    return Listener()


@contextmanager
def client(port: int, version: str, beats: tuple[int, int] = (0, 0)) -> Iterator[Client]:
    there = Client(port, version, beats)
    try:
        yield there
    finally:
        there.leave()


def seen(frame: Any) -> Observation:
    """What is the same in every run; nothing for nothing."""
    if frame is None:
        return {"nothing": True}
    return {"headers": {k: v for k, v in sorted(frame.headers.items()) if k not in VARYING}, "body": frame.body}


def messages(there: Client, count: int) -> list[Observation]:
    return [seen(there.next("message")) for _ in range(count)]


def send_and_subscribe(port: int, version: str) -> list[Observation]:
    queue_name = f"/queue/STOMPPY.SEND.{version}"
    with client(port, version) as there:
        rows = [seen(there.connected)]
        there.send(queue_name, "plain", persistent="true")
        there.send(queue_name, "Zürich 東京", colour="größe", content_type="text/plain", persistent="true")
        there.send(
            queue_name, "kept", persistent="true", priority="7", **{"correlation-id": "c", "reply-to": "/queue/R"}
        )
        there.send(queue_name, 'with "quotes", colons: and a line\nend', key="a:b\\c", persistent="true")
        there.subscribe(queue_name, "auto")
        rows += messages(there, 4)
        there.send("/topic/STOMPPY.NOBODY", "lost")
        there.unsubscribe(queue_name)
        there.send(queue_name, "left")
        rows.append(seen(there.next("message", SILENCE_S)))
    with client(port, version) as later:
        later.subscribe(queue_name, "auto", selector="JMSPriority = 4")
        rows += messages(later, 1)
    return rows


def acknowledge_in_client_mode(port: int, version: str) -> list[Observation]:
    """An ACK stands for everything up to it."""
    queue_name = f"/queue/STOMPPY.CLIENT.{version}"
    with client(port, version) as there:
        for i in range(4):
            there.send(queue_name, f"m{i}")
        there.subscribe(queue_name, "client")
        frames = [there.next("message") for _ in range(4)]
        rows = [seen(frame) for frame in frames]
        there.acknowledge(frames[2])
        there.settle()
    with client(port, version) as later:
        later.subscribe(queue_name, "client")
        return [*rows, *messages(later, 1), seen(later.next("message", SILENCE_S))]


def acknowledge_one_by_one(port: int, version: str) -> list[Observation]:
    queue_name = f"/queue/STOMPPY.INDIVIDUAL.{version}"
    with client(port, version) as there:
        for i in range(4):
            there.send(queue_name, f"m{i}")
        there.subscribe(queue_name, "client-individual")
        frames = [there.next("message") for _ in range(4)]
        there.acknowledge(frames[1])
        there.acknowledge(frames[3])
        there.settle()
    with client(port, version) as later:
        later.subscribe(queue_name, "client-individual", **{"activemq.prefetchSize": "1"})
        first = later.next("message")
        rows = [seen(first), seen(later.next("message", SILENCE_S))]
        later.acknowledge(first)
        return rows + messages(later, 1)


def transactions(port: int, version: str) -> list[Observation]:
    queue_name = f"/queue/STOMPPY.TX.{version}"
    with client(port, version) as there:
        connection = there.connection
        connection.begin("aborted")
        connection.send(queue_name, "never", transaction="aborted")
        connection.abort("aborted")
        connection.begin("committed")
        connection.send(queue_name, "a", transaction="committed")
        connection.send(queue_name, "b", transaction="committed")
        there.subscribe(queue_name, "client-individual" if version != "1.0" else "client")
        rows = [seen(there.next("message", SILENCE_S))]
        connection.commit("committed")
        first = there.next("message")
        rows += [seen(first), *messages(there, 1)]
        connection.begin("acks")
        there.acknowledge(first, transaction="acks")
        connection.commit("acks")
        there.settle()
    with client(port, version) as later:
        later.subscribe(queue_name, "client")
        return rows + messages(later, 1) + [seen(later.next("message", SILENCE_S))]


def refused_messages(port: int, version: str) -> list[Observation]:
    """A NACK sends the message to the dead letters."""
    queue_name = f"/queue/STOMPPY.NACK.{version}"
    with client(port, version) as there:
        there.send(queue_name, "refused", persistent="true", scenario=version)
        there.send(queue_name, "taken", persistent="true")
        there.subscribe(queue_name, "client-individual")
        refused, taken = there.next("message"), there.next("message")
        there.refuse(refused)
        there.acknowledge(taken)
        there.settle()
    with client(port, version) as later:
        later.subscribe(DEAD_LETTERS, "auto", selector=f"scenario = '{version}'")
        frame = later.next("message")
        # Spanwire adds a cause of its own, Classic none.
        rows = [{"body": frame.body, "names": sorted(set(frame.headers) - {"ack", "dlqDeliveryFailureCause"})}]
        later.connection.send(DEAD_LETTERS, "nothing follows", persistent="true", scenario=version)
        return [*rows, later.next("message").body]


def errors(port: int, version: str) -> list[Observation]:
    with client(port, version) as there:
        connection = there.connection
        rows = []
        frames = (
            ("COMMIT", {"transaction": "unknown"}),
            ("SEND", {"content-type": "text/plain"}),
            ("SUBSCRIBE", {"destination": "/queue/STOMPPY.SEL", "id": "sel", "selector": "a = = 1"}),
            ("ACK", {"message-id": "ID:nobody:1", "id": "nobody", "subscription": "none"}),
        )
        for command, headers in frames:
            connection.send_frame(command, headers, "")
            error = there.next("error")
            text = error.headers["message"]
            # Of a bad selector Classic only repeats the text, Spanwire tells what is wrong with it.
            rows.append({"error": "a = = 1" if "a = = 1" in text else text})
        there.send("/queue/STOMPPY.ERRORS", "goes on")
        return rows


SCENARIOS = {
    "send and subscribe": (send_and_subscribe, VERSIONS),
    "client acknowledgement": (acknowledge_in_client_mode, VERSIONS),
    "individual acknowledgement": (acknowledge_one_by_one, ("1.1", "1.2")),
    "transactions": (transactions, VERSIONS),
    "refused messages": (refused_messages, ("1.1", "1.2")),
    "errors": (errors, VERSIONS),
}


@pytest.mark.parametrize(
    ("scenario", "version"),
    [
        pytest.param(scenario, version, marks=pytest.mark.smoke if scenario == "transactions" else [])
        for scenario, (_, versions) in SCENARIOS.items()
        for version in versions
    ],
)
def test_stomp_py_sees_what_it_sees_on_classic(
    spanwire: BrokerProcess, classic: BrokerProcess, scenario: str, version: str
) -> None:
    require("stomp.py")
    run, _ = SCENARIOS[scenario]
    ours = run(spanwire.stomp_port, version)
    assert ours
    assert_alike(ours, run(classic.stomp_port, version))


@pytest.mark.parametrize("version", [pytest.param("1.1", marks=pytest.mark.long), "1.2"])
def test_heart_beats_keep_an_idle_connection_alive(
    spanwire: BrokerProcess, classic: BrokerProcess, version: str
) -> None:
    require("stomp.py")
    answers = []
    for broker in (spanwire, classic):
        with client(broker.stomp_port, version, beats=(500, 500)) as there:
            answers.append(there.connected.headers["heart-beat"])
            assert [there.next("heart-beat") for _ in range(4)] == [True] * 4
            there.send(f"/queue/STOMPPY.BEATS.{version}", "still here")
    assert answers[0] == answers[1]


def test_a_client_that_promised_heart_beats_and_is_silent_is_closed(
    spanwire: BrokerProcess, classic: BrokerProcess
) -> None:
    for broker in (spanwire, classic):
        with StompSocket(broker.stomp_port) as silent:
            silent.connect("1.2", heart_beat="200,0")
            assert silent.receive() is None
