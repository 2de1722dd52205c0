"""What is different in a configuration that was read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.changes import OF_THE_READING, WORDS, Changes, apply_changes, changes
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration, RuntimeSettings
from spanwire.service.config.reading import read_configuration

SAMPLES = Path(__file__).parents[3] / "vectors" / "configurations"
ENVIRONMENT = {"BROKER_NAME": "fromEnvironment", "DATA": "data"}
USERS = (
    "<plugins>{1}<simpleAuthenticationPlugin><users>"
    '<authenticationUser username="ann" password="{0}" groups="staff"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)
RIGHTS = (
    "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    '<authorizationEntry queue="&gt;" read="{0}" write="{0}" admin="{0}"/>'
    "</authorizationEntries></authorizationMap></map></authorizationPlugin>"
)


def read(inside: str, attributes: str = "") -> BrokerConfiguration:
    text = f'<broker brokerName="b" {attributes}>{inside}</broker>'
    return read_configuration(text.encode(), Path("/etc/activemq.xml"), {}, {})


def found(before: str, after: str) -> Changes:
    return changes(read(before), read(after))


def test_a_file_that_is_read_twice_has_not_changed() -> None:
    read_once = 0
    for path in sorted(SAMPLES.rglob("*")):
        try:
            first, second = (load_configuration(str(path), {}, ENVIRONMENT, skip_unsupported=True) for _ in range(2))
        except ConfigurationError:
            continue
        assert changes(first, second) == Changes(), path
        read_once += 1
    assert read_once > 50


def test_every_field_has_a_word_for_people() -> None:
    assert set(WORDS) | set(OF_THE_READING) == set(BrokerConfiguration.__dataclass_fields__)


def test_policies_and_virtual_destinations_are_taken_over() -> None:
    policy = '<destinationPolicy><policyEntries><policyEntry queue="A"/></policyEntries></destinationPolicy>'
    assert found("", policy) == Changes(policies=True)
    assert apply_changes(read(""), read(policy), found("", policy)).policies == (PolicyEntry(Destination(QUEUE, "A")),)
    virtual = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<virtualTopic name="X.&gt;"/>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    assert found("", virtual) == Changes(virtual=True)


def test_users_and_rights_change_where_there_were_some() -> None:
    open_to_all = USERS.format("x", "")
    staff, admins = (USERS.format("x", RIGHTS.format(group)) for group in ("staff", "admins"))
    assert found(USERS.format("first", ""), USERS.format("second", "")) == Changes(users=True)
    assert found(staff, admins) == Changes(rights=True)
    for before, after, word in (
        ("", open_to_all, "the users"),
        (open_to_all, "", "the users"),
        (open_to_all, staff, "<authorizationPlugin>"),
        (staff, open_to_all, "<authorizationPlugin>"),
    ):
        assert found(before, after) == Changes(later=(word,))
        old, new = read(before), read(after)
        kept = apply_changes(old, new, changes(old, new))
        assert (kept.authentication, kept.authorization) == (old.authentication, old.authorization)


def test_network_connectors_come_go_and_change() -> None:
    one = '<networkConnectors><networkConnector name="n" uri="static:(tcp://h:1)"{}/>{}</networkConnectors>'
    other = '<networkConnector name="m" uri="static:(tcp://h:2)"/>'
    both = found(one.format("", ""), one.format(' networkTTL="3"', other))
    assert [settings.bridge.name for settings in both.removed] == ["n"]
    assert [settings.bridge.name for settings in both.added] == ["n", "m"]
    assert [settings.bridge.name for settings in found(one.format("", other), one.format("", "")).removed] == ["m"]
    moved = found(one.format("", other), f"\n\n{one.format('', other)}")
    assert moved == Changes()


def test_new_destinations_are_made_and_none_is_removed() -> None:
    some = '<destinations><queue physicalName="A"/>{}</destinations>'
    assert found(some.format(""), some.format('<queue physicalName="B"/>')) == Changes(
        destinations=(Destination(QUEUE, "B"),)
    )
    assert found(some.format(""), "") == Changes()


@pytest.mark.parametrize(
    ("attributes", "inside", "word"),
    [
        ('persistent="false"', "", "<persistenceAdapter>"),
        ('advisorySupport="false"', "", "advisorySupport"),
        ('schedulerSupport="true"', "", "schedulerSupport"),
        ('allowTempAutoCreationOnSend="true"', "", "allowTempAutoCreationOnSend"),
        ('useVirtualDestSubs="true"', "", "<destinationInterceptors>"),
        ("", "<plugins><statisticsBrokerPlugin/></plugins>", "<plugins>"),
        ("", '<plugins><runtimeConfigurationPlugin checkPeriod="7"/></plugins>', "<runtimeConfigurationPlugin>"),
        (
            "",
            '<transportConnectors><transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors>',
            "<transportConnectors>",
        ),
    ],
)
def test_what_cannot_be_taken_over_waits_for_the_next_start(attributes: str, inside: str, word: str) -> None:
    assert changes(read(""), read(inside, attributes)).later == (word,)


def test_how_often_the_file_is_looked_at_is_read() -> None:
    assert read("").runtime is None
    assert read("<plugins><runtimeConfigurationPlugin/></plugins>").runtime == RuntimeSettings(0)
    plugin = '<plugins><runtimeConfigurationPlugin checkPeriod="1000"/></plugins>'
    assert read(plugin).runtime == RuntimeSettings(1_000)
    with pytest.raises(ConfigurationError, match="checkPeriod of <runtimeConfigurationPlugin> is '-1'"):
        read('<plugins><runtimeConfigurationPlugin checkPeriod="-1"/></plugins>')
