"""Virtual destinations in a configuration, as ActiveMQ's pages print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.broker.policy.virtual_settings import (
    MAX_FORWARDS,
    CompositeDestination,
    ForwardTo,
    MirroredQueues,
    VirtualSettings,
    VirtualTopic,
)
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.reading import read_configuration

XML = Path("/etc/spanwire/conf/activemq.xml")
TOML = Path("/etc/spanwire/conf/broker.toml")


def read(inside: str, attributes: str = "") -> VirtualSettings:
    configuration = read_configuration(f"<broker{attributes}>{inside}</broker>".encode(), XML, {}, {})
    assert configuration.warnings == ()
    return configuration.virtual


def interceptor(inside: str, attributes: str = "") -> VirtualSettings:
    return read(
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        f"{inside}</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>",
        attributes,
    )


def test_without_a_word_the_topics_below_virtual_topic_are_virtual() -> None:
    assert read("") == VirtualSettings((VirtualTopic(),), (), None)


def test_virtual_topics_can_be_switched_off_and_mirrored_queues_on() -> None:
    assert read("", ' useVirtualTopics="false"') == VirtualSettings(())
    assert read("", ' useMirroredQueues="true"').mirrored == MirroredQueues()
    only_permanent = ' useMirroredQueues="true" useTempMirroredQueues="false"'
    assert read("", only_permanent).mirrored == MirroredQueues(temporary=False)


def test_all_options_of_a_virtual_topic_are_honoured() -> None:
    found = interceptor(
        '<virtualTopic name="&gt;" prefix="VirtualTopicConsumers.*." postfix=".in" selectorAware="true" local="true"'
        ' dropOnResourceLimit="true" setOriginalDestination="false" transactedSend="true" concurrentSend="false"/>'
    )
    topics = VirtualTopic(Destination(TOPIC, ">"), "VirtualTopicConsumers.*.", ".in", True, True, True, False)
    assert found == VirtualSettings((topics,))


def test_interceptors_of_ones_own_replace_the_virtual_topics_that_hold_by_default() -> None:
    found = interceptor(
        '<compositeQueue name="MY.QUEUE"><forwardTo><queue physicalName="FOO"/><topic physicalName="BAR"/></forwardTo>'
        "</compositeQueue>"
    )
    forwards = (ForwardTo(Destination(QUEUE, "FOO")), ForwardTo(Destination(TOPIC, "BAR")))
    assert found == VirtualSettings((), (CompositeDestination(Destination(QUEUE, "MY.QUEUE"), forwards),))


def test_a_composite_may_filter_and_keep() -> None:
    found = interceptor(
        '<compositeTopic name="IN" forwardOnly="false" copyMessage="false"><forwardTo>'
        '<filteredDestination selector="odd = \'yes\'" queue="FOO"/>'
        '<filteredDestination selector="i = 5" topic="BAR"/></forwardTo></compositeTopic>'
    )
    forwards = (ForwardTo(Destination(QUEUE, "FOO"), "odd = 'yes'"), ForwardTo(Destination(TOPIC, "BAR"), "i = 5"))
    assert found.composites == (CompositeDestination(Destination(TOPIC, "IN"), forwards, False, False),)


def test_a_composite_may_keep_what_no_filter_wants() -> None:
    found = interceptor(
        '<compositeQueue name="IN" sendWhenNotMatched="true"><forwardTo>'
        '<filteredDestination selector="odd = \'yes\'" queue="FOO"/></forwardTo></compositeQueue>'
    )
    forwards = (ForwardTo(Destination(QUEUE, "FOO"), "odd = 'yes'"),)
    assert found.composites == (CompositeDestination(Destination(QUEUE, "IN"), forwards, True, True, True),)


def test_a_mirrored_queue_element_names_its_topics() -> None:
    found = read(
        '<destinationInterceptors><mirroredQueue copyMessage="false" prefix="" postfix=".qmirror"/>'
        "</destinationInterceptors>"
    )
    assert found == VirtualSettings((), (), MirroredQueues("", ".qmirror", False))


def test_toml_says_the_same() -> None:
    text = """
[[destination_interceptors.virtual_destination_interceptor.virtual_destinations.composite_queue]]
name = "IN"
forward_only = false
forward_to.queue = [{physical_name = "A"}]
"""
    configuration = read_configuration(text.encode(), TOML, {}, {})
    composite = CompositeDestination(Destination(QUEUE, "IN"), (ForwardTo(Destination(QUEUE, "A")),), False)
    assert configuration.virtual.composites == (composite,)


@pytest.mark.parametrize(
    ("inside", "error"),
    [
        ('<compositeQueue name="IN"/>', "<compositeQueue> has no <forwardTo> with a queue or topic in it"),
        ('<compositeQueue><forwardTo><queue physicalName="A"/></forwardTo></compositeQueue>', "has no name"),
        (
            '<compositeQueue name="IN"><forwardTo><queue physicalName="A.*"/></forwardTo></compositeQueue>',
            "must name one destination",
        ),
        (
            '<compositeQueue name="IN"><forwardTo><filteredDestination selector="a &gt;" queue="A"/></forwardTo>'
            "</compositeQueue>",
            "selector of <filteredDestination>",
        ),
        (
            '<compositeQueue name="IN"><forwardTo><filteredDestination selector="a = 1"/></forwardTo></compositeQueue>',
            "must name either a queue or a topic",
        ),
        (
            '<compositeQueue name="IN"><forwardTo>'
            + "".join(f'<queue physicalName="Q.{number}"/>' for number in range(MAX_FORWARDS + 1))
            + "</forwardTo></compositeQueue>",
            f"forwards to {MAX_FORWARDS + 1} destinations, {MAX_FORWARDS} are the most",
        ),
        ('<virtualTopic prefix=""/>', "needs a prefix or a postfix"),
        ('<virtualTopic prefx="A."/>', "did you mean prefix?"),
    ],
)
def test_what_makes_no_sense_is_an_error_with_its_line(inside: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"activemq.xml:1: .*{error}".replace("?", r"\?")):
        interceptor(inside)
