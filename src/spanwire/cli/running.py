"""Finds the running broker of a command, by the same rules for all commands."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.cli.arguments import CONFIGURATION_VARIABLE
from spanwire.management.control_client import SOCKET_NAME, ControlClient
from spanwire.management.running_brokers import ListedBroker, running_brokers
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.reference import DEFAULT_BROKER_NAME, configuration_file, default_reference
from spanwire.service.data_directory import DATA_VARIABLE, data_directory, usual_directory

if TYPE_CHECKING:
    from spanwire.service.config.model import BrokerConfiguration

ANSWER_TIMEOUT_S: Final = 10.0  # seconds; for requests that a broker answers at once
MAX_SHOWN: Final = 20  # brokers listed in an error


class UnknownBrokerError(ConfigurationError):
    """No running broker has the name of the command."""


def control_client(options: argparse.Namespace, timeout_s: float = ANSWER_TIMEOUT_S) -> ControlClient:
    """Return a client for the control socket of the broker in the options.

    Raises:
        ConfigurationError: the options name no broker.
    """
    return ControlClient(broker_directory(options, os.environ), timeout_s)


def directory_of(options: argparse.Namespace) -> Path:
    """Return the data directory of the broker in the options. Raises `ConfigurationError`."""
    return broker_directory(options, os.environ)


def named_configuration(options: argparse.Namespace, environment: Mapping[str, str]) -> str | None:
    """Return the broker's file from the command line or the environment.

    ActiveMQ's start script reads the same variables of the environment.

    Returns:
        None if neither names a file.

    Raises:
        ConfigurationError: a variable names a missing file.
    """
    named = options.configuration or environment.get(CONFIGURATION_VARIABLE)
    return str(named) if named else default_reference(environment)


def broker_directory(options: argparse.Namespace, environment: Mapping[str, str]) -> Path:
    """Return the data directory of the named broker, or of the only running broker.

    A broker is named by ``--data-directory``, by a file or by a name.

    Raises:
        ConfigurationError: no broker or several brokers match.
    """
    if options.data_directory is not None:
        return Path(options.data_directory).absolute()
    running = running_brokers(environment)
    reference = named_configuration(options, environment)
    if reference is None:
        return _only(running, environment)
    named = _named(reference, running) if not options.definitions else []
    if len(named) == 1:
        return Path(named[0].data_directory)  # may come from --data-directory at its start
    if "." not in reference and ":" not in reference and not Path(reference).is_file() and not named:
        raise UnknownBrokerError(f"no running broker is named {reference[:80]}; {_advice(running)}")
    # unsupported parts do not matter here, because only the data directory is needed
    load_configuration = cast("Callable[..., BrokerConfiguration]", registry.load(registry.CONFIGURATION))
    configuration = load_configuration(reference, dict(options.definitions), environment, skip_unsupported=True)
    directory = data_directory(configuration, None, environment)
    if named and str(directory) not in [broker.data_directory for broker in named]:
        raise ConfigurationError(_several(named))
    return directory


def _named(reference: str, running: Sequence[ListedBroker]) -> list[ListedBroker]:
    """Return the running brokers with the given file or name."""
    file = configuration_file(reference)
    brokers = [broker for broker in running if file is not None and broker.configuration == str(file)]
    return brokers or [broker for broker in running if broker.name == reference]


def _only(running: Sequence[ListedBroker], environment: Mapping[str, str]) -> Path:
    usual = usual_directory(DEFAULT_BROKER_NAME, environment)
    if len(running) == 1 and not environment.get(DATA_VARIABLE):
        return Path(running[0].data_directory)
    if environment.get(DATA_VARIABLE) or (not running and (usual / SOCKET_NAME).exists()):
        return usual
    raise ConfigurationError(_several(running) if running else _advice(running))


def _several(running: Sequence[ListedBroker]) -> str:
    shown = [_choice(broker) for broker in running[:MAX_SHOWN]]
    remedy = "name one by --configuration NAME (or its file), or by --data-directory"
    return "\n".join([f"{len(running)} brokers run; {remedy}:", *shown])


def _choice(broker: ListedBroker) -> str:
    file = f", file {broker.configuration}" if broker.configuration else ""
    return f"  {broker.name} (process {broker.pid}){file}, --data-directory {broker.data_directory}"


def _advice(running: Sequence[ListedBroker]) -> str:
    if running:
        return f"running brokers are {', '.join(sorted({broker.name for broker in running[:MAX_SHOWN]}))}"
    return (
        "no broker of this user runs; start one with spanwire start, or name the directory of an unlisted broker with "
        "--data-directory"
    )
