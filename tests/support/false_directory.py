"""A directory that lies: answers as a test says, in BER (X.690) made by hand. One thread for each connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

BIND: Final = 0x60
SEARCH: Final = 0x63
BIND_ANSWER: Final = 0x61
SEARCH_ENTRY: Final = 0x64
SEARCH_END: Final = 0x65
SEARCH_REFERENCE: Final = 0x73
EXTENDED_ANSWER: Final = 0x78
SUCCESS: Final = 0
REFERRAL: Final = 10

Answer = Callable[[int, int], Iterable[bytes]]  # number and type of a request, to the bytes that follow


def ber(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    if len(content) < 128:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes(4, "big")
    return bytes([tag, 0x84]) + length + content


def text(value: str) -> bytes:
    return ber(0x04, value.encode())


def message(number: int, operation: bytes) -> bytes:
    return ber(0x30, ber(0x02, number.to_bytes(4, "big")), operation)


def result(tag: int, code: int = SUCCESS, *more: bytes) -> bytes:
    return ber(tag, ber(0x0A, bytes([code])), text(""), text(""), *more)


def entry(name: str, **attributes: list[str]) -> bytes:
    pairs = [ber(0x30, text(key), ber(0x31, *map(text, values))) for key, values in attributes.items()]
    return ber(SEARCH_ENTRY, text(name), ber(0x30, *pairs))


def honest(number: int, kind: int) -> list[bytes]:
    """Accept every password, and know one user with every name: an anonymous bind that accepts anything."""
    if kind == BIND:
        return [message(number, result(BIND_ANSWER))]
    if kind == SEARCH:
        return [
            message(number, entry("uid=anna,ou=User,o=company", cn=["staff"])),
            message(number, result(SEARCH_END)),
        ]
    return []


class FalseDirectory:
    """Answers each request with what ``answer`` returns; the requests are kept."""

    def __init__(self, answer: Answer = honest) -> None:
        self.answer = answer
        self.requests: Final[list[bytes]] = []
        self._listening: Final = socket.create_server(("127.0.0.1", 0))
        self._sockets: Final[list[socket.socket]] = []

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listening.close()
        for one in self._sockets:
            one.close()

    def kinds(self) -> list[int]:
        """The types of the requests so far."""
        return [_operation(request)[1] for request in self.requests]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        try:
            while data := connection.recv(65536):
                buffer += data
                while (length := _length(buffer)) and len(buffer) >= length:
                    request, buffer = buffer[:length], buffer[length:]
                    self.requests.append(request)
                    answer = self.answer(*_operation(request))
                    for part in [b"".join(answer)] if isinstance(answer, list) else answer:
                        connection.sendall(part)
        except OSError:
            return


def _length(data: bytes) -> int:
    """The length of the first message, 0 while it is unknown."""
    if len(data) < 2:
        return 0
    if data[1] < 128:
        return 2 + data[1]
    count = data[1] & 0x7F
    return 0 if len(data) < 2 + count else 2 + count + int.from_bytes(data[2 : 2 + count], "big")


def _operation(request: bytes) -> tuple[int, int]:
    """Number and type of a request."""
    start = 2 if request[1] < 128 else 2 + (request[1] & 0x7F)
    size = request[start + 1]
    number = int.from_bytes(request[start + 2 : start + 2 + size], "big")
    return number, request[start + 2 + size]
