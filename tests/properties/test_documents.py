"""Whatever brokers, programs and files tell in documents, it is read, left out, or refused in one line."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.fuzz_documents import TARGET, one


@given(st.integers(0, 2**32))
def test_damaged_documents_are_read_left_out_or_refused(seed: int) -> None:
    one(random.Random(seed))


@given(st.binary(max_size=300))
def test_any_bytes_are_left_out_or_refused(data: bytes) -> None:
    TARGET.run(data)
