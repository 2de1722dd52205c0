"""What holds for every test: the Hypothesis profiles, chosen by HYPOTHESIS_PROFILE (`make fuzz` sets `fuzz`), and that
no log record shows the canary password, at any level.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.canary import CanaryWatch

# No deadlines: the same test runs interpreted and compiled, alone and beside others, and must not depend on speed.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "fuzz", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def canary_watch() -> Iterator[CanaryWatch]:
    """Hears every logger down to DEBUG."""
    watch = CanaryWatch()
    root = logging.getLogger()
    before = root.level
    root.addHandler(watch)
    root.setLevel(logging.DEBUG)
    yield watch
    root.removeHandler(watch)
    root.setLevel(before)


@pytest.fixture(autouse=True)
def _canary_stays_hidden(canary_watch: CanaryWatch) -> Iterator[None]:
    """CVE-2025-27391: a password in a log."""
    canary_watch.take()
    yield
    assert canary_watch.take() == [], "a log record holds the canary password"
