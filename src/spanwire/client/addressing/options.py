"""Options of a broker URL, with ActiveMQ's names, and the settings behind each option.

An unknown option is an error that names the closest known option. A value that the client cannot honour is an error,
too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from spanwire.client.addressing.redelivery_policy import RedeliveryPolicy
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.model.traffic_class import traffic_class
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences

MAX_WORD: Final = 60  # characters of an unknown word in an error
MAX_NUMBER: Final = 2**31 - 1  # largest Java int; 24 days in milliseconds
MAX_PREFETCH: Final = 32_766  # messages; the largest prefetch that brokers grant
CONNECT_TIMEOUT_MS: Final = 15_000  # milliseconds from a connection attempt until the login is accepted
CLOSE_TIMEOUT_MS: Final = 15_000  # milliseconds, as in ActiveMQ
MAX_PREFIX: Final = 100  # characters before a generated id
NO_TIMEOUT: Final = -1

FLAG: Final = "true or false"
NUMBER: Final = "a whole number"
DECIMAL: Final = "a number"
TEXT: Final = "a text"

# name → (kind of value, the only supported value or ""). `REASONS` has why another value is refused.
Known = dict[str, tuple[str, str]]
JMS: Final[Known] = {
    "jms.alwaysSessionAsync": (FLAG, ""),
    "jms.alwaysSyncSend": (FLAG, ""),
    "jms.auditDepth": (NUMBER, ""),
    "jms.auditMaximumProducerNumber": (NUMBER, ""),
    "jms.blobTransferPolicy.brokerUploadUrl": (TEXT, ""),
    "jms.blobTransferPolicy.bufferSize": (NUMBER, ""),
    "jms.blobTransferPolicy.defaultUploadUrl": (TEXT, ""),
    "jms.blobTransferPolicy.uploadUrl": (TEXT, ""),
    "jms.checkForDuplicates": (FLAG, "false"),
    "jms.clientID": (TEXT, ""),
    "jms.clientIDPrefix": (TEXT, ""),
    "jms.closeTimeout": (NUMBER, ""),
    "jms.connectResponseTimeout": (NUMBER, ""),
    "jms.connectionIDPrefix": (TEXT, ""),
    "jms.consumerExpiryCheckEnabled": (FLAG, ""),
    "jms.consumerFailoverRedeliveryWaitPeriod": (NUMBER, "0"),
    "jms.copyMessageOnSend": (FLAG, ""),
    "jms.disableTimeStampsByDefault": (FLAG, ""),
    "jms.dispatchAsync": (FLAG, ""),
    "jms.exclusiveConsumer": (FLAG, ""),
    "jms.maxThreadPoolSize": (NUMBER, ""),
    "jms.messagePrioritySupported": (FLAG, ""),
    "jms.nestedMapAndListEnabled": (FLAG, ""),
    "jms.nonBlockingRedelivery": (FLAG, ""),
    "jms.objectMessageSerializationDefered": (FLAG, ""),
    "jms.optimizeAcknowledge": (FLAG, ""),
    "jms.optimizeAcknowledgeTimeOut": (NUMBER, ""),
    "jms.optimizedAckScheduledAckInterval": (NUMBER, ""),
    "jms.optimizedMessageDispatch": (FLAG, ""),
    "jms.password": (TEXT, ""),
    "jms.prefetchPolicy.all": (NUMBER, ""),
    "jms.prefetchPolicy.durableTopicPrefetch": (NUMBER, ""),
    "jms.prefetchPolicy.inputStreamPrefetch": (NUMBER, ""),
    "jms.prefetchPolicy.maximumPendingMessageLimit": (NUMBER, ""),
    "jms.prefetchPolicy.optimizeDurableTopicPrefetch": (NUMBER, ""),
    "jms.prefetchPolicy.queueBrowserPrefetch": (NUMBER, ""),
    "jms.prefetchPolicy.queuePrefetch": (NUMBER, ""),
    "jms.prefetchPolicy.topicPrefetch": (NUMBER, ""),
    "jms.producerWindowSize": (NUMBER, ""),
    "jms.redeliveryPolicy.backOffMultiplier": (DECIMAL, ""),
    "jms.redeliveryPolicy.collisionAvoidancePercent": (NUMBER, ""),
    "jms.redeliveryPolicy.initialRedeliveryDelay": (NUMBER, ""),
    "jms.redeliveryPolicy.maximumRedeliveries": (NUMBER, ""),
    "jms.redeliveryPolicy.maximumRedeliveryDelay": (NUMBER, ""),
    "jms.redeliveryPolicy.preDispatchCheck": (FLAG, ""),
    "jms.redeliveryPolicy.redeliveryDelay": (NUMBER, ""),
    "jms.redeliveryPolicy.useCollisionAvoidance": (FLAG, ""),
    "jms.redeliveryPolicy.useExponentialBackOff": (FLAG, ""),
    "jms.rmIdFromConnectionId": (FLAG, ""),
    "jms.sendAcksAsync": (FLAG, "true"),
    "jms.sendTimeout": (NUMBER, ""),
    "jms.statsEnabled": (FLAG, ""),
    "jms.strictCompliance": (FLAG, "false"),
    "jms.transactedIndividualAck": (FLAG, "false"),
    "jms.trustAllPackages": (FLAG, ""),
    "jms.trustedPackages": (TEXT, ""),
    "jms.useAsyncSend": (FLAG, ""),
    "jms.useCompression": (FLAG, ""),
    "jms.useDedicatedTaskRunner": (FLAG, ""),
    "jms.useRetroactiveConsumer": (FLAG, ""),
    "jms.userName": (TEXT, ""),
    "jms.warnAboutUnstartedConnectionTimeout": (NUMBER, ""),
    "jms.watchTopicAdvisories": (FLAG, ""),
    "jms.xaAckMode": (NUMBER, "-1"),
}
# Options of features that only a Java client has: thread pools, copies, deserialization, statistics.
WITHOUT_EFFECT: Final = (
    "jms.auditDepth",
    "jms.auditMaximumProducerNumber",
    "jms.blobTransferPolicy.brokerUploadUrl",
    "jms.blobTransferPolicy.bufferSize",
    "jms.blobTransferPolicy.defaultUploadUrl",
    "jms.blobTransferPolicy.uploadUrl",
    "jms.alwaysSessionAsync",
    "jms.copyMessageOnSend",
    "jms.maxThreadPoolSize",
    "jms.objectMessageSerializationDefered",
    "jms.optimizedMessageDispatch",
    "jms.prefetchPolicy.inputStreamPrefetch",
    "jms.rmIdFromConnectionId",
    "jms.statsEnabled",
    "jms.trustAllPackages",
    "jms.trustedPackages",
    "jms.useDedicatedTaskRunner",
    "jms.warnAboutUnstartedConnectionTimeout",
)
WIRE_FORMAT: Final[Known] = {
    "wireFormat.cacheEnabled": (FLAG, ""),
    "wireFormat.cacheSize": (NUMBER, ""),
    "wireFormat.host": (TEXT, ""),
    "wireFormat.includePlatformDetails": (FLAG, ""),
    "wireFormat.maxFrameSize": (NUMBER, ""),
    "wireFormat.maxFrameSizeEnabled": (FLAG, "true"),
    "wireFormat.maxInactivityDuration": (NUMBER, ""),
    "wireFormat.maxInactivityDurationInitalDelay": (NUMBER, ""),
    "wireFormat.platformDetails": (TEXT, ""),
    "wireFormat.prefixPacketSize": (FLAG, "true"),
    "wireFormat.providerName": (TEXT, ""),
    "wireFormat.providerVersion": (TEXT, ""),
    "wireFormat.sizePrefixDisabled": (FLAG, "false"),
    "wireFormat.stackTraceEnabled": (FLAG, ""),
    "wireFormat.tcpNoDelayEnabled": (FLAG, ""),
    "wireFormat.tightEncodingEnabled": (FLAG, ""),
    "wireFormat.version": (NUMBER, ""),
}
SOCKET: Final[Known] = {
    "closeAsync": (FLAG, ""),
    "connectAttemptTimeout": (NUMBER, ""),
    "connectionTimeout": (NUMBER, ""),
    "daemon": (FLAG, ""),
    "diffServ": (TEXT, ""),
    "dynamicManagement": (FLAG, ""),
    "ignoreAllWireFormatInfo": (FLAG, "false"),
    "ignoreRemoteWireFormat": (FLAG, "false"),
    "initialDelayTime": (NUMBER, ""),
    "ioBufferSize": (NUMBER, ""),
    "jmxPort": (NUMBER, ""),
    "keepAlive": (FLAG, ""),
    "keepAliveResponseRequired": (FLAG, ""),
    "logWriterName": (TEXT, ""),
    "minmumWireFormatVersion": (NUMBER, ""),
    "readCheckTime": (NUMBER, ""),
    "soLinger": (NUMBER, ""),
    "soTimeout": (NUMBER, ""),
    "soWriteTimeout": (NUMBER, "0"),
    "socketBufferSize": (NUMBER, ""),
    "stackSize": (NUMBER, ""),
    "startLogging": (FLAG, ""),
    "tcpNoDelay": (FLAG, ""),
    "trace": (FLAG, ""),
    "typeOfService": (NUMBER, ""),
    "useInactivityMonitor": (FLAG, ""),
    "useKeepAlive": (FLAG, "true"),
    "useLocalHost": (FLAG, ""),
    "writeCheckTime": (NUMBER, ""),
}
# Why another value is refused, and what to do.
REASONS: Final = {
    "ignoreAllWireFormatInfo": "both ends have to agree about the encoding; remove it",
    "ignoreRemoteWireFormat": "both ends have to agree about the encoding; remove it",
    "jms.checkForDuplicates": "the broker drops what is sent twice and flags what is delivered twice; remove it",
    "jms.consumerFailoverRedeliveryWaitPeriod": "a message that is delivered again may be taken at once; remove it",
    "jms.sendAcksAsync": "acknowledgements do not wait for an answer; commit a transaction to know that they arrived",
    "jms.strictCompliance": "the API is not that of Java; remove it",
    "jms.transactedIndividualAck": "a transaction acknowledges what it received in order; remove it",
    "jms.xaAckMode": "a distributed transaction acknowledges as it goes; remove it",
    "nestedExtraQueryOptions": "write nested.NAME=VALUE in the list, for each option",
    "soWriteTimeout": "write jms.sendTimeout, which limits the wait for an answer",
    "updateURIsURL": "no file of brokers is read; write the brokers into the list",
    "useReconnectDelay": "a broker that is away would be asked without a pause; write initialReconnectDelay",
    "useKeepAlive": "an idle connection sends keep-alives; write wireFormat.maxInactivityDuration=0 for none",
    "wireFormat.maxFrameSizeEnabled": "frames always have a limit; write wireFormat.maxFrameSize",
    "wireFormat.prefixPacketSize": "a stream needs the sizes of its frames; remove it",
    "wireFormat.sizePrefixDisabled": "a stream needs the sizes of its frames; remove it",
}
TLS: Final[Known] = {
    "enabledCipherSuites": (TEXT, ""),
    "enabledProtocols": (TEXT, ""),
    "verifyHostName": (FLAG, ""),
}
SOCKET_PREFIX: Final = "socket."
STORES: Final = ("trustStore", "keyStore")  # how options of Java's clients begin, such as trustStorePassword


@dataclass(frozen=True)
class PrefetchPolicy:
    """Messages that the broker may dispatch ahead of their acknowledgement, by kind of consumer.

    With 0 each message is pulled.
    """

    queue: int = 1_000
    topic: int = MAX_PREFETCH
    durable_topic: int = 100
    browser: int = 500
    optimized_durable_topic: int = 1_000  # with jms.optimizeAcknowledge
    maximum_pending: int = 0  # messages kept for a slow consumer of a topic; 0: the broker's limit


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a client that do not depend on the address."""

    user_name: str | None = None
    password: Secret | None = field(default=None, repr=False)
    client_id: str | None = None
    use_async_send: bool = False
    always_sync_send: bool = False
    dispatch_async: bool = True
    exclusive_consumer: bool = False
    retroactive_consumer: bool = False
    check_expiry: bool = True
    use_compression: bool = False
    nested_values: bool = True
    timestamps: bool = True
    optimize_acknowledge: bool = False
    optimize_acknowledge_timeout_ms: int = 300  # as in ActiveMQ
    scheduled_acknowledge_ms: int = 0  # 0: never
    watch_advisories: bool = False
    message_priority: bool = False
    non_blocking_redelivery: bool = False
    client_id_prefix: str | None = None
    connection_id_prefix: str | None = None
    connect_timeout_ms: int = 0  # 0: the timeout of the address
    producer_window_bytes: int = 0  # 0: none
    send_timeout_ms: int = 0  # 0: none
    close_timeout_ms: int = CLOSE_TIMEOUT_MS
    prefetch: PrefetchPolicy = field(default_factory=PrefetchPolicy)
    redelivery: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)


