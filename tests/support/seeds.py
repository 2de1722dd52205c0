"""The seeds of the simulations: fifty in every test run, as many as SPANWIRE_SEEDS says in `make soak`. The
interpreted build, several times slower, plays the first two fifths of what the compiled one plays of the same source.

SPANWIRE_FIRST_SEED begins elsewhere; with SPANWIRE_SEEDS=1 that plays one seed again.
"""

from __future__ import annotations

import os
from typing import Final

from spanwire._build import COMPILED

COUNT: Final = 50 if COMPILED else 20
SHORT: Final = not COMPILED and "SPANWIRE_SEEDS" not in os.environ  # no soak
_FIRST = int(os.environ.get("SPANWIRE_FIRST_SEED", "0"))


def share(count: int) -> int:
    """The examples that this build tries where the compiled one tries ``count``: a quarter, but all in `make fuzz`."""
    return count if COMPILED or "HYPOTHESIS_PROFILE" in os.environ else max(1, count // 4)


SEEDS = range(_FIRST, _FIRST + int(os.environ.get("SPANWIRE_SEEDS", str(COUNT))))
