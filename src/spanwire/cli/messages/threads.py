"""Sessions at work side by side, for ``--parallelThreads`` of ActiveMQ's tools."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from spanwire.cli.arguments import Parser


def thread_option(parser: Parser, help_text: str) -> None:
    """Add ``--parallelThreads``."""
    parser.whole_number("parallelThreads", help_text, 1, lowest=1)


def in_threads(threads: int, work: Callable[[], int]) -> int:
    """Do ``work`` in so many threads; return the sum of their results.

    The operating system limits the threads. Raises the first error of a thread, after all have ended.
    """
    if threads == 1:
        return work()
    with ThreadPoolExecutor(threads) as pool:
        return sum(future.result() for future in [pool.submit(work) for _ in range(threads)])