@dataclass(frozen=True)
class SocketSettings:
    """Settings of one address: socket, TLS and wire format."""

    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    tcp_no_delay: bool = True
    keep_alive: bool = False
    buffer_size: int = 0  # bytes; 0: the system's default
    traffic_class: int = 0  # an octet of the IP header; 0: the system's
    verify_host_name: bool | None = None
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    wire_format: WireFormatPreferences = field(default_factory=WireFormatPreferences)


class Options:
    """Options of one URL, checked against the known options.

    ``where`` is the URL without secrets, for errors.
    """

    def __init__(self, where: str, texts: dict[str, str], known: Known) -> None:
        self.where: Final[str] = where
        self._texts: Final[dict[str, str]] = texts
        for name, text in texts.items():
            rule = known.get(name)
            if rule is None:
                raise ConfigurationError(f"{where}: unknown option {name[:MAX_WORD]!r}{hint(name, known)}")
            _check(where, name, text, rule[0], rule[1])

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean option."""
        text = self._texts.get(name)
        return default if text is None else text.lower() == "true"

    def number(self, name: str, default: int, lowest: int = 0, highest: int = MAX_NUMBER) -> int:
        """Return an integer option. Raises `ConfigurationError` if the value is out of range."""
        text = self._texts.get(name)
        if text is None:
            return default
        value = int(text)
        if not lowest <= value <= highest:
            raise ConfigurationError(f"{self.where}: {name}={value} is not between {lowest} and {highest}")
        return value

    def decimal(self, name: str, default: float) -> float:
        """Return a decimal option between 1 and 1000. Raises `ConfigurationError` for any other value."""
        text = self._texts.get(name)
        if text is None:
            return default
        value = float(text)
        if not 1.0 <= value <= 1000.0:
            raise ConfigurationError(f"{self.where}: {name}={value:g} is not between 1 and 1000")
        return value

    def text(self, name: str) -> str | None:
        """Return a text option, or None."""
        return self._texts.get(name)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of a comma-separated option."""
        return tuple([word.strip() for word in (self._texts.get(name) or "").split(",") if word.strip()])


