"""Jars of JMS clients in directories of their own, as an operator would put them there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.support.peers import CLIENT_JARS, JARS

ACTIVEMQ: Final = "org.apache.activemq.ActiveMQConnectionFactory"


def activemq_jars(directory: Path) -> tuple[str, ...]:
    """Copy the client of ActiveMQ Classic into a directory, and return the paths."""
    directory.chmod(0o755)
    for name in CLIENT_JARS:
        shutil.copyfile(JARS / name, directory / name)
    return tuple(str(directory / name) for name in CLIENT_JARS)
