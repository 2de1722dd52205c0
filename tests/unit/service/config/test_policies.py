"""Policies of destinations: what is honoured, what holds anyway, what a later version brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, GroupMap, QueuePolicy, SlowConsumerPolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import (
    CLIENT_ID_FILTER,
    PRIORITY,
    PRIORITY_NETWORK,
    DispatchPolicy,
    EvictionPolicy,
    PendingLimit,
    RecoveryPolicy,
    TopicPolicy,
)
from spanwire.broker.queue.last_value_queue import key_property
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration

PATH = Path("/etc/spanwire/conf/activemq.xml")


def policies(entries: str, default: str = "") -> BrokerConfiguration:
    text = (
        f"<broker><destinationPolicy><policyMap>{default}<policyEntries>{entries}</policyEntries></policyMap>"
        "</destinationPolicy></broker>"
    )
    return read_configuration(text.encode("utf-8"), PATH, {}, {})


def test_the_default_entry_holds_where_no_other_does() -> None:
    configuration = policies(
        '<policyEntry queue="ORDERS" queuePrefetch="1"/><policyEntry topic="&gt;" memoryLimit="2 mb"/>',
        '<defaultEntry><policyEntry queuePrefetch="7" memoryLimit="1 mb"/></defaultEntry>',
    )
    found = PolicyMap(list(configuration.policies))
    assert found.entry_for(Destination(QUEUE, "ORDERS")).queue_prefetch == 1
    assert found.entry_for(Destination(QUEUE, "OTHER")).queue_prefetch == 7
    assert found.entry_for(Destination(TOPIC, "ANY")).memory_limit_bytes == 2 * 1024 * 1024


def test_temporary_destinations_have_entries_of_their_own() -> None:
    configuration = policies(
        '<policyEntry queue="&gt;" memoryLimit="1 mb"/><policyEntry topic="&gt;" memoryLimit="2 mb"/>'
        '<policyEntry tempQueue="true" tempTopic="false" memoryLimit="3 mb"/>'
    )
    found = PolicyMap(list(configuration.policies))
    assert found.entry_for(Destination(QUEUE, "ORDERS")).memory_limit_bytes == 1 << 20
    assert found.entry_for(Destination(TEMP_QUEUE, "ID:a.b-1:1:1")).memory_limit_bytes == 3 << 20
    assert found.entry_for(Destination(TEMP_TOPIC, "ID:a.b-1:1:1")).memory_limit_bytes == 0


def test_the_default_entry_holds_for_temporary_destinations_as_well() -> None:
    configuration = policies(
        '<policyEntry tempTopic="true" memoryLimit="3 mb"/>',
        '<defaultEntry><policyEntry memoryLimit="1 mb"/></defaultEntry>',
    )
    found = PolicyMap(list(configuration.policies))
    assert found.entry_for(Destination(TEMP_QUEUE, "ID:a-1:1:1")).memory_limit_bytes == 1 << 20
    assert found.entry_for(Destination(TEMP_TOPIC, "ID:a-1:1:1")).memory_limit_bytes == 3 << 20


def test_last_values_have_a_key_and_are_no_ring() -> None:
    configuration = policies(
        '<policyEntry queue="A" lastValueKey=" code "/><policyEntry queue="B" lastValue="true" nonDestructive="false"/>'
    )
    keys = {entry.destination.name: key_property(entry.queue) for entry in configuration.policies}
    assert keys == {"A": "code", "B": "_AMQ_LVQ_NAME"}
    with pytest.raises(ConfigurationError, match="ringSize and lastValue are two kinds of queues: remove one of them"):
        policies('<policyEntry queue="A" lastValue="true" ringSize="3"/>')
    with pytest.raises(ConfigurationError, match="queues whose consumers remove nothing"):
        policies('<policyEntry queue="A" lastValue="true" nonDestructive="true"/>')


@pytest.mark.parametrize("names", ["tempQueue='false'", "tempQueue='true' tempTopic='true'", "queue='A' tempQueue='1'"])
def test_an_entry_names_one_kind_of_destinations(names: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tempQueue|must name either a queue or a topic"):
        policies(f"<policyEntry {names}/>")


def test_what_an_entry_of_temporary_queues_says_of_topics_is_told_to_have_no_effect() -> None:
    inside = (
        "<pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit='1'/></pendingMessageLimitStrategy>"
    )
    (warning,) = policies(f"<policyEntry tempQueue='true'>{inside}</policyEntry>").warnings
    assert "<pendingMessageLimitStrategy> has no effect" in warning


@pytest.mark.parametrize(
    "inside",
    [
        "<dispatchPolicy><strictOrderDispatchPolicy/></dispatchPolicy>",
        "<dispatchPolicy><roundRobinDispatchPolicy/></dispatchPolicy>",
        "<dispatchPolicy><simpleDispatchPolicy/></dispatchPolicy>",
        "<subscriptionRecoveryPolicy><noSubscriptionRecoveryPolicy/></subscriptionRecoveryPolicy>",
        "<pendingMessageLimitStrategy/>",
    ],
)
def test_what_holds_anyway_is_neither_an_obstacle_nor_worth_a_warning(inside: str) -> None:
    configuration = policies(f'<policyEntry topic="&gt;">{inside}</policyEntry>')
    assert configuration.warnings == ()
    assert len(configuration.policies) == 1


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<priorityDispatchPolicy/>", DispatchPolicy(PRIORITY)),
        ("<priorityNetworkDispatchPolicy/>", DispatchPolicy(PRIORITY_NETWORK)),
        ("<clientIdFilterDispatchPolicy/>", DispatchPolicy(CLIENT_ID_FILTER, "PTP_CLIENTID", ".PTP")),
        (
            "<clientIdFilterDispatchPolicy ptpClientId='to' ptpSuffix='.ONE'/>",
            DispatchPolicy(CLIENT_ID_FILTER, "to", ".ONE"),
        ),
    ],
)
def test_a_topic_may_choose_who_gets_its_messages(inside: str, expected: DispatchPolicy) -> None:
    configuration = policies(f'<policyEntry topic="&gt;"><dispatchPolicy>{inside}</dispatchPolicy></policyEntry>')
    assert configuration.warnings == ()
    assert configuration.policies[0].topic.dispatch == expected


def test_the_window_of_a_consumer_may_stay_closed_until_the_commit() -> None:
    assert policies('<policyEntry queue="&gt;"/>').policies[0].prefetch_extension
    configuration = policies('<policyEntry queue="&gt;" usePrefetchExtension="false"/>')
    assert configuration.warnings == ()
    assert not configuration.policies[0].prefetch_extension


def test_a_prefetch_above_the_limit_is_taken_as_the_limit_with_a_warning() -> None:
    configuration = policies('<policyEntry queue=">" queuePrefetch="100000"/>')
    assert configuration.policies[0].queue_prefetch == 32766
    assert [line.partition(": ")[2] for line in configuration.warnings] == [
        "queuePrefetch of <policyEntry> is 100000; the highest value 32766 is used"
    ]


def test_messages_that_a_query_finds_are_refused_with_what_to_write_instead() -> None:
    inside = "<queryBasedSubscriptionRecoveryPolicy query='#mine'/>"
    with pytest.raises(ConfigurationError, match="write <fixedCountSubscriptionRecoveryPolicy>, which keeps some"):
        policies(
            f'<policyEntry topic="&gt;"><subscriptionRecoveryPolicy>{inside}</subscriptionRecoveryPolicy></policyEntry>'
        )


@pytest.mark.parametrize(("limit", "expected"), [("1000", 1000), ("0", 0), ("-1", -1)])
def test_a_topic_may_limit_what_waits_for_a_slow_consumer(limit: str, expected: int) -> None:
    strategy = f"<constantPendingMessageLimitStrategy limit='{limit}'/>"
    configuration = policies(
        f'<policyEntry topic="&gt;"><pendingMessageLimitStrategy>{strategy}</pendingMessageLimitStrategy></policyEntry>'
    )
    assert configuration.warnings == ()
    assert [entry.topic.pending_limit for entry in configuration.policies] == [PendingLimit(expected)]


@pytest.mark.parametrize("limit", ["-2", "many", "99999999999"])
def test_a_limit_that_is_no_number_of_messages_is_told(limit: str) -> None:
    constant = f"<constantPendingMessageLimitStrategy limit='{limit}'/>"
    strategy = f"<pendingMessageLimitStrategy>{constant}</pendingMessageLimitStrategy>"
    with pytest.raises(ConfigurationError, match="limit of <constantPendingMessageLimitStrategy> is"):
        policies(f"<policyEntry topic='A'>{strategy}</policyEntry>")


def test_each_destination_may_have_its_own_dead_letters() -> None:
    strategy = "<individualDeadLetterStrategy queuePrefix='DLQ.' topicSuffix='.x' processNonPersistent='true'/>"
    (entry,) = policies(
        f"<policyEntry queue='&gt;'><deadLetterStrategy>{strategy}</deadLetterStrategy></policyEntry>"
    ).policies
    assert entry.dead_letter == DeadLetterStrategy(
        process_non_persistent=True, individual=IndividualNames(queue_prefix="DLQ.", topic_suffix=".x")
    )


@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ("queuePrefix=''", "must have a prefix or a suffix"),
        ("queuePrefix='A.*.'", "queuePrefix of <individualDeadLetterStrategy> must name one destination"),
        ("topicSuffix='a,b'", "topicSuffix of <individualDeadLetterStrategy> must name one destination"),
    ],
)
def test_dead_letters_cannot_have_the_name_of_what_died(attributes: str, part: str) -> None:
    strategy = f"<individualDeadLetterStrategy {attributes}/>"
    with pytest.raises(ConfigurationError, match=part):
        policies(f"<policyEntry queue='&gt;'><deadLetterStrategy>{strategy}</deadLetterStrategy></policyEntry>")


def test_a_queue_keeps_its_messages_whatever_limit_waits_for_slow_consumers() -> None:
    limit = (
        "<pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit='9'/></pendingMessageLimitStrategy>"
    )
    (warning,) = policies(f'<policyEntry queue="&gt;">{limit}</policyEntry>').warnings
    assert warning.endswith("has no effect: a queue keeps its messages")


@pytest.mark.parametrize(
    ("inside", "feature"),
    [
        ("<dispatchPolicy><bean class='x.Y'/></dispatchPolicy>", "a choice of the order of dispatch"),
        (
            "<subscriptionRecoveryPolicy><queryBasedSubscriptionRecoveryPolicy/></subscriptionRecoveryPolicy>",
            "messages that a query finds for consumers to come",
        ),
        ("<slowConsumerStrategy><bean class='x.Y'/></slowConsumerStrategy>", "limits of slow consumers"),
        ("<messageEvictionStrategy><bean class='x.Y'/></messageEvictionStrategy>", "limits of slow consumers"),
        ("<deadLetterStrategy><bean class='x.Y'/></deadLetterStrategy>", "custom strategies"),
    ],
)
def test_an_unsupported_policy_names_the_feature_that_it_asks_for(inside: str, feature: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        policies(f'<policyEntry topic="&gt;">{inside}</policyEntry>')
    assert f"(it asks for {feature}" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("word", "attribute"),
    [
        ("advisoryForDelivery", "delivered"),
        ("advisoryForDispatched", "dispatched"),
        ("advisoryForConsumed", "consumed"),
        ("advisoryForDiscardingMessages", "discarded"),
        ("advisoryForSlowConsumers", "slow_consumers"),
        ("advisoryForFastProducers", "fast_producers"),
        ("advisoryWhenFull", "full"),
        ("sendAdvisoryIfNoConsumers", "no_consumers"),
        ("includeBodyForAdvisory", "whole_messages"),
    ],
)
def test_what_a_policy_says_of_advisories_is_read(word: str, attribute: str) -> None:
    silent, told = policies(f'<policyEntry queue="A" {word}="false"/><policyEntry queue="B" {word}="true"/>').policies
    assert silent.advisories == AdvisoryPolicy()
    assert told.advisories == AdvisoryPolicy(**{attribute: True})


def test_what_a_policy_says_of_queues_is_read() -> None:
    (entry,) = policies(
        "<policyEntry queue='A' prioritizedMessages='true' useConsumerPriority='false' strictOrderDispatch='true' "
        "allConsumersExclusiveByDefault='true' timeBeforeDispatchStarts='200' consumersBeforeDispatchStarts='2' "
        "lazyDispatch='true' messageGroupMapFactoryType='bucket?bucketCount=8'/>"
    ).policies
    assert entry.queue == QueuePolicy(True, False, True, True, 200, 2, True, groups=GroupMap("bucket", 8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cached", GroupMap("cached", 1_024)),
        ("cached?cacheSize=10", GroupMap("cached", 10)),
        ("bucket", GroupMap("bucket", 1_024)),
        ("simple", GroupMap("simple", 100_000)),
    ],
)
def test_the_owners_of_message_groups_are_kept_as_the_policy_says(text: str, expected: GroupMap) -> None:
    (entry,) = policies(f"<policyEntry queue='A' messageGroupMapFactoryType='{text}'/>").policies
    assert entry.queue.groups == expected


@pytest.mark.parametrize("text", ["other", "cached?size=3", "cached?cacheSize=0", "simple?x=1", "bucket?bucketCount=x"])
def test_a_table_of_message_groups_that_there_is_not_is_told(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"messageGroupMapFactoryType .* is none of cached"):
        policies(f"<policyEntry queue='A' messageGroupMapFactoryType='{text}'/>")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<fixedCountSubscriptionRecoveryPolicy/>", RecoveryPolicy("fixedCountSubscriptionRecoveryPolicy", 100)),
        (
            "<fixedCountSubscriptionRecoveryPolicy maximumSize='3'/>",
            RecoveryPolicy("fixedCountSubscriptionRecoveryPolicy", 3),
        ),
        ("<fixedSizedSubscriptionRecoveryPolicy/>", RecoveryPolicy("fixedSizedSubscriptionRecoveryPolicy", 65_536)),
        ("<timedSubscriptionRecoveryPolicy/>", RecoveryPolicy("timedSubscriptionRecoveryPolicy", 60_000)),
        (
            "<timedSubscriptionRecoveryPolicy recoverDuration='250'/>",
            RecoveryPolicy("timedSubscriptionRecoveryPolicy", 250),
        ),
        ("<lastImageSubscriptionRecoveryPolicy/>", RecoveryPolicy("lastImageSubscriptionRecoveryPolicy")),
        ("<retainedMessageSubscriptionRecoveryPolicy/>", RecoveryPolicy("retainedMessageSubscriptionRecoveryPolicy")),
        (
            "<retainedMessageSubscriptionRecoveryPolicy><wrapped><lastImageSubscriptionRecoveryPolicy/></wrapped>"
            "</retainedMessageSubscriptionRecoveryPolicy>",
            RecoveryPolicy("lastImageSubscriptionRecoveryPolicy"),
        ),
        ("<noSubscriptionRecoveryPolicy/>", None),
    ],
)
def test_what_a_topic_keeps_for_consumers_to_come_is_read(inside: str, expected: RecoveryPolicy | None) -> None:
    policy = f"<subscriptionRecoveryPolicy>{inside}</subscriptionRecoveryPolicy>"
    configuration = policies(f"<policyEntry topic='A' alwaysRetroactive='true'>{policy}</policyEntry>")
    assert configuration.warnings == ()
    assert configuration.policies[0].topic == TopicPolicy(always_retroactive=True, recovery=expected)


def test_a_topic_may_take_every_copy_that_comes_over_a_network() -> None:
    configuration = policies("<policyEntry topic='A' enableAudit='false'/><policyEntry topic='B' enableAudit='true'/>")
    assert configuration.warnings == ()
    assert [entry.topic.audits_copies for entry in configuration.policies] == [False, True]


def test_what_waits_for_a_slow_consumer_may_depend_on_its_prefetch() -> None:
    for attribute, expected in (("", 0.5), ("multiplier='2.25'", 2.25)):
        rate = f"<prefetchRatePendingMessageLimitStrategy {attribute}/>"
        (entry,) = policies(
            f"<policyEntry topic='A'><pendingMessageLimitStrategy>{rate}</pendingMessageLimitStrategy></policyEntry>"
        ).policies
        assert entry.topic.pending_limit == PendingLimit(multiplier=expected)


@pytest.mark.parametrize("multiplier", ["-1", "1e9", "100000", "nan", ""])
def test_a_multiplier_that_is_no_number_is_told(multiplier: str) -> None:
    rate = f"<prefetchRatePendingMessageLimitStrategy multiplier='{multiplier}'/>"
    with pytest.raises(ConfigurationError, match="multiplier of <prefetchRatePendingMessageLimitStrategy> is"):
        policies(
            f"<policyEntry topic='A'><pendingMessageLimitStrategy>{rate}</pendingMessageLimitStrategy></policyEntry>"
        )


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<oldestMessageEvictionStrategy/>", EvictionPolicy()),
        (
            "<oldestMessageEvictionStrategy evictExpiredMessagesHighWatermark='7'/>",
            EvictionPolicy("oldestMessageEvictionStrategy", None, 7),
        ),
        (
            "<oldestMessageWithLowestPriorityEvictionStrategy/>",
            EvictionPolicy("oldestMessageWithLowestPriorityEvictionStrategy"),
        ),
        (
            "<uniquePropertyMessageEvictionStrategy propertyName='STOCK'/>",
            EvictionPolicy("uniquePropertyMessageEvictionStrategy", "STOCK"),
        ),
    ],
)
def test_which_message_goes_when_too_many_wait_is_read(inside: str, expected: EvictionPolicy) -> None:
    strategy = f"<messageEvictionStrategy>{inside}</messageEvictionStrategy>"
    (entry,) = policies(f"<policyEntry topic='A'>{strategy}</policyEntry>").policies
    assert entry.topic.eviction == expected


def test_messages_unique_by_nothing_are_told() -> None:
    strategy = "<messageEvictionStrategy><uniquePropertyMessageEvictionStrategy/></messageEvictionStrategy>"
    with pytest.raises(ConfigurationError, match="<uniquePropertyMessageEvictionStrategy> has no propertyName"):
        policies(f"<policyEntry topic='A'>{strategy}</policyEntry>")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<abortSlowConsumerStrategy/>", SlowConsumerPolicy()),
        (
            "<abortSlowConsumerStrategy name='n' maxSlowCount='2' maxSlowDuration='400' checkPeriod='100' "
            "abortConnection='true' ignoreNetworkConsumers='false'/>",
            SlowConsumerPolicy(2, 400, 100, True, False),
        ),
        ("<abortSlowAckConsumerStrategy/>", SlowConsumerPolicy(max_since_ack_ms=30_000)),
        (
            "<abortSlowAckConsumerStrategy maxTimeSinceLastAck='500' ignoreIdleConsumers='false' checkPeriod='50'/>",
            SlowConsumerPolicy(check_period_ms=50, max_since_ack_ms=500, ignore_idle_consumers=False),
        ),
    ],
)
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_what_becomes_of_slow_consumers_is_read(kind: str, inside: str, expected: SlowConsumerPolicy) -> None:
    strategy = f"<slowConsumerStrategy>{inside}</slowConsumerStrategy>"
    configuration = policies(f"<policyEntry {kind}='A'>{strategy}</policyEntry>")
    assert configuration.policies[0].slow_consumers == expected


@pytest.mark.parametrize(
    "inside",
    [
        "<messageEvictionStrategy><oldestMessageEvictionStrategy/></messageEvictionStrategy>",
        "<subscriptionRecoveryPolicy><lastImageSubscriptionRecoveryPolicy/></subscriptionRecoveryPolicy>",
    ],
)
def test_what_means_topics_alone_has_no_effect_on_queues_and_is_told(inside: str) -> None:
    configuration = policies(f"<policyEntry queue='A'>{inside}</policyEntry>")
    assert len(configuration.warnings) == 1 and "has no effect: a queue" in configuration.warnings[0]
    assert configuration.policies[0].topic == TopicPolicy()


def test_the_prefetch_of_durable_subscribers_is_read() -> None:
    (entry,) = policies("<policyEntry topic='A' durableTopicPrefetch='5'/>").policies
    assert entry.topic.durable_prefetch == 5