def hint(name: str, known: Known) -> str:
    """Return a suffix for an error, such as ``, did you mean jms.useAsyncSend?``."""
    for word in STORES:
        if name.rpartition(".")[2].startswith(word):
            return (
                f"; a store is not in the URL: write --{word} to a command, tls=ClientTlsSettings(…) in Python, "
                f"or {word} beside the URL of a bridge, route or Spark source"
            )
    return suggestion(name, known, ", ")


def _check(where: str, name: str, text: str, kind: str, only: str) -> None:
    is_wrong = False
    if kind == FLAG:
        is_wrong = text.lower() not in ("true", "false")
    elif kind == NUMBER:
        digits = text.removeprefix("-")
        is_wrong = not (digits.isascii() and digits.isdecimal() and len(digits) <= 18)
    elif kind == DECIMAL:
        parts = text.split(".")
        is_wrong = not text.isascii() or len(text) > 18 or len(parts) > 2 or not all(part.isdecimal() for part in parts)
    if is_wrong:
        raise ConfigurationError(f"{where}: {name} must be {kind}")
    if only and text.lower() != only:
        reason = f": {REASONS[name]}" if name in REASONS else ""
        raise ConfigurationError(
            f"{where}: {name} with another value than {only} is not supported by this client{reason}"
        )


