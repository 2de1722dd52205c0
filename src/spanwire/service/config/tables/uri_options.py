"""Options of a connector's URI, with ActiveMQ's names: kind of value, supported value, missing effect."""

from __future__ import annotations

from typing import Final

FLAG: Final = "true or false"
NUMBERS: Final = "a whole number"
TEXT: Final = "text"
HEART_BEAT: Final = "two whole numbers, such as 5000,10000"
DECIMAL: Final = "a number from 1 to 1000"

# name → (kind of value, the only supported value or None)
WIRE_FORMAT: Final[dict[str, tuple[str, str | None]]] = {
    "wireFormat.cacheEnabled": (FLAG, None),
    "wireFormat.cacheSize": (NUMBERS, None),
    "wireFormat.host": (TEXT, None),
    "wireFormat.includePlatformDetails": (FLAG, None),
    "wireFormat.maxFrameSize": (NUMBERS, None),
    "wireFormat.maxFrameSizeEnabled": (FLAG, "true"),
    "wireFormat.maxInactivityDuration": (NUMBERS, None),
    "wireFormat.maxInactivityDurationInitalDelay": (NUMBERS, None),
    "wireFormat.platformDetails": (TEXT, None),
    "wireFormat.prefixPacketSize": (FLAG, "true"),
    "wireFormat.providerName": (TEXT, None),
    "wireFormat.providerVersion": (TEXT, None),
    "wireFormat.sizePrefixDisabled": (FLAG, "false"),
    "wireFormat.stackTraceEnabled": (FLAG, None),
    "wireFormat.tcpNoDelayEnabled": (FLAG, None),
    "wireFormat.tightEncodingEnabled": (FLAG, None),
    "wireFormat.version": (NUMBERS, None),
}
SOCKET: Final[dict[str, tuple[str, str | None]]] = {
    "allowLinkStealing": (FLAG, None),
    "backlog": (NUMBERS, None),
    "closeAsync": (FLAG, None),
    "connectAttemptTimeout": (NUMBERS, None),
    "connectionTimeout": (NUMBERS, None),
    "daemon": (FLAG, None),
    "diffServ": (TEXT, None),
    "dynamicManagement": (FLAG, None),
    "ignoreAllWireFormatInfo": (FLAG, None),
    "ignoreRemoteWireFormat": (FLAG, None),
    "initialDelayTime": (NUMBERS, None),
    "ioBufferSize": (NUMBERS, None),
    "jmxPort": (NUMBERS, None),
    "keepAlive": (FLAG, None),
    "keepAliveResponseRequired": (FLAG, None),
    "logWriterName": (TEXT, None),
    "maxConnectionThreadPoolSize": (NUMBERS, None),
    "maxInactivityDuration": (NUMBERS, None),
    "maxInactivityDurationInitalDelay": (NUMBERS, None),
    "maximumConnections": (NUMBERS, None),
    "minmumWireFormatVersion": (NUMBERS, None),
    "name": (TEXT, None),
    "readCheckTime": (NUMBERS, None),
    "selectThreads": (NUMBERS, None),
    "soLinger": (NUMBERS, None),
    "soTimeout": (NUMBERS, None),
    "soWriteTimeout": (NUMBERS, None),
    "socketBufferSize": (NUMBERS, None),
    "stackSize": (NUMBERS, None),
    "startLogging": (FLAG, None),
    "tcpNoDelay": (FLAG, None),
    "trace": (FLAG, None),
    "typeOfService": (NUMBERS, None),
    "useInactivityMonitor": (FLAG, None),
    "useKeepAlive": (FLAG, None),
    "useLocalHost": (FLAG, None),
    "useQueueForAccept": (FLAG, None),
    "writeCheckTime": (NUMBERS, None),
}
STOMP: Final[dict[str, tuple[str, str | None]]] = {
    "defaultHeartBeat": (HEART_BEAT, None),
    "hbGracePeriodMultiplier": (DECIMAL, None),
    "maxDataLength": (NUMBERS, None),
    "maxFrameSize": (NUMBERS, None),
}
XMPP: Final[dict[str, tuple[str, str | None]]] = {
    "plainWithoutTls": (FLAG, None),  # Spanwire's own
}
TLS: Final[dict[str, tuple[str, str | None]]] = {
    "enabledCipherSuites": (TEXT, None),
    "enabledProtocols": (TEXT, None),
    "needClientAuth": (FLAG, None),
    "verifyHostName": (FLAG, None),
    "wantClientAuth": (FLAG, None),
}
# `websocket.` begins what ActiveMQ passes on to Jetty, whose filter for other origins has an allowedOrigins, too.
WEBSOCKET: Final[dict[str, tuple[str, str | None]]] = {
    "websocket.allowedOrigins": (TEXT, None),
    "websocket.bufferSize": (NUMBERS, None),
    "websocket.idleTimeout": (NUMBERS, None),
    "websocket.inputBufferSize": (NUMBERS, None),
    "websocket.maxBinaryMessageSize": (NUMBERS, None),
    "websocket.maxIdleTime": (NUMBERS, None),
    "websocket.maxTextMessageSize": (NUMBERS, None),
    "http.enableTrace": (FLAG, "false"),
}
# Known options of ActiveMQ's connectors that are not supported: feature, and the way round.
LATER_OPTIONS: Final = {"jetty.config": ("a file of Jetty", "write the options at the uri, remove it")}
ALIASES: Final = {"socket.verifyHostName": "verifyHostName"}  # spellings in a client's address
TUNNEL: Final[dict[str, tuple[str, str | None]]] = {
    "http.enableTrace": (FLAG, "false"),
}
DETECTION: Final[dict[str, tuple[str, str | None]]] = {
    "auto.protocols": (TEXT, None),
    "protocolDetectionTimeOut": (NUMBERS, None),
    "protocols": (TEXT, None),
}
JAVA: Final = "it tunes the Java implementation"
NO_TRACE: Final = "frames are not traced; <loggingBrokerPlugin> logs what clients do"
SILENCE: Final = "wireFormat.maxInactivityDuration decides when a silent connection ends"
OF_THE_FORMAT: Final = "write it with wireFormat. before it"
OWN_IDENTITY: Final = "a broker says what it is itself"
# name → (values that ask for what holds anyway, reason why other values have no effect)
WITHOUT_EFFECT: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    **dict.fromkeys(
        "closeAsync connectionTimeout daemon ioBufferSize maxConnectionThreadPoolSize name selectThreads stackSize "
        "useQueueForAccept websocket.bufferSize websocket.idleTimeout websocket.inputBufferSize "
        "websocket.maxIdleTime".split(),
        ((), JAVA),
    ),
    **dict.fromkeys("dynamicManagement jmxPort".split(), (("false",), "there is no JMX here")),
    **dict.fromkeys("logWriterName startLogging trace".split(), (("false",), NO_TRACE)),
    **dict.fromkeys("maxInactivityDuration maxInactivityDurationInitalDelay".split(), ((), OF_THE_FORMAT)),
    **dict.fromkeys("initialDelayTime readCheckTime soTimeout writeCheckTime".split(), (("0",), SILENCE)),
    **dict.fromkeys("ignoreAllWireFormatInfo ignoreRemoteWireFormat".split(), (("false",), "both ends always agree")),
    **dict.fromkeys(
        "wireFormat.host wireFormat.includePlatformDetails wireFormat.platformDetails wireFormat.providerName "
        "wireFormat.providerVersion".split(),
        (("false",), OWN_IDENTITY),
    ),
    "keepAliveResponseRequired": (("false",), "any input proves that the client lives"),
    "soLinger": (("-1",), "a closing socket has two seconds to write the rest of its output"),
    "soWriteTimeout": (("0",), "a client that does not read holds up nobody, and ends when it is silent"),
    "useKeepAlive": (("true",), "an idle connection gets keep-alives"),
    "useLocalHost": (("false",), "a connector listens at the address of its uri"),
}
