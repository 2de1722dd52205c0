"""A table of replaceable parts: names to ``"module:attribute"`` strings, imported on first use.

Importing a module never registers anything. Only this table adds names.
"""

from __future__ import annotations

import importlib
from typing import Final

NETWORK_PROTOCOL: Final = "openwire"  # the protocol of bridges between brokers
PROTOCOLS: Final[dict[str, str]] = {
    "openwire": "spanwire.protocols.openwire.broker_connection:OpenWireBrokerConnection",
    "stomp": "spanwire.protocols.stomp.broker_connection:StompBrokerConnection",
    "xmpp": "spanwire.protocols.xmpp.broker_connection:XmppBrokerConnection",
}
DETECTED: Final = ("openwire", "stomp")  # protocols that a client's first bytes can choose

MESSAGE_FORMATS: Final[dict[str, str]] = {
    "openwire": "spanwire.protocols.openwire.messages.message_format:openwire_formats",
    "stomp": "spanwire.protocols.stomp.message_format:stomp_formats",
}

ADVISORY_FORMAT: Final = "spanwire.protocols.openwire.messages.advisory_format:OpenWireAdvisoryFormat"
STATISTICS_FORMAT: Final = "spanwire.protocols.openwire.messages.statistics_format:OpenWireStatisticsFormat"

AUTO: Final = "auto"  # a client's first bytes choose its protocol

TRANSPORT_SCHEMES: Final[dict[str, str]] = {
    "tcp": "openwire",
    "nio": "openwire",
    "stomp": "stomp",
    "stomp+nio": "stomp",
    "ssl": "openwire",
    "nio+ssl": "openwire",
    "stomp+ssl": "stomp",
    "stomp+nio+ssl": "stomp",
    "ws": "stomp",
    "wss": "stomp",
    "xmpp": "xmpp",
    "xmpp+ssl": "xmpp",
    "auto": AUTO,
    "auto+nio": AUTO,
    "auto+ssl": AUTO,
    "auto+nio+ssl": AUTO,
    "http": "openwire",
    "https": "openwire",
}
STARTTLS_SCHEMES: Final = ("xmpp",)  # clients begin TLS on the open connection, if the broker has a key store
TUNNEL_SCHEMES: Final = ("http", "https")  # OpenWire as XML in requests; `HTTP_TUNNEL` is loaded for them alone
OPEN_TUNNEL: Final = "spanwire.tunnel.client:open_tunnel"  # the client's end; needs the extra `http`, too
OPEN_TUNNEL_IN_THREAD: Final = "spanwire.tunnel.client:open_tunnel_in_thread"
HTTP_TUNNEL: Final = "spanwire.transports.http.tunnel:Tunnel"  # needs the extra `http`

# Connections to a broker of the same process: connect(url, options) -> client.protocol.in_process.InProcessTransport.
IN_PROCESS: Final[dict[str, str]] = {
    "vm": "spanwire.service.embedding.embedded:connect",
    "peer": "spanwire.service.embedding.embedded:connect",
}

# Discovery agents with an extra; each has a class and a function.
AGENTS: Final[dict[str, str]] = {
    "multicast": "spanwire.discovery.agents.multicast:MulticastAgent",
    "zeroconf": "spanwire.discovery.agents.zeroconf:ZeroconfAgent",
    "fabric": "spanwire.discovery.agents.fabric:FabricAgent",
    "http": "spanwire.discovery.agents.http_registry:HttpAgent",
}
LOOKUPS: Final[dict[str, str]] = {
    "zeroconf": "spanwire.discovery.agents.zeroconf:find_uris",
    "fabric": "spanwire.discovery.agents.fabric:find_uris",
    "http": "spanwire.discovery.agents.http_registry:find_uris",
}
REGISTRY_SERVER: Final = "spanwire.discovery.agents.registry_server:RegistryServer"  # needs the extra `http`

# Providers of bridges: spanwire.bridges.ports.Provider without arguments.
BRIDGE_PROVIDERS: Final[dict[str, str]] = {
    "openwire": "spanwire.bridges.providers.openwire.provider:OpenWireProvider",
    "ldap": "spanwire.bridges.providers.ldap.provider:LdapProvider",
    "stomp": "spanwire.bridges.providers.stomp.provider:StompProvider",
    "amqp": "spanwire.bridges.providers.amqp.provider:AmqpProvider",
    "amqp091": "spanwire.bridges.providers.amqp091.provider:Amqp091Provider",
    "jvm": "spanwire.bridges.providers.jvm.provider:JvmProvider",
    "mqtt": "spanwire.bridges.providers.mqtt.provider:MqttProvider",
    "kafka": "spanwire.bridges.providers.kafka.provider:KafkaProvider",
    "nats": "spanwire.bridges.providers.nats.provider:NatsProvider",
    "nats-core": "spanwire.bridges.providers.nats.provider:CoreNatsProvider",
    "redis": "spanwire.bridges.providers.redis.provider:RedisProvider",
    "sqs": "spanwire.bridges.providers.sqs.provider:SqsProvider",
}
BRIDGE_EXTRAS: Final[dict[str, str]] = {"nats-core": "nats"}  # extras with another name than the provider

