"""The examples of bridges load as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.model.definition import Quality
from spanwire.bridges.running.process import check_bridge
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.service.config.reading import read_configuration

EXAMPLES: Final = Path(__file__).resolve().parents[3] / "examples/bridges"


def test_the_bridge_beside_a_broker_loads_with_it() -> None:
    path = EXAMPLES / "beside-a-broker.xml"
    configuration = read_configuration(path.read_bytes(), path, {}, {})
    (bridge,) = configuration.bridges
    check_bridge(bridge)
    assert (bridge.name, bridge.batch.size, configuration.warnings) == ("orders", 100, ())


def test_the_bridge_between_two_brokers_loads() -> None:
    path = EXAMPLES / "between-two-brokers.toml"
    (bridge,) = read_bridges(path.read_bytes(), path.name, Placeholders({}, {}))
    check_bridge(bridge)
    assert bridge.quality is Quality.ONCE_AND_ONLY_ONCE
