"""STOMP 1.2 clients on plain sockets: one that sends, one that takes."""

from __future__ import annotations

import select
import socket
import time
from collections import OrderedDict

from prices import TRADES, Trade
from stage import RECONNECT_SECONDS, SILENCE_SECONDS, Pace, Stage, Trader

WINDOW = 400  # sends that may wait for their answer
ANSWER_SECONDS = 20.0  # within which a broker must greet
MAX_BUFFER = 64 * 1024 * 1024  # bytes of an unfinished frame; far above what this demonstration sends


class BrokenConnection(Exception):
    """The broker is gone."""


class StompSocket:
    """Frames over one socket."""

    def __init__(self, port: int) -> None:
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        except OSError as error:
            raise BrokenConnection(str(error)) from error
        self._buffer = bytearray()
        self.send("CONNECT", {"accept-version": "1.2", "host": "localhost"})
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            for command, _, _ in self.receive():
                if command == "CONNECTED":
                    return
        self.close()
        raise BrokenConnection("the broker does not greet")

    def send(self, command: str, headers: dict[str, str], body: str = "") -> None:
        """Write one frame."""
        self.send_many([(command, headers, body)])

    def send_many(self, frames: list[tuple[str, dict[str, str], str]]) -> None:
        """Write several frames in one go."""
        data = bytearray()
        for command, headers, body in frames:
            lines = [command] + [f"{key}:{_escape(value)}" for key, value in headers.items()]
            data += "\n".join(lines).encode() + b"\n\n" + body.encode() + b"\0"
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.sendall(data)
        except OSError as error:
            raise BrokenConnection(str(error)) from error

    def receive(self) -> list[tuple[str, dict[str, str], str]]:
        """All complete frames, after waiting a moment for some."""
        frames: list[tuple[str, dict[str, str], str]] = []
        try:
            if not select.select([self._socket], [], [], SILENCE_SECONDS)[0]:
                return frames
            data = self._socket.recv(256 * 1024)
        except OSError as error:
            raise BrokenConnection(str(error)) from error
        if not data or len(self._buffer) > MAX_BUFFER:
            raise BrokenConnection("closed by the broker")
        self._buffer += data
        *complete, rest = bytes(self._buffer).split(b"\0")
        self._buffer = bytearray(rest)
        for text in complete:
            head, _, body = text.decode().lstrip("\n").partition("\n\n")
            command, *lines = head.split("\n")
            headers: dict[str, str] = {}
            for line in lines:
                key, _, value = line.partition(":")
                headers.setdefault(_unescape(key), _unescape(value))
            if command == "ERROR":
                raise RuntimeError(headers.get("message", body))
            frames.append((command, headers, body))
        return frames

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class StompSender(Trader):
    """Sends persistently with a receipt each, many unanswered at a time; what stays unanswered is sent again."""

    def __init__(self, stage: Stage, orders: list[Trade]) -> None:
        super().__init__(stage, f"STOMP sender {orders[0].producer}")
        self._waiting = orders
        self._unanswered: OrderedDict[str, Trade] = OrderedDict()
        self._pace = Pace()
        self._sent = 0

    def trade(self) -> None:
        """Send until every order is answered, over as many connections as it takes."""
        self._pace = Pace()
        while self._waiting or self._unanswered:
            try:
                self._session(StompSocket(self.stage.near.stomp))
            except BrokenConnection:
                for key in self._unanswered:
                    self.stage.ledger.send_repeated(key)
                self._waiting = list(self._unanswered.values()) + self._waiting
                self._unanswered.clear()
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: StompSocket) -> None:
        while self._waiting or self._unanswered:
            batch = self._waiting[: min(WINDOW - len(self._unanswered), self._pace.allows(self._sent))]
            self._waiting = self._waiting[len(batch) :]
            self._sent += len(batch)
            for order in batch:
                self._unanswered[order.key] = order
            connection.send_many([_send_frame(order) for order in batch])
            for command, headers, _ in connection.receive():
                if command == "RECEIPT":
                    del self._unanswered[headers["receipt-id"]]
                    self.stage.ledger.send_answered(headers["receipt-id"])
        connection.close()


class StompReceiver(Trader):
    """Takes trades and acknowledges each; holds them unacknowledged while told to."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "STOMP receiver")

    def trade(self) -> None:
        """Receive until everybody is finished."""
        while not self.stage.finished.is_set():
            try:
                self._session(StompSocket(self.stage.far.stomp))
            except BrokenConnection:
                self.in_flight = 0
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: StompSocket) -> None:
        connection.send("SUBSCRIBE", {"id": "1", "destination": f"/queue/{TRADES}", "ack": "client-individual"})
        held: list[tuple[dict[str, str], str]] = []
        while not self.stage.finished.is_set():
            for command, headers, body in connection.receive():
                if command == "MESSAGE":
                    held.append((headers, body))
            if held and not self.stage.hold.is_set():
                for headers, body in held:
                    self.stage.ledger.delivered("STOMP", headers["key"], body, headers.get("redelivered") == "true")
                connection.send_many([("ACK", {"id": headers["ack"]}, "") for headers, _ in held])
                held = []
            self.in_flight = len(held)
        connection.close()


def _send_frame(order: Trade) -> tuple[str, dict[str, str], str]:
    headers = {
        "destination": ",".join(f"/queue/{name}" for name in order.queues),
        "persistent": "true",
        "receipt": order.key,
    }
    headers |= {name: str(value) for name, value in order.properties().items()}
    return "SEND", headers, order.price


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")


def _unescape(value: str) -> str:
    return value.replace("\\c", ":").replace("\\n", "\n").replace("\\r", "\r").replace("\\\\", "\\")
