"""What a provider cannot do is refused by name at the start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spanwire import registry
from spanwire.bridges.jndi.environment import ARTEMIS
from spanwire.bridges.model.definition import (
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    Source,
    Target,
)
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.model.qualities import check_features, check_quality
from spanwire.bridges.model.steps import AddDuplicateId, ProxyReplyTo
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.bridges.providers.stomp.provider import StompProvider
from spanwire.bridges.running.links import credit_of
from spanwire.bridges.running.process import check_bridge, provider_of
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from tests.support.bridge_dialogue import definition

PLAIN = ProviderDescription("plain", False, False, (), selectors=False, replies=False, largest_batch=100)
ABLE = ProviderDescription("able", True, True, ())


def refusal(bridge: BridgeDefinition, source: ProviderDescription, target: ProviderDescription) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check_quality(bridge, source, target)
        check_features(bridge, source, target)
    return str(caught.value)


def test_a_selector_needs_a_source_with_selectors() -> None:
    bridge = definition()
    chosen = replace(bridge, source=replace(bridge.source, selector="n = 1"))
    assert "the provider plain has no selectors" in refusal(chosen, PLAIN, ABLE)
    check_features(chosen, ABLE, PLAIN)


def test_a_batch_fits_what_a_source_hands_over() -> None:
    bridge = replace(definition(), batch=BatchLimits(101))
    assert "set maxBatchSize = 100" in refusal(bridge, PLAIN, ABLE)
    check_features(bridge, ABLE, PLAIN)
    check_features(replace(bridge, batch=BatchLimits(100)), PLAIN, ABLE)


def test_the_credit_of_a_source_with_a_largest_batch_follows_the_batch() -> None:
    small = replace(definition(), batch=BatchLimits(20))
    assert credit_of(small.batch, StompProvider()) == 40
    assert credit_of(BatchLimits(900), StompProvider()) == MAX_CREDIT
    assert credit_of(small.batch, OpenWireProvider()) == MAX_CREDIT


def test_replies_need_both_sides() -> None:
    bridge = definition(steps=(ProxyReplyTo(),))
    assert "the provider plain has no temporary queues for replies" in refusal(bridge, ABLE, PLAIN)
    assert "the provider plain" in refusal(bridge, PLAIN, ABLE)
    check_features(bridge, ABLE, ABLE)


@pytest.mark.parametrize(
    "java",
    [
        JavaFactory("org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory"),
        JavaFactory(None, (), "CF", (("java.naming.factory.initial", Secret(ARTEMIS)),)),
    ],
)
def test_duplicate_ids_are_refused_for_a_client_of_artemis(java: JavaFactory) -> None:
    bridge = definition(steps=(AddDuplicateId("b"),))
    to_artemis = replace(bridge, target=replace(bridge.target, factory=ConnectionFactory("jvm:x", java=java)))
    assert "duplicateDetection does not fit a target that is ActiveMQ Artemis" in refusal(to_artemis, ABLE, ABLE)
    check_features(replace(to_artemis, steps=()), ABLE, ABLE)
    check_features(
        replace(to_artemis, source=replace(bridge.source, factory=to_artemis.target.factory), target=bridge.target),
        ABLE,
        ABLE,
    )


def test_once_and_only_once_is_refused_for_a_provider_without_transactions() -> None:
    within = definition(Quality.ONCE_AND_ONLY_ONCE)
    assert "the provider plain has no local transactions" in refusal(within, PLAIN, PLAIN)


def test_a_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BRIDGE_PROVIDERS, "absent", "no_such_package_of_anyone.provider:Provider")
    with pytest.raises(ConfigurationError, match=r"the provider absent needs the extra absent, .*run: .*pip install"):
        provider_of("absent")
    monkeypatch.setitem(registry.BRIDGE_PROVIDERS, "broken", "spanwire.no_such_module:Provider")
    with pytest.raises(ModuleNotFoundError):
        provider_of("broken")
    monkeypatch.setitem(registry.BRIDGE_PROVIDERS, "nats-core", "no_such_package_of_anyone.provider:Provider")
    with pytest.raises(ConfigurationError, match=r"the provider nats-core needs the extra nats, .*nats-py"):
        provider_of("nats-core")


def test_core_nats_is_refused_for_all_but_at_most_once() -> None:
    core = ConnectionFactory("nats://h:4222", provider="nats-core")
    near = ConnectionFactory("tcp://h:61616")
    topic = Destination(TOPIC, "t")
    for source, target in ((core, near), (near, core)):
        definition = BridgeDefinition(
            "one", Source(source, topic), Target(target, topic), quality=Quality.DUPLICATES_OK
        )
        with pytest.raises(ConfigurationError, match=r"nats-core has no acknowledgements.*use AT_MOST_ONCE"):
            check_bridge(definition)
        check_bridge(replace(definition, quality=Quality.AT_MOST_ONCE))
