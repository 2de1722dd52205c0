"""``spanwire config check``: shows all obstacles and warnings of a configuration.

With ``--connect`` the command tries the remote brokers, too. No broker is started.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, offer_actions, placement, start_options
from spanwire.cli.process.remote_checks import check_remotes
from spanwire.cli.running import named_configuration
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped
from spanwire.network.connector.link import NetworkConnectorSettings
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration, CodeDirectories
from spanwire.service.config.values.diagnostics import RefusedConfigurationError
from spanwire.service.readiness import inspection, start_warnings

REFUSED: Final = 1
USAGE_ERROR: Final = 2
USAGE: Final = """usage: spanwire config check [CONFIGURATION] [OPTIONS]

check  shows all obstacles and warnings of spanwire start for a configuration without starting a broker. Status 1 if
       the configuration is refused. --connect tries the remote brokers of the network connectors, too
       spanwire config check --help shows the options
"""


def run(arguments: Sequence[str]) -> int:
    """Run a command about configurations and return the exit status."""
    words = list(arguments)
    offer_actions("spanwire config", words, ["check"])
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
    parser.add_argument(
        "--connect",
        action="store_true",
        help="connect and log in at every address of the network connectors, and subscribe to the advisories that "
        "links read; nothing is sent. Status 1 if an address cannot be used",
    )
    options = parser.parse(arguments)

    configuration, obstacles, warnings = checked(options)
    for line in obstacles:
        sys.stdout.write(f"obstacle: {escaped(line)}\n")
    for line in warnings:
        sys.stdout.write(f"warning: {escaped(line)}\n")
    verdict = "spanwire start refuses this configuration" if obstacles else "spanwire start accepts this configuration"
    sys.stdout.write(f"{_counted(len(obstacles), 'obstacle')}, {_counted(len(warnings), 'warning')}: {verdict}\n")
    unusable = 0 if configuration is None or not options.connect else _connect(configuration.network_connectors)
    return REFUSED if obstacles or unusable else 0


def checked(options: argparse.Namespace) -> tuple[BrokerConfiguration | None, list[str], list[str]]:
    """Return the configuration of the options, with all obstacles and warnings of a `spanwire start`.

    The configuration is None if there are obstacles.
    """
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
    except RefusedConfigurationError as error:
        return None, str(error).splitlines(), [*error.warnings, *error.skipped]
    except ConfigurationError as error:
        return None, str(error).splitlines(), []
    warnings = start_warnings(configuration, options.data_directory, os.environ)
    return configuration, [], [*configuration.warnings, *configuration.skipped, *warnings]


def _connect(connectors: Sequence[NetworkConnectorSettings]) -> int:
    """Print the outcome at each remote address and return the number of unusable addresses."""
    outcomes = check_remotes(connectors)
    for outcome in outcomes:
        sys.stdout.write(f"{'usable' if outcome.is_usable else 'unusable'}: {escaped(outcome.text)}\n")
    unusable = sum(not outcome.is_usable for outcome in outcomes)
    sys.stdout.write(f"{_counted(len(outcomes), 'remote address', 'es')}, {unusable} unusable\n")
    return unusable


def _counted(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"
