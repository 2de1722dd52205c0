"""TLS around a protocol connection, without a socket (RFC 8446, RFC 5246).

Ciphertext and time go in, ciphertext comes out. `TlsConnection` is a protocol connection itself. So admission,
deadlines, the receive budget and the pump treat it like any other, and a test needs no network. The inner connection is
created after the handshake, with the time at which the socket was opened: one deadline covers handshake, detection and
login.
"""

from __future__ import annotations

import ssl
from typing import Final

from spanwire.broker.security.audit_log import host_of
from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.detect import Report
from spanwire.tls.subject import is_issued_to, subject_of
from spanwire.transports.base import Carrier, ConnectionFactory

HANDSHAKE_DEADLINE: Final = 10.0  # seconds; a shorter login deadline of the connector limits the handshake, too
MAX_RECORD: Final = 16 * 1024  # plaintext of one record
FEED_BYTES: Final = MAX_RECORD + 1024  # ciphertext passed to the engine at a time, about one record
ENCRYPT_BYTES: Final = 64 * 1024  # plaintext passed to the engine at a time; the engine's buffer never shrinks
MAX_UNREAD_REPLIES: Final = 64 * 1024  # bytes of handshakes for a client that asks for new keys and reads no answer
MAX_BARREN_BYTES: Final = 64 * 1024  # ciphertext without plaintext; a handshake with a long chain has 10 KiB

_FAULTS: Final = {
    "HTTP_REQUEST": "the client speaks HTTP, not TLS",
    "HTTPS_PROXY_REQUEST": "the client speaks HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
    "UNKNOWN_PROTOCOL": "the client does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "the client offers no TLS version that is enabled here; 1.2 is the oldest that can be",
    "VERSION_TOO_LOW": "the client offers no TLS version that is enabled here; 1.2 is the oldest that can be",
    "NO_SHARED_CIPHER": "the client offers no cipher suite that is enabled here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, and needClientAuth asks for one",
}


class _WrongAddressError(Exception):
    """Raised when the client's certificate names another machine."""


