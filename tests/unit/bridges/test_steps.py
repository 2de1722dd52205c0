from __future__ import annotations

import pytest

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import (
    DUPLICATE_ID,
    ID_LISTS,
    AddDuplicateId,
    AppendMessageId,
    DropTemporaryReplyTo,
    apply_steps,
)
from spanwire.model.destination import QUEUE, TEMP_QUEUE, Destination
from spanwire.model.message_view import INT_VALUE, STRING_VALUE
from spanwire.routes.readers.bridge_parameters import ID_LIST
from tests.support.bridge_dialogue import text_message


def test_the_message_id_begins_the_list_and_keeps_the_properties() -> None:
    message = text_message(1, properties={"n": (INT_VALUE, 7)})
    apply_steps((AppendMessageId(),), [message])
    assert message.property_values() == {"n": (INT_VALUE, 7), ID_LIST: (STRING_VALUE, "ID:1")}


@pytest.mark.parametrize("name", ID_LISTS)
def test_the_list_of_an_earlier_bridge_is_continued(name: str) -> None:
    message = text_message(2, properties={name: (STRING_VALUE, "ID:first")})
    apply_steps((AppendMessageId(),), [message])
    assert message.property_values()[ID_LIST] == (STRING_VALUE, "ID:first,ID:2")


def test_a_message_is_named_by_bridge_and_id_unless_it_has_a_name() -> None:
    fresh, named = text_message(1), text_message(2)
    named.properties = {DUPLICATE_ID: (STRING_VALUE, "mine")}
    anonymous = BridgeMessage("", fresh.kind, fresh.content, fresh.size)
    apply_steps((AddDuplicateId("orders"),), [fresh, named, anonymous])
    values = [message.property_values().get(DUPLICATE_ID) for message in (fresh, named, anonymous)]
    assert values == [(STRING_VALUE, "orders/ID:1"), (STRING_VALUE, "mine"), None]


def test_only_a_temporary_reply_destination_is_removed() -> None:
    temporary, named = text_message(1), text_message(2)
    temporary.reply_to = Destination(TEMP_QUEUE, "ID:x:1")
    named.reply_to = Destination(QUEUE, "REPLIES")
    apply_steps((DropTemporaryReplyTo(),), [temporary, named])
    assert [str(message.reply_to) for message in (temporary, named)] == ["None", "queue://REPLIES"]