def client_settings(
    options: Options, user_name: str | None, password: str | None, client_id: str | None
) -> ClientSettings:
    """Return the settings of the client, overridden by credentials."""
    secret = password if password is not None else options.text("jms.password")
    return ClientSettings(
        user_name=user_name if user_name is not None else options.text("jms.userName"),
        password=None if secret is None else Secret(secret),
        client_id=client_id if client_id is not None else options.text("jms.clientID"),
        use_async_send=options.flag("jms.useAsyncSend", False),
        always_sync_send=options.flag("jms.alwaysSyncSend", False),
        dispatch_async=options.flag("jms.dispatchAsync", True),
        exclusive_consumer=options.flag("jms.exclusiveConsumer", False),
        retroactive_consumer=options.flag("jms.useRetroactiveConsumer", False),
        check_expiry=options.flag("jms.consumerExpiryCheckEnabled", True),
        use_compression=options.flag("jms.useCompression", False),
        nested_values=options.flag("jms.nestedMapAndListEnabled", True),
        timestamps=not options.flag("jms.disableTimeStampsByDefault", False),
        optimize_acknowledge=options.flag("jms.optimizeAcknowledge", False),
        optimize_acknowledge_timeout_ms=options.number("jms.optimizeAcknowledgeTimeOut", 300),
        scheduled_acknowledge_ms=options.number("jms.optimizedAckScheduledAckInterval", 0),
        watch_advisories=options.flag("jms.watchTopicAdvisories", False),
        message_priority=options.flag("jms.messagePrioritySupported", False),
        non_blocking_redelivery=options.flag("jms.nonBlockingRedelivery", False),
        client_id_prefix=id_prefix(options, "jms.clientIDPrefix"),
        connection_id_prefix=id_prefix(options, "jms.connectionIDPrefix"),
        connect_timeout_ms=options.number("jms.connectResponseTimeout", 0),
        producer_window_bytes=options.number("jms.producerWindowSize", 0),
        send_timeout_ms=options.number("jms.sendTimeout", 0),
        close_timeout_ms=options.number("jms.closeTimeout", CLOSE_TIMEOUT_MS, 1),
        prefetch=prefetch_policy(options),
        redelivery=redelivery_policy(options),
    )


