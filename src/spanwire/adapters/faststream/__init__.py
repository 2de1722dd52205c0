"""A broker of FastStream, a framework for services of messages.

    from faststream import FastStream
    from spanwire.adapters.faststream import SpanwireBroker

    broker = SpanwireBroker("failover:(tcp://localhost:61616)")
    app = FastStream(broker)

    @broker.subscriber("ORDERS")
    @broker.publisher("BILLS")
    async def bill(order: dict) -> str: ...

Needs the extra ``faststream``.
"""

from __future__ import annotations

from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

try:
    import faststream as faststream
except ImportError as error:
    raise ConfigurationError(f"FastStream is not installed; run: {install_command('faststream')}") from error

from spanwire.adapters.faststream.broker import SpanwireBroker as SpanwireBroker
from spanwire.adapters.faststream.message import SpanwireMessage as SpanwireMessage
from spanwire.adapters.faststream.response import SpanwirePublishCommand as SpanwirePublishCommand
from spanwire.adapters.faststream.response import SpanwireResponse as SpanwireResponse
from spanwire.adapters.faststream.router import SpanwirePublisher as SpanwirePublisher
from spanwire.adapters.faststream.router import SpanwireRoute as SpanwireRoute
from spanwire.adapters.faststream.router import SpanwireRouter as SpanwireRouter
from spanwire.adapters.faststream.testing import TestSpanwireBroker as TestSpanwireBroker
