"""Loads the child for bridges by name, because most brokers have no bridges."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spanwire import registry
from spanwire.service.config.model import BrokerConfiguration, CodeDirectories

if TYPE_CHECKING:
    from spanwire.service.children.bridge_process import BridgeChildProcess
    from spanwire.service.children.deployments import Deployment
    from spanwire.service.config.interpretation.deployed_file import DeployedFileReader


def bridge_child(
    configuration: BrokerConfiguration, directory: Path | None, code: CodeDirectories, deploy: Path | None
) -> BridgeChildProcess | None:
    """Return the child for a configuration's bridges; None without bridges and without a deploy directory."""
    if not configuration.bridges and not configuration.routes and deploy is None:
        return None
    child = cast("type[BridgeChildProcess]", registry.load(registry.BRIDGE_CHILD))
    definitions = (*configuration.bridges, *configuration.routes)
    deployment = None
    if deploy is not None:
        reader = cast("type[DeployedFileReader]", registry.load(registry.DEPLOYED_FILE_READER))
        deployment = cast("type[Deployment]", registry.load(registry.DEPLOYMENT))(
            deploy, reader(configuration.broker_name, os.environ).read
        )
    return child(definitions, directory, code=code, deployment=deployment, tracing=configuration.tracing)
