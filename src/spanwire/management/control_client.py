"""The client of the control socket (`spanwire.management.control`).

Unlike the server, the client needs no event loop.

Most commands of the command line load this module and no other part of the broker.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Final

from spanwire.model.errors import SpanwireError

SOCKET_NAME: Final = "control.sock"
MAX_REQUEST_BYTES: Final = 16 * 1024  # bytes of a request line; a selector has at most 8 KiB
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024  # bytes of an answer; the counters of 50,000 destinations are smaller
MAX_SOCKET_PATH: Final = 100  # bytes of a path; the system's limit is 104 or 108


class ControlError(SpanwireError):
    """Raised when the control socket cannot be opened, reached or understood; the text has the remedy.

    ``code`` is that of a refusal by the broker (`spanwire.management.handles`), else "".
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code: Final = code


class NotRunningError(ControlError):
    """Raised if no broker listens at the control socket of a directory."""


class ControlClient:
    """Sends requests to a running broker. Blocks; for the command line."""

    def __init__(self, directory: Path, timeout_s: float = 10.0) -> None:
        self._path: Final = directory / SOCKET_NAME
        self._timeout_s: Final = timeout_s

    def ask(self, command: str, **arguments: object) -> object:
        """Return the result of a command or an operation.

        Raises:
            ControlError: no broker answers, or the broker refuses
        """
        with self._connect() as connection:
            return self._exchange(connection, {"command": command, **arguments})

    def stop(self, timeout_s: float, command: str = "stop") -> None:
        """Ask the broker to stop, and wait for the end. Raises `ControlError` after ``timeout_s`` seconds.

        ``command`` is another command to stop the broker, such as ``restart``.
        """
        with self._connect() as connection:
            self._exchange(connection, {"command": command})
            connection.settimeout(timeout_s)
            try:
                while connection.recv(1024):
                    pass
            except TimeoutError as error:
                raise ControlError(f"the broker has not stopped after {timeout_s:g} s; its log says why") from error
            except ConnectionError:
                return

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout_s)
        try:
            with ShortPath(self._path) as short:
                connection.connect(short)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            connection.close()
            raise NotRunningError(
                f"no broker runs in {self._path.parent}; start one, or name its directory with --data-directory"
            ) from error
        except OSError as error:
            connection.close()
            raise ControlError(f"control socket {self._path}: {error.strerror or error}") from error
        return connection

    def _exchange(self, connection: socket.socket, request: dict[str, object]) -> object:
        received = bytearray()
        try:
            line = json.dumps(request).encode("utf-8")
            if len(line) > MAX_REQUEST_BYTES:
                raise ControlError(f"the request has {len(line)} bytes; {MAX_REQUEST_BYTES} are allowed: ask for less")
            connection.sendall(line + b"\n")
            while not received.endswith(b"\n"):
                data = connection.recv(65536)
                if not data or len(received) > MAX_ANSWER_BYTES:
                    raise ControlError("the broker closed the control socket without an answer")
                received += data
            answer = json.loads(received)
        except OSError as error:
            raise ControlError(f"the broker does not answer: {error.strerror or error}") from error
        except ValueError as error:
            raise ControlError("the broker's answer is no JSON; is it of another version?") from error
        if not isinstance(answer, dict) or not answer.get("ok"):
            reason = answer.get("error") if isinstance(answer, dict) else None
            code = answer.get("code") if isinstance(answer, dict) else None
            raise ControlError(str(reason or "the broker refused the command"), str(code or ""))
        return answer.get("result")


class ShortPath:
    """A form of a socket's path within the system's limit, whatever the length of the directory."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._directory: int | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= MAX_SOCKET_PATH:
            return str(self._path)
        self._directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        short = f"/proc/self/fd/{self._directory}"
        if not os.path.exists(short):
            raise OSError(0, f"the path is longer than {MAX_SOCKET_PATH} bytes; choose a shorter data directory")
        return f"{short}/{self._path.name}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._directory is not None:
            os.close(self._directory)
