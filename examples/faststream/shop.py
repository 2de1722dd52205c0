"""A service that bills orders, with FastStream.

    python examples/faststream/shop.py tcp://localhost:61616

An order on the queue SHOP.ORDERS becomes a bill on SHOP.BILLS. An order without items goes to the dead letters at once,
any other failure is tried again. SHOP.PRICE answers requests. SIGTERM ends the service after the order at hand.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from faststream import FastStream
from faststream.exceptions import RejectMessage

from spanwire.adapters.faststream import SpanwireBroker, SpanwireRouter

PRICES = {"book": 12, "pen": 2}

router = SpanwireRouter(prefix="SHOP.")


@router.subscriber("ORDERS", prefetch=10)
@router.publisher("BILLS")
async def bill(order: dict[str, Any]) -> dict[str, Any]:
    """Return the bill of an order."""
    if not order["items"]:
        raise RejectMessage(cause="the order has no items")
    return {"number": order["number"], "total": sum(PRICES[item] for item in order["items"])}


@router.subscriber("PRICE")
async def price(item: str) -> int:
    """Return the price of an item, as the reply to a request."""
    return PRICES[item]


def service(url: str) -> FastStream:
    """Return the application for a broker."""
    broker = SpanwireBroker(url, routers=[router])
    app = FastStream(broker)

    async def say() -> None:
        print("the shop is open", flush=True)

    app.after_startup(say)
    return app


if __name__ == "__main__":
    asyncio.run(service(sys.argv[1] if len(sys.argv) > 1 else "tcp://localhost:61616").run())
