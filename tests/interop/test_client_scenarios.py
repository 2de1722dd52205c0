"""The conformance suite of the Python client: each scenario from asyncio and from threads, against Spanwire and
ActiveMQ Classic, and with ``SPANWIRE_ALL_BROKERS=1`` (``make client-conformance``) against newer ones. The same must
come out.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from spanwire.client.messages.message import Message
from spanwire.client.messages.typed_values import Byte, Double, Float, Int, Long, Serialized, Short
from spanwire.model.errors import (
    IllegalStateError,
    InvalidClientIdError,
    InvalidSelectorError,
    JmsError,
    XaError,
)
from spanwire.model.ids import XaTransactionId
from tests.support.broker_process import BrokerProcess
from tests.support.client_shells import SHELLS, opened

BROKERS: Final = ("spanwire", "classic") + (
    ("newest_classic", "artemis") if os.environ.get("SPANWIRE_ALL_BROKERS") == "1" else ()
)
DURABLE: Final = "durable subscriptions that only an unsubscribe without a consumer ends"
GONE: Final = "a refusal to send to a temporary destination that is gone"
PATIENCE: Final = 40.0  # for a message that comes; nobody waits that long for one that does not
SOON: Final = 0.3  # long enough for a message that should not come
NO_DELAY: Final = {
    "jms.redeliveryPolicy.initialRedeliveryDelay": "0",
    "jms.redeliveryPolicy.redeliveryDelay": "0",
}


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest) -> BrokerProcess:
    found: BrokerProcess = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return "queue://PY." + "".join(character if character.isalnum() else "." for character in request.node.name)


def played(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 2 * PATIENCE))


async def bodies(consumer: Any, count: int) -> list[object]:
    found = [await consumer.receive(PATIENCE) for _ in range(count)]
    return [None if message is None else message.body for message in found]


@pytest.mark.smoke
def test_bodies_headers_and_typed_properties_survive(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
            producer = await session.create_producer(queue)
            text = "\u20ac" if "every character in properties" in broker.lacks else "\u20ac\U0001f600\0"
            properties = {
                "flag": True, "b": Byte(-1), "s": Short(-2), "i": Int(3), "l": Long(4), "f": Float(1.5),
                "d": Double(2.5), "text": text, "small": 5, "large": 2**40, "real": 0.1, "none": None,
            }  # fmt: skip
            sent = [
                "h\u00e9llo \U0001f600\0",
                b"\x00\xff",
                {"a": 1, "b": b"x"} | ({} if "lists inside of maps" in broker.lacks else {"c": [1, {"d": None}]}),
                [1, "x", 2.5, None],
                None,
            ]
            for body in sent:
                await producer.send(
                    body, properties, message_type="t", correlation_id="c", reply_to="topic://R", priority=7,
                    group_id="g", group_sequence=3, time_to_live_ms=60_000,
                )  # fmt: skip
            consumer = await session.create_consumer(queue)
            messages = [await consumer.receive(PATIENCE) for _ in sent]
            assert [message.body for message in messages] == sent
            assert [message.kind for message in messages] == ["text", "bytes", "map", "stream", "message"]
            for message in messages:
                typed = message.typed_properties
                assert {name: word for name, (word, _) in typed.items() if not name.startswith("__AMQ_")} == {
                    "flag": "boolean", "b": "byte", "s": "short", "i": "int", "l": "long", "f": "float", "d": "double",
                    "text": "string", "small": "int", "large": "long", "real": "double", "none": "null",
                }  # fmt: skip
                assert message.properties["text"] == text
                assert message.properties["large"] == 2**40
                assert (message.message_type, message.correlation_id, message.priority) == ("t", "c", 7)
                assert (str(message.reply_to), str(message.destination)) == ("topic://R", queue)
                assert (message.group_id, message.group_sequence) == ("g", 3)
                assert message.expiration == message.timestamp + 60_000
                assert (message.persistent, message.redelivered, message.delivery_count) == (True, False, 1)
                assert message.message_id.startswith("ID:")

    played(scenario())


@pytest.mark.parametrize("mode", ["auto", "client", "dups_ok", "individual"])
def test_what_is_acknowledged_is_gone_and_the_rest_comes_again(
    broker: BrokerProcess, shell: str, queue: str, mode: str
) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection:
            async with connection.session() as session:
                producer = await session.create_producer(queue)
                for text in "abcd":
                    await producer.send(text)
            async with connection.session(mode) as session:
                consumer = await session.create_consumer(queue, prefetch=10)
                messages = [await consumer.receive(PATIENCE) for _ in range(3)]
                await messages[1].acknowledge()
                if mode in ("client", "individual"):
                    await consumer.receive(PATIENCE)
            async with connection.session() as session:
                consumer = await session.create_consumer(queue)
                left = {"auto": ["d"], "client": ["d"], "dups_ok": ["d"], "individual": ["a", "c", "d"]}[mode]
                assert await bodies(consumer, len(left)) == left
                assert await consumer.receive(SOON) is None

    played(scenario())


def test_commit_and_rollback_hold_for_both_directions(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with (
            opened(shell, broker.openwire_uri(NO_DELAY)) as connection,
            connection.session("transacted") as session,
            connection.session() as other,
        ):
            producer = await session.create_producer(queue)
            watcher = await other.create_consumer(queue)
            await producer.send("lost")
            await session.rollback()
            await producer.send("a")
            await producer.send("b")
            assert await watcher.receive(SOON) is None
            await session.commit()
            await watcher.close()
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 2) == ["a", "b"]
            await session.rollback()
            again = [await consumer.receive(PATIENCE) for _ in range(2)]
            assert [(message.body, message.delivery_count) for message in again] == [("a", 2), ("b", 2)]
            await session.commit()
            assert await consumer.receive(SOON) is None

    played(scenario())


def test_a_message_rolled_back_too_often_is_a_dead_letter(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        options = {**NO_DELAY, "jms.redeliveryPolicy.maximumRedeliveries": "1"}
        async with (
            opened(shell, broker.openwire_uri(options)) as connection,
            connection.session("transacted") as session,
            connection.session() as other,
        ):
            producer = await other.create_producer(queue)
            await producer.send("bad", {"test": queue})
            consumer = await session.create_consumer(queue)
            for count in (1, 2):
                message = await consumer.receive(PATIENCE)
                assert message.delivery_count == count
                await session.rollback()
            assert await consumer.receive(SOON) is None
            letters = await other.create_consumer(broker.dead_letters, selector=f"test = '{queue}'")
            letter = await letters.receive(PATIENCE)
            assert letter.body == "bad"
            if "the first destination of a dead letter" not in broker.lacks:
                assert str(letter.original_destination) == queue

    played(scenario())


def test_a_request_gets_the_reply_that_is_its_own(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:

            async def serve() -> None:
                async with connection.session() as serving:
                    consumer = await serving.create_consumer(queue)
                    producer = await serving.create_producer()
                    for _ in range(3):
                        message = await consumer.receive(PATIENCE)
                        await producer.send("noise", destination=message.reply_to, correlation_id="other")
                        await producer.send(
                            f"re {message.body}", destination=message.reply_to, correlation_id=message.correlation_id
                        )

            server = asyncio.create_task(serve())
            assert [(await session.request(queue, str(n), timeout=PATIENCE)).body for n in range(3)] == [
                "re 0",
                "re 1",
                "re 2",
            ]
            await server
            assert await session.request(queue, "nobody", timeout=SOON) is None

    played(scenario())


def test_replies_in_another_order_find_their_requests(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:

            async def serve() -> None:
                async with connection.session() as serving:
                    consumer = await serving.create_consumer(queue)
                    producer = await serving.create_producer()
                    for message in reversed([await consumer.receive(PATIENCE) for _ in range(4)]):
                        await producer.send(
                            f"re {message.body}", destination=message.reply_to, correlation_id=message.correlation_id
                        )

            server = asyncio.create_task(serve())
            await session.request(queue, "first of all", timeout=0)
            asked = [session.request(queue, str(number), timeout=PATIENCE) for number in range(3)]
            assert [reply.body for reply in await asyncio.gather(*asked)] == ["re 0", "re 1", "re 2"]
            await server

    played(scenario())


def test_a_temporary_queue_belongs_to_its_connection_and_ends_with_it(broker: BrokerProcess, shell: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as other, other.session() as stranger:
            async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
                temporary = await session.create_temporary_queue()
                consumer = await session.create_consumer(temporary)
                producer = await stranger.create_producer(temporary)
                await producer.send("hello")
                assert await bodies(consumer, 1) == ["hello"]
                with pytest.raises(JmsError):
                    await stranger.create_consumer(temporary)
                await consumer.close()
                await session.delete_temporary(temporary)
            if GONE not in broker.lacks:
                with pytest.raises(JmsError):
                    await producer.send("gone")

    played(scenario())


def test_a_browse_reads_to_the_end_and_leaves_everything(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
            producer = await session.create_producer(queue, persistent=False)
            for number in range(700):
                await producer.send(str(number), {"n": number})
            await producer.send("last", {"n": -1}, wait=True)
            found = [message.body async for message in session.create_browser(queue)]
            assert found == [*[str(number) for number in range(700)], "last"]
            assert [m.body async for m in session.create_browser(queue, selector="n > 697")] == ["698", "699"]
            consumer = await session.create_consumer(queue)
            assert len(await bodies(consumer, 701)) == 701
            assert [message async for message in session.create_browser(queue)] == []

    played(scenario())


def test_a_selector_takes_what_it_selects_and_a_bad_one_is_told(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
            producer = await session.create_producer(queue)
            for number in range(4):
                await producer.send(str(number), {"n": number})
            consumer = await session.create_consumer(queue, selector="n > 1")
            assert await bodies(consumer, 2) == ["2", "3"]
            assert await consumer.receive(SOON) is None
            with pytest.raises(InvalidSelectorError, match="refuses the selector"):
                await session.create_consumer(queue, selector="a b")
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 2) == ["0", "1"]

    played(scenario())


def test_a_topic_reaches_everybody_but_those_who_do_not_want_their_own(
    broker: BrokerProcess, shell: str, queue: str
) -> None:
    async def scenario() -> None:
        topic = queue.replace("queue://", "topic://")
        async with (
            opened(shell, broker.openwire_uri()) as connection,
            connection.session() as session,
            opened(shell, broker.openwire_uri()) as other,
            other.session() as elsewhere,
        ):
            consumers = [await session.create_consumer(topic), await elsewhere.create_consumer(topic)]
            deaf = await session.create_consumer(topic, no_local=True)
            producer = await session.create_producer(topic)
            await producer.send("x")
            for consumer in consumers:
                assert await bodies(consumer, 1) == ["x"]
            if "noLocal" not in broker.lacks:
                assert await deaf.receive(SOON) is None

    played(scenario())


@pytest.mark.parametrize("mode", ["client", "transacted"])
def test_a_reader_that_acknowledges_nothing_meanwhile_gets_many_times_its_prefetch(
    broker: BrokerProcess, shell: str, queue: str, mode: str
) -> None:
    async def scenario() -> None:
        texts = [str(number) for number in range(100)]
        async with opened(shell, broker.openwire_uri()) as connection:
            async with connection.session() as session:
                producer = await session.create_producer(queue)
                for text in texts:
                    await producer.send(text)
            async with connection.session(mode) as session:
                consumer = await session.create_consumer(queue, prefetch=10)
                assert await bodies(consumer, len(texts)) == texts

    played(scenario())


def test_without_a_prefetch_messages_are_pulled(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
            producer = await session.create_producer(queue)
            consumer = await session.create_consumer(queue, prefetch=0)
            assert await consumer.receive(SOON) is None
            await producer.send("a")
            await producer.send("b")
            assert await bodies(consumer, 1) == ["a"]
            other = await session.create_consumer(queue)
            assert await bodies(other, 1) == ["b"]
            assert await consumer.receive(0) is None

    played(scenario())


def test_expired_messages_are_not_delivered(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
            producer = await session.create_producer(queue)
            consumer = await session.create_consumer(queue)
            await producer.send("short", {"test": queue}, time_to_live_ms=500)
            await producer.send("long")
            await asyncio.sleep(0.6)
            assert await bodies(consumer, 1) == ["long"]
            await consumer.close()
            letters = await session.create_consumer(broker.expired_letters, selector=f"test = '{queue}'")
            assert await bodies(letters, 1) == ["short"]

    played(scenario())


def test_recover_brings_back_what_is_not_acknowledged(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri(NO_DELAY)) as connection, connection.session("client") as session:
            producer = await session.create_producer(queue)
            for text in "abc":
                await producer.send(text)
            consumer = await session.create_consumer(queue)
            await (await consumer.receive(PATIENCE)).acknowledge()
            assert await bodies(consumer, 2) == ["b", "c"]
            await session.recover()
            again = [await consumer.receive(PATIENCE) for _ in range(2)]
            assert [(message.body, message.delivery_count) for message in again] == [("b", 2), ("c", 2)]
            await again[-1].acknowledge()

    played(scenario())


def test_many_one_way_sends_arrive_in_order(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri({"jms.useAsyncSend": "true"})) as connection:
            async with connection.session() as session, connection.session() as other:
                producer = await session.create_producer(queue, persistent=False)
                consumer = await other.create_consumer(queue)
                for number in range(3_000):
                    await producer.send(str(number))
                assert await bodies(consumer, 3_000) == [str(number) for number in range(3_000)]
                await producer.send(b"x" * 5_000_000)
                (large,) = await bodies(consumer, 1)
                assert large == b"x" * 5_000_000

    played(scenario())


@pytest.mark.parametrize("options", ["tightEncodingEnabled", "cacheEnabled"])
def test_tight_and_cached_encodings_carry_the_same(broker: BrokerProcess, shell: str, queue: str, options: str) -> None:
    async def scenario() -> None:
        uri = broker.openwire_uri({f"wireFormat.{options}": "true"})
        async with opened(shell, uri) as connection, connection.session("transacted") as session:
            producer = await session.create_producer(queue)
            for number in range(200):
                await producer.send(str(number), {"n": number})
            await session.commit()
            consumer = await session.create_consumer(queue)
            messages = [await consumer.receive(PATIENCE) for _ in range(200)]
            assert [(message.body, message.properties["n"]) for message in messages] == [
                (str(n), n) for n in range(200)
            ]
            await session.commit()
            assert await consumer.receive(SOON) is None

    played(scenario())


def test_a_client_id_in_use_is_refused(broker: BrokerProcess, shell: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri(), client_id=f"py-{shell}") as connection:
            assert connection.client_id == f"py-{shell}"
            with pytest.raises(InvalidClientIdError, match="already connected"):
                await opened(shell, broker.openwire_uri(), client_id=f"py-{shell}")

    played(scenario())


def test_closed_things_say_so(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        connection = await opened(shell, broker.openwire_uri())
        session = connection.session()
        producer = await session.create_producer(queue)
        consumer = await session.create_consumer(queue)
        await consumer.close()
        with pytest.raises(IllegalStateError, match="consumer is closed"):
            await consumer.receive(SOON)
        await session.close()
        with pytest.raises(IllegalStateError, match="producer is closed"):
            await producer.send("x")
        await connection.close()
        await connection.close()
        with pytest.raises(IllegalStateError, match="connection is closed"):
            connection.session()

    played(scenario())


def test_a_durable_subscription_keeps_messages(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        topic = queue.replace("queue://", "topic://")
        for turn in range(2):
            async with opened(shell, broker.openwire_uri(), client_id="durable-" + shell) as connection:
                async with connection.session() as session:
                    consumer = await session.create_durable_subscriber(topic, "mine")
                    if turn:
                        assert await bodies(consumer, 2) == ["a", "b"]
                    if DURABLE not in broker.lacks:
                        with pytest.raises(JmsError):
                            await session.unsubscribe("mine")
                    await consumer.close()
                    producer = await session.create_producer(topic)
                    for text in "ab":
                        await producer.send(text)
                    if turn and DURABLE not in broker.lacks:
                        await session.unsubscribe("mine")
                        with pytest.raises(JmsError):
                            await session.unsubscribe("mine")

    played(scenario())


def test_a_prepared_branch_outlives_its_connection_and_a_rolled_back_one_gives_its_messages_back(
    broker: BrokerProcess, shell: str, queue: str
) -> None:
    async def scenario() -> None:
        one, other = (XaTransactionId(71, f"{shell} {time.time_ns()}".encode(), name) for name in (b"one", b"other"))
        async with opened(shell, broker.openwire_uri()) as connection, connection.session("xa") as session:
            await session.xa.start(one)
            producer = await session.create_producer(queue)
            for text in "ab":
                await producer.send(text)
            await session.xa.end(one)
            assert await session.xa.prepare(one)
        async with opened(shell, broker.openwire_uri(NO_DELAY)) as connection, connection.session("xa") as session:
            assert one in await session.xa.recover()
            await session.xa.commit(one)
            assert one not in await session.xa.recover()
            consumer = await session.create_consumer(queue)
            for ends_well in (False, True):
                await session.xa.start(other)
                assert await bodies(consumer, 2) == ["a", "b"]
                await session.xa.end(other)
                assert await session.xa.prepare(other)
                await (session.xa.commit(other) if ends_well else session.xa.rollback(other))
            assert await consumer.receive(SOON) is None
            with pytest.raises(XaError):
                await session.xa.commit(other)

    played(scenario())


def test_a_branch_is_committed_in_one_phase_or_has_nothing_to_commit(
    broker: BrokerProcess, shell: str, queue: str
) -> None:
    async def scenario() -> None:
        branch = XaTransactionId(72, f"{shell} {time.time_ns()}".encode(), b"b")
        async with opened(shell, broker.openwire_uri()) as connection, connection.session("xa") as session:
            producer = await session.create_producer(queue)
            await session.xa.start(branch)
            await producer.send("x")
            await session.xa.end(branch)
            await session.xa.commit(branch, one_phase=True)
            async with connection.session() as plain:
                assert await bodies(await plain.create_consumer(queue), 1) == ["x"]

    played(scenario())


def test_compressed_and_serialized_bodies_come_back_as_they_were(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        stream = b"\xac\xed\x00\x05t\x00\x05hello"
        sent = ["text " * 100, b"bytes" * 100, {"a": "x" * 500, "n": 1}, ["y" * 500, 2.5], Serialized(stream), None]
        async with opened(shell, broker.openwire_uri({"jms.useCompression": "true"})) as connection:
            async with connection.session() as session:
                producer = await session.create_producer(queue)
                for body in sent:
                    await producer.send(body)
                consumer = await session.create_consumer(queue)
                messages = [await consumer.receive(PATIENCE) for _ in sent]
                assert [message.body for message in messages] == [*sent[:4], stream, None]
                assert [message.is_compressed() for message in messages] == [True] * 5 + [False]
                assert messages[4].kind == "object"

    played(scenario())


def test_optimized_acknowledgements_leave_nothing_behind(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        options = {"jms.optimizeAcknowledge": "true", "jms.prefetchPolicy.queuePrefetch": "10"}
        async with opened(shell, broker.openwire_uri(options)) as connection:
            async with connection.session() as session:
                producer = await session.create_producer(queue)
                for number in range(25):
                    await producer.send(str(number), wait=number == 24)
                consumer = await session.create_consumer(queue)
                assert await bodies(consumer, 25) == [str(number) for number in range(25)]
            async with connection.session() as session:
                assert await (await session.create_consumer(queue)).receive(SOON) is None

    played(scenario())


def test_a_listener_gets_what_is_sent(broker: BrokerProcess, shell: str, queue: str) -> None:
    async def scenario() -> None:
        async with opened(shell, broker.openwire_uri()) as connection, connection.session() as session:
            heard: list[object] = []
            is_done = threading.Event()

            def hears(message: Message) -> None:
                heard.append(message.body)
                if len(heard) == 3:
                    is_done.set()

            consumer = await session.create_consumer(queue)
            consumer.listen(hears)
            producer = await session.create_producer(queue)
            for text in "abc":
                await producer.send(text)
            assert await asyncio.to_thread(is_done.wait, PATIENCE)
            await consumer.stop_listening()
            assert heard == ["a", "b", "c"]

    played(scenario())


def test_a_temporary_queue_that_is_gone_is_known_to_be_gone(broker: BrokerProcess, shell: str) -> None:
    async def scenario() -> None:
        async with (
            opened(shell, broker.openwire_uri({"jms.watchTopicAdvisories": "true"})) as connection,
            connection.session() as session,
            opened(shell, broker.openwire_uri()) as other,
            other.session() as owner,
        ):
            temporary = await owner.create_temporary_queue()
            producer = await session.create_producer(temporary)
            await producer.send("hello")
            await owner.delete_temporary(temporary)
            if GONE not in broker.lacks:
                with pytest.raises(JmsError):
                    for _ in range(1_000):  # until the news has arrived, or the broker refuses
                        await producer.send("gone", wait=True)

    played(scenario())
