"""The allocator is asked in a process of its own: what it keeps is kept until that ends."""

from __future__ import annotations

import subprocess
import sys

FREE_AND_TELL = """
import resource
from spanwire.service.machine.allocator import keep_freed_memory
asked = {asked} and keep_freed_memory()
for _ in range(50):
    blocks = [bytearray(1024 * 1024) for _ in range(16)]
    del blocks
print(asked, resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def told(asked: bool) -> tuple[str, int]:
    code = FREE_AND_TELL.format(asked=asked)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    answer, faults = done.stdout.split()
    return answer, int(faults)


def test_memory_of_messages_that_are_gone_is_used_again_without_asking_the_system() -> None:
    answer, faults = told(asked=True)
    _, faults_before = told(asked=False)
    assert answer == "False" or faults < faults_before / 2
