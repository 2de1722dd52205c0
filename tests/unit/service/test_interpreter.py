"""How the interpreter of a broker's process is set."""

from __future__ import annotations

import subprocess
import sys

from spanwire.service.machine.interpreter import OLD_COLLECTIONS, YOUNG_COLLECTIONS, YOUNG_OBJECTS

SETTLED = """
import gc
from spanwire.service.machine.interpreter import settle_interpreter
settle_interpreter()
print(gc.get_freeze_count() > 1_000, *gc.get_threshold())
"""


def test_collections_are_short_in_the_process_of_a_broker() -> None:
    told = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True, timeout=60)
    frozen, *thresholds = told.stdout.split()
    assert frozen == "True"
    assert [int(text) for text in thresholds] == [YOUNG_OBJECTS, YOUNG_COLLECTIONS, OLD_COLLECTIONS]
