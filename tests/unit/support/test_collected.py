"""What tests/conftest.py does with the garbage collector."""

from __future__ import annotations

import gc


def test_what_is_collected_is_exempt_from_garbage_collection_and_what_tests_make_is_not() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000, "pytest and this test's modules alone are more objects"
