"""``spanwire stop``: stops a broker and waits for its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client

DEFAULT_TIMEOUT_S: Final = 60  # seconds; writing a large backlog takes less


def run(arguments: Sequence[str]) -> int:
    """Stop a broker; return 0 after its end."""
    parser = Parser(prog="spanwire stop", description="Stop a running broker in order and wait until it has stopped.")
    placement(parser)
    parser.whole_number("timeout", "seconds to wait", DEFAULT_TIMEOUT_S, lowest=1)
    options = parser.parse(arguments)
    control_client(options).stop(float(options.timeout))
    sys.stdout.write("stopped\n")
    return 0
