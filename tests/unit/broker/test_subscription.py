"""What one subscription holds."""

from __future__ import annotations

import sys

import pytest

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import Principal
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError, JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, MessageId, ProducerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message

ORDERS = Destination(QUEUE, "ORDERS")
PRODUCER = ProducerId("ID:p", 1, 1)


class SilentConnection:
    def on_completed(self, token: int, error: SpanwireError | None) -> None: ...

    def close_with(self, error: SpanwireError) -> None: ...


class SilentConsumer:
    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None: ...

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None: ...

    def close(self, reason: JmsError) -> None: ...


def reference(number: int) -> MessageReference:
    destination = BrokerDestination(ORDERS, PolicyEntry(ORDERS), MemoryUsage(0))
    message = Message(4, b"x" * 100, 0, 0, 0, ORDERS, PRODUCER, number, False, 4, 0, 0)
    return MessageReference(destination, message, 0, number, 0)


def test_an_acknowledged_message_is_not_kept_by_the_slot_it_left() -> None:
    values = MessageEvaluationContext(MessageFormats({}))
    output = ConnectionOutput(SilentConnection(), [], MemoryUsage(0))
    info = ConsumerInfo(ConsumerId("ID:c", 1, 1), ORDERS)
    subscription = Subscription(info, SilentConsumer(), output, Principal("p"), None, values, False)
    references = [reference(number) for number in range(1, 6)]
    before = [sys.getrefcount(entry) for entry in references]
    for number in range(5):
        subscription.dispatch(references[number])
    subscription.in_flight.take_front(3, None, references[2].message.message_id)
    assert subscription.dispatched_count == 2
    after = [sys.getrefcount(entry) for entry in references]
    assert after[:3] == before[:3]
    assert after[3:] == [count + 1 for count in before[3:]]


def test_what_the_client_was_told_of_before_does_not_move_the_window_back() -> None:
    values = MessageEvaluationContext(MessageFormats({}))
    info = ConsumerInfo(ConsumerId("ID:c", 1, 1), ORDERS)
    output = ConnectionOutput(SilentConnection(), [], MemoryUsage(0))
    subscription = Subscription(info, SilentConsumer(), output, Principal("p"), None, values, False)
    references = [reference(number) for number in range(1, 7)]
    for one in references:
        subscription.dispatch(one)
    extensions = []
    for number in (2, 4, 1, 4):
        subscription.in_flight.delivered(references[number].message.message_id)
        extensions.append(subscription.in_flight.extension)
    assert extensions == [3, 5, 5, 5]
    subscription.in_flight.take_front(3, None, references[2].message.message_id)
    subscription.in_flight.delivered(references[5].message.message_id)
    assert subscription.in_flight.extension == 3
    with pytest.raises(IllegalStateError):
        subscription.in_flight.delivered(MessageId(PRODUCER, 99))


def test_reports_in_order_need_no_search_and_no_index() -> None:
    count = 1_000
    values = MessageEvaluationContext(MessageFormats({}))
    info = ConsumerInfo(ConsumerId("ID:c", 1, 1), ORDERS, prefetch_size=count)
    output = ConnectionOutput(SilentConnection(), [], MemoryUsage(0))
    subscription = Subscription(info, SilentConsumer(), output, Principal("p"), None, values, False)
    references = [reference(number) for number in range(count)]
    for one in references:
        subscription.dispatch(one)
    in_flight = subscription.in_flight
    for reported in range(100, count, 100):
        in_flight.delivered(references[reported - 1].message.message_id, 100)
        assert in_flight.extension == reported
    assert in_flight.steps == 0
    in_flight.delivered(references[-1].message.message_id, 7)  # a count that is wrong
    assert in_flight.extension == count


@pytest.mark.parametrize("undo", [False, True])
def test_acknowledgements_in_reverse_order_look_at_each_message_a_few_times(undo: bool) -> None:
    count = 3_000
    values = MessageEvaluationContext(MessageFormats({}))
    info = ConsumerInfo(ConsumerId("ID:c", 1, 1), ORDERS, prefetch_size=count)
    output = ConnectionOutput(SilentConnection(), [], MemoryUsage(0))
    subscription = Subscription(info, SilentConsumer(), output, Principal("p"), None, values, False)
    references = [reference(number) for number in range(count)]
    for one in references:
        subscription.dispatch(one)
    numbers = []
    for one in reversed(references):
        assert subscription.in_flight.take_one(one.message.message_id) is one
        numbers.append(subscription.in_flight.taken_at)
    assert subscription.dispatched_count == 0
    if undo:
        subscription.in_flight.put_back(list(reversed(references)), numbers)
        assert subscription.in_flight.all_out() == references
    assert subscription.in_flight.steps < 6 * count
