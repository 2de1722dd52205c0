"""FastStream's base classes of tests of a broker, with Spanwire's broker, router and test broker."""

from __future__ import annotations

from typing import Any

import pytest
from faststream import BaseMiddleware
from tests.brokers.base.address import AddressTemplateTestcase
from tests.brokers.base.basic import BaseTestcaseConfig
from tests.brokers.base.codec import CodecTestcase
from tests.brokers.base.connection import BrokerConnectionTestcase
from tests.brokers.base.consume import BrokerRealConsumeTestcase
from tests.brokers.base.include_router import IncludePublisherTestcase, IncludeSubscriberTestcase
from tests.brokers.base.middlewares import (
    ExceptionMiddlewareTestcase,
    MiddlewaresOrderTestcase,
    MiddlewareTestcase,
)
from tests.brokers.base.parser import CustomParserTestcase
from tests.brokers.base.publish import BrokerPublishTestcase
from tests.brokers.base.publish_command import BasePublishCommandTestcase
from tests.brokers.base.requests import RequestsTestcase
from tests.brokers.base.router import RouterLocalTestcase, RouterTestcase
from tests.brokers.base.testclient import BrokerTestclientTestcase

from spanwire.adapters.faststream import (
    SpanwireBroker,
    SpanwirePublishCommand,
    SpanwirePublisher,
    SpanwireRoute,
    SpanwireRouter,
    TestSpanwireBroker,
)
from spanwire.adapters.faststream.testing import FakeProducer


class Real(BaseTestcaseConfig):
    url = "tcp://localhost:61616"

    def get_broker(self, apply_types: bool = False, **options: Any) -> SpanwireBroker:
        return SpanwireBroker(self.url, apply_types=apply_types, **options)

    def get_router(self, **options: Any) -> SpanwireRouter:
        return SpanwireRouter(**options)


class Memory(Real):
    def patch_broker(self, *brokers: SpanwireBroker, **options: Any) -> TestSpanwireBroker:
        return TestSpanwireBroker(*brokers, **options)


class FourTimes(BaseMiddleware):
    async def consume_scope(self, call_next: Any, msg: Any) -> Any:
        msg.body *= 4
        return await call_next(msg)


class TestAddress(Real, AddressTemplateTestcase):
    broker_address = "logs.*"

    def get_subscriber_address(self, subscriber: Any) -> Any:
        return subscriber.address


class TestCodec(Memory, CodecTestcase):
    pass


class TestConnection(BrokerConnectionTestcase):
    broker = SpanwireBroker
    url = ""

    @pytest.fixture
    def settings(self) -> str:
        return self.url

    def get_broker_args(self, settings: str) -> dict[str, str]:
        return {"url": settings}


class TestConsume(Real, BrokerRealConsumeTestcase):
    pass


class TestIncludedSubscribers(Real, IncludeSubscriberTestcase):
    pass


class TestIncludedPublishers(Real, IncludePublisherTestcase):
    pass


class TestMiddlewares(Real, MiddlewareTestcase):
    pass


class TestOrderOfMiddlewares(Memory, MiddlewaresOrderTestcase):
    pass


class TestExceptionMiddlewares(Real, ExceptionMiddlewareTestcase):
    pass


class TestParser(Real, CustomParserTestcase):
    pass


@pytest.mark.asyncio
class TestPublish(Real, BrokerPublishTestcase):
    pass


class TestPublishCommand(BasePublishCommandTestcase):
    publish_command_cls = SpanwirePublishCommand


@pytest.mark.asyncio
class TestRequests(Real, RequestsTestcase):
    def get_middleware(self, **options: Any) -> type[FourTimes]:
        return FourTimes


@pytest.mark.asyncio
class TestRequestsInMemory(Memory, RequestsTestcase):
    def get_middleware(self, **options: Any) -> type[FourTimes]:
        return FourTimes


class TestRouter(Real, RouterTestcase):
    route_class = SpanwireRoute
    publisher_class = SpanwirePublisher


class TestRouterInMemory(Memory, RouterLocalTestcase):
    route_class = SpanwireRoute
    publisher_class = SpanwirePublisher


@pytest.mark.asyncio
class TestTestBroker(Memory, BrokerTestclientTestcase):
    def get_fake_producer_class(self) -> type[FakeProducer]:
        return FakeProducer

    @pytest.fixture
    def fake_producer_cls(self) -> type[FakeProducer]:
        return FakeProducer
