"""One client of OpenWire over HTTP: an asyncio transport between requests and answers.

    POST → XML → frame → SocketPump.data_received
    GET  ← XML ← frame ← TunnelSession.write

Pump and connection are the same as behind a TCP socket. So limits, rights, keep-alives and the end of a silent client
are the same. The connection's keep-alive answers a GET after a third of the inactivity period, and every request counts
as a sign of life.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from spanwire.model.environment import Time
from spanwire.protocols.openwire.codec._marshallers import WIRE_FORMAT_INFO
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.transports.base import EventLoop, StreamTransport

if TYPE_CHECKING:
    from spanwire.transports.loop.pump import SocketPump

XML_SHARE: Final = 2  # characters of XML for each byte of a frame: Base64, and names of fields
XML_MARGIN: Final = 64 * 1024  # bytes; names of classes and fields of a small command


class TunnelledConnection(Protocol):
    """The part of a broker's connection used by a session."""

    @property
    def frame_limit(self) -> int:
        """The largest frame allowed to the client now, in bytes."""
        ...


class SessionOwner(Protocol):
    """The table of sessions (`spanwire.transports.http.tunnel.Tunnel`)."""

    def touch(self, connection: object) -> None:
        """Let a connection look after the session at the end of the turn."""
        ...

    def forget(self, session: TunnelSession) -> None:
        """Remove an ended session from the table."""
        ...


class TunnelSession:
    """The session of a client, with the shape of an asyncio transport for a connection's pump."""

    def __init__(
        self,
        name: str,
        identity: tuple[str, str | None],
        address: tuple[str, int],
        owner: SessionOwner,
        loop: EventLoop,
    ) -> None:
        """Create a session of the client ``identity``: the host and the subject of the certificate.

        ``address`` is for the log.
        """
        self.name: Final[str] = name
        self._address: Final[tuple[str, int]] = address
        self.identity: Final[tuple[str, str | None]] = identity
        self.has_ended = False
        self.connection: TunnelledConnection | None = None
        self._owner: Final = owner
        self._loop: Final = loop
        self._pump: SocketPump | None = None
        self._frames: Final[deque[bytes]] = deque()
        self._incomplete = bytearray()
        self._unsent_bytes = 0
        self._reader: object | None = None  # the connection of the GET that waits
        self._writer: object | None = None  # the connection of a POST that waits
        self._is_reading = True

    @property
    def text_limit(self) -> int:
        """The longest XML of a command, in bytes; longer after the login."""
        return XML_MARGIN + (0 if self.connection is None else XML_SHARE * self.connection.frame_limit)

    def connect(self, pump: SocketPump, hello: bytes) -> None:
        """Connect the pump and pass the WireFormatInfo missing from clients over HTTP."""
        self._pump = pump
        pump.connection_made(self)
        if not self.has_ended:
            pump.data_received(hello)

    # Called for requests.

    def note_activity(self) -> None:
        """Note that the client has made a request."""
        if self._pump is not None:
            self._pump.note_activity()

    @property
    def takes_commands(self) -> bool:
        """True if the connection takes a command now, or never again."""
        return self._is_reading or self.has_ended

    def hold(self, writer: object) -> bool:
        """Touch ``writer`` as soon as commands are taken. Returns False if another request waits already."""
        if self._writer is not None and self._writer is not writer:
            return False
        self._writer = writer
        return True

    def hold_no_more(self, writer: object) -> None:
        """End the wait of ``writer``."""
        if self._writer is writer:
            self._writer = None

    def receive(self, frame: bytes) -> None:
        """Pass a command to the connection."""
        if self._pump is not None and not self.has_ended:
            self._pump.data_received(frame)

    def take(self) -> bytes | None:
        """Return the next command for the client, or None."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._unsent_bytes -= len(frame)
        if self.has_ended and not self._frames:
            self._owner.forget(self)
        elif self._pump is not None:
            self._pump.resume_writing()  # the number of unsent bytes has changed
        return frame

    def wait(self, reader: object) -> bool:
        """Touch ``reader`` as soon as there is a command. Returns False if another request waits."""
        if self._reader is not None and self._reader is not reader:
            return False
        self._reader = reader
        return True

    def wait_no_more(self, reader: object) -> None:
        """End the wait of ``reader``."""
        if self._reader is reader:
            self._reader = None

    def leave(self) -> None:
        """End the session, because the client has gone."""
        if self._pump is not None and not self.has_ended:
            self._pump.eof_received()

    def give_up(self, reason: str, now: Time) -> None:
        """End the session for a mistake of the client, with a line in the log."""
        if self._pump is not None and not self.has_ended:
            self._pump.give_up(reason, now)

    # The methods of StreamTransport, called by the pump.

    def write(self, data: bytes) -> None:
        """Cut the broker's bytes into commands for coming GET requests."""
        incomplete = self._incomplete
        incomplete += data
        position = 0
        while len(incomplete) - position >= SIZE_OCTETS:
            end = position + SIZE_OCTETS + int.from_bytes(incomplete[position : position + SIZE_OCTETS], "big")
            if end > len(incomplete):
                break
            if incomplete[position + SIZE_OCTETS] != WIRE_FORMAT_INFO:  # clients over HTTP negotiate nothing
                frame = bytes(incomplete[position:end])
                self._frames.append(frame)
                self._unsent_bytes += len(frame)
            position = end
        del incomplete[:position]
        self._wake()

    def get_write_buffer_size(self) -> int:
        """Return the bytes of commands not yet requested by the client."""
        return self._unsent_bytes + len(self._incomplete)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits: `SocketPump.resume_writing` is called for each taken command."""

    def pause_reading(self) -> None:
        """Let requests with commands wait."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Let the waiting request pass on the command."""
        self._is_reading = True
        if self._writer is not None:
            self._owner.touch(self._writer)

    def can_write_eof(self) -> bool:
        """Return False: commands stay for some seconds after the end."""
        return False

    def write_eof(self) -> None:
        """Do nothing; `can_write_eof` is False."""

    def close(self) -> None:
        """End the connection. Commands stay until requested by the client, or until `abort`."""
        if not self.has_ended:
            self.has_ended = True
            self._loop.call_soon(self._report_loss)
            self._wake()
            self.resume_reading()
        if not self._frames:
            self._owner.forget(self)

    def abort(self) -> None:
        """End the connection and drop the commands."""
        self._frames.clear()
        self._unsent_bytes = 0
        self.close()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the address of the client, as of a socket."""
        return self._address if name == "peername" else default

    def _wake(self) -> None:
        reader = self._reader
        if reader is not None and (self._frames or self.has_ended):
            self._owner.touch(reader)

    def _report_loss(self) -> None:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.connection_lost(None)


def _is_transport(session: TunnelSession) -> StreamTransport:
    """Let the type checker compare the session with the port."""
    return session
