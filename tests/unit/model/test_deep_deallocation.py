"""Objects that garbage collection skips are freed at any depth without writing outside of them."""

from __future__ import annotations

import os
import subprocess
import sys

from spanwire._build import COMPILED

# CPython's allocator with guards around each block says which was written to. Its trashcan sets objects aside whose
# containers are the 50th, the 100th and so on that are freed within another.
FREE_AT_EACH_DEPTH = """
from spanwire.model.ids import MessageId, ProducerId

for depth in range(1, 160):
    nested = MessageId(ProducerId("ID:deep", 1, depth), 1)
    for _ in range(depth):
        nested = (nested,)
    del nested
print("freed")
"""


def test_objects_without_garbage_collection_are_freed_at_each_depth_of_containers() -> None:
    guarded = os.environ | {"PYTHONMALLOC": "debug"}
    run = subprocess.run(
        [sys.executable, "-c", FREE_AT_EACH_DEPTH], env=guarded, capture_output=True, text=True, timeout=60
    )
    assert (run.stdout, run.stderr, run.returncode) == ("freed\n", "", 0), f"compiled: {COMPILED}"