# Loaded only by a broker with logins or rights in a directory; they need the extra `ldap`.
LDAP_LOGIN: Final = "spanwire.ldap.logins:check_login"
LDAP_RIGHTS: Final = "spanwire.ldap.rights:read_rights"
LOGIN_QUESTIONS: Final = "spanwire.service.directories.directory_access:login_questions"
REFRESHED_RIGHTS: Final = "spanwire.service.directories.directory_access:refreshed_rights"
CHECK_DIRECTORIES: Final = "spanwire.service.directories.directory_access:check_extra"

FANOUT: Final = "spanwire.client.aio.shared.fanout_transport:connect"  # connect(url, tls) -> InProcessTransport

# Loaded only by a client that looks for brokers (also by a broker that announces itself), or uses TLS.
PARSE_AGENT: Final = "spanwire.discovery.groups.agent_settings:parse_agent"
FIND_BROKERS: Final = "spanwire.client.io.broker_lookup:find_brokers"
CLIENT_TLS: Final = "spanwire.client.io.tls:tls_context"
TLS_REFUSAL: Final = "spanwire.client.io.tls:refusal"
TLS_CHANNEL: Final = "spanwire.client.blocking.shared.tls_channel:TlsChannel"
# Loaded only where a shell asks for the completion of a word; they need the extra `completion`.
COMPLETING: Final = "_ARGCOMPLETE"  # the variable that argcomplete's function of the shell sets then
COMPLETE: Final = "spanwire.cli.completion:complete"
COMPLETE_ACTION: Final = "spanwire.cli.completion:complete_action"
COMPLETED_WORDS: Final = "spanwire.cli.completion:words_before"
CLIENT_STORES: Final = "spanwire.cli.client_stores:client_stores"

PKCS12: Final = "spanwire.tls.pkcs12:read_store"  # needs the extra `security`

ENCRYPTION: Final = "spanwire.service.config.values.encryption:encryption"  # needs the extra `security`
ENCRYPTION_CLASS: Final = "spanwire.service.config.values.encryption:Encryption"

# Modules of Python for rare needs: a mistake on the command line, the names of files of a broker.
CLOSE_MATCHES: Final = "difflib:get_close_matches"
SHA256: Final = "hashlib:sha256"

SAME_DIGEST: Final = "hmac:compare_digest"  # with OpenSSL

REDACTED: Final = "spanwire.client.addressing.redaction:redacted"  # shows a URL of the command line in an error

# Loaded only by a broker that is started with a file, by one with a file in TOML, and by one with networkConnectors or
# jmsBridgeConnectors.
CONFIGURATION: Final = "spanwire.service.config.loading:load_configuration"
CONFIGURATION_READER: Final = "spanwire.service.config.reading:ConfigurationReader"
DEPLOYED_FILE_READER: Final = "spanwire.service.config.interpretation.deployed_file:DeployedFileReader"
DEPLOYMENT: Final = "spanwire.service.children.deployments:Deployment"
ROUTE_INTERPRETER: Final = "spanwire.service.config.interpretation.camel_routes:read_camel_contexts"
YAML_READER: Final = "spanwire.routes.readers.yaml_file:read_yaml"  # of route files; needs the extra `yaml`
TOML_READER: Final = "spanwire.service.config.toml:read_toml"
BRIDGE_INTERPRETER: Final = "spanwire.service.config.interpretation.jms_bridges:BridgeInterpreter"
NETWORK_INTERPRETER: Final = "spanwire.service.config.interpretation.network:NetworkInterpreter"
READ_CONNECTOR: Final = "spanwire.service.config.interpretation.runtime_connector:read_connector"
READ_LISTENER: Final = "spanwire.service.config.interpretation.runtime_connector:read_listener"

