"""One table of what can be plugged in: names to ``"module:attribute"`` strings, so that nothing is imported before its
use.

Importing a module never registers anything; an entry point of the group ``spanwire`` may add names.
"""

from __future__ import annotations

from typing import Final

PROTOCOLS: Final[dict[str, str]] = {
    "openwire": "spanwire.protocols.openwire.broker_connection:OpenWireBrokerConnection",
    "stomp": "spanwire.protocols.stomp.broker_connection:StompBrokerConnection",
}

MESSAGE_FORMATS: Final[dict[str, str]] = {
    "openwire": "spanwire.protocols.openwire.message_format:openwire_formats",
    "stomp": "spanwire.protocols.stomp.message_format:stomp_formats",
}

TRANSPORT_SCHEMES: Final[dict[str, str]] = {
    "tcp": "openwire",
    "nio": "openwire",
    "stomp": "stomp",
    "stomp+nio": "stomp",
}

STORES: Final[dict[str, str]] = {
    "memory": "spanwire.stores.memory:MemoryStore",
    "journal": "spanwire.stores.journal.journal:Journal",
}
