"""What holds for every test: the Hypothesis profiles, chosen by HYPOTHESIS_PROFILE (`make fuzz` sets `fuzz`)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadlines: the same test runs interpreted and compiled, alone and beside others, and must not depend on speed.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "fuzz", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
