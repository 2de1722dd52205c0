"""One table of what can be plugged in: names to ``"module:attribute"`` strings, so that nothing is imported before its
use.

Importing a module never registers anything, and nothing adds names but this table.
"""

from __future__ import annotations

import importlib
from typing import Final

NETWORK_PROTOCOL: Final = "openwire"  # the one that bridges between brokers speak
PROTOCOLS: Final[dict[str, str]] = {
    "openwire": "spanwire.protocols.openwire.broker_connection:OpenWireBrokerConnection",
    "stomp": "spanwire.protocols.stomp.broker_connection:StompBrokerConnection",
}

MESSAGE_FORMATS: Final[dict[str, str]] = {
    "openwire": "spanwire.protocols.openwire.messages.message_format:openwire_formats",
    "stomp": "spanwire.protocols.stomp.message_format:stomp_formats",
}

ADVISORY_FORMAT: Final = "spanwire.protocols.openwire.messages.advisory_format:OpenWireAdvisoryFormat"
STATISTICS_FORMAT: Final = "spanwire.protocols.openwire.messages.statistics_format:OpenWireStatisticsFormat"

AUTO: Final = "auto"  # the first bytes of a client tell its protocol

TRANSPORT_SCHEMES: Final[dict[str, str]] = {
    "tcp": "openwire",
    "nio": "openwire",
    "stomp": "stomp",
    "stomp+nio": "stomp",
    "ssl": "openwire",
    "nio+ssl": "openwire",
    "stomp+ssl": "stomp",
    "stomp+nio+ssl": "stomp",
    "auto": AUTO,
    "auto+nio": AUTO,
    "auto+ssl": AUTO,
    "auto+nio+ssl": AUTO,
}

# Clients' ways to a broker in their own process: connect(url, options) -> spanwire.client.ports.InProcessTransport.
IN_PROCESS: Final[dict[str, str]] = {
    "vm": "spanwire.service.embedding.embedded:connect",
    "peer": "spanwire.service.embedding.embedded:connect",
}

# Ways to find brokers that need an extra; one class and one function each.
AGENTS: Final[dict[str, str]] = {
    "zeroconf": "spanwire.discovery.agents.zeroconf:ZeroconfAgent",
    "fabric": "spanwire.discovery.agents.fabric:FabricAgent",
}
LOOKUPS: Final[dict[str, str]] = {
    "zeroconf": "spanwire.discovery.agents.zeroconf:find_uris",
    "fabric": "spanwire.discovery.agents.fabric:find_uris",
}

FANOUT: Final = "spanwire.client.aio.fanout_transport:connect"  # connect(url, tls) -> InProcessTransport

PKCS12: Final = "spanwire.tls.pkcs12:read_store"  # needs the extra `security`

ENCRYPTION: Final = "spanwire.service.config.values.encryption:encryption"  # needs the extra `security`
ENCRYPTION_CLASS: Final = "spanwire.service.config.values.encryption:Encryption"

STORES: Final[dict[str, str]] = {
    "memory": "spanwire.stores.memory:MemoryStore",
    "journal": "spanwire.stores.journal.journal:Journal",
}


def load(reference: str) -> object:
    """What a ``"module:attribute"`` string of these tables stands for. Never called with text from a wire or a file."""
    module, _, attribute = reference.partition(":")
    target: object = getattr(importlib.import_module(module), attribute)
    return target
