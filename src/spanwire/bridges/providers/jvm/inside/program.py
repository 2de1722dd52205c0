"""The loop of a host: reads requests, and hands each to the thread of its connection."""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from typing import IO, Any, Final

import jpype

from spanwire.bridges.providers.jvm.frames import (
    LENGTHS,
    MESSAGES,
    Header,
    check_lengths,
    decode_frame,
    encode_frame,
    read_messages,
)
from spanwire.bridges.providers.jvm.inside.java import (
    ExhaustedError,
    JavaError,
    WrongFactoryError,
    one_line,
    prepare_thread,
    start_machine,
    text_of,
)
from spanwire.bridges.providers.jvm.inside.jms_connection import JmsConnection, RefusedError
from spanwire.bridges.providers.jvm.inside.xa_connection import Branch, XaJmsConnection
from spanwire.model.errors import SpanwireError

Request = tuple[Header, list[bytes]]
PATIENCE_S: Final = 1.0  # seconds for a call under way before a close breaks it; a receive ends within SLICE_MS
EXHAUSTED_STATUS: Final = 3  # of a host without memory, as of Java with -XX:+ExitOnOutOfMemoryError
LOST: Final = (0, -7)  # codes of an XAException without a code, and XAER_RMFAIL


class Output:
    """Writes frames from any thread."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file: Final = file
        self._lock: Final = threading.Lock()

    def write(self, header: Header, blobs: list[bytes]) -> None:
        """Write a frame; a reader that is gone is noticed at the end of the input."""
        frame = encode_frame(header, blobs)
        with self._lock:
            try:
                self._file.write(frame)
                self._file.flush()
            except OSError:
                return


class ConnectionThread:
    """The thread of one connection."""

    def __init__(self, number: int, output: Output) -> None:
        self._number: Final = number
        self._output: Final = output
        self._requests: Final[SimpleQueue[Request | None]] = SimpleQueue()
        self._connection: JmsConnection | None = None
        self._has_ended: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, header: Header, blobs: list[bytes]) -> None:
        """Add a request."""
        self._requests.put((header, blobs))
        if header["do"] == "close":
            threading.Thread(target=self._break, daemon=True).start()

    def _break(self) -> None:
        """Close the connection under a call that does not return, such as a send to a broker with a full disk.

        Without it the messages of the connection would stay with it, and never return to the broker.
        """
        connection = self._connection
        if not self._has_ended.wait(PATIENCE_S) and connection is not None:
            prepare_thread()
            connection.close()

    def cancel(self) -> None:
        """Let a receive return soon."""
        connection = self._connection
        if connection is not None:
            connection.cancel()

    def _run(self) -> None:
        prepare_thread()
        while True:
            request = self._requests.get()
            if request is None:
                return
            header, blobs = request
            answer: Header = {"id": header["id"]}
            answer_blobs: list[bytes] = []
            is_exhausted = False
            try:
                found, answer_blobs = self._perform(header, blobs)
                answer.update(found)
            except RefusedError as error:
                answer.update(error=str(error), refused=error.index)
            except (JavaError, SpanwireError) as error:
                answer.update(error=one_line(str(error)), is_permanent=isinstance(error, WrongFactoryError))
                is_exhausted = isinstance(error, ExhaustedError)
            except jpype.JException as error:
                answer.update(error=text_of(error), **_kind_of(error))
            except Exception as error:  # noqa: BLE001 -- every request has an answer, also after a bug
                answer.update(error=f"{type(error).__name__}: {one_line(str(error))}", is_lost=True)
            self._output.write(answer, answer_blobs)
            if is_exhausted:
                os._exit(EXHAUSTED_STATUS)
            if header["do"] == "close":
                self._has_ended.set()
                return

    def _perform(self, header: Header, blobs: list[bytes]) -> Request:
        action = header["do"]
        if action == "open":
            kind = XaJmsConnection if header["xa"] else JmsConnection
            self._connection = kind(header, self._tell)
            return {}, []
        connection = self._connection
        if connection is None:
            return {}, []
        if action == "receive":
            return connection.receive(header["max_messages"], header["max_bytes"], header["wait_s"])
        if isinstance(connection, XaJmsConnection) and action.startswith("xa_"):
            return _about_branch(connection, header, blobs)
        if action == "open_reply":
            return {"queue": connection.open_reply_queue()}, []
        self._act(connection, action, header, blobs)
        return {}, []

    def _act(self, connection: JmsConnection, action: str, header: Header, blobs: list[bytes]) -> None:
        if action == "commit":
            connection.commit()
        elif action in ("send", "send_and_commit"):
            try:
                connection.send(read_messages(header[MESSAGES], blobs))
            except RefusedError:
                if action == "send_and_commit":
                    connection.roll_back()
                raise
            if action == "send_and_commit":
                connection.commit()
        elif action == "dead_letter":
            connection.dead_letter(header["cause"])
        elif action == "send_reply":
            connection.send_reply(read_messages(header[MESSAGES], blobs)[0], header["destination"])
        elif action == "close_reply":
            connection.close_reply_queue(header["queue"])
        else:
            assert action == "close", action
            connection.close()

    def _tell(self, event: Header, blobs: list[bytes]) -> None:
        self._output.write({**event, "connection": self._number}, blobs)


def _about_branch(connection: XaJmsConnection, header: Header, blobs: list[bytes]) -> Request:
    action: str = header["do"]
    if action == "xa_recover":
        return {"branches": connection.prepared()}, []
    branch: Branch = header["branch"]
    if action == "xa_receive":
        return connection.receive_in(branch, header["max_messages"], header["max_bytes"], header["wait_s"])
    if action == "xa_send":
        connection.send_in(branch, read_messages(header[MESSAGES], blobs))
    elif action == "xa_prepare":
        return {"vote": connection.prepare(branch)}, []
    else:
        connection.settle(action, branch)
    return {}, []


def _kind_of(error: jpype.JException) -> Header:
    """Return the code of an XAException that leaves the connection usable; any other exception is its loss."""
    if str(error.getClass().getName()) != "javax.transaction.xa.XAException":
        return {"is_lost": True}
    code = int(error.errorCode)
    return {"xa_code": code, "is_lost": code in LOST}


def run() -> None:
    """Run until the end of the input. What Java prints goes to the log."""
    output_descriptor = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with os.fdopen(output_descriptor, "wb") as file:
        output = Output(file)
        first = _read(sys.stdin.buffer)
        if first is None:
            return
        header, _ = first
        try:
            start_machine(header["jars"])
        except JavaError as error:
            output.write({"id": header["id"], "error": str(error)}, [])
            return
        output.write({"id": header["id"]}, [])
        connections: dict[int, ConnectionThread] = {}
        while (request := _read(sys.stdin.buffer)) is not None:
            _hand_on(request, connections, output)
        sys.stderr.flush()
        os._exit(0)  # without the threads of Java, which need not end


def _hand_on(request: Request, connections: dict[int, ConnectionThread], output: Output) -> None:
    header, blobs = request
    number: int = header["connection"]
    if header["do"] == "cancel":
        if number in connections:
            connections[number].cancel()
        return
    if header["do"] == "open":
        connections[number] = ConnectionThread(number, output)
    connection: Any = connections.pop(number, None) if header["do"] == "close" else connections.get(number)
    if connection is None:
        output.write({"id": header["id"], "error": "the connection is closed"}, [])
        return
    connection.put(header, blobs)


def _read(file: IO[bytes]) -> Request | None:
    """Return the next frame, or None at the end of the input."""
    lengths = file.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    text, body = LENGTHS.unpack(lengths)
    check_lengths(text, body)
    content = file.read(text + body)
    return decode_frame(content[:text], content[text:]) if len(content) == text + body else None
