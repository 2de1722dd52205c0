"""Compressed bodies as other brokers write them."""

from __future__ import annotations

import zlib

import pytest

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import BYTES, TEXT
from spanwire.protocols.openwire.messages.message_body import neutral_body

PLAIN = b"\x00\x00\x00\x05hello"


def flushed(octets: bytes) -> bytes:
    """A stream that was flushed and never finished."""
    stream = zlib.compressobj()
    return stream.compress(octets) + stream.flush(zlib.Z_SYNC_FLUSH)


def test_a_stream_that_was_flushed_and_never_finished_is_read() -> None:
    assert neutral_body(TEXT, flushed(PLAIN), True) == b"hello"
    assert neutral_body(BYTES, b"\x00\x00\x00\x05" + flushed(b"hello"), True) == b"hello"


@pytest.mark.parametrize("octets", [flushed(PLAIN)[:-1], zlib.compress(PLAIN)[:-1], flushed(PLAIN[:-1])])
def test_a_stream_that_is_cut_elsewhere_is_refused(octets: bytes) -> None:
    with pytest.raises(MessageFormatError):
        neutral_body(TEXT, octets, True)
