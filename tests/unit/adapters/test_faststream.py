"""The broker for FastStream against a broker of each test: what becomes of messages, subscriptions, requests."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import pytest
from faststream import AckPolicy, Context, FastStream, TestApp
from faststream import Path as PathParameter
from faststream.exceptions import RejectMessage, SetupError
from faststream.security import BaseSecurity, SASLPlaintext
from faststream.specification import AsyncAPI

from spanwire.adapters.faststream import (
    SpanwireBroker,
    SpanwireMessage,
    SpanwireResponse,
    SpanwireRouter,
    TestSpanwireBroker,
)
from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.testing import Broker

PAGE = (Path(__file__).parents[3] / "docs/guides/client/faststream.md").read_text("utf-8")
AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"
PATIENCE_S = 20.0


def url_of(broker: Broker, options: str = AT_ONCE) -> str:
    return f"tcp://{broker.host}:{broker.port}?{options}"


def run(dialogue: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(dialogue, PATIENCE_S))


def test_what_a_handler_returns_is_published_and_its_message_acknowledged(spanwire_broker: Broker) -> None:
    async def dialogue() -> None:
        app = SpanwireBroker(url_of(spanwire_broker))

        @app.subscriber("ORDERS")
        @app.publisher("BILLS", headers={"shop": 7})
        async def bill(order: dict[str, int]) -> SpanwireResponse:
            return SpanwireResponse({"total": order["price"] * 2}, priority=8, headers={"currency": "EUR"})

        async with app:
            await app.start()
            await app.publish({"price": 21}, "ORDERS")
            await asyncio.to_thread(spanwire_broker.queue("BILLS").wait_for, pending=1)

    run(dialogue())
    spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=1)
    (bill,) = spanwire_broker.queue("BILLS").messages()
    assert isinstance(bill.body, str)
    assert json.loads(bill.body) == {"total": 42}
    assert bill.persistent
    assert bill.priority == 8
    assert {name: bill.properties[name] for name in ("shop", "currency", "content-type")} == {
        "shop": 7,
        "currency": "EUR",
        "content-type": "application/json",
    }


def test_a_message_whose_handler_fails_comes_again_and_is_a_dead_letter_in_the_end(spanwire_broker: Broker) -> None:
    counts: list[int] = []

    async def dialogue() -> None:
        app = SpanwireBroker(
            url_of(spanwire_broker, AT_ONCE + "&jms.redeliveryPolicy.maximumRedeliveries=2"), logger=None
        )

        @app.subscriber("ORDERS")
        async def fail(body: str, message: Annotated[SpanwireMessage, Context()]) -> None:
            counts.append(message.raw_message.redelivery_count)
            raise ValueError(body)

        async with app:
            await app.start()
            await app.publish("no", "ORDERS")
            await asyncio.to_thread(spanwire_broker.queue("ActiveMQ.DLQ").wait_for, pending=1)

    run(dialogue())
    assert counts == [0, 1, 2]


def test_a_rejected_message_is_a_dead_letter_at_once_with_the_reason(spanwire_broker: Broker) -> None:
    seen: list[str] = []

    async def dialogue() -> None:
        app = SpanwireBroker(url_of(spanwire_broker), logger=None)

        @app.subscriber("ORDERS", max_workers=3)
        async def choose(body: str) -> None:
            seen.append(body)
            if body == "empty":
                raise RejectMessage(cause="the order has no items")

        async with app:
            await app.start()
            for body in ("book", "empty", "pen"):
                await app.publish(body, "ORDERS")
            await asyncio.to_thread(spanwire_broker.queue("ORDERS").wait_for, pending=0, dequeued=3)

    run(dialogue())
    assert sorted(seen) == ["book", "empty", "pen"]
    (dead,) = spanwire_broker.queue("ActiveMQ.DLQ").messages()
    assert dead.body == "empty"
    assert "the order has no items" in str(dead.properties)


@pytest.mark.parametrize(("policy", "dead"), [(AckPolicy.REJECT_ON_ERROR, 1), (AckPolicy.ACK_FIRST, 0)])
def test_a_message_that_cannot_be_decoded_is_settled_and_the_next_one_handled(
    spanwire_broker: Broker, caplog: pytest.LogCaptureFixture, policy: AckPolicy, dead: int
) -> None:
    orders = Destination(QUEUE, "ORDERS")
    with blocking.connect(spanwire_broker.url) as connection, connection.session() as session:
        session.create_producer(None).send_all(
            [Outgoing("a", b"\0\0\0\1\0\1a\xff", orders), Outgoing("b", None, orders)]
        )
    seen: list[str] = []

    async def dialogue() -> None:
        app = SpanwireBroker(url_of(spanwire_broker), logger=logging.getLogger("shop"))

        @app.subscriber("ORDERS", ack_policy=policy)
        async def take(body: str) -> None:
            seen.append(body)

        async with app:
            await app.start()
            await asyncio.to_thread(spanwire_broker.queue("ORDERS").wait_for, pending=0, dequeued=2)

    with caplog.at_level(logging.ERROR):
        run(dialogue())
    assert seen == ["b"]
    spanwire_broker.queue("ActiveMQ.DLQ").wait_for(pending=dead)
    assert caplog.text.count(" of queue://ORDERS is ") == 1


@pytest.mark.parametrize(
    ("policy", "dead", "done"), [(AckPolicy.ACK, 0, 1), (AckPolicy.ACK_FIRST, 0, 1), (AckPolicy.REJECT_ON_ERROR, 1, 1)]
)
def test_other_policies_acknowledge_or_reject_a_failed_message(
    spanwire_broker: Broker, policy: AckPolicy, dead: int, done: int
) -> None:
    async def dialogue() -> None:
        app = SpanwireBroker(url_of(spanwire_broker), logger=None, ack_policy=policy)

        @app.subscriber("ORDERS")
        async def fail(body: str) -> None:
            raise ValueError(body)

        async with app:
            await app.start()
            await app.publish("no", "ORDERS")
            await asyncio.to_thread(spanwire_broker.queue("ORDERS").wait_for, pending=0, dequeued=done)

    run(dialogue())
    assert len(spanwire_broker.queue("ActiveMQ.DLQ").messages()) == dead


def test_one_worker_returns_its_message_while_another_works_on(spanwire_broker: Broker) -> None:
    done: list[tuple[str, int]] = []

    async def dialogue() -> None:
        app = SpanwireBroker(url_of(spanwire_broker), logger=None)
        returned = asyncio.Event()

        @app.subscriber("ORDERS", max_workers=2)
        async def work(body: str, message: Annotated[SpanwireMessage, Context()]) -> None:
            count = message.raw_message.redelivery_count
            if body == "slow":
                await returned.wait()
            elif count == 0:
                raise ValueError(body)
            else:
                returned.set()
            done.append((body, count))

        async with app:
            await app.start()
            await app.publish("slow", "ORDERS")
            await app.publish("failing", "ORDERS")
            await asyncio.to_thread(spanwire_broker.queue("ORDERS").wait_for, pending=0, dequeued=2)

    run(dialogue())
    assert sorted(done) == [("failing", 1), ("slow", 0)]


def test_unacknowledged_messages_of_a_stopped_service_go_to_another(spanwire_broker: Broker) -> None:
    bodies: list[str] = []

    async def dialogue() -> None:
        first = SpanwireBroker(url_of(spanwire_broker))
        taken = asyncio.Event()

        @first.subscriber("ORDERS", ack_policy=AckPolicy.MANUAL)
        async def forget(body: str) -> None:
            taken.set()

        async with first:
            await first.start()
            await first.publish("book", "ORDERS")
            await taken.wait()
        second = SpanwireBroker(url_of(spanwire_broker))
        subscriber = second.subscriber("ORDERS")
        async with second:
            message = await subscriber.get_one(timeout=PATIENCE_S)
            assert message is not None
            bodies.append(await message.decode())
            await message.ack()

    run(dialogue())
    assert bodies == ["book"]
    spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=1)


def test_services_on_one_queue_share_its_messages(spanwire_broker: Broker) -> None:
    shares: dict[str, int] = {"a": 0, "b": 0}

    def service(name: str) -> SpanwireBroker:
        app = SpanwireBroker(url_of(spanwire_broker))

        @app.subscriber("ORDERS", prefetch=1)
        async def take(body: str) -> None:
            shares[name] += 1

        return app

    async def dialogue() -> None:
        async with service("a") as one, service("b") as other:
            await one.start()
            await other.start()
            for number in range(20):
                await one.publish(str(number), "ORDERS")
            await asyncio.to_thread(spanwire_broker.queue("ORDERS").wait_for, pending=0, dequeued=20)

    run(dialogue())
    assert shares["a"] + shares["b"] == 20
    assert min(shares.values()) > 0


def test_a_durable_subscription_keeps_what_is_sent_while_the_service_is_away(spanwire_broker: Broker) -> None:
    bodies: list[str] = []

    async def visit(expected: int) -> None:
        app = SpanwireBroker(url_of(spanwire_broker), client_id="shop")
        enough = asyncio.Event()

        @app.subscriber("topic://NEWS", durable="news")
        async def read(body: str) -> None:
            bodies.append(body)
            if len(bodies) == expected:
                enough.set()

        async with app:
            await app.start()
            await app.publish("now", "topic://NEWS")
            await enough.wait()

    async def meanwhile() -> None:
        async with SpanwireBroker(url_of(spanwire_broker)) as other:
            await other.publish("meanwhile", "topic://NEWS")

    run(visit(1))
    run(meanwhile())
    run(visit(3))
    assert bodies == ["now", "meanwhile", "now"]


def test_a_request_gets_the_reply_of_the_handler_under_a_prefix_and_a_pattern(spanwire_broker: Broker) -> None:
    async def dialogue() -> None:
        router = SpanwireRouter(prefix="SHOP.")

        @router.subscriber("PRICE.{item}")
        async def price(body: str, item: str = PathParameter()) -> str:
            return f"{item}: 12 {body}"

        app = SpanwireBroker(url_of(spanwire_broker), routers=[router])
        async with app:
            await app.start()
            first, second = await asyncio.gather(
                app.request("EUR", "SHOP.PRICE.book", correlation_id="same", timeout=PATIENCE_S),
                app.request("EUR", "SHOP.PRICE.book", correlation_id="same", timeout=PATIENCE_S),
            )
            assert await first.decode() == await second.decode() == "book: 12 EUR"
            with pytest.raises(TimeoutError):
                await app.request("EUR", "NOBODY", timeout=0.01)

    run(dialogue())


def test_the_broker_answers_pings_until_the_stop(spanwire_broker: Broker) -> None:
    async def dialogue() -> None:
        app = SpanwireBroker(url_of(spanwire_broker))
        assert not await app.ping()
        async with app:
            await app.start()
            assert await app.ping()
        assert not await app.ping()
        await app.stop()

    run(dialogue())


def test_a_service_ends_when_its_connection_is_lost_and_says_why(
    spanwire_broker_factory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker = spanwire_broker_factory()

    async def dialogue() -> None:
        app = FastStream(SpanwireBroker(url_of(broker), logger=logging.getLogger("shop")))
        assert app.broker is not None

        async def take(body: str) -> None: ...

        async def lose() -> None:
            await asyncio.to_thread(broker.stop)

        app.broker.subscriber("ORDERS")(take)
        app.after_startup(lose)
        await app.run()

    with caplog.at_level(logging.CRITICAL):
        run(dialogue())
    assert any("queue://ORDERS has no consumer any more" in record.getMessage() for record in caplog.records)


def test_the_test_broker_evaluates_selectors_and_gives_a_queue_to_one_a_topic_to_all() -> None:
    calls: list[str] = []

    async def dialogue() -> None:
        app = SpanwireBroker()

        @app.subscriber("ORDERS", selector="weight > 5 AND JMSPriority = 4")
        async def heavy(body: str) -> None:
            calls.append(f"heavy {body}")

        @app.subscriber("topic://NEWS.*")
        async def first(body: str) -> None:
            calls.append(f"first {body}")

        @app.subscriber("topic://NEWS.>")
        async def second(body: str) -> None:
            calls.append(f"second {body}")

        async with TestSpanwireBroker(app):
            await app.publish("anvil", "ORDERS", headers={"weight": 40})
            await app.publish("feather", "ORDERS", headers={"weight": 1})
            await app.publish("rain", "topic://NEWS.WEATHER")
            heavy.mock.assert_called_once_with("anvil")

    run(dialogue())
    assert sorted(calls) == ["first rain", "heavy anvil", "second rain"]


def test_the_program_of_the_page_bills_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r'```python title="shop.py"\n(.*?)```', PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(program, "shop.py", "exec"), names)  # noqa: S102

    async def dialogue() -> None:
        async with TestSpanwireBroker(names["broker"]), TestApp(names["app"]):
            names["bill"].mock.assert_called_once_with({"number": 1, "items": ["book"]})

    run(dialogue())
    assert capsys.readouterr().out == "12\n"


def test_asyncapi_names_the_addresses_and_no_password() -> None:
    app = SpanwireBroker("failover:(tcp://a:61616,ssl://b:61617)?jms.userName=shop&jms.password=secret")

    @app.subscriber("ORDERS")
    @app.publisher("topic://BILLS")
    async def bill(order: dict[str, int]) -> str:
        return ""

    text = AsyncAPI(app, schema_version="3.0.0").to_specification().to_json()
    document = json.loads(text)
    assert sorted(server["host"] for server in document["servers"].values()) == ["a:61616", "b:61617"]
    assert {channel["address"] for channel in document["channels"].values()} == {"queue://ORDERS", "topic://BILLS"}
    assert "secret" not in text


@pytest.mark.parametrize(
    ("destination", "options", "reason"),
    [
        ("/queue/ORDERS", {}, "did you mean queue://ORDERS"),
        ("ORDERS", {"durable": "name"}, "only a topic:// can be durable"),
        ("ORDERS", {"max_workers": 0}, "max_workers is 1 or more"),
    ],
)
def test_a_subscriber_that_cannot_be_is_refused_where_it_is_declared(
    destination: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SetupError, match=reason):
        SpanwireBroker().subscriber(destination, **options)


def test_security_that_the_client_cannot_keep_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ssl://"):
        SpanwireBroker("tcp://localhost", security=BaseSecurity(use_ssl=True))
    encrypted = SpanwireBroker("ssl://localhost", security=SASLPlaintext("shop", "secret", use_ssl=True))
    assert encrypted.specification.url == ["ssl://localhost:61617"]


def test_a_wrong_password_is_an_error_of_the_client(spanwire_broker_factory: Any) -> None:
    broker = spanwire_broker_factory(users={"shop": "secret"})

    async def enter(password: str) -> None:
        security = SASLPlaintext("shop", password)
        async with SpanwireBroker(url_of(broker), security=security) as app:
            await app.publish("book", "ORDERS")

    with pytest.raises(JmsError):
        run(enter("wrong"))
    run(enter("secret"))
    broker.queue("ORDERS").wait_for(pending=1)


def test_a_header_that_jms_does_not_allow_is_refused_by_name(spanwire_broker: Broker) -> None:
    async def dialogue() -> None:
        async with SpanwireBroker(url_of(spanwire_broker)) as app:
            with pytest.raises(JmsError, match="a property cannot be called 'x y'"):
                await app.publish("book", "ORDERS", headers={"x y": 1})

    run(dialogue())


def test_without_faststream_the_error_has_the_command_that_installs_it() -> None:
    program = "import sys; sys.modules['faststream'] = None; import spanwire.adapters.faststream"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "FastStream is not installed; run: " in done.stderr.splitlines()[-1]
