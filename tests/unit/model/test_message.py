"""Messages are many: what each of them costs beside its bytes."""

from __future__ import annotations

import gc

from spanwire._build import COMPILED
from spanwire.model.destination import QUEUE, Destination
from tests.support.dialogue.text_format import text_message


def test_the_collector_of_cycles_does_not_look_through_compiled_messages() -> None:
    message = text_message(Destination(QUEUE, "Q"), 1)
    assert gc.is_tracked(message) is not COMPILED
    assert gc.is_tracked(message.message_id) is not COMPILED
    assert gc.is_tracked(message.message_id.producer_id) is not COMPILED