# Loaded only by a broker with network connectors, links of other brokers, announcements, TLS, WebSocket connectors,
# bridges or plug-ins.
NETWORK_CONNECTOR: Final = "spanwire.network.connector.network_connector:NetworkConnector"
NETWORK_QUESTION: Final = "spanwire.network.reports.questions:ask"
GOSSIP_QUESTION: Final = "spanwire.network.reports.questions:ask_gossip"
MESSAGE_QUESTION: Final = "spanwire.network.reports.questions:ask_why"
BROKERS_QUESTION: Final = "spanwire.network.reports.questions:ask_brokers"
ACCEPTED_VIEW: Final = "spanwire.network.connector.link:accepted_view"
ACCEPTED_DESCRIPTION: Final = "spanwire.network.connector.link:accepted_description"
DRAIN_LINKS: Final = "spanwire.service.administration.link_drains:drain_links"
DRAINS: Final = "spanwire.service.administration.drains:Drains"
ADDED_BRIDGES: Final = "spanwire.service.administration.added_bridges:AddedBridges"
ADDED_CONNECTORS: Final = "spanwire.service.administration.added_connectors:AddedConnectors"
ASKED_FOR: Final = "spanwire.service.administration.added_connectors:asked_for"
ANNOUNCEMENTS: Final = "spanwire.service.networking.announcements:Announcements"
AGENT_OBSTACLE: Final = "spanwire.service.networking.announcements:agent_obstacle"
SERVER_CONTEXT: Final = "spanwire.tls.context:server_context"
CLIENT_CONTEXT: Final = "spanwire.tls.context:client_context"
WEBSOCKET_CONNECTION: Final = "spanwire.transports.websocket.connection:WebSocketConnection"
TLS_CONNECTION: Final = "spanwire.transports.tls:TlsConnection"
STARTTLS_CONNECTION: Final = "spanwire.transports.starttls:StartTlsConnection"
FILTERED_BROKER: Final = "spanwire.broker.plugins.filtered_broker:FilteredBroker"
BRIDGE_CHILD: Final = "spanwire.service.children.bridge_process:BridgeChildProcess"
BRIDGE_BEANS: Final = "spanwire.service.config.interpretation.jms_bridges:bridges_beside"
JAR_OBSTACLES: Final = "spanwire.bridges.jars:jar_obstacles"
CONVERTOR_OBSTACLES: Final = "spanwire.bridges.running.convertors:convertor_obstacles"
PLUG_IN: Final = "spanwire.broker.plugins.plugins:plug_in"

# Loaded only by a broker whose definitions are asked for.
DEFINITIONS: Final = "spanwire.service.administration.definitions:definition_rows"
NETWORK_DEFINITION: Final = "spanwire.service.administration.connector_definitions:network_definition"

# Loaded only by `spanwire top`; it needs the extra `top`.
TOP: Final = "spanwire.cli.top.app:TopApp"

# Loaded by the first trace of messages.
TRACES: Final = "spanwire.management.questions.traces:Traces"
ROUTE_PROBE: Final = "spanwire.management.questions.route_probe:RouteProbe"

# Loaded by the first question why.
WHY: Final = "spanwire.management.questions.why:WhyQuestions"

# Loaded only by a process that traces; it needs the extra `tracing`.
TRACE_COLLECTOR: Final = "spanwire.tracing.collector:OtlpCollector"
BROKER_TRACES: Final = "spanwire.service.tracing:BrokerTraces"

# Loaded only by a program that has configured OpenTelemetry.
BATCH_SPANS: Final = "spanwire.pipeline.watch.batch_spans:BatchSpans"
TRACED_AIO: Final = "spanwire.client.aio.traced:TracedConnection"
TRACED_BLOCKING: Final = "spanwire.client.blocking.traced:TracedConnection"

# Loaded only by `spanwire web` and `spanwire metrics`; they need the extra `web`.
WEB_SERVER: Final = "spanwire.web.serving.server:serve"
STANDBY_SERVER: Final = "spanwire.web.serving.standby_server:serve_standby"
WEB_METRICS: Final = "spanwire.web.metrics:exposition"
MAP_POSITIONS: Final = "spanwire.web.console.network.placement:positions"
MAP_COMMUNITIES: Final = "spanwire.web.console.network.placement:communities"

STORES: Final[dict[str, str]] = {
    "memory": "spanwire.stores.memory:MemoryStore",
    "journal": "spanwire.stores.journal.journal:Journal",
}


def load(reference: str) -> object:
    """Return the object of a ``"module:attribute"`` string. Never call with text from a wire or a file."""
    module, _, attribute = reference.partition(":")
    target: object = getattr(importlib.import_module(module), attribute)
    return target
