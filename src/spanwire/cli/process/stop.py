"""``spanwire stop``: stops a broker and waits for its end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client, directory_of
from spanwire.cli.standbys import standbys_of
from spanwire.management.control_client import ControlError, NotRunningError
from spanwire.management.running_brokers import ListedBroker

DEFAULT_TIMEOUT_S: Final = 60  # seconds; writing a large backlog takes less
POLL_S: Final = 0.05  # seconds between two looks at the entries of standbys


def run(arguments: Sequence[str]) -> int:
    """Stop a broker; return 0 after its end."""
    parser = Parser(
        prog="spanwire stop",
        description="Stop a running broker in order and wait until it has stopped. A standby takes over then; without "
        "a running broker, stop the standbys.",
    )
    placement(parser)
    parser.whole_number("timeout", "seconds to wait", DEFAULT_TIMEOUT_S, lowest=1)
    options = parser.parse(arguments)
    directory = directory_of(options)
    try:
        control_client(options).stop(float(options.timeout))
    except NotRunningError:
        waiting = standbys_of(directory)
        if not waiting:
            raise
        _stop_standbys(directory, waiting, float(options.timeout))
    sys.stdout.write("stopped\n")
    return 0


def _stop_standbys(directory: Path, waiting: Sequence[ListedBroker], timeout_s: float) -> None:
    """Stop the standbys of a directory without a running master. Raises `ControlError` after ``timeout_s`` seconds."""
    for broker in waiting:
        os.kill(broker.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while standbys_of(directory):
        if time.monotonic() > deadline:
            raise ControlError(f"the standby has not stopped after {timeout_s:g} s; its log says why")
        time.sleep(POLL_S)
