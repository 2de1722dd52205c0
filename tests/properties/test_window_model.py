"""What a consumer has out, acknowledged in any order, against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.in_flight import TRIM_AT, InFlight
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.acks import SequenceRun
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ids import ConsumerId, MessageId, ProducerId
from spanwire.model.message import Message

ORDERS = Destination(QUEUE, "ORDERS")
PRODUCER = ProducerId("ID:p", 1, 1)
HOME = BrokerDestination(ORDERS, PolicyEntry(ORDERS), MemoryUsage(0))
COUNT = 2 * TRIM_AT + 600


def reference(number: int, sequence: int) -> MessageReference:
    message = Message(4, b"x", 0, 0, 0, ORDERS, PRODUCER, sequence, False, 4, 0, 0)
    return MessageReference(HOME, message, 0, number, 0)


def message_id(entry: MessageReference) -> MessageId:
    return entry.message.message_id


def numbered(entries: list[MessageReference]) -> SequenceRun:
    """The numbers of the dispatches of ``entries``, of which the first was dispatched as number 0."""
    run = SequenceRun(entries[0].order - 1)
    for entry in entries[1:]:
        run.append(entry.order - 1)
    return run


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["dispatch", "one", "range", "front", "told", "later", "undo", "run", "numbers"]),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=60,
)


@given(start=st.sampled_from([0, 5, 300, COUNT]), twins=st.sampled_from([1, 3]), steps=STEPS)
def test_a_window_agrees_with_a_list_whatever_is_acknowledged(
    start: int, twins: int, steps: list[tuple[str, float]]
) -> None:
    subject = InFlight(ConsumerId("ID:c", 1, 1))
    model: list[MessageReference] = []
    undone: list[tuple[list[MessageReference], list[int], int]] = []
    made = 0

    def dispatches(count: int) -> None:
        nonlocal made
        for _ in range(count):
            made += 1
            model.append(reference(made, made // twins))
            subject.references.append(model[-1])

    def first_of(entry: MessageReference, begin: int = 0) -> int:
        return next(place for place in range(begin, len(model)) if message_id(model[place]) == message_id(entry))

    dispatches(start)
    for step, (name, part) in enumerate(steps):
        place = min(int(part * len(model)), len(model) - 1)
        if name == "dispatch" or not model:
            dispatches(1 + int(part * 20))
        elif name == "one":
            at = first_of(model[place])
            assert subject.take_one(message_id(model[place])) is model[at]
            del model[at]
        elif name == "range":
            begin = first_of(model[place])
            end = first_of(model[min(place + 40, len(model) - 1)], begin) + 1
            taken = subject.take_range(message_id(model[begin]), message_id(model[end - 1]))
            assert taken == model[begin:end]
            del model[begin:end]
        elif name == "front":
            taken_front = subject.take_front(place + 1, None, message_id(model[place]))
            if taken_front is not None:
                assert taken_front == model[: place + 1]
                del model[: place + 1]
        elif name == "run":
            assert subject.take_numbered(numbered(model[: place + 1])) == model[: place + 1]
            del model[: place + 1]
        elif name == "numbers":
            chosen = model[place : place + 40 : 1 + made % 3]
            chosen.sort(key=lambda entry: entry.order * step % 17)
            assert subject.find_number(chosen[0].order - 1) is chosen[0]
            assert subject.take_numbered(numbered([*chosen, chosen[0]])) == chosen
            assert subject.find_number(chosen[0].order - 1) is None
            assert subject.take_numbered(numbered(chosen)) == []
            model[:] = [entry for entry in model if entry not in chosen]
        elif name == "told":
            subject.delivered(message_id(model[place]), place + 1 if step % 2 else 0)
            assert 0 <= subject.extension <= len(model)
        elif name == "later":
            entry = subject.take_one(message_id(model[place]))
            at = model.index(entry)
            undone.append(([entry], [subject.taken_at], at))
            del model[at]
        elif undone:
            subject.put_back([one[0][0] for one in undone], [one[1][0] for one in undone])
            model.extend([one[0][0] for one in undone])
            model.sort(key=lambda entry: entry.order)
            undone = []
        assert subject.count == len(model)
        assert subject.newest_number == made - 1
    assert subject.all_out() == model
    assert subject.out_of_last(made) == model
    assert all(subject.find(message_id(entry)) is not None for entry in model[:: max(1, len(model) // 20)])
    assert subject.take_all() == model
