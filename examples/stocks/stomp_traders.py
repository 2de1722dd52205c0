"""STOMP 1.2 clients on plain sockets: one that sends trades, one that takes them, one that listens to prices."""

from __future__ import annotations

import select
import socket
import time
from collections import OrderedDict

from prices import Trade
from stage import RECONNECT_SECONDS, WINDOW, Stage, Trader

SILENCE_SECONDS = 0.05  # how long a read waits before the trader looks around
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
    """Sends trades persistently with a receipt each, many unanswered at a time; what stays unanswered is sent again."""

    def __init__(self, stage: Stage, trades: list[Trade]) -> None:
        super().__init__(stage, f"STOMP sender of {trades[0].symbol}")
        self._waiting = trades
        self._unanswered: OrderedDict[str, Trade] = OrderedDict()

    def trade(self) -> None:
        """Send until every trade is answered, over as many connections as it takes."""
        while self._waiting or self._unanswered:
            try:
                self._session(StompSocket(self.stage.stomp_port))
            except BrokenConnection:
                for key in self._unanswered:
                    self.stage.ledger.send_repeated(key)
                self._waiting = list(self._unanswered.values()) + self._waiting
                self._unanswered.clear()
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: StompSocket) -> None:
        while self._waiting or self._unanswered:
            batch = self._waiting[: WINDOW - len(self._unanswered)]
            self._waiting = self._waiting[len(batch) :]
            for trade in batch:
                self._unanswered[trade.key] = trade
            self.unanswered = len(self._unanswered)
            connection.send_many([frame for trade in batch for frame in self._frames(trade)])
            for command, headers, _ in connection.receive():
                if command == "RECEIPT":
                    del self._unanswered[headers["receipt-id"]]
                    self.stage.ledger.send_answered(headers["receipt-id"])
            self.unanswered = len(self._unanswered)
        connection.close()

    def _frames(self, trade: Trade) -> list[tuple[str, dict[str, str], str]]:
        headers = {"key": trade.key, "symbol": trade.symbol, "round": str(trade.round), "date": trade.date}
        to_queue = {"destination": f"/queue/{trade.queue}", "persistent": "true", "receipt": trade.key}
        self.stage.ledger.published(trade.symbol)
        return [
            ("SEND", {**to_queue, **headers}, trade.price),
            ("SEND", {"destination": f"/topic/{trade.topic}", **headers}, trade.price),
        ]


class StompReceiver(Trader):
    """Takes the trades of one queue and acknowledges each; holds them unacknowledged while told to."""

    def __init__(self, stage: Stage, queue: str) -> None:
        super().__init__(stage, f"STOMP receiver of {queue}")
        self._queue = queue

    def trade(self) -> None:
        """Receive until everybody is finished."""
        while not self.stage.finished.is_set():
            try:
                self._session(StompSocket(self.stage.stomp_port))
            except BrokenConnection:
                self.in_flight = 0
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: StompSocket) -> None:
        connection.send("SUBSCRIBE", {"id": "1", "destination": f"/queue/{self._queue}", "ack": "client-individual"})
        held: list[tuple[dict[str, str], str]] = []
        while not self.stage.finished.is_set():
            for command, headers, body in connection.receive():
                if command == "MESSAGE":
                    held.append((headers, body))
            self.in_flight = len(held)
            if held and not self.stage.hold.is_set():
                for headers, body in held:
                    self.stage.ledger.delivered(headers["key"], body, headers.get("redelivered") == "true")
                connection.send_many([("ACK", {"id": headers["ack"]}, "") for headers, _ in held])
                held = []
        connection.close()


class PriceListener(Trader):
    """Listens to the prices of all stocks by a wildcard."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "STOMP listener to PRICE.STOCK.*")

    def trade(self) -> None:
        """Listen until everybody is finished."""
        while not self.stage.finished.is_set():
            try:
                connection = StompSocket(self.stage.stomp_port)
                connection.send("SUBSCRIBE", {"id": "1", "destination": "/topic/PRICE.STOCK.*", "ack": "auto"})
                while not self.stage.finished.is_set():
                    for command, headers, _ in connection.receive():
                        if command == "MESSAGE":
                            self.stage.ledger.noticed(headers["destination"].rsplit(".", 1)[1])
                connection.close()
            except BrokenConnection:
                time.sleep(RECONNECT_SECONDS)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")


def _unescape(value: str) -> str:
    return value.replace("\\c", ":").replace("\\n", "\n").replace("\\r", "\r").replace("\\\\", "\\")
