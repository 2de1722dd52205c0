from __future__ import annotations

from typing import cast

import pytest

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.redrive import send_back


class Letter:
    """A dead letter that says where it was sent first."""

    message_id = "ID:1"

    def __init__(self, first: str) -> None:
        self.original_destination = parse_destination(first)


@pytest.mark.parametrize("first", ["queue://ActiveMQ.Spanwire.Control", "topic://ActiveMQ.Advisory.Queue"])
def test_a_dead_letter_that_says_it_died_where_none_dies_is_refused(first: str) -> None:
    with pytest.raises(ConfigurationError, match=f"names {first} as its original destination"):
        send_back(cast(blocking.Producer, None), cast(Message, Letter(first)), None)
