"""``spanwire config check``: shows all obstacles and warnings of a configuration.

No broker is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement, start_options
from spanwire.cli.running import named_configuration
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import CodeDirectories
from spanwire.service.config.values.diagnostics import RefusedConfigurationError
from spanwire.service.readiness import inspection, start_warnings

REFUSED: Final = 1
USAGE_ERROR: Final = 2
USAGE: Final = """usage: spanwire config check [CONFIGURATION] [OPTIONS]

check  shows all obstacles and warnings of spanwire start for a configuration without starting a broker. Status 1 if
       the configuration is refused.
       spanwire config check --help shows the options
"""


def run(arguments: Sequence[str]) -> int:
    """Run a command about configurations; return its exit status."""
    words = list(arguments)
    if words and words[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    if not words or words[0] != "check":
        sys.stderr.write("spanwire config: name an action: check; spanwire config --help\n")
        return USAGE_ERROR
    return _check(words[1:])


def _check(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire config check", description="Show every obstacle and warning of a configuration; start nothing."
    )
    placement(parser, starts=True)
    start_options(parser)
    options = parser.parse(arguments)

    obstacles: list[str] = []
    try:
        configuration = load_configuration(
            named_configuration(options, os.environ),
            dict(options.definitions),
            skip_unsupported=bool(options.skip_unsupported),
            inspect=inspection(
                options.data_directory,
                os.environ,
                allow_anonymous=bool(options.allow_anonymous),
                code=CodeDirectories(options.convertors, options.jars),
            ),
        )
        warnings = [
            *configuration.warnings,
            *configuration.skipped,
            *start_warnings(configuration, options.data_directory, os.environ),
        ]
    except RefusedConfigurationError as error:
        obstacles, warnings = str(error).splitlines(), [*error.warnings, *error.skipped]
    except ConfigurationError as error:
        obstacles, warnings = str(error).splitlines(), []
    for line in obstacles:
        sys.stdout.write(f"obstacle: {escaped(line)}\n")
    for line in warnings:
        sys.stdout.write(f"warning: {escaped(line)}\n")
    verdict = "spanwire start refuses this configuration" if obstacles else "spanwire start accepts this configuration"
    sys.stdout.write(f"{_counted(len(obstacles), 'obstacle')}, {_counted(len(warnings), 'warning')}: {verdict}\n")
    return REFUSED if obstacles else 0


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
