"""The STOMP clients of a random scenario, and what they see, as lines of its transcript."""

from __future__ import annotations

import time
from typing import Final

from tests.conformance.differential.stage import Stage
from tests.support.stomp_socket import StompFrame, StompSocket

NOTHING_S: Final = 0.25  # after which no frame is expected any more
GONE_S: Final = 0.1  # until the broker has given back what the client had
VARYING: Final = ("message-id", "timestamp", "ack", "session", "server", "heart-beat", "receipt-id")


class StompClients:
    """Methods have the words of the steps as names, without ``stomp``."""

    def __init__(self, stage: Stage, port: int) -> None:
        self._stage: Final = stage
        self._port: Final = port
        self._sockets: Final[dict[int, StompSocket]] = {}
        self._versions: Final[dict[int, str]] = {}
        self._received: Final[dict[int, list[StompFrame]]] = {}
        self._early: Final[dict[int, list[StompFrame]]] = {}  # came while another answer was awaited
        self._transactions: Final[dict[int, str]] = {}
        self._count = 0

    def connect(self, client: int, version: str) -> None:
        """Log in."""
        self._sockets[client] = StompSocket(self._port)
        self._versions[client] = version
        answer = self._sockets[client].connect(version)
        self._stage.writes(f"stomp {client} connects", answer.headers.get("version"))

    def subscribe(self, client: int, number: int, place: str, headers: dict[str, str]) -> None:
        """A subscription with the number as its id."""
        self._asks(client, "SUBSCRIBE", {"id": str(number), "destination": written(place), **headers})

    def unsubscribe(self, client: int, number: int) -> None:
        """End a subscription."""
        self._asks(client, "UNSUBSCRIBE", {"id": str(number)})

    def send(self, client: int, place: str, message: int, headers: dict[str, str]) -> None:
        """A text, in the transaction of the client if one is open."""
        self._asks(client, "SEND", {"destination": written(place), **headers, **self._in(client)}, f"m{message}")

    def receive(self, client: int, count: int) -> None:
        """The next frames, up to a silence."""
        for _ in range(count):
            if client not in self._sockets or not self._takes(client):
                return

    def ack(self, client: int, which: int) -> None:
        """Acknowledge a received message."""
        self._answers(client, "ACK", which)

    def nack(self, client: int, which: int) -> None:
        """Refuse a received message, outside of a transaction: Classic refuses that inside of one."""
        if self._versions.get(client) != "1.0" and client not in self._transactions:
            self._answers(client, "NACK", which)

    def begin(self, client: int) -> None:
        """Begin a transaction, unless one is open."""
        if client in self._sockets and client not in self._transactions:
            self._count += 1
            self._transactions[client] = f"t{self._count}"
            self._asks(client, "BEGIN", self._in(client))

    def commit(self, client: int) -> None:
        """Commit."""
        self._ends(client, "COMMIT")

    def abort(self, client: int) -> None:
        """Abort."""
        self._ends(client, "ABORT")

    def disconnect(self, client: int) -> None:
        """Log out and close."""
        self._asks(client, "DISCONNECT", {})
        self._closes(client)

    def close_all(self) -> None:
        """Close what is still open, in silence."""
        for client in list(self._sockets):
            self._closes(client)

    def breaks(self, client: int) -> None:
        """Go without a word."""
        self._stage.writes(f"stomp {client} breaks", None)
        self._closes(client)

    def _in(self, client: int) -> dict[str, str]:
        return {"transaction": self._transactions[client]} if client in self._transactions else {}

    def _ends(self, client: int, command: str) -> None:
        if client in self._transactions:
            self._asks(client, command, self._in(client))
            self._transactions.pop(client, None)

    def _answers(self, client: int, command: str, which: int) -> None:
        frames = self._received.get(client, [])
        if client not in self._sockets or len(frames) < max(1, -which):
            return
        headers = frames[which].headers
        if self._versions[client] == "1.2":
            about = {"id": headers.get("ack", headers["message-id"])}
        else:
            about = {"message-id": headers["message-id"], "subscription": headers["subscription"]}
        self._asks(client, command, {**about, **self._in(client)}, f"of {frames[which].body.decode()}", is_body=False)

    def _asks(
        self, client: int, command: str, headers: dict[str, str], said: str = "", *, is_body: bool = True
    ) -> None:
        """Send a frame and wait for its receipt. Messages that come before it are kept for the next receive."""
        if client not in self._sockets:
            return
        self._count += 1
        lines = [f"{name}:{value}" for name, value in {**headers, "receipt": f"r{self._count}"}.items()]
        body = said if is_body else ""
        self._stage.writes(f"stomp {client} {command} {said or headers.get('destination', '')}".rstrip(), None)
        frame: StompFrame | None = None
        try:
            self._sockets[client].type("\n".join([command, *lines]) + f"\n\n{body}\0")
            while (frame := self._sockets[client].receive()) is not None and frame.command == "MESSAGE":
                self._early.setdefault(client, []).append(frame)
        except OSError:
            pass  # the broker has closed the connection
        if frame is None or frame.command == "ERROR":
            self._fails(client, frame)

    def _takes(self, client: int) -> bool:
        early = self._early.get(client)
        try:
            frame = early.pop(0) if early else self._sockets[client].receive(NOTHING_S)
        except TimeoutError:
            self._stage.writes(f"stomp {client} receives", None)
            return False
        if frame is None or frame.command != "MESSAGE":
            self._fails(client, frame)
            return False
        self._received.setdefault(client, []).append(frame)
        shown = {name: value for name, value in frame.headers.items() if name not in VARYING}
        self._stage.writes(f"stomp {client} receives {frame.body.decode()}", shown)
        return True

    def _fails(self, client: int, frame: StompFrame | None) -> None:
        said = "closed" if frame is None else f"ERROR {frame.headers.get('message', '')}"
        self._stage.writes(f"stomp {client}", said, refused=True)
        self._closes(client)

    def _closes(self, client: int) -> None:
        if client in self._sockets:
            self._sockets.pop(client).__exit__()
            time.sleep(GONE_S)
            self._transactions.pop(client, None)
            self._early.pop(client, None)


def written(place: str) -> str:
    """A destination as STOMP writes it."""
    kind, _, name = place.partition("://")
    return f"/{kind}/{name}"
