"""The same settings in XML and in TOML make the same model, whatever stands in a sample."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.values.diagnostics import snake_case

SAMPLES: Final = sorted((Path(__file__).parents[3] / "vectors" / "configurations").glob("*.xml"))
LISTS: Final = frozenset("transportConnectors networkConnectors policyEntries users authorizationEntries".split())
POLICIES: Final = """
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="b" useJmx="false" dataDirectory="/d">
  <destinationPolicy><policyMap>
    <defaultEntry><policyEntry memoryLimit="1 mb" producerFlowControl="false" maxDestinations="9"/></defaultEntry>
    <policyEntries>
      <policyEntry topic="&gt;" topicPrefetch="7">
        <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1000"/></pendingMessageLimitStrategy>
      </policyEntry>
      <policyEntry topic="LATE.*" alwaysRetroactive="true" durableTopicPrefetch="9">
        <subscriptionRecoveryPolicy><retainedMessageSubscriptionRecoveryPolicy><wrapped>
          <fixedCountSubscriptionRecoveryPolicy maximumSize="7"/>
        </wrapped></retainedMessageSubscriptionRecoveryPolicy></subscriptionRecoveryPolicy>
        <messageEvictionStrategy>
          <uniquePropertyMessageEvictionStrategy propertyName="STOCK" evictExpiredMessagesHighWatermark="5"/>
        </messageEvictionStrategy>
        <pendingMessageLimitStrategy>
          <prefetchRatePendingMessageLimitStrategy multiplier="2.5"/>
        </pendingMessageLimitStrategy>
        <slowConsumerStrategy><abortSlowAckConsumerStrategy maxTimeSinceLastAck="70"/></slowConsumerStrategy>
      </policyEntry>
      <policyEntry queue="A.*" expireMessagesPeriod="0">
        <deadLetterStrategy><sharedDeadLetterStrategy deadLetterQueue="queue://D"/></deadLetterStrategy>
      </policyEntry>
    </policyEntries>
  </policyMap></destinationPolicy>
  <destinations><queue physicalName="A.1"/><topic physicalName="B"/></destinations>
  <persistenceAdapter><kahaDB directory="/k" journalMaxFileLength="16mb" indexCacheSize="9"/></persistenceAdapter>
  <systemUsage><systemUsage><memoryUsage><memoryUsage limit="64 mb"/></memoryUsage>
    <storeUsage><storeUsage limit="100 gb"/></storeUsage>
    <tempUsage><tempUsage percentLimit="5"/></tempUsage></systemUsage></systemUsage>
  <plugins>
    <simpleAuthenticationPlugin><users>
      <authenticationUser username="a" password="x" groups="g"/>
      <authenticationUser username="b" password="y" groups="g,h"/>
    </users></simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue="&gt;" read="g" write="g" admin="h"/>
      <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="g" write="g" admin="g"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
  </plugins>
  <transportConnectors>
    <transportConnector name="o" uri="tcp://127.0.0.1:0?maximumConnections=7"/>
    <transportConnector name="m" uri="mqtt://127.0.0.1:0"/>
  </transportConnectors>
</broker>
"""


def as_toml(element: Element, path: str) -> list[str]:
    """The tables of one element. Elements that hold only what repeats are lists."""
    lines = [f"{snake_case(name)} = {json.dumps(setting.value)}" for name, setting in element.attributes.items()]
    for child in element.children:
        name = snake_case(child.name)
        inner = f"{path}.{name}" if path else name
        if child.name in LISTS:
            for item in child.children:
                lines += [f"[[{inner}]]", *as_toml(item, inner)]
        elif child.name.lower().endswith("destinations") and child.name != "virtualDestinations":
            for item in child.children:
                lines += [f"[[{inner}]]", f"{item.name} = {json.dumps(item.value('physicalName'))}"]
        else:
            lines += [f"[{inner}]", *as_toml(child, inner)]
    return lines


def without_lines(text: str) -> str:
    return re.sub(r"^[^:]*:[0-9]+: ", "", text)


def outcome(content: bytes, name: str, skip_unsupported: bool) -> tuple[BrokerConfiguration | None, list[str]]:
    """The model without what depends on the file, and the texts without lines."""
    try:
        found = read_configuration(content, Path(name), {}, {}, skip_unsupported=skip_unsupported)
    except ConfigurationError as error:
        return None, sorted(without_lines(line) for line in str(error).splitlines())
    told = sorted(without_lines(line) for line in (*found.warnings, *found.skipped))
    return replace(found, source="", warnings=(), skipped=()), told


def broker_of(content: bytes) -> Element | None:
    root = read_xml(content, "a.xml")
    brokers = [root] if root.name == "broker" else [child for child in root.children if child.name == "broker"]
    return None if any(child.name == "bean" for child in root.children) or len(brokers) != 1 else brokers[0]


CONTENTS: Final = {path.name: path.read_bytes() for path in SAMPLES} | {"policies": POLICIES.encode()}
COMPARED: Final = {name: broker for name, content in CONTENTS.items() if (broker := broker_of(content)) is not None}
BESIDE: Final = ("<jetty>", "the namespace http://activemq.org")


def test_most_samples_can_be_compared() -> None:
    assert len(COMPARED) >= 50


@pytest.mark.parametrize("skip_unsupported", [False, True])
@pytest.mark.parametrize("name", COMPARED)
def test_a_sample_means_the_same_in_toml(name: str, skip_unsupported: bool) -> None:
    text = "\n".join(as_toml(COMPARED[name], ""))
    in_toml, told_toml = outcome(text.encode(), "a.toml", skip_unsupported)
    in_xml, told_xml = outcome(CONTENTS[name], "a.xml", skip_unsupported)
    if b"<jetty" in CONTENTS[name] and in_xml is not None:
        assert in_xml.web is not None  # it stands beside the broker, so TOML has no word for it
        in_xml = replace(in_xml, web=None)
    assert in_toml == in_xml
    assert told_toml == [line for line in told_xml if not line.startswith(BESIDE)]