def id_prefix(options: Options, name: str) -> str | None:
    """Return the prefix of generated ids.

    Raises `ConfigurationError` for characters that no id may contain.
    """
    prefix = options.text(name)
    if prefix is not None and (len(prefix) > MAX_PREFIX or not prefix.isascii() or not prefix.isprintable()):
        raise ConfigurationError(f"{options.where}: {name} has up to {MAX_PREFIX} printable ASCII characters")
    return prefix


def prefetch_policy(options: Options) -> PrefetchPolicy:
    """Return the options ``jms.prefetchPolicy.…``, limited to `MAX_PREFETCH`.

    ``all`` overrides the others, as in ActiveMQ.
    """
    base = PrefetchPolicy()
    name = "jms.prefetchPolicy."
    every = options.number(name + "all", NO_TIMEOUT)
    if every >= 0:
        every = min(every, MAX_PREFETCH)
        return PrefetchPolicy(every, every, every, every, every, options.number(name + "maximumPendingMessageLimit", 0))
    return PrefetchPolicy(
        queue=min(options.number(name + "queuePrefetch", base.queue), MAX_PREFETCH),
        topic=min(options.number(name + "topicPrefetch", base.topic), MAX_PREFETCH),
        durable_topic=min(options.number(name + "durableTopicPrefetch", base.durable_topic), MAX_PREFETCH),
        browser=min(options.number(name + "queueBrowserPrefetch", base.browser), MAX_PREFETCH),
        optimized_durable_topic=min(
            options.number(name + "optimizeDurableTopicPrefetch", base.optimized_durable_topic), MAX_PREFETCH
        ),
        maximum_pending=options.number(name + "maximumPendingMessageLimit", base.maximum_pending),
    )


