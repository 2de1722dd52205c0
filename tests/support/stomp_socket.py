"""STOMP frames over a socket as they are written, and the frames that come back, for tests that type by hand.

Shares no code with Spanwire's own codec: a frame is a command, header lines and a body up to NUL or content-length.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Final, Self

ANSWER_TIMEOUT_S: Final = 60.0
READ_SIZE: Final = 65_536
NEWLINE: Final = 10
RETURN: Final = 13


@dataclass(frozen=True)
class StompFrame:
    """A frame as it stood on the wire: header values keep their escapes."""

    command: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class StompSocket:
    """One connection; `receive` gives None once the broker has closed it."""

    def __init__(self, port: int) -> None:
        self._socket: Final = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)
        self._received = bytearray()
        self.beats = 0  # line ends between frames

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def connect(self, version: str, **headers: str) -> StompFrame:
        """Log in; the CONNECTED frame."""
        lines = [f"{name.replace('_', '-')}:{value}" for name, value in headers.items()]
        self.type("\n".join(["CONNECT", f"accept-version:{version}", "host:localhost", *lines]) + "\n\n\0")
        answer = self.receive()
        assert answer is not None
        assert answer.command == "CONNECTED", answer
        return answer

    def type(self, text: str | bytes) -> None:
        """Send octets as they are."""
        self._socket.sendall(text.encode() if isinstance(text, str) else text)

    def receive(self, timeout_s: float = ANSWER_TIMEOUT_S) -> StompFrame | None:
        """The next frame, None at the end. Raises TimeoutError."""
        self._socket.settimeout(timeout_s)
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            try:
                data = self._socket.recv(READ_SIZE)
            except ConnectionError:
                return None
            if not data:
                return None
            self._received += data

    def silence(self, timeout_s: float = 0.3) -> bool:
        """Does nothing but line ends come for a while?"""
        try:
            return self.receive(timeout_s) is None
        except TimeoutError:
            return True

    def _take(self) -> StompFrame | None:
        while self._received and self._received[0] in (NEWLINE, RETURN):
            self.beats += self._received[0] == NEWLINE
            del self._received[0]
        head, found, rest = bytes(self._received).partition(b"\n\n")
        if not found:
            return None
        command, *lines = head.decode().split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(name, value)
        length = int(headers.get("content-length", "-1"))
        end = length if length >= 0 else rest.find(b"\0")
        if end < 0 or len(rest) <= end:
            return None
        del self._received[: len(head) + 2 + end + 1]
        return StompFrame(command, headers, rest[:end])
