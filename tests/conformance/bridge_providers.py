"""The promises of a provider of bridges. A test module inherits the class and says how to reach its broker.

The driver sends and receives beside the provider, over another connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import pytest

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import (
    EagerSource,
    EagerTarget,
    LocalTransaction,
    MessageRefusedError,
    MessageSource,
    Provider,
)
from spanwire.model.destination import QUEUE, TEMP_QUEUE, Destination
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BOOLEAN_VALUE, INT_VALUE, STRING_VALUE, TEXT, PropertyValue
from tests.support.bridge_dialogue import Content

WAIT_S: Final = 30.0
QUIET_S: Final = 0.3  # seconds without a message, where none may come
CREDIT: Final = 100
MANY: Final = 1_000_000
SOURCE: Final = Destination(QUEUE, "CONFORMANCE.SOURCE")
TARGET: Final = Destination(QUEUE, "CONFORMANCE.TARGET")


ALL_HEADERS: Final = frozenset(
    {"correlation_id", "message_type", "priority", "persistent", "group_id", "group_sequence", "reply_to"}
)


class ProviderDriver(Protocol):
    """One broker that is running, empty."""

    headers: frozenset[str]  # of `ALL_HEADERS`, what crosses
    typed_properties: bool  # or all properties become strings

    @property
    def marks_redelivery(self) -> bool | None:
        """Whether a message that came back says so; None if that depends on the version of the broker."""
        ...

    def provider(self) -> Provider: ...

    def source(self, selector: str | None = None) -> Source:
        """`SOURCE` at the broker."""
        ...

    def target(self) -> Target:
        """`TARGET` at the broker."""
        ...

    def beginning(self) -> Target:
        """`SOURCE` as a target."""
        ...

    def end(self) -> Source:
        """`TARGET` as a source."""
        ...

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        """Send persistent texts, and return when the broker has stored them."""
        ...

    def texts(self, destination: Destination) -> list[str]:
        """Return the texts of the pending messages of a queue, and leave the messages there."""
        ...

    def pending(self, destination: Destination) -> int | None:
        """Return the number of messages of a queue, those of consumers included; None if nobody can tell."""
        ...

    def dead_letters(self) -> list[str]:
        """Return the texts of the broker's dead letters."""
        ...

    def stop(self) -> None:
        """End the broker, so that all connections break."""
        ...


class BrokenText:
    """The content of a text message that is no text."""

    def neutral_body(self) -> bytes | None:
        return b"\xff"

    def property_values(self) -> dict[str, PropertyValue]:
        return {}


def neutral_message(text: str) -> BridgeMessage:
    """A message of no provider."""
    values = {"n": (INT_VALUE, 7), "good": (BOOLEAN_VALUE, True), "name": (STRING_VALUE, "é")}
    message = BridgeMessage("ID:elsewhere-1:1", TEXT, Content(text, dict(values)), len(text))
    message.correlation_id = "c"
    message.message_type = "t"
    message.priority = 7
    message.group_id = "g"
    message.group_sequence = 3
    message.reply_to = Destination(QUEUE, "REPLIES")
    return message


async def take(source: MessageSource | LocalTransaction, count: int) -> list[BridgeMessage]:
    """Receive so many messages."""
    messages: list[BridgeMessage] = []
    async with asyncio.timeout(WAIT_S):
        while len(messages) < count:
            messages += await source.receive(count - len(messages), MANY, WAIT_S)
    return messages


def bodies(messages: list[BridgeMessage]) -> list[str]:
    return [(message.content.neutral_body() or b"").decode() for message in messages]