def redelivery_policy(options: Options) -> RedeliveryPolicy:
    """Return the options ``jms.redeliveryPolicy.…``"""
    base = RedeliveryPolicy()
    name = "jms.redeliveryPolicy."
    return RedeliveryPolicy(
        maximum_redeliveries=options.number(name + "maximumRedeliveries", base.maximum_redeliveries, -1),
        initial_redelivery_delay_ms=options.number(name + "initialRedeliveryDelay", base.initial_redelivery_delay_ms),
        redelivery_delay_ms=options.number(name + "redeliveryDelay", base.redelivery_delay_ms),
        maximum_redelivery_delay_ms=options.number(
            name + "maximumRedeliveryDelay", base.maximum_redelivery_delay_ms, -1
        ),
        use_exponential_back_off=options.flag(name + "useExponentialBackOff", base.use_exponential_back_off),
        back_off_multiplier=options.decimal(name + "backOffMultiplier", base.back_off_multiplier),
        use_collision_avoidance=options.flag(name + "useCollisionAvoidance", base.use_collision_avoidance),
        collision_avoidance_percent=options.number(
            name + "collisionAvoidancePercent", base.collision_avoidance_percent, 0, 100
        ),
        pre_dispatch_check=options.flag(name + "preDispatchCheck", base.pre_dispatch_check),
    )


def socket_settings(options: Options, host: str) -> SocketSettings:
    """Return the settings of one address."""
    base = WireFormatPreferences()
    frame_size = options.number("wireFormat.maxFrameSize", MAX_FRAME_SIZE, 1, 2**62)
    verify = options.text("verifyHostName")
    return SocketSettings(
        connect_timeout_ms=options.number("connectionTimeout", 0) or CONNECT_TIMEOUT_MS,
        tcp_no_delay=options.flag("tcpNoDelay", True),
        keep_alive=options.flag("keepAlive", False),
        buffer_size=options.number("socketBufferSize", 0),
        traffic_class=traffic_class(options.text("typeOfService"), options.text("diffServ")),
        verify_host_name=None if verify is None else verify.lower() == "true",
        protocols=options.words("enabledProtocols"),
        cipher_suites=options.words("enabledCipherSuites"),
        wire_format=replace(
            base,
            version=options.number("wireFormat.version", base.version, 1, base.version),
            tight=options.flag("wireFormat.tightEncodingEnabled", base.tight),
            cache=options.flag("wireFormat.cacheEnabled", base.cache),
            cache_size=options.number("wireFormat.cacheSize", base.cache_size),
            stack_traces=options.flag("wireFormat.stackTraceEnabled", base.stack_traces),
            tcp_no_delay=options.flag("wireFormat.tcpNoDelayEnabled", base.tcp_no_delay),
            max_inactivity_ms=options.number("wireFormat.maxInactivityDuration", base.max_inactivity_ms)
            if options.flag("useInactivityMonitor", True)
            else 0,
            max_inactivity_initial_delay_ms=options.number(
                "wireFormat.maxInactivityDurationInitalDelay", base.max_inactivity_initial_delay_ms
            ),
            max_frame_size=min(frame_size, MAX_FRAME_SIZE),
            host=options.text("wireFormat.host") or host or None,
        ),
    )
