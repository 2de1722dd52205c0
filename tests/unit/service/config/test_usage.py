"""The limits of a configuration: read from XML, TOML and a vm: URL, checked, and found on the disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spanwire.broker.connections.transaction import MAX_UNCOMMITTED
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.administration.usage import usage_limits
from spanwire.service.config.model import BrokerConfiguration, DiskLimit, UsageConfiguration
from spanwire.service.config.reading import read_configuration

PATH = Path("/etc/spanwire/conf/activemq.xml")
MIB = 1024 * 1024
GIB = 1024 * MIB
SHIPPED = """
<systemUsage><systemUsage>
  <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
  <storeUsage><storeUsage limit="100 gb"/></storeUsage>
  <tempUsage><tempUsage limit="50 gb"/></tempUsage>
</systemUsage></systemUsage>
"""


def read(inside: str, attributes: str = "", environment: dict[str, str] | None = None) -> BrokerConfiguration:
    text = f"<broker {attributes}>{inside}</broker>"
    return read_configuration(text.encode("utf-8"), PATH, {}, environment or {})


def usage(inside: str, attributes: str = "") -> UsageConfiguration:
    return read(f"<systemUsage><systemUsage {attributes}>{inside}</systemUsage></systemUsage>").usage


def obstacle(inside: str, attributes: str = "") -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(inside, attributes)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_the_limits_of_the_file_that_activemq_ships_are_honoured() -> None:
    configuration = read(SHIPPED, environment={"ACTIVEMQ_OPTS_MEMORY": "-Xms64M -Xmx4G"})
    assert configuration.usage == UsageConfiguration(
        4 * GIB * 70 // 100, DiskLimit(100 * GIB), DiskLimit(50 * GIB), False, 0
    )
    (warning,) = configuration.warnings
    assert warning.endswith("is taken as 70 % of the heap that -Xmx4G gives; write limit instead")


def test_what_happens_to_sends_without_space_is_read() -> None:
    assert usage("", 'sendFailIfNoSpace="true"').fail_if_no_space
    assert usage("", 'sendFailIfNoSpaceAfterTimeout="3000"').fail_after_ms == 3_000
    assert usage("") == UsageConfiguration()


def test_a_share_is_one_of_the_file_system_or_of_a_total() -> None:
    assert usage('<storeUsage><storeUsage percentLimit="40"/></storeUsage>').store == DiskLimit(0, 40)
    assert usage('<tempUsage percentLimit="40" total="10 gb"/>').temporary == DiskLimit(4 * GIB)


def test_jobs_have_no_store_whose_limit_could_hold() -> None:
    inside = "<systemUsage><systemUsage><jobSchedulerUsage><jobSchedulerUsage limit='1 gb'/></jobSchedulerUsage>"
    (warning,) = read(inside + "</systemUsage></systemUsage>").warnings
    assert "<jobSchedulerUsage> has no effect" in warning


@pytest.mark.parametrize(
    ("inside", "part"),
    [
        ("<memoryUsage limit='1 kb'/>", "the limit of <memoryUsage> must be at least 1 mb"),
        ("<memoryUsage percentOfJvmHeap='101'/>", "percentOfJvmHeap of <memoryUsage> is '101'"),
        ("<storeUsage limit='1 mb'/>", "the limit of <storeUsage> must be at least 8 mb"),
        ("<tempUsage limit='1 mb'/>", "the limit of <tempUsage> must be at least 8 mb"),
        ("<storeUsage percentLimit='101'/>", "percentLimit of <storeUsage> is '101'"),
        ("<storeUsage percentLimit='10' limit='1 gb'/>", "has limit and percentLimit; keep one"),
        ("<storeUsage total='10 gb'/>", "has an effect with percentLimit only; write percentLimit"),
        ("<storeUsage limti='10 gb'/>", "did you mean limit?"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_told_in_one_line(inside: str, part: str) -> None:
    assert part in obstacle(f"<systemUsage>{inside}</systemUsage>")


def test_a_small_store_has_small_files_so_that_what_is_consumed_makes_room() -> None:
    small = read("<systemUsage><storeUsage limit='64 mb'/></systemUsage>")
    assert small.persistence.segment_bytes == 8 * MIB
    assert read("<systemUsage><storeUsage limit='8 mb'/></systemUsage>").persistence.segment_bytes == MIB
    assert read(SHIPPED).persistence.segment_bytes == 32 * MIB


def test_a_policy_tunes_flow_control() -> None:
    (entry,) = read(
        "<destinationPolicy><policyMap><policyEntries><policyEntry queue='A' memoryLimit='2 mb' "
        "producerFlowControl='false' sendFailIfNoSpace='false' sendFailIfNoSpaceAfterTimeout='0' "
        "blockedProducerWarningInterval='-1' cursorMemoryHighWaterMark='50' storeUsageHighWaterMark='90' "
        "maxDestinations='5'/></policyEntries></policyMap></destinationPolicy>"
    ).policies
    assert entry == PolicyEntry(
        Destination(QUEUE, "A"),
        memory_limit_bytes=2 * MIB,
        producer_flow_control=False,
        send_fail_if_no_space=False,
        send_fail_after_ms=0,
        blocked_producer_warning_interval_ms=-1,
        cursor_memory_high_water_mark=50,
        store_usage_high_water_mark=90,
        max_destinations=5,
    )


def test_a_policy_that_says_nothing_leaves_it_to_the_broker() -> None:
    (entry,) = read(
        "<destinationPolicy><policyMap><policyEntries><policyEntry queue='A'/></policyEntries></policyMap>"
        "</destinationPolicy>"
    ).policies
    assert entry == PolicyEntry(Destination(QUEUE, "A"))
    assert entry.send_fail_if_no_space is None


@pytest.mark.parametrize(
    "setting", ["cursorMemoryHighWaterMark='0'", "storeUsageHighWaterMark='101'", "maxDestinations='-2'"]
)
def test_a_mark_of_a_policy_is_a_percentage(setting: str) -> None:
    name = setting.partition("=")[0]
    assert f"{name} of <policyEntry> is" in obstacle(
        f"<destinationPolicy><policyMap><policyEntries><policyEntry queue='A' {setting}/></policyEntries></policyMap>"
        "</destinationPolicy>"
    )


@pytest.mark.parametrize(("count", "expected"), [("0", MAX_UNCOMMITTED), ("5", 5), ("2000000", 2_000_000)])
def test_the_number_of_uncommitted_messages_is_read_and_0_keeps_the_default(count: str, expected: int) -> None:
    assert read("", f'maxUncommittedCount="{count}"').max_uncommitted == expected
    assert "maxUncommittedCount of <broker> is" in obstacle("", 'maxUncommittedCount="99999999999"')


@pytest.mark.parametrize(
    ("word", "usual"),
    [("schedulePeriodForDiskUsageCheck", "0"), ("diskUsageCheckRegrowThreshold", "-1"), ("adjustUsageLimits", "true")],
)
def test_the_disk_is_watched_whatever_is_asked_for(word: str, usual: str) -> None:
    assert read("", f'{word}="{usual}"').warnings == ()
    (warning,) = read("", f'{word}="30"').warnings
    assert f"{word} of <broker> has no effect: the next journal file is allocated before it is needed" in warning


def test_toml_says_the_same_in_its_own_spelling() -> None:
    text = (
        "max_uncommitted_count = 7\n[system_usage]\nsend_fail_if_no_space_after_timeout = 5\n"
        "[system_usage.store_usage]\nlimit = '1 gb'\n[system_usage.temp_usage]\npercent_limit = 3\n"
        "[[destination_policy.policy_map.policy_entries]]\nqueue = '>'\nproducer_flow_control = false\n"
    )
    configuration = read_configuration(text.encode("utf-8"), Path("/a/broker.toml"), {}, {})
    assert configuration.usage == UsageConfiguration(store=DiskLimit(GIB), temporary=DiskLimit(0, 3), fail_after_ms=5)
    assert configuration.max_uncommitted == 7
    assert not configuration.policies[0].producer_flow_control


def test_a_share_of_the_disk_is_taken_where_the_journal_lies(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    half = usage_limits(UsageConfiguration(MIB, DiskLimit(0, 50), DiskLimit(0, 100), True, 7), tmp_path)
    assert half.store_bytes == half.temporary_bytes // 2 > 0
    assert half == UsageLimits(MIB, half.store_bytes, half.temporary_bytes, True, 7)
    assert usage_limits(UsageConfiguration(store=DiskLimit(0, 50)), None).store_bytes == 0
    assert caplog.messages == []


def test_a_limit_beyond_the_disk_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert usage_limits(UsageConfiguration(store=DiskLimit(2**60)), tmp_path).store_bytes == 2**60
    (line,) = caplog.messages
    assert line.startswith(f"storeUsage is {2**60} bytes, but the file system of {tmp_path} has ")
