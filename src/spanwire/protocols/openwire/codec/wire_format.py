"""The OpenWire handshake: both sides send a WireFormatInfo.

Each side applies the smaller or common value of each property.

Property names and rules are those of Apache ActiveMQ's WireFormatInfo and OpenWireFormat, the missing ``i`` of
``MaxInactivityDurationInitalDelay`` included. The peer learns the provider's name and no other detail of the platform.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.octets import LONG_MAX, encode_text
from spanwire.protocols.openwire.codec._marshallers import MAGIC, WireFormatInfo
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.object_cache import DEFAULT_CACHE_SIZE, MIN_CACHE_SIZE
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION
from spanwire.protocols.primitive_map import decode_map, encode_map

PROVIDER_NAME: Final = "Spanwire"
MAX_PROPERTIES: Final = 64  # properties; ActiveMQ refuses more in a handshake
MAX_PROPERTY_OCTETS: Final = 512  # octets of a string or byte array; ActiveMQ's limit


@dataclass(frozen=True, slots=True)
class WireFormatPreferences:
    """The offer of our side.

    The broker asks for loose, uncached frames, so that message bytes pass unchanged.
    """

    version: int = LATEST_VERSION
    tight: bool = False
    cache: bool = False
    cache_size: int = 1024
    stack_traces: bool = True
    tcp_no_delay: bool = True
    max_inactivity_ms: int = 30_000
    max_inactivity_initial_delay_ms: int = 10_000
    max_frame_size: int = MAX_FRAME_SIZE
    host: str | None = None


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The negotiated wire format. ``max_frame_size`` is the largest frame accepted by both sides.

    An inactivity duration of 0 disables the inactivity check on both sides. Frames always have a size prefix: both
    sides would have to disable the prefix, and our side never does.
    """

    version: int = LATEST_VERSION
    tight: bool = False
    cache: bool = False
    cache_size: int = DEFAULT_CACHE_SIZE
    stack_traces: bool = True
    tcp_no_delay: bool = True
    max_inactivity_ms: int = 0
    max_inactivity_initial_delay_ms: int = 0
    max_frame_size: int = MAX_FRAME_SIZE
    host: str | None = None
    provider_name: str | None = None

    def passes_messages(self) -> bool:
        """Return True if the bytes of a message are equal on all such connections: loose and uncached."""
        return not self.tight and not self.cache


class WireFormatProperties:
    """The properties of a WireFormatInfo; an absent property counts as false or 0."""

    def __init__(self, info: WireFormatInfo) -> None:
        data = info.marshalled_properties
        try:
            self._entries: Final[dict[str, PropertyValue]] = {} if data is None else decode_map(data)
        except MessageFormatError as error:
            raise OpenWireProtocolError(f"WireFormatInfo: {error}") from None
        if len(self._entries) > MAX_PROPERTIES:
            raise OpenWireProtocolError(f"WireFormatInfo has {len(self._entries)} properties, over {MAX_PROPERTIES}")
        for name, entry in self._entries.items():
            _check_property(name, entry)

    def flag(self, name: str) -> bool:
        """Return a boolean property."""
        kind, value = self._entries.get(name, (BOOLEAN_VALUE, False))
        if kind != BOOLEAN_VALUE:
            raise OpenWireProtocolError(f"WireFormatInfo: {name} is no boolean")
        return value is True

    def number(self, name: str) -> int:
        """Return an int or long property."""
        kind, value = self._entries.get(name, (INT_VALUE, 0))
        if kind not in (INT_VALUE, LONG_VALUE) or not isinstance(value, int):
            raise OpenWireProtocolError(f"WireFormatInfo: {name} is no number")
        return value

    def text(self, name: str) -> str | None:
        """Return a string property; None if absent or null."""
        value = self._entries.get(name, (STRING_VALUE, None))[1]
        if value is not None and not isinstance(value, str):
            raise OpenWireProtocolError(f"WireFormatInfo: {name} is no string")
        return value


def _check_property(name: str, entry: PropertyValue) -> None:
    kind, value = entry
    octets = 0
    if isinstance(value, str):
        octets = len(encode_text(value))
    elif isinstance(value, bytes):
        octets = len(value)
    if kind in (MAP_VALUE, LIST_VALUE):
        raise OpenWireProtocolError(f"WireFormatInfo: {name[:40]!r} is a map or list")
    if octets > MAX_PROPERTY_OCTETS or len(name) > MAX_PROPERTY_OCTETS:
        raise OpenWireProtocolError(f"WireFormatInfo: {name[:40]!r} is longer than {MAX_PROPERTY_OCTETS} bytes")


