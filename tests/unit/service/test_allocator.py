"""The allocator is asked in a process of its own: what it keeps is kept until that ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from spanwire.service.machine.allocator import FreeMemory

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


LEAVE_A_BACKLOG = """
import os
from spanwire.service.machine.allocator import RETURN_S, FreeMemory, keep_freed_memory
from tests.support.memory import memory_mib
keep_freed_memory()
backlog = [bytes(1024) for _ in range(60_000)]
kept = backlog[::200]  # blocks that live longer
del backlog
before = memory_mib(os.getpid())
assert FreeMemory().give_back() >= RETURN_S
print(before - memory_mib(os.getpid()))
"""


@pytest.fixture
def free_memory() -> FreeMemory:
    free_memory = FreeMemory()
    if free_memory._trim is None:
        pytest.skip("needs the allocator of glibc")
    return free_memory


@pytest.mark.usefixtures("free_memory")
def test_the_memory_of_a_backlog_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVE_A_BACKLOG], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 40  # of 60 MiB


def test_free_memory_is_returned_again_and_again_until_the_end(
    free_memory: FreeMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        third = asyncio.Event()
        returns = iter((lambda: None, lambda: None, third.set))

        def give_back() -> float:
            next(returns)()
            return 0.0

        monkeypatch.setattr(free_memory, "give_back", give_back)
        free_memory.start(0.0)
        await third.wait()
        free_memory.stop()
        for _ in range(5):
            await asyncio.sleep(0)  # a fourth one would find no function

    asyncio.run(scenario())
