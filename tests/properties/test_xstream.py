"""Whatever text arrives as a command in XML, it is read as a frame or refused in one line."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.fuzz_xstream import TARGET, damaged, rearranged


@given(st.integers(0, 2**32))
def test_damaged_commands_are_read_or_refused(seed: int) -> None:
    TARGET.run(damaged(random.Random(seed), TARGET.samples))


@given(st.integers(0, 2**32))
def test_rearranged_commands_are_read_or_refused(seed: int) -> None:
    TARGET.run(rearranged(random.Random(seed), TARGET.samples))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    before = TARGET.read
    TARGET.run(data)
    assert TARGET.read == before
