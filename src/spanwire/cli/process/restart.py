"""``spanwire restart``: stops a broker in order; the process starts again with the same command line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient, ControlError, NotRunningError
from spanwire.management.running_brokers import running_brokers
from spanwire.model.text import escaped

DEFAULT_TIMEOUT_S: Final = 60  # seconds for each of stop and start; reading a large journal takes less
POLL_S: Final = 0.1  # seconds between two looks whether the broker answers again


def run(arguments: Sequence[str]) -> int:
    """Restart a broker; return 0 after an answer of the started broker."""
    parser = Parser(
        prog="spanwire restart",
        description="Stop a running broker in order, and start it again in its process with the same command line: for "
        "changes of the configuration that need a start. If a start would refuse the configuration, nothing changes.",
    )
    placement(parser)
    parser.whole_number("timeout", "seconds to wait for the stop, and then for the start", DEFAULT_TIMEOUT_S, lowest=1)
    options = parser.parse(arguments)
    client = control_client(options)
    process = _process(client.ask("ping"))
    client.stop(float(options.timeout), "restart")
    now = _answering(client, process, float(options.timeout))
    name = escaped(str(now.get("name")))
    if _process(now) == process:
        sys.stdout.write(f"{name} (process {process}): restarted\n")
    else:
        sys.stdout.write(f"{name}: its standby, process {_process(now)}, has taken over; process {process} waits now\n")
    return 0


def _answering(client: ControlClient, process: int, timeout_s: float) -> dict[str, object]:
    """Return the answer of the broker after the start. Raises `ControlError` at an end or a timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = client.ask("ping")
            return answer if isinstance(answer, dict) else {}
        except NotRunningError:
            if not _lives(process):
                raise ControlError("the broker stopped and could not start again; its log says why") from None
            moved = [one for one in running_brokers(os.environ) if one.pid == process]
            if moved:  # its file names another directory or broker now
                client = ControlClient(Path(moved[0].data_directory))
        except ControlError:  # the socket of the broker that stops
            pass
        if time.monotonic() > deadline:
            raise ControlError(f"the broker has not started again after {timeout_s:g} s; its log says why")
        time.sleep(POLL_S)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _process(answer: object) -> int:
    return int(str(answer["pid"])) if isinstance(answer, dict) else 0
