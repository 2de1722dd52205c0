"""The user's waiting standbys of a command's broker, for the commands to show or stop standbys."""

from __future__ import annotations

import os
from pathlib import Path

from spanwire.management.running_brokers import ListedBroker, standbys
from spanwire.stores.lock_file import holder_of


def standbys_of(directory: Path) -> list[ListedBroker]:
    """Return the standbys of the machine with the data directory ``directory``."""
    return [broker for broker in standbys(os.environ) if broker.data_directory == str(directory)]


def standby_text(broker: ListedBroker) -> str:
    """Return the state of a standby, with the present holder of the lock."""
    directory = Path(broker.waits_for)
    return f"process {broker.pid} waits for the lock of {directory}, which {holder_of(directory)} holds"


def standby_row(broker: ListedBroker) -> dict[str, object]:
    """Return the state of a standby as plain values."""
    holder = holder_of(Path(broker.waits_for))
    return {
        "name": broker.name,
        "pid": broker.pid,
        "role": "standby",
        "data_directory": broker.data_directory,
        "configuration": broker.configuration,
        "waits_for": broker.waits_for,
        "holder_pid": holder.process,
        "holder_host": holder.host,
    }