def wire_format_info(preferences: WireFormatPreferences) -> WireFormatInfo:
    """Return the WireFormatInfo that offers ``preferences``.

    A cache of fewer than 101 slots is never offered, because a Java peer's eviction sweep would never end.
    """
    cache = preferences.cache and (preferences.cache_size >= MIN_CACHE_SIZE or preferences.cache_size == 0)
    entries: dict[str, PropertyValue] = {
        "StackTraceEnabled": (BOOLEAN_VALUE, preferences.stack_traces),
        "TcpNoDelayEnabled": (BOOLEAN_VALUE, preferences.tcp_no_delay),
        "CacheEnabled": (BOOLEAN_VALUE, cache),
        "TightEncodingEnabled": (BOOLEAN_VALUE, preferences.tight),
        "SizePrefixDisabled": (BOOLEAN_VALUE, False),
        "MaxInactivityDuration": (LONG_VALUE, preferences.max_inactivity_ms),
        "MaxInactivityDurationInitalDelay": (LONG_VALUE, preferences.max_inactivity_initial_delay_ms),
        "MaxFrameSize": (LONG_VALUE, preferences.max_frame_size),
        "MaxFrameSizeEnabled": (BOOLEAN_VALUE, True),
        "ProviderName": (STRING_VALUE, PROVIDER_NAME),
    }
    if cache:
        entries["CacheSize"] = (INT_VALUE, preferences.cache_size)
    if preferences.host is not None:
        entries["Host"] = (STRING_VALUE, preferences.host)
    return WireFormatInfo(version=preferences.version, marshalled_properties=encode_map(entries))


def answer_preferences(preferences: WireFormatPreferences, remote: WireFormatInfo) -> WireFormatPreferences:
    """Return ``preferences`` without the cache if the peer's cache is too small to work.

    The peer's offer was received first.
    """
    properties = WireFormatProperties(remote)
    if properties.flag("CacheEnabled") and 0 < properties.number("CacheSize") < MIN_CACHE_SIZE:
        return replace(preferences, cache=False)
    return preferences


def negotiate(local: WireFormatPreferences, remote: WireFormatInfo) -> WireFormat:
    """Return the wire format for both offers.

    Raises `OpenWireProtocolError` for an invalid WireFormatInfo.
    """
    if remote.magic != MAGIC:
        raise OpenWireProtocolError("the peer's first frame has no ActiveMQ magic")
    properties = WireFormatProperties(remote)
    cache = properties.flag("CacheEnabled") and local.cache
    cache_size = _smaller(local.cache_size, properties.number("CacheSize")) or DEFAULT_CACHE_SIZE
    if cache and cache_size < MIN_CACHE_SIZE:
        raise OpenWireProtocolError(
            f"an object cache of {cache_size} slots is too small: {MIN_CACHE_SIZE} is the least"
        )
    inactivity = min(local.max_inactivity_ms, properties.number("MaxInactivityDuration"))
    delay = _smaller(local.max_inactivity_initial_delay_ms, properties.number("MaxInactivityDurationInitalDelay"))
    return WireFormat(
        version=_smaller(local.version, remote.version),
        tight=properties.flag("TightEncodingEnabled") and local.tight,
        cache=cache,
        cache_size=min(cache_size, DEFAULT_CACHE_SIZE),
        stack_traces=properties.flag("StackTraceEnabled") and local.stack_traces,
        tcp_no_delay=properties.flag("TcpNoDelayEnabled") and local.tcp_no_delay,
        max_inactivity_ms=max(inactivity, 0),
        max_inactivity_initial_delay_ms=delay,
        max_frame_size=_smaller(local.max_frame_size, min(properties.number("MaxFrameSize"), LONG_MAX)),
        host=properties.text("Host"),
        provider_name=properties.text("ProviderName"),
    )


def _smaller(ours: int, theirs: int) -> int:
    """Return the smaller of two numbers; 0 or less counts as absent."""
    if theirs <= 0:
        return max(ours, 0)
    return theirs if ours <= 0 else min(ours, theirs)
