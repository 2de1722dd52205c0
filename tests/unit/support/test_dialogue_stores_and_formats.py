"""The store and the message format of dialogues do what the real ones do."""

from __future__ import annotations

from spanwire.broker.persistence.store_unit import Transfer
from spanwire.model.destination import parse_destination
from tests.support.dialogue.text_format import TextFormat, text_message
from tests.support.openwire_dialogue import LateStore

FIRST, SECOND = parse_destination("queue://FIRST"), parse_destination("queue://SECOND")


def test_a_message_keeps_its_group_and_place_in_it_through_a_view() -> None:
    text_format = TextFormat()
    message = text_message(FIRST, 1, b"x", group="g", group_sequence=3)
    view = text_format.view(message)
    assert (view.group_id, view.group_sequence) == ("g", 3)
    copy = text_format.encode_from_view(view)
    assert (copy.group_id, text_format.header(copy, "JMSXGroupSeq")) == ("g", 3)


def test_a_readdressed_message_keeps_what_is_not_its_destination() -> None:
    text_format = TextFormat()
    message = text_message(FIRST, 1, b"x", group="g", group_sequence=3, reply_to="queue://R", timestamp_ms=5)
    copy = text_format.readdressed(message, SECOND)
    assert (copy.group_id, text_format.header(copy, "JMSXGroupSeq"), copy.timestamp_ms) == ("g", 3, 5)
    assert text_format.view(copy).reply_to == parse_destination("queue://R")


def test_the_store_of_openwire_dialogues_numbers_each_destination_from_1() -> None:
    store = LateStore()
    message = text_message(FIRST, 1)
    assert [store.append(FIRST, message), store.append(FIRST, message)] == [1, 2]
    assert store.next_sequence(SECOND) == 1
    assert store.append_shared([SECOND, FIRST], message) == [1, 3]
    assert store.transfer_unit([Transfer(FIRST, [1, 3], SECOND)], [], []) == [2]
    assert [sequence for name, sequence in sorted(store.kept) if name == str(FIRST)] == [2]
    assert [sequence for name, sequence in sorted(store.kept) if name == str(SECOND)] == [1, 2, 3]
    store.remove(SECOND, 3)
    assert store.next_sequence(SECOND) == 4
