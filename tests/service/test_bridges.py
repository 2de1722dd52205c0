"""Bridges between brokers of this process."""

from __future__ import annotations

import pytest

from spanwire import client
from spanwire.testing import Broker
from tests.support.bridge_runs import forward

SMALL_FRAMES = """\
<broker xmlns="http://activemq.apache.org/schema/core">
  <transportConnectors>
    <transportConnector uri="tcp://127.0.0.1:0?wireFormat.maxFrameSize=20000"/>
  </transportConnectors>
</broker>
"""


@pytest.mark.parametrize("mode", ["DUPLICATES_OK", "AT_MOST_ONCE"])
def test_a_message_that_is_too_large_for_the_target_does_not_stop_the_bridge(mode: str) -> None:
    with Broker() as source, Broker(SMALL_FRAMES) as target:
        with client.connect(source.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://A")
            for text in ("one", "x" * 50_000, "three"):
                producer.send(text)
        words = {"maxBatchSize": "3", "maxBatchTime": "10000", "qualityOfServiceMode": f'"{mode}"'}
        status = forward(source.url, "queue://A", target.url, "queue://B", **words)
        assert (status.forwarded, status.failures) == (2, 0)
        assert [str(message.body) for message in target.queue("B").messages()] == ["one", "three"]
        assert source.queue("A").pending == 0
        dead = source.queue("ActiveMQ.DLQ").messages()
        if mode == "AT_MOST_ONCE":
            assert (len(dead), status.perhaps_lost, status.dead_letters) == (0, 1, 0)
        else:
            assert (len(dead), status.perhaps_lost, status.dead_letters) == (1, 0, 1)
            assert "larger than the broker's limit of 20000" in str(dead[0].properties["dlqDeliveryFailureCause"])
