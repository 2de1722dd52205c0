"""Options that several commands of ``spanwire pipeline`` have."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from datetime import UTC, datetime
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.model.errors import ConfigurationError

DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
PASSWORD: Final = "SPANWIRE_PASSWORD"
STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


def broker_options(parser: Parser) -> None:
    """Add the options that name a broker; the password comes from the environment."""
    parser.option("url", "the broker", DEFAULT_URL, metavar="URL")
    parser.option("user", f"the user; the password is taken from the variable {PASSWORD}")


def broker_of(options: argparse.Namespace) -> dict[str, str | None]:
    """Return the broker as options of the data source."""
    return {"url": options.url, "user": options.user, "password": os.environ.get(PASSWORD)}


def moment(name: str, text: str | None) -> datetime | None:
    """Return a time, in UTC without an offset.

    Raises:
        ConfigurationError: the text is no time.
    """
    if text is None:
        return None
    try:
        time_of_day = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"--{name} is {text[:60]!r}; write 2026-01-31 or 2026-01-31T12:00:00") from None
    return time_of_day if time_of_day.tzinfo is not None else time_of_day.replace(tzinfo=UTC)


def spark_options(parser: Parser) -> None:
    """Add the options of every command that uses Spark."""
    parser.option("master", "Spark's master: local[*], local[2], or the URL of a cluster", "local[*]", metavar="URL")
    parser.add_argument("--json", action="store_true", help="show batches as JSON, one object per line")


def stop_on_signals(stop: threading.Event) -> None:
    """Let Ctrl-C and SIGTERM end the command after the current batch, and a second one at once.

    The command may wait for a broker without end, with ``failover:``.
    """
    before = {number: signal.getsignal(number) for number in STOPPING}

    def stop_once(_number: int, _frame: object) -> None:
        stop.set()
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in STOPPING:
        signal.signal(number, stop_once)
