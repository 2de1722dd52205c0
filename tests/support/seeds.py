"""The seeds of the simulations: a hundred in every test run, as many as SPANWIRE_SEEDS says in `make soak`."""

from __future__ import annotations

import os

SEEDS = range(int(os.environ.get("SPANWIRE_SEEDS", "100")))
