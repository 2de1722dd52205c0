"""Maps exceptions of a broker to errors of the client, and keeps exceptions without a request.

A Java class name is only compared and shown, and never chooses code to run (CVE-2023-46604).
"""

from __future__ import annotations

import logging
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
    TransactionRolledBackError,
    XaError,
)
from spanwire.model.text import printable
from spanwire.protocols.openwire.codec.schema import Throwable

SECURITY_NAMES: Final = ("SecurityException", "JMSSecurityException")
PLAIN_NAMES: Final = ("", "JMSException", "Exception")  # not shown before the message
MAX_TEXT: Final = 1024  # characters of a broker's text in an error of the client
MAX_CAUSES: Final = 8  # causes of an exception that are read; a peer's chain may be endless
MAX_LOGGED_ERRORS: Final = 10  # errors of one connection; a broker must not fill the log
MAX_REPORTED_ERRORS: Final = 100  # errors of one-way commands; older errors are dropped

logger = logging.getLogger(__name__)


class ReportedErrors:
    """Errors of a connection without a request, or errors that announce the end of the connection.

    ``last`` is the last error of the current link, a refused login included.
    """

    def __init__(self) -> None:
        self.errors: Final[list[JmsError]] = []
        self.last: JmsError | None = None
        self._logged = 0

    def add(self, error: JmsError, url: str) -> None:
        """Keep and log an error reported by the broker at ``url``."""
        self.last = error
        self.errors.append(error)
        del self.errors[:-MAX_REPORTED_ERRORS]
        self._logged += 1
        if self._logged <= MAX_LOGGED_ERRORS:
            logger.warning("the broker at %s reports: %s", url, error)


def refusal(thrown: Throwable | None, logging_in: bool = False) -> JmsError:
    """Return the error for a broker's exception.

    A security exception becomes `AuthenticationError` while ``logging_in``, else `AuthorizationError`.
    """
    if thrown is None:
        return JmsError("the broker refused the request without a reason")
    name = simple_name(thrown)
    text = one_line(thrown.message or "no reason")
    if name == "InvalidSelectorException" and thrown.cause is not None and thrown.cause.message:
        return InvalidSelectorError(f"the broker refuses the selector {text!r}: {one_line(thrown.cause.message)}")
    if name == "XAException" and is_rolled_back(thrown):
        return TransactionRolledBackError(f"the broker rolled the transaction back: {deepest_text(thrown)}")
    if name == "XAException":
        return XaError(text)
    return named_refusal(name, text, logging_in)


def branch_refusal(error: JmsError | None) -> JmsError | None:
    """Return the error for a step of a distributed transaction.

    Some brokers report IllegalStateException for an unknown branch; the result is `XaError` in this case, too.
    """
    return XaError(str(error)) if isinstance(error, IllegalStateError) else error


def named_refusal(name: str, text: str, logging_in: bool) -> JmsError:
    """Return the error for a class name without the Java package."""
    if name in SECURITY_NAMES:
        return AuthenticationError(text) if logging_in else AuthorizationError(text)
    if name == "InvalidClientIDException":
        return InvalidClientIdError(text)
    if name == "InvalidDestinationException":
        return InvalidDestinationError(text)
    if name == "DestinationDoesNotExistException":
        return DestinationDoesNotExistError(text)
    if name in ("InvalidSelectorException", "ActiveMQInvalidFilterExpressionException"):  # Artemis has its own
        return InvalidSelectorError(f"the broker refuses the selector {text!r}")
    if name == "MessageFormatException":
        return MessageFormatError(text)
    if name == "ResourceAllocationException":
        return ResourceAllocationError(text)
    if name == "TransactionRolledBackException":
        return TransactionRolledBackError(text)
    if name == "IllegalStateException":
        return IllegalStateError(text)
    return JmsError(text if name in PLAIN_NAMES else f"{name}: {text}")


def simple_name(thrown: Throwable) -> str:
    """Return the class name without the Java package."""
    return one_line((thrown.class_name or "").rpartition(".")[2])


def is_rolled_back(thrown: Throwable) -> bool:
    """Return True for an XAException about a rollback: code 100 to 109, or a text about a rollback."""
    return "xaErrorCode:10" in (thrown.message or "") or "rollback" in (thrown.message or "").lower()


def deepest_text(thrown: Throwable) -> str:
    """Return the message of the innermost cause."""
    innermost = thrown
    for _ in range(MAX_CAUSES):
        if innermost.cause is None:
            break
        innermost = innermost.cause
    return one_line(innermost.message or thrown.message or "no reason")


def one_line(text: str) -> str:
    """Return a broker's text on one line, without control characters, at most `MAX_TEXT` long."""
    return " ".join(printable(text[:MAX_TEXT], " ").split())
