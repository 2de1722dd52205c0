"""``spanwire reload``: lets a running broker reread the configuration and apply the changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.model.text import escaped

DESCRIPTION: Final = (
    "Let a running broker reload its configuration. Changes of policies, virtual destinations, network connectors, "
    "users, rights and new destinations apply at once; other changes are listed. A fault in the file changes nothing."
)


def run(arguments: Sequence[str]) -> int:
    """Print a line for each change."""
    parser = Parser(prog="spanwire reload", description=DESCRIPTION)
    placement(parser)
    answer = control_client(parser.parse(arguments)).ask("reload")
    lines = [str(line) for line in answer] if isinstance(answer, list) else []
    for line in lines or ["nothing has changed"]:
        sys.stdout.write(escaped(line) + "\n")
    return 0
