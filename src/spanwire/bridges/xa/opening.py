"""Opens the log of decisions of a process, if a bridge needs a log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spanwire.bridges.model.qualities import is_distributed
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.log_file import LogFile
from spanwire.model.errors import ConfigurationError


def open_decision_log(definitions: Iterable[Definition], directory: Path | None) -> DecisionLog | None:
    """Return the log in a directory, or None if no bridge has distributed transactions.

    Raises:
        ConfigurationError: a bridge needs a log, and there is no directory.
        StoreError: the log is damaged, or another process uses it.
    """
    for definition in definitions:
        if is_distributed(definition):
            if directory is None:
                raise ConfigurationError(
                    f"bridge {definition.name}: ONCE_AND_ONLY_ONCE between two brokers needs a directory for its "
                    "decisions"
                )
            file = LogFile(directory)
            return DecisionLog(file, file.path)
    return None
