"""A connection with a change to TLS at the client's request (RFC 6120, section 5)."""

from __future__ import annotations

import ssl
from typing import Final, Protocol, cast

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.detect import Report
from spanwire.transports.base import Carrier, ConnectionFactory
from spanwire.transports.tls import TlsConnection


class Upgradable(ProtocolConnection, Protocol):
    """A protocol's connection, able to end in front of TLS."""

    wants_tls: bool  # once the answer to the client's request is in the output


class StartTlsConnection:
    """Passes all to the connection of ``factory``, and after an answer to STARTTLS to a `TlsConnection`.

    The connection inside of TLS is new, without knowledge of the bytes in clear. The deadline of the login counts from
    the start of the socket. ``report`` is called with the reason of each connection closed by TLS.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        factory: ConnectionFactory,
        settings: ConnectionSettings,
        report: Report,
        now: Time,
        *,
        verify_address: bool = False,
    ) -> None:
        self._context: Final = context
        self._factory: Final = factory
        self._settings: Final = settings
        self._report: Final = report
        self._started: Final = now
        self._verify_address: Final = verify_address
        self._last_words: list[bytes] = []  # output in clear that precedes TLS
        self._plain: Upgradable | None = cast(Upgradable, factory(settings, now))
        self._inner: ProtocolConnection = self._plain

    @property
    def carried(self) -> object:
        """The connection known to the broker: the innermost connection."""
        inner = self._inner
        return inner.carried if isinstance(inner, Carrier) else inner

    def note_peer_end(self) -> None:
        """Tell TLS of the client's end of sending."""
        if isinstance(self._inner, Carrier):
            self._inner.note_peer_end()

    def receive_data(self, data: bytes, now: Time) -> None:
        """Pass bytes on."""
        self._inner.receive_data(data, now)
        self._upgrade(now)

    def go_on(self, now: Time) -> None:
        """Let the connection go on with held requests."""
        self._inner.go_on(now)
        self._upgrade(now)

    def _upgrade(self, now: Time) -> None:
        """Put TLS in the place of a connection with a request for TLS; no bytes of the client are held then."""
        plain = self._plain
        if plain is None or not plain.wants_tls or plain.closed:
            return
        self._last_words = plain.data_to_send()
        plain.receive_eof(now)
        self._plain = None
        self._inner = TlsConnection(
            self._context,
            self._factory,
            self._settings,
            self._report,
            self._started,
            verify_address=self._verify_address,
        )

    def receive_eof(self, now: Time) -> None:
        """Handle the end of the socket."""
        self._inner.receive_eof(now)

    def data_to_send(self) -> list[bytes]:
        """Take the output."""
        output = self._inner.data_to_send()
        if self._last_words:
            output = self._last_words + output
            self._last_words = []
        return output

    def unsent(self, count: int) -> None:
        """Pass on a count of unsent bytes."""
        self._inner.unsent(count)

    def next_timeout(self) -> float | None:
        """Return the next timeout of the connection."""
        return self._inner.next_timeout()

    def handle_timeout(self, now: Time) -> None:
        """Handle a timeout of the connection."""
        self._inner.handle_timeout(now)

    @property
    def holds_requests(self) -> bool:
        """True while the connection holds requests."""
        return self._inner.holds_requests

    @property
    def wants_read(self) -> bool:
        """True while the connection wants to read."""
        return self._inner.wants_read

    @property
    def closed(self) -> bool:
        """True if the socket is to be closed."""
        return self._inner.closed

    @property
    def pending_bytes(self) -> int:
        """The bytes in memory of an incomplete stanza or record."""
        return self._inner.pending_bytes
