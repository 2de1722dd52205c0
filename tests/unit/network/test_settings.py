"""What the lists of a connector let through."""

from __future__ import annotations

import pytest

from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings


@pytest.mark.parametrize(
    ("excluded", "wanted"),
    [
        ("queue://NONE", "queue://A,B,C"),
        ("queue://A", "queue://B,C"),
        ("queue://C", "queue://A,B"),
    ],
)
def test_of_a_composite_the_parts_that_are_not_excluded_are_demand(excluded: str, wanted: str) -> None:
    settings = BridgeSettings(excluded=(parse_destination(excluded),))
    found = settings.demand_part(parse_destination("queue://A,B,C"), (), "X")
    assert found is not None
    assert {part.qualified_name for part in found.parts()} == {
        part.qualified_name for part in parse_destination(wanted).parts()
    }


def test_of_a_composite_with_one_part_that_is_demand_that_part_is_left() -> None:
    settings = BridgeSettings(excluded=(parse_destination("queue://A"),))
    assert settings.demand_part(parse_destination("queue://A,B"), (), "X") == parse_destination("queue://B")
    assert settings.demand_part(parse_destination("queue://A,A"), (), "X") is None
