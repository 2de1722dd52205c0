"""Limits the commands of a connection before its login.

Before the login no command has an effect in the broker. A ConnectionControl is read for one flag. A BrokerInfo is
stored until the ConnectionInfo is accepted. All other commands but a keep-alive end the connection (CVE-2026-49270,
CVE-2026-50750).
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import ConfigurationError, InvalidClientIdError
from spanwire.model.info import ConnectionInfo
from spanwire.model.routing import UNNAMED
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import (
    WireFormat,
    WireFormatPreferences,
    answer_preferences,
    negotiate,
)
from spanwire.protocols.openwire.messages.identities import connection_id_of

PROTOCOL_NAME: Final = "openwire"
MAX_KEEP_ALIVES: Final = 4  # keep-alives before the login, which has 10 s; peers send one every 10 s by default
MAX_BROKER_INFO_BYTES: Final = 16 * 1024  # bytes; room for a bridge's settings and destination lists
MAX_ID_LENGTH: Final = 1024  # characters of a connection or client id; the broker stores and repeats ids
MINIMUM_VERSION: Final = "minmumWireFormatVersion"  # ActiveMQ's spelling; a connector's configuration checks it
OPTION_PREFIX: Final = "wireFormat."

_MAX_COMMANDS: Final[dict[int, int]] = {
    wire.KEEP_ALIVE_INFO: MAX_KEEP_ALIVES,
    wire.BROKER_INFO: 1,
    wire.BROKER_SUBSCRIPTION_INFO: 1,
    wire.CONNECTION_CONTROL: 1,
    wire.CONNECTION_INFO: 1,
    wire.SHUTDOWN_INFO: 1,
}


class Login:
    """Counts the commands before the login and stores the peer's announcements."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings: Final[ConnectionSettings] = settings
        self._counts: Final[dict[int, int]] = {}
        self._fault_tolerant = False
        self.broker_info: wire.BrokerInfo | None = None
        self.subscriptions: wire.BrokerSubscriptionInfo | None = None

    def count(self, type_id: int) -> None:
        """Count a command; raises `OpenWireProtocolError` for too many commands of its type."""
        count = self._counts.get(type_id, 0) + 1
        if count > _MAX_COMMANDS.get(type_id, 0):
            raise OpenWireProtocolError(f"{count} commands of type {type_id} came before the login")
        self._counts[type_id] = count

    def take(self, command: wire.Command, wire_format: WireFormat) -> None:
        """Store an announcement of the peer; commands without an announcement have no effect.

        Raises:
            OpenWireProtocolError: a BrokerInfo is too large, or a BrokerSubscriptionInfo precedes the BrokerInfo.
        """
        if isinstance(command, wire.BrokerInfo):
            size = len(FrameEncoder(wire_format).encode(command))
            if size > MAX_BROKER_INFO_BYTES:
                raise OpenWireProtocolError(
                    f"a BrokerInfo of {size} bytes is larger than the limit of {MAX_BROKER_INFO_BYTES}"
                )
            self.broker_info = command
        elif isinstance(command, wire.BrokerSubscriptionInfo):  # at most 1 MiB, the limit of its frame
            if self.broker_info is None:
                raise OpenWireProtocolError("a BrokerSubscriptionInfo came without a BrokerInfo")
            self.subscriptions = command
        elif isinstance(command, wire.ConnectionControl):  # has the flag of a reconnecting failover client
            self._fault_tolerant = command.fault_tolerant

    def connection_info(self, command: wire.ConnectionInfo) -> ConnectionInfo:
        """Return the announcement for the broker; raises `InvalidClientIdError` for a missing client id."""
        connection_id = connection_id_of(command.connection_id)
        if command.client_id is None:
            raise InvalidClientIdError("No clientID specified for connection request")
        if len(connection_id) > MAX_ID_LENGTH or len(command.client_id) > MAX_ID_LENGTH:
            raise InvalidClientIdError(f"connection id and client id have at most {MAX_ID_LENGTH} characters")
        introduced = self.broker_info
        is_bridge = introduced is not None and introduced.network_connection
        return ConnectionInfo(
            connection_id=connection_id,
            client_id=command.client_id,
            user_name=command.user_name,
            password=command.password,
            remote_address=self._settings.remote_address,
            protocol=PROTOCOL_NAME,
            fault_tolerant=self._fault_tolerant or command.fault_tolerant,
            reconnected=command.failover_reconnect or self._fault_tolerant,  # before version 6 only the latter exists
            certificate_subject=self._settings.certificate_subject,
            max_consumers=self._settings.max_consumers,
            max_producers=self._settings.max_producers,
            encrypted=self._settings.encrypted,
            audit_makers=self._settings.audit_makers,
            steals_links=self._settings.steals_links,
            connector=self._settings.connector_name,
            is_bridge=is_bridge,
            unnamed_broker_id=unnamed_id(introduced) if is_bridge and introduced is not None else "",
        )


def unnamed_id(info: wire.BrokerInfo) -> str:
    """Return the id of a broker with the default name; empty for other brokers."""
    return "" if info.broker_name != UNNAMED or info.broker_id is None else info.broker_id.value or ""


def preferences_of(settings: ConnectionSettings) -> WireFormatPreferences:
    """Return the wire format that we offer, from the connector's settings and ``wireFormat.`` options.

    Without options the offer is loose and uncached, so that message bytes pass unchanged. Raises `ConfigurationError`
    for an invalid option.
    """
    base = WireFormatPreferences()
    return WireFormatPreferences(
        version=_number(settings, "version", base.version),
        tight=_flag(settings, "tightEncodingEnabled", base.tight),
        cache=_flag(settings, "cacheEnabled", base.cache),
        cache_size=_number(settings, "cacheSize", base.cache_size),
        stack_traces=_flag(settings, "stackTraceEnabled", base.stack_traces),
        tcp_no_delay=_flag(settings, "tcpNoDelayEnabled", base.tcp_no_delay),
        max_inactivity_ms=_number(settings, "maxInactivityDuration", settings.max_inactivity_ms),
        max_inactivity_initial_delay_ms=_number(
            settings, "maxInactivityDurationInitalDelay", base.max_inactivity_initial_delay_ms
        ),
        max_frame_size=settings.max_frame_size,
    )


def negotiated_format(
    settings: ConnectionSettings, preferences: WireFormatPreferences, command: wire.WireFormatInfo
) -> WireFormat:
    """Return the wire format of the connection after the peer's WireFormatInfo.

    Raises:
        OpenWireProtocolError: the version is lower than the connector's minimum.
    """
    wire_format = negotiate(answer_preferences(preferences, command), command)
    minimum = int(settings.options.get(MINIMUM_VERSION, "1"))
    if wire_format.version < minimum:
        raise OpenWireProtocolError(f"wire format version {wire_format.version} is below the minimum of {minimum}")
    return wire_format


def _flag(settings: ConnectionSettings, name: str, default: bool) -> bool:
    text = settings.options.get(OPTION_PREFIX + name)
    if text is None:
        return default
    if text not in ("true", "false"):
        raise ConfigurationError(f"connector {settings.connector_name}: {OPTION_PREFIX}{name}={text} is no boolean")
    return text == "true"


def _number(settings: ConnectionSettings, name: str, default: int) -> int:
    text = settings.options.get(OPTION_PREFIX + name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 19:
        raise ConfigurationError(f"connector {settings.connector_name}: {OPTION_PREFIX}{name}={text} is no number")
    return int(text)
