"""Where a broker keeps its own: what is asked first wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.data_directory import data_directory


@pytest.mark.parametrize(
    ("configured", "override", "environment", "expected"),
    [
        (Path("/c"), Path("/o"), {"SPANWIRE_DATA": "/e"}, "/o"),
        (Path("/c"), None, {"SPANWIRE_DATA": "/e"}, "/c"),
        (None, None, {"SPANWIRE_DATA": "/e", "HOME": "/home/u"}, "/e"),
        (None, None, {"HOME": "/home/u"}, "/home/u/.local/share/spanwire/orders"),
        (None, None, {"HOME": "/home/u", "XDG_DATA_HOME": "/x"}, "/x/spanwire/orders"),
    ],
)
def test_the_directory_is_found(
    configured: Path | None, override: Path | None, environment: dict[str, str], expected: str
) -> None:
    configuration = BrokerConfiguration(broker_name="orders", data_directory=configured)
    assert data_directory(configuration, override, environment) == Path(expected)


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "a:b", "..:.."])
def test_no_broker_name_leads_out_of_the_place_for_brokers(name: str) -> None:
    found = data_directory(BrokerConfiguration(broker_name=name), None, {"HOME": "/home/u"})
    assert found.parent == Path("/home/u/.local/share/spanwire")
    assert found.name not in ("", ".", "..")
