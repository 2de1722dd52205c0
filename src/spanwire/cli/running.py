"""Finds the control socket of the broker that a command means."""

from __future__ import annotations

import argparse
import os
from typing import Final

from spanwire.management.control import ControlClient
from spanwire.service.config.loading import load_configuration
from spanwire.service.data_directory import data_directory

ANSWER_TIMEOUT_S: Final = 10.0  # for what a broker answers at once


def control_client(options: argparse.Namespace, timeout_s: float = ANSWER_TIMEOUT_S) -> ControlClient:
    """The control socket under ``--data-directory``, else under the directory of the named configuration."""
    if options.data_directory is not None:
        return ControlClient(options.data_directory.absolute(), timeout_s)
    # whatever it was started without: all that counts here is the broker's place
    configuration = load_configuration(options.configuration, dict(options.definitions), skip_unsupported=True)
    return ControlClient(data_directory(configuration, None, os.environ), timeout_s)
