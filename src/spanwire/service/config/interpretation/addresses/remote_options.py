"""Interprets options of a remote broker's address, as in ``tcp://host:port?tcpNoDelay=false&…``.

Names and meanings come from ActiveMQ's transports. Options for the actual behaviour are accepted silently.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.model.traffic_class import traffic_class
from spanwire.network.connector.socket_options import SocketOptions
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from spanwire.service.config.interpretation.addresses.uri import TransportUri, is_tls
from spanwire.service.config.security.tls import Stores, client_tls, unknown_option
from spanwire.service.config.tables.uri_options import FLAG, NUMBERS, TEXT
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import NUMBER, as_flag
from spanwire.tls.settings import ClientTlsSettings

SOCKET_PREFIX: Final = "socket."  # prefix of options for the Java socket itself
DEFAULT_INACTIVITY_MS: Final = 30_000
MAX_MS: Final = 24 * 3600 * 1000  # highest value of a time option; a day
MAX_BUFFER: Final = 2**30  # bytes; systems allow far less
VERIFY_HOST_NAME: Final = "verifyHostName"
INACTIVITY: Final = "wireFormat.maxInactivityDuration"
MONITOR: Final = "useInactivityMonitor"
AS_THEY_COME: Final = "messages are forwarded unchanged, neither tight nor cached"
SILENCE: Final = f"{INACTIVITY} decides when a silent link ends"
OWN_IDENTITY: Final = "a broker says what it is itself"
JAVA: Final = "it tunes the Java implementation"
# name → (kind of value, fulfilled value or "" for any, reason why other values have no effect)
FIXED: Final[dict[str, tuple[str, str, str]]] = {
    "closeAsync": (FLAG, "", ""),
    "connectAttemptTimeout": (NUMBERS, "", "connectionTimeout limits an attempt"),
    "daemon": (FLAG, "", ""),
    "dynamicManagement": (FLAG, "false", "there is no JMX"),
    "ioBufferSize": (NUMBERS, "", ""),
    "jmxPort": (NUMBERS, "", ""),
    "minmumWireFormatVersion": (NUMBERS, "0", "the highest version that both ends know is spoken"),
    "ignoreAllWireFormatInfo": (FLAG, "false", "both ends always agree"),
    "ignoreRemoteWireFormat": (FLAG, "false", "both ends always agree"),
    "initialDelayTime": (NUMBERS, "0", SILENCE),
    "keepAliveResponseRequired": (FLAG, "false", "any input proves that the other broker lives"),
    "logWriterName": (TEXT, "", "frames are not traced"),
    "readCheckTime": (NUMBERS, "0", SILENCE),
    "selectThreads": (NUMBERS, "", ""),
    "stackSize": (NUMBERS, "", ""),
    "startLogging": (FLAG, "", "frames are not traced"),
    "useQueueForAccept": (FLAG, "", ""),
    "writeCheckTime": (NUMBERS, "0", SILENCE),
    "soLinger": (NUMBERS, "-1", "unsent messages of a link are sent again over the next"),
    "soTimeout": (NUMBERS, "0", SILENCE),
    "soWriteTimeout": (NUMBERS, "0", SILENCE),
    "trace": (FLAG, "false", "frames are not traced"),
    "useKeepAlive": (FLAG, "true", "an idle link sends keep-alives"),
    "useLocalHost": (FLAG, "false", "the name of this machine is resolved like any other"),
    "wireFormat.cacheEnabled": (FLAG, "false", AS_THEY_COME),
    "wireFormat.cacheSize": (NUMBERS, "", ""),
    "wireFormat.includePlatformDetails": (FLAG, "false", OWN_IDENTITY),
    "wireFormat.platformDetails": (TEXT, "", OWN_IDENTITY),
    "wireFormat.providerName": (TEXT, "", OWN_IDENTITY),
    "wireFormat.providerVersion": (TEXT, "", OWN_IDENTITY),
    "wireFormat.maxFrameSizeEnabled": (FLAG, "true", "frames always have a size limit"),
    "wireFormat.prefixPacketSize": (FLAG, "true", "a stream needs the sizes of its frames"),
    "wireFormat.sizePrefixDisabled": (FLAG, "false", "a stream needs the sizes of its frames"),
    "wireFormat.tightEncodingEnabled": (FLAG, "false", AS_THEY_COME),
}
EFFECTIVE: Final = {
    "connectionTimeout": NUMBERS,
    "diffServ": TEXT,
    "keepAlive": FLAG,
    "socketBufferSize": NUMBERS,
    "tcpNoDelay": FLAG,
    "typeOfService": NUMBERS,
    MONITOR: FLAG,
    INACTIVITY: NUMBERS,
    "wireFormat.host": TEXT,
    "wireFormat.maxFrameSize": NUMBERS,
    "wireFormat.maxInactivityDurationInitalDelay": NUMBERS,
    "wireFormat.stackTraceEnabled": FLAG,
    "wireFormat.tcpNoDelayEnabled": FLAG,
    "wireFormat.version": NUMBERS,
}
OF_TLS: Final = {"enabledCipherSuites": TEXT, "enabledProtocols": TEXT, VERIFY_HOST_NAME: FLAG}


class RemoteOptions:
    """The known options of an address, each checked once; faults are in ``findings``."""

    def __init__(self, uri: TransportUri, line: int, findings: Findings) -> None:
        self._line: Final = line
        self._findings: Final = findings
        self._values: Final[dict[str, str]] = {}
        known = {**EFFECTIVE, **{name: kind for name, (kind, _, _) in FIXED.items()}}
        if is_tls(uri):
            known |= OF_TLS
        for full_name, value in uri.options.items():
            name = full_name.removeprefix(SOCKET_PREFIX)
            kind = known.get(name)
            if kind is None:
                unknown_option(uri.scheme, full_name, known, line, findings)
            elif (kind == FLAG and as_flag(value) is None) or (kind == NUMBERS and not NUMBER.fullmatch(value.strip())):
                findings.error(line, f"the option {full_name} of a network connector's {uri.scheme}:// must be {kind}")
            else:
                self._values[name] = value.strip()
                self._warn_if_without_effect(full_name, name, value.strip())

    def _warn_if_without_effect(self, full_name: str, name: str, value: str) -> None:
        _, holds, reason = FIXED.get(name, ("", "", ""))
        if name in FIXED and (not holds or value.lower() != holds):
            self._findings.warn(
                self._line, f"the option {full_name} has no effect in a network connector: {reason or JAVA}"
            )

    def _flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name)
        return default if value is None else as_flag(value) is True

    def _number(self, name: str, default: int, highest: int) -> int:
        value = self._values.get(name)
        return default if value is None else min(max(int(value), 0), highest)

    @property
    def max_inactivity_ms(self) -> int:
        """Return the longest allowed silence of the peer in milliseconds; 0 means no limit."""
        return self._number(INACTIVITY, DEFAULT_INACTIVITY_MS, MAX_MS) if self._flag(MONITOR, True) else 0

    def tls(self, word: str, stores: Stores) -> ClientTlsSettings:
        """Return the TLS settings for the address ``word``."""
        return client_tls(word, self._values, stores, self._line, self._findings)

    def _traffic_class(self) -> int:
        try:
            return traffic_class(self._values.get("typeOfService"), self._values.get("diffServ"))
        except ConfigurationError as error:
            self._findings.error(self._line, str(error))
            return 0

    def socket_options(self) -> SocketOptions:
        """Return the options of the socket and the wire format."""
        base = WireFormatPreferences()
        return SocketOptions(
            connect_timeout_ms=self._number("connectionTimeout", 0, MAX_MS),
            tcp_no_delay=self._flag("tcpNoDelay", True),
            keep_alive=self._flag("keepAlive", False),
            buffer_size=self._number("socketBufferSize", 0, MAX_BUFFER),
            traffic_class=self._traffic_class(),
            wire_format=replace(
                base,
                version=self._number("wireFormat.version", base.version, base.version) or base.version,
                stack_traces=self._flag("wireFormat.stackTraceEnabled", base.stack_traces),
                tcp_no_delay=self._flag("wireFormat.tcpNoDelayEnabled", base.tcp_no_delay),
                max_inactivity_initial_delay_ms=self._number(
                    "wireFormat.maxInactivityDurationInitalDelay", base.max_inactivity_initial_delay_ms, MAX_MS
                ),
                max_frame_size=self._number("wireFormat.maxFrameSize", 0, MAX_FRAME_SIZE) or MAX_FRAME_SIZE,
                host=self._values.get("wireFormat.host") or None,
            ),
        )