def runs(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


class BridgeProviderConformance:
    """Inherited by the tests of each provider, which have a fixture ``driver``."""

    def test_messages_are_received_in_order_within_the_credit(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a", "b", "c"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            assert bodies(await source.receive(1, MANY, WAIT_S)) == ["a"]
            assert bodies(await source.receive(5, 1, WAIT_S)) == ["b"]
            assert bodies(await take(source, 1)) == ["c"]
            assert await source.receive(5, MANY, QUIET_S) == []
            await source.close()

        runs(scenario)

    def test_acknowledged_messages_are_gone_and_others_return(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a", "b", "c"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            await take(source, 2)
            await source.acknowledge()
            assert driver.pending(SOURCE) in (1, None)
            await take(source, 1)
            await source.close()
            again = await driver.provider().open_source(driver.source(), CREDIT)
            (message,) = await take(again, 1)
            assert bodies([message]) == ["c"]
            assert driver.marks_redelivery in (message.is_redelivered, None)
            await again.acknowledge()
            await again.close()
            assert driver.pending(SOURCE) in (0, None)
            empty = await driver.provider().open_source(driver.source(), CREDIT)
            assert await empty.receive(1, MANY, QUIET_S) == []
            await empty.close()

        runs(scenario)

    def test_a_cancelled_receive_takes_no_message(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            source = await driver.provider().open_source(driver.source(), CREDIT)
            waiting = asyncio.create_task(source.receive(1, MANY, WAIT_S))
            await asyncio.sleep(0)
            driver.send(SOURCE, ["a"])
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.cancelled()
            assert bodies(await take(source, 1)) == ["a"]
            await source.close()

        runs(scenario)

    def test_a_batch_is_stored_when_the_send_returns(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            await target.send([neutral_message(str(number)) for number in range(20)])
            assert driver.texts(TARGET) == [str(number) for number in range(20)]
            await target.send([neutral_message("last")])
            assert driver.pending(TARGET) in (21, None)
            await target.close()

        runs(scenario)

    def test_a_message_of_another_provider_keeps_headers_and_typed_properties(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            await target.send([neutral_message("text é")])
            await target.close()
            source = await driver.provider().open_source(driver.end(), CREDIT)
            (message,) = await take(source, 1)
            assert bodies([message]) == ["text é"]
            values = {"n": (INT_VALUE, 7), "good": (BOOLEAN_VALUE, True), "name": (STRING_VALUE, "é")}
            texts = {"n": (STRING_VALUE, "7"), "good": (STRING_VALUE, "true"), "name": (STRING_VALUE, "é")}
            assert message.property_values() == (values if driver.typed_properties else texts)
            assert (message.kind, message.expiration_ms) == (TEXT, 0)
            fresh, sent = BridgeMessage("", TEXT, Content(""), 0), neutral_message("")
            for name in ALL_HEADERS:
                kept = sent if name in driver.headers else fresh
                assert getattr(message, name) == getattr(kept, name), name
            await source.close()

        runs(scenario)

    def test_a_received_message_is_forwarded_with_all_its_parts(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            first = await driver.provider().open_target(driver.beginning())
            await first.send([neutral_message("text")])
            await first.close()
            source = await driver.provider().open_source(driver.source(), CREDIT)
            target = await driver.provider().open_target(driver.target())
            (before,) = await take(source, 1)
            await target.send([before])
            await source.acknowledge()
            await target.close()
            await source.close()
            end = await driver.provider().open_source(driver.end(), CREDIT)
            (after,) = await take(end, 1)
            for name in ("kind", *ALL_HEADERS):
                assert getattr(after, name) == getattr(before, name), name
            assert bodies([after]) == bodies([before])
            assert after.property_values() == before.property_values()
            await end.close()

        runs(scenario)

    def test_a_refused_message_leaves_the_target_without_the_batch_and_usable(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            broken = BridgeMessage("ID:1", TEXT, BrokenText(), 1)
            with pytest.raises(MessageRefusedError) as refusal:
                await target.send([neutral_message("first"), broken, neutral_message("last")])
            assert refusal.value.index == 1
            assert driver.texts(TARGET) == []
            await target.send([neutral_message("first"), neutral_message("last")])
            assert driver.texts(TARGET) == ["first", "last"]
            await target.close()

        runs(scenario)

    def test_a_dead_letter_leaves_the_source_for_the_dead_letter_queue(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["bad", "good"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            await take(source, 1)
            await source.dead_letter("too large")
            assert bodies(await take(source, 1)) == ["good"]
            await source.acknowledge()
            await source.close()
            assert driver.pending(SOURCE) in (0, None)
            assert driver.dead_letters() == ["bad"]

        runs(scenario)

    def test_a_lost_broker_is_an_error_of_the_next_call(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            target = await driver.provider().open_target(driver.target())
            await take(source, 1)
            await asyncio.to_thread(driver.stop)
            with pytest.raises(JmsError):
                await source.acknowledge()
            with pytest.raises(JmsError):
                await target.send([neutral_message("x")])
            with pytest.raises(JmsError):
                target.check()
            await source.close()
            await target.close()
            with pytest.raises(JmsError):
                await driver.provider().open_target(driver.target())

        runs(scenario)


class UnlimitedBatchConformance:
    """For providers whose description has no largest batch."""

    def test_a_batch_may_exceed_the_messages_that_the_broker_dispatches_ahead(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, [str(number) for number in range(50)])
            source = await driver.provider().open_source(driver.source(), 10)
            assert bodies(await take(source, 50)) == [str(number) for number in range(50)]
            await source.acknowledge()
            await source.close()
            assert driver.pending(SOURCE) == 0

        runs(scenario)


class SelectorConformance:
    """For providers whose description promises selectors."""

    def test_a_selector_leaves_other_messages_at_the_source(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["other"], {"n": 1})
            driver.send(SOURCE, ["chosen"], {"n": 2})
            source = await driver.provider().open_source(driver.source("n = 2"), CREDIT)
            assert bodies(await take(source, 1)) == ["chosen"]
            await source.acknowledge()
            await source.close()
            assert driver.texts(SOURCE) == ["other"]

        runs(scenario)


class ReplyConformance:
    """For providers whose description promises replies."""

    def test_messages_of_a_reply_queue_are_handed_over_until_it_is_closed(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            replies: asyncio.Queue[BridgeMessage] = asyncio.Queue()
            target = await driver.provider().open_target(driver.target())
            queue, other = await target.open_reply_queue(replies.put), await target.open_reply_queue(replies.put)
            assert queue != other and queue.is_temporary
            await asyncio.to_thread(driver.send, queue, ["one", "two"])
            async with asyncio.timeout(WAIT_S):
                assert bodies([await replies.get(), await replies.get()]) == ["one", "two"]
            await target.close_reply_queue(queue)
            await asyncio.to_thread(driver.send, other, ["three"])
            async with asyncio.timeout(WAIT_S):
                assert bodies([await replies.get()]) == ["three"]
            await target.close()

        runs(scenario)

    def test_a_source_sends_a_reply_to_any_destination_of_its_broker(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            source = await driver.provider().open_source(driver.source(), CREDIT)
            await source.send_reply(neutral_message("reply"), TARGET)
            assert driver.texts(TARGET) == ["reply"]
            with pytest.raises(JmsError):
                await source.send_reply(neutral_message("late"), Destination(TEMP_QUEUE, "ID:gone-1-1-1:1:1"))
            await source.send_reply(neutral_message("next"), TARGET)
            assert driver.texts(TARGET) == ["reply", "next"]
            await source.close()

        runs(scenario)


class LocalTransactionConformance:
    """For providers whose description promises local transactions."""

    def test_a_transaction_receives_and_sends_at_its_commit(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a", "b"])
            assert driver.provider().describe().local_transactions
            link = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            messages = await take(link, 2)
            await link.send(messages)
            assert (driver.pending(SOURCE), driver.texts(TARGET)) == (2, [])
            await link.commit()
            assert (driver.pending(SOURCE), driver.texts(TARGET)) == (0, ["a", "b"])
            link.check()
            await link.close()

        runs(scenario)

    def test_a_dead_letter_of_a_transaction_leaves_the_source(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["bad", "good"])
            link = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            await take(link, 1)
            with pytest.raises(MessageRefusedError):
                await link.send([BridgeMessage("ID:1", TEXT, BrokenText(), 1)])
            await link.dead_letter("too large")
            await link.send(await take(link, 1))
            await link.commit()
            await link.close()
            assert (driver.pending(SOURCE), driver.texts(TARGET), driver.dead_letters()) == (0, ["good"], ["bad"])

        runs(scenario)

    def test_a_closed_transaction_is_rolled_back(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a"])
            link = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            await link.send(await take(link, 1))
            await link.close()
            assert (driver.texts(SOURCE), driver.texts(TARGET)) == (["a"], [])

        runs(scenario)

    def test_a_message_is_not_given_up_after_many_attempts(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a"])
            for _ in range(9):  # more than the usual six redeliveries
                link = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
                await take(link, 1)
                await link.close()
            assert driver.texts(SOURCE) == ["a"]

        runs(scenario)


class EagerConformance:
    """A source and a target that take further messages while their broker stores a batch."""

    def test_an_acknowledgement_for_later_covers_no_message_that_is_received_since(
        self, driver: ProviderDriver
    ) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a", "b", "c", "d"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            assert isinstance(source, EagerSource)
            await take(source, 2)
            acknowledge = source.acknowledge_later()
            await take(source, 1)
            assert driver.pending(SOURCE) == 4
            await acknowledge()
            assert driver.pending(SOURCE) == 2
            await source.close()
            again = await driver.provider().open_source(driver.source(), CREDIT)
            assert bodies(await take(again, 2)) == ["c", "d"]
            await again.close()

        runs(scenario)

    def test_batches_behind_each_other_are_stored_in_order_without_a_refused_one(self, driver: ProviderDriver) -> None:
        async def nothing() -> None:
            """Wait for nothing."""

        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            assert isinstance(target, EagerTarget)
            broken = BridgeMessage("ID:1", TEXT, BrokenText(), 1)
            first = await target.send_soon([neutral_message("1"), neutral_message("2")], nothing)
            with pytest.raises(MessageRefusedError):
                await target.send_soon([neutral_message("3"), broken], nothing)
            last = await target.send_soon([neutral_message("4")], nothing)
            await first()
            await last()
            assert driver.texts(TARGET) == ["1", "2", "4"]
            await target.close()

        runs(scenario)

    def test_a_batch_that_is_not_stored_raises_an_error_that_blames_no_message(self, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            async def stop() -> None:
                await asyncio.to_thread(driver.stop)

            async def store(target: EagerTarget) -> None:
                stored = await target.send_soon([neutral_message("1")], stop)
                await stored()

            target = await driver.provider().open_target(driver.target())
            assert isinstance(target, EagerTarget)
            with pytest.raises(JmsError) as lost:
                await store(target)
            assert not isinstance(lost.value, MessageRefusedError)
            await target.close()

        runs(scenario)
