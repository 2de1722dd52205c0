"""What `orders.yaml` calls for each order."""

from __future__ import annotations

import json


def normalise(text: str | None, properties: dict[str, object]) -> str | None:
    """The order as JSON with a total; raises for what is no order, which makes a dead letter of it."""
    order = json.loads(text or "")
    lines = order["lines"]
    order["total"] = sum(line["price"] * line["count"] for line in lines)
    order["region"] = properties.get("region")
    return json.dumps(order, sort_keys=True)
