"""The handshake takes the smaller or the both-agreed of two offers."""

from __future__ import annotations

from typing import Any

import pytest

from spanwire.model.message_view import BOOLEAN_VALUE, INT_VALUE, LONG_VALUE, STRING_VALUE, PropertyValue
from spanwire.protocols.openwire.codec._marshallers import WireFormatInfo
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import (
    WireFormat,
    WireFormatPreferences,
    WireFormatProperties,
    answer_preferences,
    negotiate,
    wire_format_info,
)
from spanwire.protocols.primitive_map import decode_plain_map, encode_map
from tests.support.openwire_structures import load_vectors, normalised, structure_of

ALL = WireFormatPreferences(tight=True, cache=True)


def offer(entries: dict[str, PropertyValue], version: int = 12) -> WireFormatInfo:
    return WireFormatInfo(version=version, marshalled_properties=encode_map(entries))


def java_offer(**changed: PropertyValue) -> WireFormatInfo:
    entries: dict[str, PropertyValue] = {
        "CacheEnabled": (BOOLEAN_VALUE, True),
        "CacheSize": (INT_VALUE, 1024),
        "TightEncodingEnabled": (BOOLEAN_VALUE, True),
        "StackTraceEnabled": (BOOLEAN_VALUE, True),
        "TcpNoDelayEnabled": (BOOLEAN_VALUE, True),
        "MaxInactivityDuration": (LONG_VALUE, 30_000),
        "MaxInactivityDurationInitalDelay": (LONG_VALUE, 10_000),
        "MaxFrameSize": (LONG_VALUE, 2**63 - 1),
    }
    return offer(entries | changed)


def properties_sent(preferences: WireFormatPreferences) -> dict[str, object]:
    return decode_plain_map(wire_format_info(preferences).marshalled_properties or b"")


def test_the_broker_offers_version_12_loose_and_uncached() -> None:
    sent = properties_sent(WireFormatPreferences())
    assert wire_format_info(WireFormatPreferences()).version == 12
    assert (sent["TightEncodingEnabled"], sent["CacheEnabled"], sent["SizePrefixDisabled"]) == (False, False, False)


def test_s12_cve_2017_15709_the_handshake_names_the_provider_and_nothing_of_the_platform() -> None:
    sent = properties_sent(WireFormatPreferences())
    assert sorted(sent) == [
        "CacheEnabled",
        "MaxFrameSize",
        "MaxFrameSizeEnabled",
        "MaxInactivityDuration",
        "MaxInactivityDurationInitalDelay",
        "ProviderName",
        "SizePrefixDisabled",
        "StackTraceEnabled",
        "TcpNoDelayEnabled",
        "TightEncodingEnabled",
    ]
    assert [value for value in sent.values() if isinstance(value, str)] == ["Spanwire"]


def test_a_java_client_and_the_broker_agree_on_loose_and_uncached() -> None:
    agreed = negotiate(WireFormatPreferences(), java_offer())
    assert (agreed.version, agreed.tight, agreed.cache, agreed.stack_traces) == (12, False, False, True)
    assert agreed.max_inactivity_ms == 30_000
    assert agreed.passes_messages()


def test_tight_and_cache_hold_only_when_both_sides_say_so() -> None:
    both = negotiate(ALL, java_offer())
    assert (both.tight, both.cache, both.cache_size) == (True, True, 1024)
    refused = negotiate(ALL, java_offer(TightEncodingEnabled=(BOOLEAN_VALUE, False)))
    assert (refused.tight, refused.cache) == (False, True)
    assert not refused.passes_messages()


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"), [(12, 9, 9), (9, 12, 9), (12, 0, 12), (11, -5, 11), (12, 40, 12)]
)
def test_the_smaller_version_wins_and_one_that_is_no_version_counts_as_absent(
    ours: int, theirs: int, agreed: int
) -> None:
    assert negotiate(WireFormatPreferences(version=ours), offer({}, theirs)).version == agreed


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"), [(30, 20, 20), (20, 30, 20), (0, 30, 0), (30, 0, 0), (30, -1, 0)]
)
def test_the_smaller_inactivity_duration_wins_and_zero_switches_the_monitor_off(
    ours: int, theirs: int, agreed: int
) -> None:
    preferences = WireFormatPreferences(max_inactivity_ms=ours)
    assert negotiate(preferences, offer({"MaxInactivityDuration": (LONG_VALUE, theirs)})).max_inactivity_ms == agreed


