"""Bridges between brokers of this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spanwire import client
from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.running.process import BridgeProcess
from spanwire.bridges.xa.log_file import FILE as FILE_NAME
from spanwire.bridges.xa.records import Decision, read_lines
from spanwire.model.ids import XaTransactionId
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.testing import Broker
from tests.support.bridge_runs import WAIT_S, forward, forward_once
from tests.support.ports import free_port

FILE = """\
[bridges.orders]
sourceConnectionFactory = "{source}"
sourceDestination = "queue://A"
targetConnectionFactory = "{target}"
targetDestination = "queue://B"
failureRetryInterval = 20
"""

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


def test_a_failover_url_tries_each_address_once_for_each_attempt() -> None:
    with Broker() as broker:
        with client.connect(broker.url) as connection, connection.session() as session:
            session.create_producer("queue://A").send("one")
        url = f"failover:(tcp://127.0.0.1:{free_port()},{broker.url})?randomize=false"
        status = forward(url, "queue://A", url, "queue://B", qualityOfServiceMode='"ONCE_AND_ONLY_ONCE"')
        assert (status.forwarded, status.failures) == (1, 0)


def test_a_bridge_takes_nothing_while_its_target_is_down_and_resumes() -> None:
    async def scenario(source: Broker, target: Broker) -> None:
        text = FILE.format(source=source.url, target=target.url)
        target.stop()
        process = BridgeProcess(read_bridges(text.encode(), "b.toml", Placeholders({}, {})), lambda line: None)
        async with asyncio.timeout(WAIT_S):
            running = asyncio.create_task(process.run())
            while process.statuses()[0].failures < 2:
                await asyncio.sleep(0.01)
            assert process.statuses()[0].state.value == "retrying"
            assert (source.queue("A").pending, source.queue("A").consumers) == (1, 0)
            await asyncio.to_thread(target.start)
            while process.statuses()[0].forwarded < 1:
                await asyncio.sleep(0.01)
            process.stop()
            assert await running
        assert (source.queue("A").pending, target.queue("B").pending) == (0, 1)

    with Broker() as source, Broker() as target:
        with client.connect(source.url) as connection, connection.session() as session:
            session.create_producer("queue://A").send("one")
        asyncio.run(scenario(source, target))


def test_a_distributed_transaction_moves_each_batch_between_two_brokers(tmp_path: Path) -> None:
    with Broker() as source, Broker() as target:
        with client.connect(source.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://A")
            for number in range(25):
                producer.send(str(number))
        status = forward_once(source.url, "queue://A", target.url, "queue://B", tmp_path, maxBatchSize="10")
        assert (status.forwarded, status.failures, status.heuristics) == (25, 0, 0), status
        assert [str(message.body) for message in target.queue("B").messages()] == [str(n) for n in range(25)]
        assert source.queue("A").pending == 0
        assert [prepared_of(broker) for broker in (source, target)] == [[], []]
        records = read_lines((tmp_path / FILE_NAME).read_bytes(), "log")[1]
        assert [record.messages for record in records if isinstance(record, Decision)] == [10, 10, 5]


def prepared_of(broker: Broker) -> list[XaTransactionId]:
    with client.connect(broker.url) as connection, connection.session("xa") as session:
        return session.xa.recover()
