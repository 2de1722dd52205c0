"""The errors that a client, a peer or an operator can cause, in JMS vocabulary.

Each protocol turns them into its own wire form in one place (``protocols/*/errors.py``). The text of an error is one
line for a person: what is wrong, where, and what to do.

    SpanwireError
    ├── ConfigurationError            a configuration cannot be honoured
    ├── ProtocolError
    │   ├── LocalProtocolError        our side would have broken the protocol
    │   └── RemoteProtocolError       the peer broke the protocol; its connection is closed
    ├── StoreError                    the message store cannot be opened, read or written
    └── JmsError                      the broker refuses one request; the connection lives on
        ├── AuthenticationError       wrong credentials; the connection is closed
        ├── AuthorizationError        the principal lacks a right
        ├── InvalidClientIdError
        ├── InvalidDestinationError
        ├── DestinationDoesNotExistError
        ├── InvalidSelectorError
        ├── MessageFormatError        a message's properties or body cannot be decoded
        ├── ResourceAllocationError   a limit is reached
        ├── TransactionError
        │   └── TransactionRolledBackError  nothing of the transaction was done
        └── IllegalStateError
"""


class SpanwireError(Exception):
    """Root of all errors that Spanwire raises on purpose."""


class ConfigurationError(SpanwireError):
    """A configuration that cannot be honoured; the text names file, line and word."""


class ProtocolError(SpanwireError):
    """A rule of a wire protocol was broken."""


class LocalProtocolError(ProtocolError):
    """Our side was about to break the protocol: a bug or a value that cannot be represented on the wire."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol. Only its own connection is closed."""


class StoreError(SpanwireError):
    """The message store cannot be opened, read or written."""


class JmsError(SpanwireError):
    """The broker refuses one request (javax.jms.JMSException); the connection lives on."""


class AuthenticationError(JmsError):
    """The credentials are wrong or missing."""


class AuthorizationError(JmsError):
    """The principal has no right to do this."""


class InvalidClientIdError(JmsError):
    """The client id is missing or in use (javax.jms.InvalidClientIDException)."""


class InvalidDestinationError(JmsError):
    """The destination does not exist or cannot be used so (javax.jms.InvalidDestinationException)."""


class DestinationDoesNotExistError(JmsError):
    """A temporary destination is gone (org.apache.activemq.DestinationDoesNotExistException)."""


class InvalidSelectorError(JmsError):
    """The message selector does not parse (javax.jms.InvalidSelectorException)."""


class MessageFormatError(JmsError):
    """The properties or the body of a message cannot be decoded (javax.jms.MessageFormatException)."""


class ResourceAllocationError(JmsError):
    """A limit is reached (javax.jms.ResourceAllocationException)."""


class TransactionError(JmsError):
    """The transaction does not exist or cannot take this step."""


class XaError(TransactionError):
    """A branch cannot take this step (javax.transaction.xa.XAException); the text ends with the code."""


class TransactionRolledBackError(TransactionError):
    """A commit failed and the whole transaction is rolled back (javax.jms.TransactionRolledBackException)."""


class IllegalStateError(JmsError):
    """The request does not fit the state of the connection, session, producer or consumer."""


def xa_error(text: str, code: int) -> XaError:
    """``code`` is one of XAException's: Java clients read it from the text."""
    return XaError(f"{text} xaErrorCode:{code}")
