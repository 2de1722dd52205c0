"""What all fuzzers do with their arguments: atheris and its options, or a seeded loop of so many inputs."""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Callable


def run(
    arguments: list[str],
    run_bytes: Callable[[bytes], None],
    default_count: int,
    loop: Callable[[random.Random, int], str],
) -> int:
    """Run atheris if it is there and asked with its options or without a count, else ``loop`` with a source of chance
    and a count; it says what it did. Gives the exit status.
    """
    counts = [argument for argument in arguments[1:] if argument.isdecimal()]
    if not counts and importlib.util.find_spec("atheris") is not None:
        atheris = importlib.import_module("atheris")
        atheris.instrument_all()
        atheris.Setup(arguments, run_bytes)
        atheris.Fuzz()
        return 0
    count = int(counts[0]) if counts else default_count
    seed = int(counts[1]) if len(counts) > 1 else 1
    print(f"{loop(random.Random(seed), count)}, seed {seed}")
    return 0
