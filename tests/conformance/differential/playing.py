"""Finds the scenarios and plays them."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Final

from tests.conformance.differential.stage import PATIENCE_MS, Failed, PlayedBroker, Stage
from tests.support.java import JavaProcess

Scenario = Callable[[Stage], None]

MODULES: Final = (
    "acknowledgement", "queues", "topics", "transactions", "destinations", "timing", "advisories", "messages",
    "statistics", "dead_letters", "policies", "windows",
)  # fmt: skip
PACKAGE: Final = "tests.conformance.differential.scenarios"


def scenarios(*modules: str) -> dict[str, Scenario]:
    """The public functions of the modules, as `module.function`, in the order in which they stand there."""
    found: dict[str, Scenario] = {}
    for name in modules:
        module = importlib.import_module(f"{PACKAGE}.{name}")
        for function, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not function.startswith("_"):
                found[f"{name}.{function}"] = value
    return found


def play(
    java: JavaProcess, broker: PlayedBroker, name: str, scenario: Scenario, take: int, patience_ms: int = PATIENCE_MS
) -> list[str]:
    """The transcript of one scenario on one broker. A refusal of something that all the rest needs ends it. Another
    take of it has destinations of its own, so that it finds nothing that the one before left behind.
    """
    played = name.rpartition(".")[2]
    stage = Stage(java, broker, played if take == 1 else f"{played}_{take}", patience_ms)
    try:
        scenario(stage)
    except Failed:
        pass
    finally:
        stage.ends()
    return stage.transcript


def unlike(ours: list[str], classics: list[str]) -> list[str]:
    """The lines in which two transcripts differ: Classic's with a minus, Spanwire's with a plus."""
    return [line for line in difflib.ndiff(classics, ours) if line.startswith(("- ", "+ "))]
