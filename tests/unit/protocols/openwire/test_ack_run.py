"""Runs of acknowledgements: decoded by their pattern, they do what each by itself would have done."""

from __future__ import annotations

import pytest

from spanwire.model.acks import SequenceRun
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.ack_run import MAX_ACK_PATTERNS, AckRun
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from tests.support.openwire_dialogue import LateStore, OpenWirePeer, World

QUEUE = wire.ActiveMQQueue("Q")
PRODUCER = wire.ProducerId(connection_id="ID:peer-1-1-0:1", session_id=1, value=1)
CONSUMER = wire.ConsumerId(connection_id="ID:peer-2-1-0:1", session_id=1, value=1)


def acknowledgement(sequence: int, *, with_first: bool = True, count: int = 1) -> wire.MessageAck:
    message_id = wire.MessageId(producer_id=PRODUCER, producer_sequence_id=sequence, broker_sequence_id=sequence + 7)
    return wire.MessageAck(
        destination=QUEUE,
        consumer_id=CONSUMER,
        ack_type=2,
        first_message_id=message_id if with_first else None,
        last_message_id=message_id,
        message_count=count,
    )


def decoded(commands: list[wire.MessageAck], version: int = 12) -> list[wire.Command]:
    wire_format = WireFormat(version=version)
    decoder = FrameDecoder()
    decoder.feed(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
    decoder.negotiated(wire_format)
    encoder = FrameEncoder(wire_format)
    for number, command in enumerate(commands):
        command.command_id = number
    return decoder.feed(b"".join(encoder.encode(command) for command in commands))


@pytest.mark.parametrize("version", [1, 6, 7, 9, 10, 12])
@pytest.mark.parametrize("with_first", [True, False])
def test_neighbours_that_differ_in_numbers_alone_become_one_run(version: int, with_first: bool) -> None:
    first, run = decoded([acknowledgement(n, with_first=with_first) for n in range(1, 6)], version)
    assert isinstance(first, wire.MessageAck)
    assert isinstance(run, AckRun)
    assert run.sequences.after(0) == [2, 3, 4, 5]
    again = run.pattern.acknowledgement(3)
    assert again.consumer_id == CONSUMER
    assert again.last_message_id is not None
    assert again.last_message_id.producer_id == PRODUCER
    assert again.last_message_id.producer_sequence_id == 3
    assert (again.first_message_id is not None) == with_first


@pytest.mark.parametrize(
    "numbers",
    [[5], [5, 6], [5, 9, 13, 17], [9, 5, 1], [5, 5, 5], [2, 3, 4, 9, 10, 11, -1], [-(2**63), 2**63 - 1, 0, 1]],
)
def test_a_run_returns_its_numbers_in_their_order_at_whatever_distances(numbers: list[int]) -> None:
    run = SequenceRun(numbers[0])
    for number in numbers[1:]:
        run.append(number)
    assert run.size == len(numbers)
    assert [run.at(index) for index in range(len(numbers))] == numbers
    for count in range(len(numbers) + 1):
        assert run.after(count) == numbers[count:]


def changed(**fields: object) -> wire.MessageAck:
    command = acknowledgement(2)
    for name, value in fields.items():
        setattr(command, name, value)
    return command


@pytest.mark.parametrize(
    "other",
    [
        changed(response_required=True),
        changed(ack_type=4),
        changed(message_count=2),
        changed(destination=wire.ActiveMQQueue("R")),
        changed(destination=wire.ActiveMQTopic("Q")),
        changed(consumer_id=wire.ConsumerId(connection_id="ID:peer-2-1-0:1", session_id=1, value=2)),
        changed(transaction_id=wire.LocalTransactionId(value=1)),
        changed(first_message_id=acknowledgement(1).last_message_id),
        changed(first_message_id=None),
        changed(
            last_message_id=wire.MessageId(
                producer_id=wire.ProducerId(connection_id="ID:peer-3-1-0:1", session_id=1, value=1),
                producer_sequence_id=2,
            )
        ),
        changed(last_message_id=wire.MessageId(text_view="ID:x", producer_id=PRODUCER, producer_sequence_id=2)),
    ],
)
def test_one_that_differs_elsewhere_is_decoded_by_itself(other: wire.MessageAck) -> None:
    commands = decoded([acknowledgement(1), other])
    assert [type(command) for command in commands] == [wire.MessageAck, wire.MessageAck]


def test_a_run_ends_where_another_consumer_acknowledges() -> None:
    other = wire.ConsumerId(connection_id="ID:peer-2-1-0:1", session_id=1, value=2)
    commands = decoded(
        [acknowledgement(1), acknowledgement(2), changed(consumer_id=other), acknowledgement(3), acknowledgement(4)]
    )
    assert [type(command) for command in commands] == [
        wire.MessageAck,
        AckRun,
        wire.MessageAck,
        AckRun,
    ]


def of_producer(number: int, sequence: int, **fields: object) -> wire.MessageAck:
    """The acknowledgement of a message of the producer ``number``."""
    producer = wire.ProducerId(connection_id=f"ID:peer-{number}-1-0:1", session_id=1, value=1)
    return changed(
        first_message_id=wire.MessageId(producer_id=producer, producer_sequence_id=sequence),
        last_message_id=wire.MessageId(producer_id=producer, producer_sequence_id=sequence),
        **fields,
    )


def test_each_producer_of_a_consumer_has_a_pattern() -> None:
    order = [(3, 1), (14, 1), (3, 2), (3, 3), (14, 2), (5, 1), (14, 3), (3, 4), (5, 2)]
    commands = decoded([of_producer(producer, sequence) for producer, sequence in order])
    found: list[tuple[str, list[int]]] = []
    for command in commands:
        if isinstance(command, AckRun):
            found.append((str(command.pattern.producer_id.connection_id), command.sequences.after(0)))
    assert found == [
        ("ID:peer-3-1-0:1", [2, 3]),
        ("ID:peer-14-1-0:1", [2]),
        ("ID:peer-14-1-0:1", [3]),
        ("ID:peer-3-1-0:1", [4]),
        ("ID:peer-5-1-0:1", [2]),
    ]
    assert len(commands) == len(found) + 3


def test_a_further_pattern_replaces_the_oldest() -> None:
    firsts = [of_producer(number, 1) for number in range(100, 101 + MAX_ACK_PATTERNS)]
    commands = decoded([*firsts, of_producer(100, 2), of_producer(102, 2), of_producer(101, 2)])
    assert [type(command) for command in commands[len(firsts) :]] == [wire.MessageAck, AckRun, wire.MessageAck]


def test_acknowledgements_that_want_a_response_replace_no_pattern() -> None:
    answered = [of_producer(number, 1, response_required=True) for number in range(200, 201 + MAX_ACK_PATTERNS)]
    commands = decoded([acknowledgement(1), *answered, acknowledgement(2)])
    assert isinstance(commands[-1], AckRun)


def prepared(count: int) -> tuple[World, OpenWirePeer, list[wire.Message]]:
    """A consumer that was dispatched ``count`` messages and has acknowledged the first, so that a pattern is known."""
    world = World()
    sender, receiver = world.connect(), world.connect()
    sender.produces()
    receiver.consumes(QUEUE)
    for number in range(count):
        sender.sends(sender.text_message(QUEUE, str(number)))
    messages = receiver.dispatched()
    receiver.acknowledges(messages[0])
    return world, receiver, messages


def octets_of(receiver: OpenWirePeer, messages: list[wire.Message]) -> bytes:
    """Their acknowledgements, one by one, as one read."""
    frames = []
    for message in messages:
        command = wire.MessageAck(
            destination=message.destination,
            consumer_id=receiver.consumer_id(),
            ack_type=2,
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
        )
        frames.append(receiver.encoder.encode(command))
    return b"".join(frames)


def test_a_run_in_the_order_of_dispatch_takes_each_message_off_the_queue() -> None:
    world, receiver, messages = prepared(50)
    receiver.sends_octets(octets_of(receiver, messages[1:40]))
    receiver.receives_nothing()
    (queue,) = [view for view in world.broker.destination_views() if view.destination == "queue://Q"]
    assert (queue.dequeued, queue.in_flight) == (40, 10)


def test_runs_of_several_producers_take_each_message_off_the_queue_once() -> None:
    world = World()
    senders = [world.connect() for _ in range(3)]
    receiver = world.connect()
    receiver.consumes(QUEUE)
    for sender in senders:
        sender.produces()
    for number in range(30):
        sender = senders[number // 2 % 3]
        sender.sends(sender.text_message(QUEUE, str(number)))
    messages = receiver.dispatched()
    for message in messages[:6:2]:
        receiver.acknowledges(message)
    receiver.sends_octets(octets_of(receiver, [*messages[1:6:2], *messages[6:28]]))
    receiver.receives_nothing()
    (queue,) = [view for view in world.broker.destination_views() if view.destination == "queue://Q"]
    assert (queue.dequeued, queue.in_flight) == (28, 2)


def test_a_run_in_another_order_is_taken_one_by_one() -> None:
    world, receiver, messages = prepared(5)
    receiver.sends_octets(octets_of(receiver, [messages[1], messages[3], messages[2], messages[3], messages[4]]))
    told = receiver.receives(wire.ConnectionError)  # one was acknowledged twice
    receiver.receives_nothing()
    assert told.exception is not None
    assert "Could not correlate acknowledgment with dispatched message" in str(told.exception.message)
    (queue,) = [view for view in world.broker.destination_views() if view.destination == "queue://Q"]
    assert (queue.dequeued, queue.in_flight) == (5, 0)


def test_a_run_of_a_consumer_that_is_gone_is_refused_each_time() -> None:
    world, receiver, messages = prepared(4)
    octets = octets_of(receiver, messages[1:])
    receiver.sends(wire.RemoveInfo(object_id=receiver.consumer_id()))
    receiver.sends_octets(octets)
    assert receiver.told() == ["ConnectionError"] * 3
    receiver.received.clear()
    receiver.consumes(QUEUE)
    again = receiver.dispatched()
    receiver.sends_octets(octets_of(receiver, again))
    receiver.receives_nothing()
    (queue,) = [view for view in world.broker.destination_views() if view.destination == "queue://Q"]
    assert (queue.dequeued, queue.in_flight) == (4, 0)


def test_a_run_opens_the_window() -> None:
    world = World()
    sender, receiver = world.connect(), world.connect()
    sender.produces()
    receiver.consumes(QUEUE, prefetch_size=4)
    for number in range(12):
        sender.sends(sender.text_message(QUEUE, str(number)))
    first = receiver.dispatched()
    assert len(first) == 4
    receiver.acknowledges(first[0])
    receiver.sends_octets(octets_of(receiver, first[1:]))
    assert len(receiver.dispatched()) == 4


def test_a_run_on_a_stored_queue_removes_from_the_store() -> None:
    store = LateStore()
    world = World(store=store)
    sender, receiver = world.connect(), world.connect()
    sender.produces()
    receiver.consumes(QUEUE)
    for number in range(6):
        sender.sends(sender.text_message(QUEUE, str(number)))
    messages = receiver.dispatched()
    receiver.acknowledges(messages[0])
    receiver.sends_octets(octets_of(receiver, messages[1:]))
    assert store.kept == {}