class TlsConnection:
    """The broker's end of TLS. The inner protocol handles the plaintext, ``context`` holds the keys.

    ``report`` is called with the reason of each connection closed here. With ``verify_address`` a client's certificate
    must name the address of the client. Compiled connections have their port as a base class; this class is not
    compiled and has its shape.
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
        self._verify_address: Final = verify_address
        self._factory: Final = factory
        self._settings: Final = settings
        self._report: Final = report
        self._started: Final = now
        self._timeout: Final = min(HANDSHAKE_DEADLINE, settings.login_timeout)
        self._incoming: Final = ssl.MemoryBIO()
        self._outgoing: Final = ssl.MemoryBIO()
        self._engine: Final = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._inner: ProtocolConnection | None = None
        self._barren_bytes = 0
        self._unread_replies = 0
        self._closed = False
        self._close_notify_sent = False
        self._is_unread = False  # ciphertext waits behind held requests

    @property
    def carried(self) -> object:
        """The connection known to the broker: the innermost connection, before the handshake the TLS layer."""
        inner = self._inner
        if inner is None:
            return self
        return inner.carried if isinstance(inner, Carrier) else inner

    def note_peer_end(self) -> None:
        """Note the client's end of sending, at an inner connection that carries another connection."""
        if isinstance(self._inner, Carrier):
            self._inner.note_peer_end()

    def receive_data(self, data: bytes, now: Time) -> None:
        """Decrypt ciphertext and pass the plaintext on."""
        if not data and self._inner is not None:
            self._inner.receive_data(data, now)
        view = memoryview(data)
        for start in range(0, len(view), FEED_BYTES):
            if self._closed:
                return
            chunk = view[start : start + FEED_BYTES]
            self._incoming.write(chunk)
            self._barren_bytes += len(chunk)
            before = self._outgoing.pending
            self._advance(now)
            self._unread_replies += self._outgoing.pending - before
            if self._unread_replies > MAX_UNREAD_REPLIES:
                self._fail(f"the client left {self._unread_replies} bytes of TLS handshakes unread", now)
            if self._barren_bytes > MAX_BARREN_BYTES:
                self._fail(f"the client sent {self._barren_bytes} bytes of TLS without anything in them", now)

    def go_on(self, now: Time) -> None:
        """Let the inner connection act on held requests, then decrypt the remaining ciphertext."""
        inner = self._inner
        if inner is None or self._closed:
            return
        inner.go_on(now)
        if self._is_unread and not inner.holds_requests:
            self._advance(now)

    def receive_eof(self, now: Time) -> None:
        """Close the connection, because the client closed the socket."""
        self._closed = True
        if self._inner is not None:
            self._inner.receive_eof(now)

    def data_to_send(self) -> list[bytes]:
        """Take the encrypted output."""
        ciphertext: list[bytes] = []
        inner = self._inner
        if inner is not None and not self._close_notify_sent:
            chunks = inner.data_to_send()
            if chunks:
                self._encrypt(chunks, ciphertext)
            if inner.closed or self._closed:
                self._send_close_notify()
        if self._outgoing.pending:
            ciphertext.append(self._outgoing.read())
        return ciphertext

    def unsent(self, count: int) -> None:
        """Note that ``count`` bytes of ciphertext are unsent; the plaintext is hardly shorter."""
        if count == 0:
            self._unread_replies = 0
        if self._inner is not None:
            self._inner.unsent(count)

    def next_timeout(self) -> float | None:
        """Return the deadline of the handshake, later the next timeout of the inner protocol."""
        if self._inner is not None:
            return self._inner.next_timeout()
        return None if self._closed else self._started.monotonic + self._timeout

    def handle_timeout(self, now: Time) -> None:
        """Close a client with a late handshake."""
        if self._inner is not None:
            self._inner.handle_timeout(now)
        elif not self._closed and now.monotonic >= self._started.monotonic + self._timeout:
            self._fail(f"the TLS handshake did not end within {self._timeout:g} s", now)

    @property
    def holds_requests(self) -> bool:
        """True while the inner connection holds requests, or ciphertext waits behind such requests."""
        inner = self._inner
        return not self.closed and inner is not None and (inner.holds_requests or self._is_unread)

    @property
    def wants_read(self) -> bool:
        """True while the inner protocol wants to read."""
        return self._inner is None or self._inner.wants_read

    @property
    def closed(self) -> bool:
        """True if the socket is to be closed."""
        return self._closed or (self._inner is not None and self._inner.closed)

    @property
    def pending_bytes(self) -> int:
        """The ciphertext since the last plaintext, plus the inner protocol's incomplete frame."""
        return self._barren_bytes + (0 if self._inner is None else self._inner.pending_bytes)

    def _advance(self, now: Time) -> None:
        """Decrypt the received ciphertext, up to a held request of the inner connection."""
        try:
            inner = self._inner
            if inner is None:
                inner = self._shake_hands()
            self._is_unread = False
            while not inner.closed:
                if inner.holds_requests:
                    self._is_unread = True
                    return
                plaintext = self._engine.read(MAX_RECORD)
                if not plaintext:
                    self._end_input()
                    return
                self._barren_bytes = 0
                inner.receive_data(plaintext, now)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:
            self._end_input()
        except _WrongAddressError:
            self._fail("the client's certificate is not made out to its address", now)
        except ssl.SSLError as error:
            self._fail(_failure_text(error), now)

    def _end_input(self) -> None:
        """Close after the client's close_notify, as soon as the connection inside holds no more requests."""
        self.note_peer_end()
        self._is_unread = self._inner is not None and self._inner.holds_requests
        self._closed = not self._is_unread

    def _shake_hands(self) -> ProtocolConnection:
        """Return the inner connection; raises `ssl.SSLWantReadError` while the handshake is not done."""
        self._engine.do_handshake()
        certificate = self._engine.getpeercert()
        subject = subject_of(certificate)
        if (
            self._verify_address
            and certificate
            and not is_issued_to(certificate, host_of(self._settings.remote_address))
        ):
            raise _WrongAddressError
        inner = self._factory(self._settings.with_certificate(subject), self._started)
        self._inner = inner
        self._barren_bytes = 0
        return inner

    def _encrypt(self, chunks: list[bytes], ciphertext: list[bytes]) -> None:
        """Encrypt chunks into records; small chunks share a record."""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        view = memoryview(data)
        try:
            for start in range(0, len(view), ENCRYPT_BYTES):
                self._engine.write(view[start : start + ENCRYPT_BYTES])
                ciphertext.append(self._outgoing.read())
        except ssl.SSLError:
            self._closed = self._close_notify_sent = True  # the client ended TLS and reads nothing more

    def _send_close_notify(self) -> None:
        """Announce the end of the output; without it the client would suspect a cut connection."""
        self._close_notify_sent = True
        try:
            self._engine.unwrap()
        except ssl.SSLError:
            return  # the client's close_notify is not awaited

    def _fail(self, reason: str, now: Time) -> None:
        if not self._closed:
            self._closed = True
            self._report(reason, now)


def _failure_text(error: ssl.SSLError) -> str:
    """Return the reason why TLS failed, for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate was refused: {error.verify_message}"
    reason = error.reason or "unknown error"
    fault = _FAULTS.get(reason)
    if fault is not None:
        return fault
    text = reason.lower().replace("_", " ")
    if "ALERT" in reason:
        return f"the client ended TLS: {text.rpartition('alert ')[2]}"
    return f"TLS broke: {text}"
