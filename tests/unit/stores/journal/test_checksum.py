from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.stores.journal.segments.checksum import crc32


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_the_quick_checksum_is_that_of_zlib(data: bytes, start: int, skipped: int) -> None:
    pytest.importorskip("zlib_ng", reason="the extra speed is not installed")
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data)[skipped:], start) == zlib.crc32(memoryview(data)[skipped:], start)
