"""Plug-ins of ``activemq.xml`` as they are read, and what is wrong with them (ActiveMQ, XML reference)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire.broker.broker import Broker
from spanwire.broker.plugins.discarding_plugin import DiscardingSettings
from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.filtered_broker import FilteredBroker
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.redelivery_plugin import RedeliveryEntry, RedeliveryPolicy, RedeliverySettings
from spanwire.broker.plugins.timestamp_plugin import TimeStampSettings
from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.plugins import broker_class

SCHEDULER: Final = 'schedulerSupport="true"'


def read(inside: str, attributes: str = "") -> BrokerConfiguration:
    text = f"<broker {attributes}><plugins>{inside}</plugins></broker>"
    return read_configuration(text.encode(), Path("a.xml"), {}, {})


def refusal(inside: str, attributes: str = "") -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(inside, attributes)
    return str(raised.value)


def test_a_broker_without_plugins_is_a_plain_one() -> None:
    plugins = read("").plugins
    assert plugins == PluginSettings()
    assert not plugins.any
    assert broker_class(plugins) is Broker


@pytest.mark.parametrize("principal", ["", 'useAuthenticatedPrincipalForJMSXUserID="true"'])
def test_messages_may_name_their_users(principal: str) -> None:
    configuration = read("", f'populateJMSXUserID="true" {principal}')
    assert configuration.plugins == PluginSettings(names_user=True)
    assert configuration.warnings == ()
    assert read("", 'populateJMSXUserID="false"').plugins == PluginSettings()


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<statisticsBrokerPlugin/>", PluginSettings(statistics=True)),
        ("<discardingDLQBrokerPlugin/>", PluginSettings((DiscardingSettings(),))),
        (
            '<discardingDLQBrokerPlugin dropAll="false" dropTemporaryTopics="false" dropTemporaryQueues="false" '
            'dropOnly="A\\..* B" reportInterval="0"/>',
            PluginSettings((DiscardingSettings(False, False, False, ("A\\..*", "B"), 0),)),
        ),
        ("<timeStampingBrokerPlugin/>", PluginSettings(times=TimeStampSettings())),
        (
            '<timeStampingBrokerPlugin zeroExpirationOverride="1" ttlCeiling="2" futureOnly="true" '
            'processNetworkMessages="true"/>',
            PluginSettings(times=TimeStampSettings(1, 2, True, True)),
        ),
        ("<forcePersistencyModeBrokerPlugin/>", PluginSettings(persistent=False)),
        ('<forcePersistencyModeBrokerPlugin persistenceFlag="true"/>', PluginSettings(persistent=True)),
        ("<loggingBrokerPlugin/>", PluginSettings(event_log=EventLogSettings())),
        (
            '<loggingBrokerPlugin logAll="true" logConnectionEvents="false" logSessionEvents="false" '
            'logProducerEvents="true" logConsumerEvents="true" logTransactionEvents="true" logInternalEvents="true" '
            'perDestinationLogger="true"/>',
            PluginSettings(event_log=EventLogSettings(True, False, False, True, True, True, True, True)),
        ),
    ],
)
def test_a_plugin_is_read_with_its_defaults_and_without(inside: str, expected: PluginSettings) -> None:
    plugins = read(inside).plugins
    assert plugins == expected
    assert broker_class(plugins) is FilteredBroker


def test_redelivery_is_read_with_its_policies() -> None:
    found = read(
        '<redeliveryPlugin fallbackToDeadLetter="false" sendToDlqIfMaxRetriesExceeded="false">'
        "<redeliveryPolicyMap><redeliveryPolicyMap>"
        "<redeliveryPolicyEntries>"
        '<redeliveryPolicy queue="A.&gt;" maximumRedeliveries="-1" initialRedeliveryDelay="2000" '
        'redeliveryDelay="3000" maximumRedeliveryDelay="4000" useExponentialBackOff="true" backOffMultiplier="1.5" '
        'useCollisionAvoidance="true" collisionAvoidancePercent="20"/>'
        '<redeliveryPolicy topic="T"/><redeliveryPolicy tempQueue="true" maximumRedeliveries="1"/>'
        "</redeliveryPolicyEntries>"
        '<defaultEntry><redeliveryPolicy maximumRedeliveries="0"/></defaultEntry>'
        "</redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>",
        SCHEDULER,
    )
    assert found.warnings == ()
    full = RedeliveryPolicy(-1, 2_000, 3_000, 4_000, True, 1.5, True, 20)
    assert found.plugins.dead_letters == (
        RedeliverySettings(
            (
                RedeliveryEntry(parse_destination("queue://A.>"), full),
                RedeliveryEntry(parse_destination("topic://T"), RedeliveryPolicy()),
                RedeliveryEntry(parse_destination("temp-queue://>"), RedeliveryPolicy(maximum_redeliveries=1)),
            ),
            RedeliveryPolicy(maximum_redeliveries=0),
            False,
            False,
        ),
    )


def test_the_order_of_what_decides_about_dead_letters_is_kept() -> None:
    kinds = [
        type(one)
        for one in read(
            "<redeliveryPlugin/><statisticsBrokerPlugin/><discardingDLQBrokerPlugin/><redeliveryPlugin/>", SCHEDULER
        ).plugins.dead_letters
    ]
    assert kinds == [RedeliverySettings, DiscardingSettings, RedeliverySettings]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<redeliveryPlugin/>", '<redeliveryPlugin> needs the scheduler: write schedulerSupport="true" at <broker>'),
        ("<statisticsBrokerPlugin/><statisticsBrokerPlugin/>", "<statisticsBrokerPlugin> is present twice; keep one"),
        ('<discardingDLQBrokerPlugin dropOnly="A("/>', "dropOnly of <discardingDLQBrokerPlugin>"),
        ('<discardingDLQBrokerPlugin dropOnly="A)|(B"/>', "dropOnly of <discardingDLQBrokerPlugin>"),
        (f'<discardingDLQBrokerPlugin dropOnly="{"A " * 65}"/>', "has more than 64 patterns"),
        (f'<discardingDLQBrokerPlugin dropOnly="{"A" * 200}"/>', "dropOnly of <discardingDLQBrokerPlugin>"),
        ('<timeStampingBrokerPlugin ttlCeiling="-1"/>', "ttlCeiling of <timeStampingBrokerPlugin> is '-1'"),
        ('<loggingBrokerPlugin logEverything="true"/>', "unknown attribute of <loggingBrokerPlugin> 'logEverything'"),
    ],
)
def test_what_is_wrong_is_told(inside: str, expected: str) -> None:
    assert expected in refusal(inside)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", "<redeliveryPolicy> must name either a queue or a topic"),
        ('queue="A" topic="B"', "<redeliveryPolicy> must name either a queue or a topic"),
        ('queue="A" initialRedeliveryDelay="999"', "initialRedeliveryDelay of <redeliveryPolicy> is '999'"),
        ('queue="A" redeliveryDelay="0"', "redeliveryDelay of <redeliveryPolicy> is '0'"),
        ('queue="A" backOffMultiplier="many"', "backOffMultiplier of <redeliveryPolicy> is 'many'"),
        ('queue="A" maximumRedeliveries="-2"', "maximumRedeliveries of <redeliveryPolicy> is '-2'"),
        ('queue="A" tempQueue="true"', "<redeliveryPolicy> must name either a queue or a topic"),
        ('tempTopic="true" tempQueue="true"', "<redeliveryPolicy> must name either a queue or a topic"),
    ],
)
def test_what_is_wrong_with_a_redelivery_policy_is_told(policy: str, expected: str) -> None:
    inside = (
        "<redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyEntries>"
        f"<redeliveryPolicy {policy}/>"
        "</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPlugin>"
    )
    assert expected in refusal(inside, SCHEDULER)


def test_a_strategy_can_discard_or_let_dead_letters_expire() -> None:
    text = (
        "<broker><destinationPolicy><policyMap><policyEntries>"
        '<policyEntry queue="A"><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>'
        '<policyEntry queue="B"><deadLetterStrategy><sharedDeadLetterStrategy expiration="5000"/>'
        "</deadLetterStrategy></policyEntry>"
        '<policyEntry queue="C"><deadLetterStrategy><individualDeadLetterStrategy expiration="6000"/>'
        "</deadLetterStrategy></policyEntry>"
        "</policyEntries></policyMap></destinationPolicy></broker>"
    )
    found = read_configuration(text.encode(), Path("a.xml"), {}, {})
    assert found.warnings == ()
    assert [policy.dead_letter.discards for policy in found.policies] == [True, False, False]
    assert [policy.dead_letter.expiration_ms for policy in found.policies] == [0, 5_000, 6_000]


def test_dead_letters_can_be_topics_and_durable_subscribers_can_have_their_own() -> None:
    text = (
        "<broker><destinationPolicy><policyMap><policyEntries>"
        '<policyEntry queue="A"><deadLetterStrategy><individualDeadLetterStrategy useQueueForQueueMessages="false" '
        'useQueueForTopicMessages="false" destinationPerDurableSubscriber="true"/></deadLetterStrategy></policyEntry>'
        "</policyEntries></policyMap></destinationPolicy></broker>"
    )
    found = read_configuration(text.encode(), Path("a.xml"), {}, {})
    assert found.warnings == ()
    names = found.policies[0].dead_letter.individual
    assert names is not None
    assert (names.queue_for_queues, names.queue_for_topics, names.per_durable_subscriber) == (False, False, True)
