"""A bridge as an object of a program."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spanwire import client
from spanwire.bridges import JMSBridge
from spanwire.model.errors import ConfigurationError
from spanwire.testing import Broker

WAIT_S = 20.0


def test_a_bridge_moves_messages_is_paused_and_goes_on(tmp_path: Path) -> None:
    with Broker() as near, Broker() as far, client.connect(near.url) as source, client.connect(far.url) as target:
        producer = source.session().create_producer("queue://A")
        consumer = target.session().create_consumer("queue://B")
        bridge = JMSBridge(
            sourceConnectionFactory={"url": near.url},
            sourceDestination="queue://A",
            targetConnectionFactory=far.url,
            targetDestination="queue://B",
            qualityOfServiceMode="ONCE_AND_ONLY_ONCE",
            maxBatchSize=10,
            selector=None,
            addMessageIDInHeader=True,
            transactions=tmp_path,
        )
        assert (bridge.is_started, bridge.is_paused, bridge.is_failed, bridge.message_count) == (False,) * 3 + (0,)

        async def received() -> str | None:
            message = await asyncio.to_thread(consumer.receive, WAIT_S)
            assert message is not None and "ACTIVEMQ_BRIDGE_MSG_ID_LIST" in message.properties
            return message.text

        async def scenario() -> list[str | None]:
            texts: list[str | None] = []
            async with bridge:
                await bridge.start()
                producer.send("one")
                texts.append(await received())
                bridge.pause()
                while not bridge.is_paused:
                    await asyncio.sleep(0.01)
                producer.send("two")
                bridge.resume()
                texts.append(await received())
                assert bridge.is_started and not bridge.is_failed
            assert bridge.message_count == 2 and not bridge.is_started
            async with bridge:  # again, with the same log of decisions
                producer.send("three")
                texts.append(await received())
            return texts

        assert asyncio.run(scenario()) == ["one", "two", "three"]


def test_a_bridge_whose_retries_are_used_up_has_failed_and_is_started_again() -> None:
    bridge = JMSBridge(
        sourceConnectionFactory="tcp://127.0.0.1:1",
        sourceDestination="queue://A",
        targetConnectionFactory="tcp://127.0.0.1:1",
        targetDestination="queue://B",
        maxRetries=0,
    )

    async def scenario() -> None:
        async with bridge:
            for _ in range(2):
                while not bridge.is_failed:
                    await asyncio.sleep(0.01)
                bridge.restart()
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"maxBatchsize": 3}, "there is no parameter of a bridge 'maxBatchsize'; did you mean maxBatchSize?"),
        ({"sourceDestination": None}, "the bridge orders needs sourceDestination"),
        ({"sourceConnectionFactory": {"provider": "mqtt", "url": "mqtt://h"}}, "MQTT has topics alone"),
        ({"targetConnectionFactory": {"address": "x"}}, "there is no word of a connection factory 'address'"),
    ],
)
def test_a_wrong_parameter_is_told_at_once(words: dict[str, object], told: str) -> None:
    right: dict[str, object] = {
        "sourceConnectionFactory": "tcp://near:61616",
        "sourceDestination": "queue://A",
        "targetConnectionFactory": "tcp://far:61616",
        "targetDestination": "queue://B",
    }
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        JMSBridge(name="orders", **{**right, **words})  # type: ignore[arg-type]


def test_the_parts_of_the_package_load_without_the_class() -> None:
    code = "import sys, spanwire.bridges.model.definition; print('spanwire.bridges.jms_bridge' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    with pytest.raises(AttributeError):
        import spanwire.bridges  # noqa: PLC0415

        _ = spanwire.bridges.Nothing
