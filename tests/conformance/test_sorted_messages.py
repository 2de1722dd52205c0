"""A client that sorts what waits by priority acknowledges what it has delivered, and nothing else."""

from __future__ import annotations

from typing import Final, Literal

import pytest

from spanwire import client
from spanwire.model.destination import QUEUE, Destination
from spanwire.testing import Broker

COUNT: Final = 60  # messages
STEP: Final = 10  # messages of one acknowledgement
WAIT_S: Final = 30.0
Q: Final = Destination(QUEUE, "Q")


@pytest.mark.parametrize("mode", ["client", "dups_ok", "transacted"])
def test_messages_sorted_by_priority_are_acknowledged_once_delivered(
    mode: Literal["client", "dups_ok", "transacted"],
) -> None:
    with Broker() as broker:
        with client.connect(broker.url) as connection, connection.session() as session:
            producer = session.create_producer(Q)
            for number in range(COUNT):
                producer.send(str(number), priority=7 * number % 10)
        url = f"{broker.url}?jms.messagePrioritySupported=true"
        taken: list[int] = []
        with client.connect(url) as connection, connection.session(mode) as session:
            consumer = session.create_consumer(Q)
            for _ in range(COUNT // 2 // STEP):
                messages = [consumer.receive(WAIT_S) for _ in range(STEP)]
                taken += [int(str(message.body)) for message in messages if message is not None]
                if mode == "transacted":
                    session.commit()
                elif mode == "client" and messages[-1] is not None:
                    messages[-1].acknowledge()
        left = [int(str(message.body)) for message in broker.browse(Q, COUNT)]
        assert sorted(taken + left) == list(range(COUNT))
