"""Errors that a client, a peer or an operator can cause, in JMS vocabulary.

Each protocol converts them into its wire form in one function. The text of an error is a line for a person: what is
wrong, where, and what to do.

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
        │   ├── XaError                     an XA branch; the text ends with the XA error code
        │   └── TransactionRolledBackError  the broker rolled the whole transaction back
        └── IllegalStateError
"""


class SpanwireError(Exception):
    """Base of all errors raised deliberately by Spanwire."""


class ConfigurationError(SpanwireError):
    """The configuration cannot be honoured; the text names file, line and word."""


class ProtocolError(SpanwireError):
    """A rule of a wire protocol was broken."""


class LocalProtocolError(ProtocolError):
    """Our side was about to break the protocol: a bug, or a value without a form on the wire."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol; only the peer's connection is closed."""


class StoreError(SpanwireError):
    """The message store cannot be opened, read or written."""


class FencedError(StoreError):
    """Raised by a broker after another broker has taken over its store.

    The class stands here because compiled code with handlers of `StoreError` knows the subclasses compiled together.
    """


class JmsError(SpanwireError):
    """The broker refuses one request (javax.jms.JMSException); the connection lives on."""


class AuthenticationError(JmsError):
    """The credentials are wrong or missing."""


class AuthorizationError(JmsError):
    """The principal lacks the right for the request."""


class InvalidClientIdError(JmsError):
    """The client id is missing or in use (javax.jms.InvalidClientIDException)."""


class InvalidDestinationError(JmsError):
    """The destination does not exist or does not allow the request.

    JMS has javax.jms.InvalidDestinationException.
    """


class DestinationDoesNotExistError(JmsError):
    """The temporary destination no longer exists (org.apache.activemq.DestinationDoesNotExistException)."""


class InvalidSelectorError(JmsError):
    """The message selector does not parse (javax.jms.InvalidSelectorException)."""


class MessageFormatError(JmsError):
    """The properties or the body of a message cannot be decoded (javax.jms.MessageFormatException)."""


class ResourceAllocationError(JmsError):
    """A limit is reached (javax.jms.ResourceAllocationException)."""


class MessageTooLargeError(ResourceAllocationError):
    """A message is larger than the broker takes."""


class TransactionError(JmsError):
    """The transaction does not exist, or its state does not allow the request."""


class XaError(TransactionError):
    """The state of an XA branch does not allow the request (javax.transaction.xa.XAException).

    The text ends with the XA error code; see `xa_error`.
    """


class TransactionRolledBackError(TransactionError):
    """The commit failed, and the whole transaction is rolled back.

    JMS has javax.jms.TransactionRolledBackException.
    """


class IllegalStateError(JmsError):
    """The request does not fit the state of the connection, session, producer or consumer."""


def xa_error(text: str, code: int) -> XaError:
    """Return an `XaError` with XAException's ``code`` at the end of its text.

    Java clients read the code there.
    """
    return XaError(f"{text} xaErrorCode:{code}")
