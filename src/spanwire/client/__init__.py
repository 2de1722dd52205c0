"""OpenWire client: a core without I/O, a blocking shell and an asyncio shell.

Programs import from here `connect` and the classes of the blocking shell, messages, types and errors. The asyncio shell
is ``from spanwire.client import aio``. Names are loaded on first use, so that a worker process pays only for the
modules that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spanwire.registry import load

if TYPE_CHECKING:
    from spanwire.client.blocking import Browser as Browser
    from spanwire.client.blocking import Connection as Connection
    from spanwire.client.blocking import Consumer as Consumer
    from spanwire.client.blocking import Producer as Producer
    from spanwire.client.blocking import Session as Session
    from spanwire.client.blocking import connect as connect
    from spanwire.client.messages.content_types import AcknowledgeMode as AcknowledgeMode
    from spanwire.client.messages.content_types import Body as Body
    from spanwire.client.messages.content_types import BodyValue as BodyValue
    from spanwire.client.messages.content_types import Properties as Properties
    from spanwire.client.messages.content_types import Property as Property
    from spanwire.client.messages.message import Message as Message
    from spanwire.client.messages.typed_values import Byte as Byte
    from spanwire.client.messages.typed_values import Double as Double
    from spanwire.client.messages.typed_values import Float as Float
    from spanwire.client.messages.typed_values import Int as Int
    from spanwire.client.messages.typed_values import Long as Long
    from spanwire.client.messages.typed_values import Serialized as Serialized
    from spanwire.client.messages.typed_values import Short as Short
    from spanwire.model.destination import Destination as Destination
    from spanwire.model.errors import AuthenticationError as AuthenticationError
    from spanwire.model.errors import AuthorizationError as AuthorizationError
    from spanwire.model.errors import ConfigurationError as ConfigurationError
    from spanwire.model.errors import DestinationDoesNotExistError as DestinationDoesNotExistError
    from spanwire.model.errors import IllegalStateError as IllegalStateError
    from spanwire.model.errors import InvalidClientIdError as InvalidClientIdError
    from spanwire.model.errors import InvalidDestinationError as InvalidDestinationError
    from spanwire.model.errors import InvalidSelectorError as InvalidSelectorError
    from spanwire.model.errors import JmsError as JmsError
    from spanwire.model.errors import MessageFormatError as MessageFormatError
    from spanwire.model.errors import MessageTooLargeError as MessageTooLargeError
    from spanwire.model.errors import ResourceAllocationError as ResourceAllocationError
    from spanwire.model.errors import SpanwireError as SpanwireError
    from spanwire.model.errors import TransactionError as TransactionError
    from spanwire.model.errors import TransactionRolledBackError as TransactionRolledBackError
    from spanwire.model.errors import XaError as XaError
    from spanwire.model.ids import XaTransactionId as XaTransactionId
    from spanwire.model.secret import Secret as Secret
    from spanwire.tls.settings import ClientTlsSettings as ClientTlsSettings
    from spanwire.tls.settings import KeyStore as KeyStore
    from spanwire.tls.settings import TrustStore as TrustStore

EXPORTS: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("Browser", "Connection", "Consumer", "Producer", "Session", "connect"), "spanwire.client.blocking"
    ),
    **dict.fromkeys(
        ("AcknowledgeMode", "Body", "BodyValue", "Properties", "Property"), "spanwire.client.messages.content_types"
    ),
    "Message": "spanwire.client.messages.message",
    **dict.fromkeys(("Byte", "Double", "Float", "Int", "Long", "Serialized", "Short"),
    "spanwire.client.messages.typed_values"), "Destination": "spanwire.model.destination",
    **dict.fromkeys(
        (
            "AuthenticationError", "AuthorizationError", "ConfigurationError", "DestinationDoesNotExistError",
            "IllegalStateError", "InvalidClientIdError", "InvalidDestinationError", "InvalidSelectorError", "JmsError",
            "MessageFormatError", "MessageTooLargeError", "ResourceAllocationError", "SpanwireError",
            "TransactionError", "TransactionRolledBackError", "XaError",
        ),
        "spanwire.model.errors",
    ),
    "XaTransactionId": "spanwire.model.ids",
    "Secret": "spanwire.model.secret",
    **dict.fromkeys(("ClientTlsSettings", "KeyStore", "TrustStore"), "spanwire.tls.settings"),
}  # fmt: skip


if not TYPE_CHECKING:  # hidden from type checkers, which report unknown names themselves

    def __getattr__(name: str) -> object:
        """Load a public name on first use."""
        path = EXPORTS.get(name)
        if path is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = load(f"{path}:{name}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
