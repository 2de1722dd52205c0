"""The seeds of the simulations: a hundred in every test run, as many as SPANWIRE_SEEDS says in `make soak`. The
interpreted build, several times slower, plays the first half of what the compiled one plays of the same source.

SPANWIRE_FIRST_SEED begins elsewhere; with SPANWIRE_SEEDS=1 that plays one seed again.
"""

from __future__ import annotations

import os
from typing import Final

from spanwire._build import COMPILED

COUNT: Final = 100 if COMPILED else 50
_FIRST = int(os.environ.get("SPANWIRE_FIRST_SEED", "0"))
SEEDS = range(_FIRST, _FIRST + int(os.environ.get("SPANWIRE_SEEDS", str(COUNT))))
