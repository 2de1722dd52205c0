"""How much the simulations and the property-based tests try: seeds, examples, steps from one power cut to the next.

The interpreted build, several times slower, plays the first seeds and the first quarter of the examples of what the
compiled one plays. The two runs of `make test`, whose profile is `short`, try less once more, because both builds try
the same there. `make test-all` tries all, `make soak` as many seeds as SPANWIRE_SEEDS says, `make fuzz` as many
examples as its profile says. SPANWIRE_FIRST_SEED begins elsewhere; with SPANWIRE_SEEDS=1 that plays one seed again.
"""

from __future__ import annotations

import os
from typing import Final

from spanwire._build import COMPILED

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "default")
IS_SHORT_RUN: Final = PROFILE == "short"
# Of a hundred, and where a test does not say how many.
EXAMPLES: Final = (40 if IS_SHORT_RUN else 100) if COMPILED else (15 if IS_SHORT_RUN else 25)
COUNT: Final = (20 if IS_SHORT_RUN else 50) if COMPILED else (12 if IS_SHORT_RUN else 20)
SHORT: Final = (IS_SHORT_RUN or not COMPILED) and "SPANWIRE_SEEDS" not in os.environ  # no soak
_FIRST = int(os.environ.get("SPANWIRE_FIRST_SEED", "0"))


def share(count: int) -> int:
    """The examples that this run tries of ``count``: all of them in `make fuzz` and with the profile `random`."""
    return max(1, count * EXAMPLES // 100) if PROFILE in ("default", "short") else count


SEEDS = range(_FIRST, _FIRST + int(os.environ.get("SPANWIRE_SEEDS", str(COUNT))))
