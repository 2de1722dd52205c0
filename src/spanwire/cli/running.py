"""Finds the control socket of the broker that a command means."""

from __future__ import annotations

import argparse
import os

from spanwire.management.control import ControlClient
from spanwire.service.config.loading import load_configuration
from spanwire.service.data_directory import data_directory


def control_client(options: argparse.Namespace) -> ControlClient:
    """The control socket under ``--data-directory``, else under the directory of the named configuration."""
    if options.data_directory is not None:
        return ControlClient(options.data_directory.absolute())
    # whatever it was started without: all that counts here is the broker's place
    configuration = load_configuration(options.configuration, dict(options.definitions), skip_unsupported=True)
    return ControlClient(data_directory(configuration, None, os.environ))
