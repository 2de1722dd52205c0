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

FOREIGN_STORES: Final = (
    ("db-*.log", "KahaDB"),
    ("*/db-*.log", "mKahaDB"),
    ("dirty.index", "LevelDB"),
    ("store-version.txt", "LevelDB"),
    ("kr-store", "AMQ message"),
)  # files that identify stores of ActiveMQ


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


def foreign_store(directory: Path) -> str | None:
    """Return a line about a store of ActiveMQ in the directory of the journal, or None."""
    for pattern, kind in FOREIGN_STORES:
        if next(directory.glob(pattern), None) is not None:
            return f"{directory} holds a {kind} store, which cannot be read; name another directory for the journal"
    return None
