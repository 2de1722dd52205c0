"""The seeds of the simulations: a hundred in every test run, as many as SPANWIRE_SEEDS says in `make soak`.

SPANWIRE_FIRST_SEED begins elsewhere; with SPANWIRE_SEEDS=1 that plays one seed again.
"""

from __future__ import annotations

import os

_FIRST = int(os.environ.get("SPANWIRE_FIRST_SEED", "0"))
SEEDS = range(_FIRST, _FIRST + int(os.environ.get("SPANWIRE_SEEDS", "100")))
