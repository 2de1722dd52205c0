"""A restart that somebody asks for while the broker stops, or before it is stopped for good."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from spanwire.cli.process.start import Restart
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.machine.service_manager import ServiceManager
from spanwire.service.service import BrokerService


class StoppableService:
    """Counts requests to stop."""

    def __init__(self) -> None:
        self.stop_requests = 0

    def request_stop(self) -> None:
        self.stop_requests += 1


class SilentManager:
    """Is told of a restart."""

    def restarting(self) -> None:
        """Do nothing."""


def restart_of(service: StoppableService) -> Restart:
    restart = Restart(lambda: cast(BrokerConfiguration, None), cast(ServiceManager, SilentManager()))
    restart.service = cast(BrokerService, service)
    return restart


def test_a_restart_stops_the_broker_once() -> None:
    service = StoppableService()
    restart = restart_of(service)
    asyncio.run(restart.request({}))
    assert service.stop_requests == 1
    assert restart.is_due


def test_a_stop_behind_a_restart_is_a_stop() -> None:
    service = StoppableService()
    restart = restart_of(service)
    asyncio.run(restart.request({}))
    service.request_stop()
    assert not restart.is_due


def test_a_broker_that_stops_already_is_not_restarted() -> None:
    service = StoppableService()
    service.request_stop()
    restart = restart_of(service)
    with pytest.raises(ConfigurationError, match="stops already"):
        asyncio.run(restart.request({}))
    assert not restart.is_due
