"""The control socket: one JSON object a line, on a Unix socket open to the broker's own user only.

    → {"command": "status"}
    ← {"ok": true, "result": {…}}          or {"ok": false, "error": "…"}

`BrokerService` provides the commands: ``status``, ``destinations``, ``subscriptions``, ``stop``, …. After ``stop`` the
connection stays open until the broker has stopped, so `ControlClient` can wait for the end. Operations take arguments
and time: ``{"command": "purge", "destinations": ["Q"], "selector": "n > 1"}`` is answered at the end of the purge. Each
operation writes a line to the audit log.

A request with a ``handle`` has the rights of the user who got the handle by ``login`` (`spanwire.management.handles`);
a refusal then has a ``code`` beside its ``error``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, cast

from spanwire.broker.security.audit_log import printable
from spanwire.management.control_client import MAX_REQUEST_BYTES, SOCKET_NAME, ControlError, ShortPath
from spanwire.management.handles import OPERATOR, Handles, Operator, code_of
from spanwire.model.errors import SpanwireError

logger = logging.getLogger(__name__)
audit = logging.getLogger("spanwire.audit")  # one line for each operation: client, arguments, outcome

MAX_CLIENTS: Final = 32
ENTRIES_PER_TURN: Final = 100  # entries of a list made in one turn; each takes about 20 microseconds

ROWS_PER_TURN: Final = 500  # entries that are made already; to encode one takes some 3 microseconds
FAILURE: Final = "the control command %s failed"
HANDLE: Final = "handle"
NOT_NOTED: Final = (
    "login",
    "destination",
    "changes",
    "network",
    "why",
    "observations",
    "trace-dry-run",
    "bridge-parameters",
)  # a login a minute and user, and reading, are not audited
HIDDEN: Final = "********"
SECRET_NAME: Final = re.compile("password|passphrase|secret|token", re.IGNORECASE)
LOGIN_IN_URI: Final = re.compile(r"//[^/\s,()?]*@")  # a password may have @ in it
OPTION_IN_URI: Final = re.compile(r"[?&][\w.]+=")
VALUE_END: Final = re.compile(r"[&)\s]")
# Arguments that never stand in the log: secrets, and the contents of a message that an operator sends.
NOT_AUDITED: Final = ("command", HANDLE, "password", "definition", "body", "properties")

Command = Callable[[], object]
Operation = Callable[[Mapping[str, object]], Awaitable[object]]


class ControlServer:
    """Answers commands on the control socket. The commands do the work."""

    def __init__(
        self,
        directory: Path,
        commands: Mapping[str, Command],
        operations: Mapping[str, Operation] | None = None,
        handles: Handles | None = None,
    ) -> None:
        """Without ``handles`` requests with a handle are refused."""
        self._handles: Final = handles
        self._path: Final = directory / SOCKET_NAME
        self._commands: Final = commands
        self._operations: Final = operations if operations is not None else {}
        self._running: Final[set[asyncio.Task[None]]] = set()
        self._clients: Final[set[asyncio.Transport]] = set()
        self._server: asyncio.Server | None = None
        self._socket = (0, 0)  # device and number of its file

    async def start(self) -> None:
        """Listen. The caller holds the lock of the directory, so an existing socket belongs to a dead broker."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._path.unlink(missing_ok=True)
            with ShortPath(self._path) as short:
                old_mask = os.umask(0o177)  # the socket is created with mode 0600
                try:
                    listener.bind(short)
                finally:
                    os.umask(old_mask)
            status = self._path.lstat()
            self._socket = (status.st_dev, status.st_ino)
            listener.setblocking(False)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: _ControlProtocol(self), sock=listener)
        except OSError as error:
            listener.close()
            raise ControlError(f"control socket {self._path}: cannot be opened: {error.strerror or error}") from error

    def withdraw(self) -> None:
        """Accept no more clients and remove the socket's name; connected clients stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
            if self._is_own():
                self._path.unlink(missing_ok=True)

    def _is_own(self) -> bool:
        """Return True unless another broker has taken over the directory and put a new socket there."""
        try:
            status = self._path.lstat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._socket

    def stop(self) -> None:
        """Withdraw, and disconnect every client."""
        self.withdraw()
        for task in self._running:
            task.cancel()
        for client in list(self._clients):
            client.close()

    def admit(self, client: asyncio.Transport) -> bool:
        """Count a client. Returns False if there are too many."""
        if len(self._clients) >= MAX_CLIENTS:
            return False
        self._clients.add(client)
        return True

    def release(self, client: asyncio.Transport) -> None:
        """Stop counting a client."""
        self._clients.discard(client)

    def handle(self, request: bytes, client: asyncio.Transport) -> None:
        """Answer a request line at once, or at the end of the operation."""
        arguments = _read(request)
        name = arguments.get("command") if arguments is not None else None
        operation = self._operations.get(name) if isinstance(name, str) else None
        operator: Operator | None = None
        if arguments is not None and HANDLE in arguments:
            try:
                operator = self._operator(arguments, str(name))
            except SpanwireError as error:
                audit.warning(
                    "control socket, %s: %s refused: %s", _peer(client), printable(str(name)), printable(str(error))
                )
                _write(client, _refusal(error))
                return
        if arguments is None or operation is None:
            answer = self.answer(request)
            result = answer.get("result")
            loop = asyncio.get_running_loop()
            if isinstance(result, Iterator):
                task = loop.create_task(self._list(str(name), result, client))
            elif isinstance(result, Awaitable):
                task = loop.create_task(self._await(str(name), result, client))
            else:
                _write(client, answer)
                return
        else:
            task = asyncio.get_running_loop().create_task(
                self._operate(str(name), operation, arguments, client, operator)
            )
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _operator(self, arguments: dict[str, object], command: str) -> Operator:
        """Return the user of a handle. Raises `SpanwireError` for a user without the right to a command."""
        if self._handles is None:
            raise ControlError("this broker gives no handles")
        return self._handles.checked(arguments[HANDLE], command)

    def answer(self, request: bytes) -> dict[str, object]:
        """Return the answer to a command.

        The result of a listing command is an iterator, that of a command over several turns is awaitable.
        """
        arguments = _read(request)
        if arguments is None:
            return {"ok": False, "error": "the request is no JSON object"}
        name = arguments.get("command")
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            return {
                "ok": False,
                "error": f"unknown command; there are {', '.join([*self._commands, *self._operations])}",
            }
        try:
            return {"ok": True, "result": command()}
        except Exception:
            logger.exception(FAILURE, name)
            return _failure_answer(name)

    async def _await(self, name: str, result: Awaitable[object], client: asyncio.Transport) -> None:
        """Answer with a value after several turns."""
        try:
            answer: dict[str, object] = {"ok": True, "result": await result}
        except Exception:
            logger.exception(FAILURE, name)
            answer = _failure_answer(name)
        if not client.is_closing():
            _write(client, answer)

    async def _list(
        self, name: str, entries: Iterator[object], client: asyncio.Transport, at_most: int = ENTRIES_PER_TURN
    ) -> None:
        """Answer with a list over several turns."""
        chunks: list[str] = []
        try:
            while chunk := list(islice(entries, at_most)):
                chunks.append(json.dumps(chunk)[1:-1])  # without its brackets
                await asyncio.sleep(0)
        except Exception:
            logger.exception(FAILURE, name)
            _write(client, _failure_answer(name))
            return
        if not client.is_closing():
            client.write(b'{"ok": true, "result": [')
            for number, text in enumerate(chunks):
                client.write((", " + text if number else text).encode("utf-8"))
            client.write(b"]}\n")

    async def _operate(
        self,
        name: str,
        operation: Operation,
        arguments: dict[str, object],
        client: asyncio.Transport,
        operator: Operator | None,
    ) -> None:
        try:
            result = await operation({**arguments, OPERATOR: operator})
            if isinstance(result, Iterator):
                await self._list(name, result, client, ROWS_PER_TURN)
                return
            answer: dict[str, object] = {"ok": True, "result": result}
        except SpanwireError as error:
            answer = _refusal(error)
        except Exception:
            logger.exception(FAILURE, name)
            answer = _failure_answer(name)
        if name not in NOT_NOTED or not answer["ok"]:
            outcome = "done" if answer["ok"] else f"refused: {printable(str(answer['error']))}"
            text = json.dumps(_audited({key: value for key, value in arguments.items() if key not in NOT_AUDITED}))
            source = _peer(client) if operator is None else f"{_peer(client)} for {_named(operator)}"
            audit.info("control socket, %s: %s %s %s", source, name, printable(text), outcome)
        if not client.is_closing():
            _write(client, answer)


def _audited(value: object) -> object:
    """Return an argument without passwords, also within objects, lists and addresses."""
    if isinstance(value, dict):
        return {key: HIDDEN if SECRET_NAME.search(str(key)) else _audited(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_audited(inner) for inner in value]
    if not isinstance(value, str):
        return value
    return _without_options(LOGIN_IN_URI.sub(f"//{HIDDEN}@", value))


def _without_options(text: str) -> str:
    """Return addresses without the values of secret options; the value of another one may be an address itself."""
    parts, end = [], 0
    for option in OPTION_IN_URI.finditer(text):
        if option.start() >= end and SECRET_NAME.search(option[0]):
            stop = VALUE_END.search(text, option.end())
            parts += [text[end : option.end()], HIDDEN]
            end = len(text) if stop is None else stop.start()
    return "".join([*parts, text[end:]])


def _refusal(error: SpanwireError) -> dict[str, object]:
    """Return the answer of a refused request."""
    return {"ok": False, "error": str(error), "code": code_of(error)}


def _named(operator: Operator) -> str:
    """Return user and address for the audit log."""
    return f"user {printable(operator.user)} at {printable(operator.address)}"


def _failure_answer(name: object) -> dict[str, object]:
    """Return the answer for a failed command, without details."""
    return {"ok": False, "error": f"the command {name} failed; the broker's log says why"}


def _peer(client: asyncio.Transport) -> str:
    """Return the process and user of a client, if known to the system."""
    option = getattr(socket, "SO_PEERCRED", None)  # Linux
    connected = client.get_extra_info("socket")
    if option is None or connected is None:
        return "its owner"
    try:
        process, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    except OSError:
        return "its owner"
    return f"process {process} of user {user}"


def _read(request: bytes) -> dict[str, object] | None:
    """Return the JSON object of a request line; None for other lines."""
    try:
        arguments = json.loads(request)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _write(client: asyncio.Transport, answer: dict[str, object]) -> None:
    client.write(json.dumps(answer).encode("utf-8") + b"\n")


class _ControlProtocol(asyncio.Protocol):
    """The connection of one client of the control socket."""

    def __init__(self, server: ControlServer) -> None:
        self._server: Final = server
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, base_transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, base_transport)  # uvloop's class is not a subclass
        if self._server.admit(transport):
            self._transport = transport
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._received += data
        *lines, rest = bytes(self._received).split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            if len(line) <= MAX_REQUEST_BYTES:
                self._server.handle(line, transport)
        if len(rest) > MAX_REQUEST_BYTES or any(len(line) > MAX_REQUEST_BYTES for line in lines):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._server.release(self._transport)
