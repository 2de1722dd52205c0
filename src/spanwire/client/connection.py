"""The client's side of one OpenWire connection without a socket: commands out, answers and dispatches in.

    connection.receive_data(data, now); write(connection.data_to_send())
    number = connection.request(command); … connection.take_answer(number)

The handshake follows ActiveMQ: a WireFormatInfo from each side at once, then the ConnectionInfo. Leaves to the shell
the waiting, and to `spanwire.client.session` what the commands mean. A class name that the broker sends is text.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.model.errors import AuthenticationError, JmsError, RemoteProtocolError
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.wire_format import (
    WireFormat,
    WireFormatPreferences,
    negotiate,
    wire_format_info,
)

MAX_UNTAKEN_ANSWERS: Final = 10_000  # more answers nobody took means that the broker answers what was not asked
MAX_UNTAKEN_DISPATCHES: Final = 65_536  # twice the largest prefetch
SECURITY_EXCEPTION: Final = "java.lang.SecurityException"
PLAIN_EXCEPTIONS: Final = ("", "javax.jms.JMSException")  # their message says it all


class Connection:
    """One connection. Commands before the handshake's end wait for it."""

    def __init__(self, info: wire.ConnectionInfo, now: float, host: str | None = None) -> None:
        self.broker_name: str | None = None
        self.is_negotiated = False
        self.dispatches: Final[deque[wire.MessageDispatch]] = deque()
        self.failure: JmsError | None = None
        self._preferences: Final[WireFormatPreferences] = WireFormatPreferences(host=host)
        self._decoder: Final[FrameDecoder] = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._decoder.authenticated()  # the broker's frames are as large as its messages from the first one on
        self._encoder = FrameEncoder()
        self._out: list[bytes] = [self._encoder.encode(wire_format_info(self._preferences))]
        self._waiting: list[wire.BaseCommand | wire.Message] = []
        self._answers: Final[dict[int, wire.Response]] = {}
        self._last_id = 0
        self._inactivity = 0.0
        self._last_received = now
        self._last_sent = now
        self.login: Final[int] = self.request(info)

    def request(self, command: wire.BaseCommand) -> int:
        """Send a command that the broker answers; gives the number to ask `take_answer` for."""
        command.response_required = True
        self.send(command)
        return self._last_id

    def send(self, command: wire.BaseCommand) -> None:
        """Send a command; it is answered only if it asks for that."""
        self._last_id += 1
        command.command_id = self._last_id
        if self.is_negotiated:
            self._out.append(self._encoder.encode(command))
        else:
            self._waiting.append(command)

    def take_answer(self, number: int) -> bool:
        """Whether the request of that number is done. Raises the `JmsError` that the broker refused it with."""
        answer = self._answers.pop(number, None)
        if answer is None:
            if self.failure is not None:
                raise self.failure
            return False
        if isinstance(answer, wire.ExceptionResponse):
            raise refusal(answer)
        return True

    def data_to_send(self) -> bytes:
        """What is to be written; the connection forgets it."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes from the broker. Raises `RemoteProtocolError` when they are no OpenWire."""
        self._last_received = now
        commands = self._decoder.feed(data)
        while commands:
            for command in commands:
                self._receive(command)
            commands = self._decoder.feed(b"")

    def sent(self, now: float) -> None:
        """The shell has written something."""
        self._last_sent = now

    def next_timeout(self) -> float | None:
        """When `handle_timeout` wants to be called; None without keep-alives."""
        if self._inactivity <= 0:
            return None
        return min(self._last_sent + self._inactivity / 3, self._last_received + self._inactivity)

    def handle_timeout(self, now: float) -> None:
        """Send a keep-alive; note a broker that is silent for the negotiated time."""
        if self._inactivity <= 0:
            return
        if now >= self._last_received + self._inactivity:
            self.failure = JmsError(f"the broker has been silent for {self._inactivity:g} s")
        elif now >= self._last_sent + self._inactivity / 3:
            self._last_sent = now
            self.send(wire.KeepAliveInfo())

    def _receive(self, command: wire.Command) -> None:
        if isinstance(command, wire.MessageDispatch):
            if len(self.dispatches) >= MAX_UNTAKEN_DISPATCHES:
                raise RemoteProtocolError("the broker sends more messages than were asked for")
            self.dispatches.append(command)
        elif isinstance(command, wire.Response):
            if len(self._answers) >= MAX_UNTAKEN_ANSWERS:
                raise RemoteProtocolError("the broker answers what was not asked")
            self._answers[command.correlation_id] = command
        elif isinstance(command, wire.WireFormatInfo):
            self._negotiated(negotiate(self._preferences, command))
        elif isinstance(command, wire.BrokerInfo):
            self.broker_name = command.broker_name
        elif isinstance(command, wire.KeepAliveInfo):
            if command.response_required:
                self.send(wire.KeepAliveInfo())
        elif isinstance(command, wire.ConnectionError):
            thrown = command.exception
            self.failure = JmsError(f"the broker closed the connection: {thrown.message if thrown else 'no reason'}")
        # a ShutdownInfo or ControlCommand of the broker changes nothing here: the socket's end says it all

    def _negotiated(self, wire_format: WireFormat) -> None:
        self._decoder.negotiated(wire_format)
        self._encoder = FrameEncoder(wire_format)
        self._inactivity = wire_format.max_inactivity_ms / 1000
        self.is_negotiated = True
        for command in self._waiting:
            self._out.append(self._encoder.encode(command))
        self._waiting.clear()


def refusal(answer: wire.ExceptionResponse) -> JmsError:
    """The error behind an ExceptionResponse. The class name is text and chooses no code."""
    thrown = answer.exception
    if thrown is None:
        return JmsError("the broker refused the request without a reason")
    class_name = thrown.class_name or ""
    text = thrown.message or "no reason"
    if class_name == SECURITY_EXCEPTION:
        return AuthenticationError(text)
    if class_name in PLAIN_EXCEPTIONS:
        return JmsError(text)
    return JmsError(f"{class_name.rpartition('.')[2]}: {text}")
