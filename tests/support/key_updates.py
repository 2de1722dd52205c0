"""A TLS 1.3 client that asks for new keys again and again (RFC 8446, section 4.6.3), which Python's ssl module cannot.

It calls OpenSSL directly: an engine with two memory buffers, as in `ssl.SSLObject`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

SSL_KEY_UPDATE_REQUESTED: Final = 1
BUFFER: Final = 1 << 16


class KeyUpdater:
    """One client. ``library`` is libssl, which loads libcrypto with it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library: Final = library
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_new", "BIO_s_mem"):
            getattr(library, name).restype = ctypes.c_void_p
        context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
        self._engine: Final = ctypes.c_void_p(library.SSL_new(context))
        memory = ctypes.c_void_p(library.BIO_s_mem())
        self._incoming: Final = ctypes.c_void_p(library.BIO_new(memory))
        self._outgoing: Final = ctypes.c_void_p(library.BIO_new(memory))
        library.SSL_set_bio(self._engine, self._incoming, self._outgoing)
        library.SSL_set_connect_state(self._engine)
        self._buffer: Final = ctypes.create_string_buffer(BUFFER)

    def shakes_hands(self, exchange: Callable[[bytes], bytes]) -> None:
        """``exchange`` carries bytes to the broker and gives its answer."""
        for _ in range(8):
            done = self._library.SSL_do_handshake(self._engine) == 1
            answer = exchange(self._written())
            self._library.BIO_write(self._incoming, answer, len(answer))
            if done:
                return
        raise AssertionError("the handshake does not end")

    def key_updates(self, count: int) -> bytes:
        """So many requests for new keys, encrypted."""
        found = []
        for _ in range(count):
            assert self._library.SSL_key_update(self._engine, SSL_KEY_UPDATE_REQUESTED) == 1
            assert self._library.SSL_do_handshake(self._engine) == 1
            found.append(self._written())
        return b"".join(found)

    def encrypted(self, data: bytes) -> bytes:
        """Data of the protocol inside."""
        assert self._library.SSL_write(self._engine, data, len(data)) == len(data)
        return self._written()

    def _written(self) -> bytes:
        buffer = self._buffer
        length = self._library.BIO_read(self._outgoing, buffer, BUFFER)
        return ctypes.string_at(buffer, max(0, length))
