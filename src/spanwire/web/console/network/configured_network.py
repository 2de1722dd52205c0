"""The network of the configuration files: dry runs and findings, as of ``spanwire network``.

The broker names its own file, and the files of other brokers from ``networkFiles`` of ``<web>``. Changed files are read
again. Reading and checking take place in a thread, and other pages are served meanwhile.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.service.network_lint.dry_run import DryRun, dry_runs
from spanwire.service.network_lint.lint_findings import LintFinding
from spanwire.service.network_lint.network_files import NetworkFiles, read_network
from spanwire.service.network_lint.network_lint import NetworkLint
from spanwire.web.calls import Call
from spanwire.web.console.forms import Form
from spanwire.web.console.network.known_network import KnownNetwork

MAX_RUNS: Final = 100  # goals of a question without one; each is a search of its own
MAX_NAME: Final = 1_000  # characters of a destination or selector in a question


@dataclass(frozen=True, slots=True)
class Question:
    """A requested route: a message for ``destination`` sent at ``start``, and a consumer at ``goal``."""

    start: str
    destination: str
    goal: str
    is_topic: bool
    selector: str


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Settings of the console in the broker's configuration."""

    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings about a network; ``errors`` are lines about unreadable files."""

    findings: tuple[LintFinding, ...]
    errors: tuple[str, ...]
    strangers: tuple[str, ...]
    brokers: int


def read_question(words: Form, own: str) -> Question | None:
    """Return the question of a query; None without a destination."""
    destination = words.text("destination").strip()[:MAX_NAME]
    if not destination:
        return None
    return Question(
        words.text("from").strip()[:MAX_NAME] or own,
        destination,
        words.text("to").strip()[:MAX_NAME],
        words.text("kind") == "topic",
        words.text("selector").strip()[:MAX_NAME],
    )


async def settings_of(call: Call) -> ConsoleSettings:
    """Return the console's settings; asked for in the name of the web process."""
    answer = await call.link.ask("console")
    if not isinstance(answer, dict):
        return ConsoleSettings()
    files = answer.get("network_files")
    return ConsoleSettings(tuple(str(one) for one in files) if isinstance(files, list) else ())


async def runs_of(call: Call, question: Question, network: KnownNetwork) -> tuple[list[DryRun], str]:
    """Return the dry runs for a question, or the reason for an empty answer."""
    settings = await settings_of(call)
    if not settings.files:
        return [], "this broker was started without a configuration file, so no route is known"
    try:
        destination = Destination(TOPIC if question.is_topic else QUEUE, question.destination)
        return await asyncio.to_thread(lambda: _runs(_read(_stamped(settings.files)), question, destination)), ""
    except (SpanwireError, JmsError) as error:
        return [], str(error)


def _runs(files: NetworkFiles, question: Question, destination: Destination) -> list[DryRun]:
    runs = []
    for run in dry_runs(files, question.start, destination, question.goal or None, question.selector or None):
        runs.append(run)
        if len(runs) >= MAX_RUNS:
            break
    return runs


async def findings_of(call: Call) -> Findings:
    """Return the findings about the configured network."""
    settings = await settings_of(call)
    if not settings.files:
        return Findings((), (), (), 0)
    return await asyncio.to_thread(lambda: _checked(_stamped(settings.files)))


def _stamped(names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, _changed(name)) for name in names)


def _changed(name: str) -> int:
    try:
        return Path(name).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=2)
def _read(names: tuple[tuple[str, int], ...]) -> NetworkFiles:
    return read_network([name for name, _ in names])


@lru_cache(maxsize=2)
def _checked(names: tuple[tuple[str, int], ...]) -> Findings:
    files = _read(names)
    findings = sorted(NetworkLint(files).findings(), key=lambda one: (not one.is_fault, one.location, one.number))
    return Findings(tuple(findings), files.errors, files.strangers, len(files.configurations))
