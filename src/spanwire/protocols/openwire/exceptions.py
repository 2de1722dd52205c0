"""Converts errors to exceptions for a Java client.

An exception of a peer is never re-created.

A client looks the class name up, calls its constructor with the text, and falls back to a plain Throwable for an
unknown class. The classes are those of Apache ActiveMQ for the same failures. An exception of a peer stays text
(CVE-2023-46604): no class name from the wire is ever looked up here.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import (
    AuthenticationError,
    AuthorizationError,
    DestinationDoesNotExistError,
    IllegalStateError,
    InvalidClientIdError,
    InvalidDestinationError,
    InvalidSelectorError,
    JmsError,
    MessageFormatError,
    ResourceAllocationError,
    SpanwireError,
    XaError,
)
from spanwire.protocols.openwire.codec.schema import Throwable

JMS_EXCEPTION: Final = "javax.jms.JMSException"
SECURITY_EXCEPTION: Final = "java.lang.SecurityException"  # Java clients convert it to a JMSSecurityException
IO_EXCEPTION: Final = "java.io.IOException"
ILLEGAL_STATE_EXCEPTION: Final = "java.lang.IllegalStateException"
INVALID_SELECTOR_EXCEPTION: Final = "javax.jms.InvalidSelectorException"
PARSE_EXCEPTION: Final = "org.apache.activemq.selector.ParseException"
XA_EXCEPTION: Final = "javax.transaction.xa.XAException"
ROLLED_BACK_EXCEPTION: Final = "javax.jms.TransactionRolledBackException"

# Java reads the code from the text: XAException.XA_RBROLLBACK.
ROLLBACK_ONLY_TEXT: Final = "COMMIT FAILED: Transaction marked rollback only xaErrorCode:100"
MAX_TEXT_LENGTH: Final = 1024  # characters; ActiveMQ's own maximum in versions 1 and 10


def throwable_of(error: SpanwireError) -> Throwable:
    """Return the exception for ``error``, without a stack trace, which would expose internals."""
    return Throwable(_class_name(error), str(error)[:MAX_TEXT_LENGTH])


def throwable_text(throwable: Throwable) -> str:
    """Return a peer's exception as Java prints it; always with a colon, unlike the broker's own texts."""
    return f"{throwable.class_name or 'java.lang.Throwable'}: {throwable.message or 'no message'}"[:MAX_TEXT_LENGTH]


def invalid_selector(selector: str, error: InvalidSelectorError) -> Throwable:
    """Return ActiveMQ's exception for an invalid selector.

    The text is the selector, and the cause has the problem.
    """
    cause = Throwable(PARSE_EXCEPTION, str(error)[:MAX_TEXT_LENGTH])
    return Throwable(INVALID_SELECTOR_EXCEPTION, selector[:MAX_TEXT_LENGTH], None, cause)


def rollback_only(refusal: SpanwireError) -> Throwable:
    """Return the exception for the commit of a transaction that had a refused message or acknowledgement."""
    rolled_back = Throwable(ROLLED_BACK_EXCEPTION, ROLLBACK_ONLY_TEXT, None, throwable_of(refusal))
    return Throwable(XA_EXCEPTION, ROLLBACK_ONLY_TEXT, None, rolled_back)


def _class_name(error: SpanwireError) -> str:
    if not isinstance(error, JmsError):
        return IO_EXCEPTION
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return SECURITY_EXCEPTION
    if isinstance(error, InvalidClientIdError):
        return "javax.jms.InvalidClientIDException"
    if isinstance(error, InvalidDestinationError):
        return "javax.jms.InvalidDestinationException"
    if isinstance(error, DestinationDoesNotExistError):
        return "org.apache.activemq.DestinationDoesNotExistException"
    if isinstance(error, InvalidSelectorError):
        return INVALID_SELECTOR_EXCEPTION
    if isinstance(error, MessageFormatError):
        return "javax.jms.MessageFormatException"
    if isinstance(error, ResourceAllocationError):
        return "javax.jms.ResourceAllocationException"
    if isinstance(error, IllegalStateError):
        return ILLEGAL_STATE_EXCEPTION
    return XA_EXCEPTION if isinstance(error, XaError) else JMS_EXCEPTION
