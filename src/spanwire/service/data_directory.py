"""The data directory of a broker.

    DIRECTORY/lock           held while the broker runs; holds its pid
    DIRECTORY/control.sock   `spanwire.management.control`
    DIRECTORY/journal/       unless the configuration names another place

No name from a client or a message ever becomes part of a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanwire.service.config.model import BrokerConfiguration

DATA_VARIABLE: Final = "SPANWIRE_DATA"


def data_directory(configuration: BrokerConfiguration, override: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the data directory of a broker.

    The first present value applies: ``override``, the configured directory, ``$SPANWIRE_DATA``, a directory in the
    user's home.
    """
    if override is not None:
        return override.absolute()
    if configuration.data_directory is not None:
        return configuration.data_directory.absolute()
    return usual_directory(configuration.broker_name, environment)


def usual_directory(broker_name: str, environment: Mapping[str, str]) -> Path:
    """Return the data directory of a broker without a configured directory."""
    if environment.get(DATA_VARIABLE):
        return Path(environment[DATA_VARIABLE]).absolute()
    home = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME") or "/").absolute() / ".local" / "share")
    name = broker_name.replace(":", "_").lstrip(".")
    return Path(home) / "spanwire" / (name or "broker")
