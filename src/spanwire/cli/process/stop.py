"""``spanwire stop``: stops brokers and waits for the ends."""

from __future__ import annotations

import argparse
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
from spanwire.management.control_client import ControlClient, ControlError, NotRunningError
from spanwire.management.running_brokers import ListedBroker, running_brokers, standbys
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

DEFAULT_TIMEOUT_S: Final = 60  # seconds; writing a large backlog takes less
POLL_S: Final = 0.05  # seconds between two looks at the entries of standbys


def run(arguments: Sequence[str]) -> int:
    """Stop brokers; return 0 after the end of all."""
    parser = Parser(
        prog="spanwire stop",
        description="Stop running brokers in order and wait until they have stopped. A standby takes over then; "
        "without a running broker, stop the standbys.",
    )
    parser.add_argument("names", nargs="*", metavar="BROKER", help="brokers by name or file, one after the other")
    placement(parser, names_others=True)
    parser.add_argument("--all", action="store_true", help="stop all running brokers of this user, standbys first")
    parser.whole_number("timeout", "seconds to wait", DEFAULT_TIMEOUT_S, lowest=1)
    options = parser.parse(arguments)
    if options.all:
        return _stop_all(options)
    if len(options.names) > 1:
        return _stop_several(options)
    if options.names:
        if options.configuration is not None:
            parser.error(f"two brokers are named, {options.configuration} and {options.names[0]}: name one")
        options.configuration = options.names[0]
    _stop(options)
    sys.stdout.write("stopped\n")
    return 0


def _stop(options: argparse.Namespace) -> None:
    """Stop the broker of the options, or its standbys. Raises `ConfigurationError`, `ControlError`."""
    directory = directory_of(options)
    try:
        control_client(options).stop(float(options.timeout))
    except NotRunningError:
        waiting = standbys_of(directory)
        if not waiting:
            raise
        _stop_standbys(directory, waiting, float(options.timeout))


def _stop_several(options: argparse.Namespace) -> int:
    """Stop the named brokers one after the other; return 1 for an unknown broker, or after a failed stop."""
    if options.configuration is not None or options.data_directory is not None:
        raise ConfigurationError("several brokers are named: leave out --configuration and --data-directory")
    failed = 0
    for name in dict.fromkeys(map(str, options.names)):
        options.configuration = name
        try:
            _stop(options)
        except (ConfigurationError, ControlError) as error:
            failed = 1
            sys.stderr.write(f"spanwire stop: {escaped(f'{name}: {error}')}\n")
            continue
        sys.stdout.write(f"{escaped(name)}: stopped\n")
    return failed


def _stop_all(options: argparse.Namespace) -> int:
    """Stop all running brokers of the user one after the other; return 1 after a failed stop."""
    if options.names or options.configuration is not None or options.data_directory is not None:
        raise ConfigurationError("--all stops every broker: name none beside it")
    for broker in standbys(os.environ):
        _stop_standbys(Path(broker.data_directory), standbys_of(Path(broker.data_directory)), float(options.timeout))
    brokers = running_brokers(os.environ)
    failed = 0
    for broker in brokers:
        name = f"{escaped(broker.name)} (process {broker.pid})"
        try:
            ControlClient(Path(broker.data_directory)).stop(float(options.timeout))
        except NotRunningError:  # it has ended meanwhile
            pass
        except ControlError as error:
            failed = 1
            sys.stderr.write(f"spanwire stop: {name}: {error}\n")
            continue
        sys.stdout.write(f"{name}: stopped\n")
    if not brokers:
        sys.stdout.write("no broker of this user runs\n")
    return failed


def _stop_standbys(directory: Path, waiting: Sequence[ListedBroker], timeout_s: float) -> None:
    """Stop the standbys of a directory without a running master.

    Raises `ControlError` after ``timeout_s`` seconds.
    """
    for broker in waiting:
        os.kill(broker.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while standbys_of(directory):
        if time.monotonic() > deadline:
            raise ControlError(f"the standby has not stopped after {timeout_s:g} s; its log says why")
        time.sleep(POLL_S)
