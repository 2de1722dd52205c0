"""Our errors become the exception classes with which ActiveMQ answers the same failures."""

from __future__ import annotations

import pytest

from spanwire.model import errors
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError
from spanwire.protocols.openwire.exceptions import MAX_TEXT_LENGTH, invalid_selector, rollback_only, throwable_of


@pytest.mark.parametrize(
    ("error", "class_name"),
    [
        (errors.AuthenticationError("x"), "java.lang.SecurityException"),
        (errors.AuthorizationError("x"), "java.lang.SecurityException"),
        (errors.InvalidClientIdError("x"), "javax.jms.InvalidClientIDException"),
        (errors.InvalidDestinationError("x"), "javax.jms.InvalidDestinationException"),
        (errors.DestinationDoesNotExistError("x"), "org.apache.activemq.DestinationDoesNotExistException"),
        (errors.InvalidSelectorError("x"), "javax.jms.InvalidSelectorException"),
        (errors.MessageFormatError("x"), "javax.jms.MessageFormatException"),
        (errors.ResourceAllocationError("x"), "javax.jms.ResourceAllocationException"),
        (errors.IllegalStateError("x"), "java.lang.IllegalStateException"),
        (errors.TransactionError("x"), "javax.jms.JMSException"),
        (errors.JmsError("x"), "javax.jms.JMSException"),
        (errors.StoreError("x"), "java.io.IOException"),
        (OpenWireProtocolError("x"), "java.io.IOException"),
        (OpenWireEncodeError("x"), "java.io.IOException"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_error_has_a_class_that_java_clients_know(error: errors.SpanwireError, class_name: str) -> None:
    throwable = throwable_of(error)
    assert (throwable.class_name, throwable.message) == (class_name, "x")
    assert (throwable.stack, throwable.cause) == ([], None)


def test_every_error_of_the_model_has_a_class() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SpanwireError)
    ]
    assert len(kinds) > 15
    for kind in kinds:
        assert (throwable_of(kind("x")).class_name or "").startswith(("java", "org.apache.activemq"))


def test_long_texts_are_cut() -> None:
    assert len(throwable_of(errors.JmsError("x" * 10_000)).message or "") == MAX_TEXT_LENGTH


def test_a_bad_selector_is_quoted_and_explained_in_the_cause() -> None:
    throwable = invalid_selector("a = = 1", errors.InvalidSelectorError("a value is missing"))
    assert throwable.message == "a = = 1"
    assert throwable.cause is not None
    assert throwable.cause.message == "a value is missing"


def test_a_spoilt_transaction_answers_with_the_code_that_java_reads_from_the_text() -> None:
    throwable = rollback_only(errors.AuthorizationError("User u is not authorized to write to: queue://Q"))
    assert throwable.class_name == "javax.transaction.xa.XAException"
    assert (throwable.message or "").endswith("xaErrorCode:100")
    assert throwable.cause is not None
    assert throwable.cause.class_name == "javax.jms.TransactionRolledBackException"
    assert throwable.cause.cause is not None
    assert throwable.cause.cause.class_name == "java.lang.SecurityException"
