"""The example of routes is a valid file, and its function does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spanwire.pipeline.routes.functions import load_functions
from spanwire.routes.plan import plan_of
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

FOLDER = Path(__file__).resolve().parents[3] / "examples/routes"


def test_the_example_can_be_planned_and_its_function_called() -> None:
    name = str(FOLDER / "orders.yaml")
    file = read_routes(Path(name).read_bytes(), name, Placeholders({"data": "/d"}, {}))
    assert [route.name for route in file.routes] == ["orders", "invoices"]
    assert "tap parquet:/d/orders" in plan_of(file)
    (normalise,) = load_functions(file.functions(), FOLDER).values()
    order = normalise('{"lines": [{"price": 2.5, "count": 4}, {"price": 1, "count": 1}]}', {"region": "us"})
    assert order is not None
    assert json.loads(order)["total"] == 11 and json.loads(order)["region"] == "us"
    with pytest.raises(ValueError, match="Expecting value"):
        normalise(None, {})