def test_a_cache_without_a_size_has_16383_slots() -> None:
    unsized = negotiate(WireFormatPreferences(cache=True, cache_size=0), offer({"CacheEnabled": (BOOLEAN_VALUE, True)}))
    assert (unsized.cache, unsized.cache_size) == (True, 16383)


@pytest.mark.parametrize("size", [1, 50, 100])
def test_a_cache_of_fewer_than_101_slots_is_never_offered(size: int) -> None:
    sent = properties_sent(WireFormatPreferences(cache=True, cache_size=size))
    assert sent["CacheEnabled"] is False
    assert "CacheSize" not in sent
    assert properties_sent(WireFormatPreferences(cache=True, cache_size=101))["CacheSize"] == 101


@pytest.mark.parametrize("size", [1, 99, 100])
def test_a_peer_that_offers_fewer_than_101_slots_is_answered_with_no_cache(size: int) -> None:
    small = java_offer(CacheSize=(INT_VALUE, size))
    assert answer_preferences(ALL, small).cache is False
    assert answer_preferences(ALL, java_offer()).cache is True
    with pytest.raises(OpenWireProtocolError, match="101"):
        negotiate(ALL, small)


def test_properties_that_are_absent_count_as_false_or_zero() -> None:
    agreed = negotiate(ALL, WireFormatInfo(version=10))
    assert agreed == WireFormat(
        version=10,
        tight=False,
        cache=False,
        cache_size=1024,
        stack_traces=False,
        tcp_no_delay=False,
        max_inactivity_ms=0,
        max_inactivity_initial_delay_ms=10_000,
    )


def test_the_host_and_the_provider_are_handed_on() -> None:
    agreed = negotiate(
        ALL,
        offer(
            {"Host": (STRING_VALUE, "broker.example"), "ProviderName": (STRING_VALUE, "ActiveMQ"), "Other": (0, None)}
        ),
    )
    assert (agreed.host, agreed.provider_name) == ("broker.example", "ActiveMQ")


def preferences_of(info: WireFormatInfo) -> WireFormatPreferences:
    properties = WireFormatProperties(info)
    return WireFormatPreferences(
        version=info.version,
        tight=properties.flag("TightEncodingEnabled"),
        cache=properties.flag("CacheEnabled"),
        cache_size=properties.number("CacheSize"),
        stack_traces=properties.flag("StackTraceEnabled"),
    )


@pytest.mark.parametrize(
    "conversation", load_vectors("conversations")["conversations"], ids=lambda conversation: str(conversation["name"])
)
def test_recorded_peers_agree_on_what_the_recording_says_from_either_side(conversation: dict[str, Any]) -> None:
    for expected in conversation["negotiated"]:
        infos = [
            structure_of(normalised(entry["values"]))
            for entry in conversation["frames"]
            if entry["type"] == "WireFormatInfo" and entry["connection"] == expected["connection"]
        ]
        for ours, theirs in (infos, reversed(infos)):
            agreed = negotiate(preferences_of(ours), theirs)
            assert agreed.version == expected["version"]
            assert agreed.tight == (expected["encoding"] == "tight")
            assert (agreed.cache, agreed.stack_traces) == (expected["cache"], expected["stackTrace"])
            assert not agreed.cache or agreed.cache_size == expected["cacheSize"]


@pytest.mark.parametrize(
    "entries",
    [
        {"MaxFrameSize": (STRING_VALUE, "big")},
        {"Host": (INT_VALUE, 5)},
        {"TightEncodingEnabled": (INT_VALUE, 1)},
        {"x" * 513: (INT_VALUE, 1)},
        {"Host": (STRING_VALUE, "€" * 171)},
        {"m": (12, [])},
    ],
    ids=["number", "text", "flag", "name", "octets", "list"],
)
def test_a_property_of_the_wrong_type_or_size_is_refused(entries: dict[str, PropertyValue]) -> None:
    with pytest.raises(OpenWireProtocolError, match="WireFormatInfo"):
        negotiate(ALL, offer(entries))


def test_another_magic_is_refused() -> None:
    with pytest.raises(OpenWireProtocolError, match="ActiveMQ"):
        negotiate(ALL, WireFormatInfo(magic=b"ActiveMX", version=12))
