"""``spanwire pipeline archive`` and ``replay`` on a session of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archiving import STATE, ArchiveQuery
from spanwire.pipeline.archive.replaying import Choice, Replay, Sum, sums
from spanwire.pipeline.options import read_options, write_options
from spanwire.pipeline.routes.running import session_on
from spanwire.pipeline.routes.supervisor import News, Supervised, run_all
from spanwire.pipeline.selectors.selector_evaluation import parse
from spanwire.pipeline.spark.spark_log import NAME as SPARK_LOG
from spanwire.routes.model import Patience

NAME: Final = "archive"


def archive(
    master: str,
    options: dict[str, str],
    directory: Path,
    trigger: str,
    tell: Callable[[News], None],
    stop: threading.Event,
) -> bool:
    """Archive until told to stop, or what there is; whether it has not failed."""
    read_options(options)
    with session_on(master, "spanwire pipeline archive", log=directory / STATE / SPARK_LOG) as spark:
        query = Supervised(NAME, ArchiveQuery(spark, options, directory, trigger), Patience(), tell)
        return run_all([query], stop, time.monotonic)


def replay(
    master: str,
    choice: Choice,
    options: dict[str, str],
    state: Path,
    rate: int | None,
    tell: Callable[[int, int], None],
    stop: threading.Event,
) -> int:
    """Replay what is not replayed yet; the number of messages sent."""
    _check(choice)
    write_options(options)
    with session_on(master, "spanwire pipeline replay") as spark:
        return Replay(spark, choice, options, state, rate).run(time.monotonic, stop.wait, tell)


def replay_plan(master: str, choice: Choice) -> list[str]:
    """What a replay would send, a line for each destination."""
    _check(choice)
    with session_on(master, "spanwire pipeline replay --dry-run") as spark:
        return [line_of(one) for one in sums(spark, choice)] or ["nothing"]


def line_of(found: Sum) -> str:
    """One destination for people."""
    span = f", sent from {found.first} to {found.last}" if found.first is not None else ""
    return f"{found.destination}: {found.count} messages{span}"


def _check(choice: Choice) -> None:
    if not Path(choice.directory).is_dir():
        raise ConfigurationError(f"there is no directory {choice.directory}")
    if choice.selector is not None:
        parse(choice.selector)
