"""What becomes of the configurations that documents print and people paste.

The table says of every sample what this version makes of it; a sample that loads in a later version moves up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration

SAMPLES: Final = Path(__file__).parents[3] / "vectors" / "configurations"
ENVIRONMENT: Final = {"BROKER_NAME": "fromEnvironment", "DATA": "data"}

# file → how many connectors it has and words of its warnings
LOADS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "06-broker-id.xml": (0, ()),
    "13-broker-id-again.xml": (0, ()),
    "45-stomp-connector.xml": (1, ()),
    "49-broker-name-old-namespace.xml": (0, ("old one",)),
    "50-network-connectors-commented-out.xml": (0, ()),
}

NETWORK: Final = ("<networkConnectors> is not yet supported",)
ANNOUNCED: Final = ("discoveryUri of <transportConnector> is not yet supported",)
BRIDGE: Final = (
    "<jmsBridgeConnectors> is not yet supported",
    "org.apache.activemq.ActiveMQConnectionFactory is not yet",
)
CAMEL: Final = ("<beans> holds no <broker>",)
VIRTUAL: Final = ("<destinationInterceptors> is not yet supported",)
SUBSCRIPTIONS: Final = ("useVirtualDestSubs of <broker> with another value than false is not yet supported",)
JETTY: Final = ("<jetty> is not yet supported",)

# file → what the refusal says, in this order
REFUSED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            "01-single-connector.xml",
            "02-two-way-connector.xml",
            "03-duplex-connector.xml",
            "04-three-connectors.xml",
            "05-static-queue.xml",
            "07-inclusive-filter.xml",
            "08-exclusive-filter.xml",
            "09-combined-filters.xml",
            "10-conduit-off.xml",
            "11-shortest-route.xml",
            "12-suppress-duplicate-routes.xml",
            "17-conduit-off-load-balance.xml",
            "18-queues-and-topics-apart.xml",
            "57-static-receiver.xml",
            "58-static-receiver-current.xml",
            "61-static-several-hosts.xml",
            "62-masterslave.xml",
            "63-two-duplex-connectors.xml",
            "64-dynamic-includes.xml",
            "65-dynamic-includes-no-port.xml",
            "66-destination-filter.xml",
            "67-static-bridge.xml",
            "68-no-destination-filter.xml",
            "69-virtual-include-bar.xml",
            "73-virtual-subs-connector.xml",
            "77-virtual-topic-include.xml",
            "80-all-three-lists.xml",
            "81-queues-only.xml",
            "83-decrease-priority.xml",
        ),
        NETWORK,
    ),
    **dict.fromkeys(
        (
            "14-announce-connector.xml",
            "15-announce-multicast.xml",
            "16-announce-group-NEGroup.xml",
            "47-broker-a-port.xml",
            "51-cluster-broker-a.xml",
            "52-cluster-broker-b.xml",
            "53-discoverable-endpoint.xml",
            "54-fanout-cluster-member.xml",
            "55-multicast-agent.xml",
        ),
        ANNOUNCED,
    ),
    **dict.fromkeys(
        (
            "26-jms-bridge-outline.xml",
            "29-inbound-queue-same-name.xml",
            "30-inbound-queue-renamed.xml",
            "31-outbound-queue-same-name.xml",
            "32-outbound-queue-renamed.xml",
            "33-six-queue-bridges.xml",
            "34-inbound-topic-same-name.xml",
            "35-inbound-topic-renamed.xml",
            "36-outbound-topic-same-name.xml",
            "37-outbound-topic-renamed.xml",
            "38-six-topic-bridges.xml",
            "39-deploy-jms-bridge.xml",
            "41-message-convertors.xml",
        ),
        BRIDGE,
    ),
    **dict.fromkeys(
        (
            "21-camel-activemq-component.xml",
            "22-camel-websphere-factory.xml",
            "23-camel-jndi-factory.xml",
            "24-camel-one-route.xml",
            "25-camel-four-routes.xml",
            "43-null-parameter.xml",
        ),
        CAMEL,
    ),
    **dict.fromkeys(("46-jetty-admin-and-demo.xml", "48-jetty-other-port.xml"), JETTY),
    **dict.fromkeys(("70-composite-topic.xml", "74-composite-topic-again.xml"), VIRTUAL),
    **dict.fromkeys(
        (
            "71-virtual-subs-remote.xml",
            "72-virtual-subs-remote-current.xml",
            "78-virtual-topic-remote.xml",
            "79-virtual-topic-remote-current.xml",
        ),
        SUBSCRIPTIONS,
    ),
    "19-empty-physical-name.xml": (*NETWORK, "physicalName of <queue> is empty", "physicalName of <topic> is empty"),
    "20-broker-for-camel-bridge.xml": ("the transport vm:// of vm://local is not yet supported",),
    "27-jms-bridge-vendor-factory.xml": (BRIDGE[0], "com.ibm.mq.jms.MQQueueConnectionFactory is not yet"),
    "28-jms-bridge-jndi-factory.xml": (BRIDGE[0], "org.springframework.jndi.JndiTemplate is not yet"),
    "40-activemq-to-websphere.xml": (BRIDGE[0], "com.ibm.mq.jms.MQQueueConnectionFactory is not yet"),
    "42-message-convertors-as-beans.xml": (*BRIDGE, "SimpleJmsMessageConvertor is not yet"),
    "44-openwire-and-http.xml": ("the transport http:// of http://localhost:61620 is not yet supported",),
    "56-two-announced-endpoints.xml": (*ANNOUNCED, *ANNOUNCED),
    "59-multicast-sender.xml": (*NETWORK, *ANNOUNCED),
    "60-multicast-sender-current.xml": (*NETWORK, *ANNOUNCED),
    "75-virtual-subs-on-creation.xml": (*SUBSCRIPTIONS, "useVirtualDestSubsOnCreation of <broker>"),
    "76-virtual-subs-on-creation-current.xml": (*SUBSCRIPTIONS, "useVirtualDestSubsOnCreation of <broker>"),
    "82-replay-when-no-consumers.xml": ("<networkBridgeFilterFactory> is not yet supported",),
}


def test_the_table_names_every_sample_once() -> None:
    files = {path.name for path in SAMPLES.glob("*.xml")}
    assert files == LOADS.keys() | REFUSED.keys()
    assert len(files) == len(LOADS) + len(REFUSED) == 83


@pytest.mark.parametrize("name", LOADS)
def test_a_sample_of_what_is_built_loads(name: str) -> None:
    connectors, warnings = LOADS[name]
    configuration = load_configuration(str(SAMPLES / name), environment=ENVIRONMENT)
    assert len(configuration.connectors) == connectors
    assert len(configuration.warnings) == len(warnings)
    for text, word in zip(configuration.warnings, warnings, strict=True):
        assert word in text


@pytest.mark.parametrize("name", REFUSED)
def test_a_sample_of_a_later_step_is_refused_with_every_obstacle_at_its_line(name: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(str(SAMPLES / name), environment=ENVIRONMENT)
    lines = str(raised.value).splitlines()
    text = (SAMPLES / name).read_text(encoding="utf-8").splitlines()
    found = 0
    for line in lines:
        place, number, _ = line.split(":", 2)
        assert place == str(SAMPLES / name)
        assert 1 <= int(number) <= len(text)
        if found < len(REFUSED[name]) and REFUSED[name][found] in line:
            found += 1
    assert found == len(REFUSED[name]), str(raised.value)
    assert REFUSED[name] == CAMEL or len(lines) == len(REFUSED[name])


def test_what_blocks_a_sample_stands_at_the_line_the_error_names() -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(str(SAMPLES / "82-replay-when-no-consumers.xml"), environment=ENVIRONMENT)
    number = int(str(raised.value).split(":")[1])
    text = (SAMPLES / "82-replay-when-no-consumers.xml").read_text(encoding="utf-8").splitlines()
    assert "<networkBridgeFilterFactory>" in text[number - 1]
