"""TLS around a protocol connection, without a socket: ciphertext and time in, ciphertext out (RFC 8446, RFC 5246).

It is a protocol connection itself, so that admission, deadlines, the receive budget and the pump treat it like any
other, and a test needs no network. The connection inside is made when the handshake is done, as of the socket's first
moment: one deadline holds for handshake, detection and login together.
"""

from __future__ import annotations

import ssl
from typing import Final

from spanwire.broker.security.audit_log import host_of
from spanwire.model.environment import Time
from spanwire.model.units import KIB
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.detect import Report
from spanwire.tls.subject import is_made_out_to, subject_of
from spanwire.transports.base import Carrier, ConnectionFactory

HANDSHAKE_DEADLINE: Final = 10.0  # seconds; a connector's shorter time to log in holds for the handshake, too
MAX_RECORD: Final = 16 * KIB  # plaintext of one record
FEED_BYTES: Final = MAX_RECORD + KIB  # ciphertext given to the engine at a time: about one record
ENCRYPT_BYTES: Final = 64 * KIB  # plaintext given to it at a time: its buffer keeps the size it once had
MAX_UNREAD_REPLIES: Final = 64 * KIB  # of the engine itself, to a client that asks for new keys and reads nothing
MAX_BARREN_BYTES: Final = 64 * KIB  # ciphertext without a byte of plaintext: a handshake with a long chain has 10 KiB

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
    """The client's certificate is another machine's."""


class TlsConnection:
    """The broker's end of TLS. Leaves keys and rules to ``context``, and what is said inside to the protocol.

    ``report`` hears why a connection was closed here. With ``verify_address`` a client's certificate must be made out
    to the address from which it comes. Compiled connections carry their port as a base class; this one is not compiled
    and meets it by its shape.
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
        self._is_unread = False  # there is ciphertext behind requests that are held

    @property
    def carried(self) -> object:
        """The connection that the broker knows; this one until the handshake is done."""
        inner = self._inner
        if inner is None:
            return self
        return inner.carried if isinstance(inner, Carrier) else inner

    def receive_data(self, data: bytes, now: Time) -> None:
        """Take ciphertext, pass on the plaintext."""
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
        """Act on requests that are held, then on those that are not decrypted yet."""
        inner = self._inner
        if inner is None or self._closed:
            return
        inner.go_on(now)
        if self._is_unread and not inner.holds_requests:
            self._advance(now)

    def receive_eof(self, now: Time) -> None:
        """The client is gone."""
        self._closed = True
        if self._inner is not None:
            self._inner.receive_eof(now)

    def data_to_send(self) -> list[bytes]:
        """Take what is to be written, encrypted."""
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
        """The transport still holds ``count`` bytes; ciphertext is little longer than what it hides."""
        if count == 0:
            self._unread_replies = 0
        if self._inner is not None:
            self._inner.unsent(count)

    def next_timeout(self) -> float | None:
        """The deadline of the handshake, then what the protocol asks for."""
        if self._inner is not None:
            return self._inner.next_timeout()
        return None if self._closed else self._started.monotonic + self._timeout

    def handle_timeout(self, now: Time) -> None:
        """Close a client whose handshake does not end."""
        if self._inner is not None:
            self._inner.handle_timeout(now)
        elif not self._closed and now.monotonic >= self._started.monotonic + self._timeout:
            self._fail(f"the TLS handshake did not end within {self._timeout:g} s", now)

    @property
    def holds_requests(self) -> bool:
        """True while the protocol's connection holds some, or ciphertext waits behind those."""
        inner = self._inner
        return not self.closed and inner is not None and (inner.holds_requests or self._is_unread)

    @property
    def wants_read(self) -> bool:
        """What the protocol wants."""
        return self._inner is None or self._inner.wants_read

    @property
    def closed(self) -> bool:
        """Whether the socket is to be closed."""
        return self._closed or (self._inner is not None and self._inner.closed)

    @property
    def pending_bytes(self) -> int:
        """What came since the last plaintext, and the protocol's half frame."""
        return self._barren_bytes + (0 if self._inner is None else self._inner.pending_bytes)

    def _advance(self, now: Time) -> None:
        """Decrypt what has come, up to a request that the protocol's connection holds."""
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
                    self._closed = True  # the client said goodbye
                    return
                self._barren_bytes = 0
                inner.receive_data(plaintext, now)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:
            self._closed = True
        except _WrongAddressError:
            self._fail("the client's certificate is not made out to its address", now)
        except ssl.SSLError as error:
            self._fail(_failure_text(error), now)

    def _shake_hands(self) -> ProtocolConnection:
        """The connection inside; raises `ssl.SSLWantReadError` while the handshake is not done."""
        self._engine.do_handshake()
        certificate = self._engine.getpeercert()
        subject = subject_of(certificate)
        if (
            self._verify_address
            and certificate
            and not is_made_out_to(certificate, host_of(self._settings.remote_address))
        ):
            raise _WrongAddressError
        inner = self._factory(self._settings.with_certificate(subject), self._started)
        self._inner = inner
        self._barren_bytes = 0
        return inner

    def _encrypt(self, chunks: list[bytes], ciphertext: list[bytes]) -> None:
        """Small chunks share records."""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        view = memoryview(data)
        try:
            for start in range(0, len(view), ENCRYPT_BYTES):
                self._engine.write(view[start : start + ENCRYPT_BYTES])
                ciphertext.append(self._outgoing.read())
        except ssl.SSLError:
            self._closed = self._close_notify_sent = True  # the client ended TLS; nobody reads any more

    def _send_close_notify(self) -> None:
        """What comes next is the end, and nobody cut the connection."""
        self._close_notify_sent = True
        try:
            self._engine.unwrap()
        except ssl.SSLError:
            return  # it does not wait for the client's own

    def _fail(self, reason: str, now: Time) -> None:
        if not self._closed:
            self._closed = True
            self._report(reason, now)


def _failure_text(error: ssl.SSLError) -> str:
    """Why TLS broke, for the log."""
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
