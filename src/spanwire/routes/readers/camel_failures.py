"""Reads Camel's ``errorHandler`` and ``onException`` as a route's endpoint for dead letters.

    <errorHandler id="dlc" type="DeadLetterChannel" deadLetterUri="activemq:queue:FAILED"/>
    <onException><exception>java.lang.Exception</exception>
      <handled><constant>true</constant></handled><to uri="activemq:queue:FAILED"/></onException>

A failing message would fail again, and a missing target is tried until the target is back. So there are no redeliveries
to configure; requests for redeliveries are refused by name.
"""

from __future__ import annotations

from typing import Final

from spanwire.documents.element import Element
from spanwire.routes.readers.nodes import Entry, Location, Word, text_of

ERROR_HANDLER: Final = "errorHandler"
ON_EXCEPTION: Final = "onException"
FAILURES: Final = (ERROR_HANDLER, ON_EXCEPTION)
CHANNEL: Final = "DeadLetterChannel"
NO_CHANNEL: Final = ("DefaultErrorHandler", "NoErrorHandler")  # the message becomes a dead letter at its source
HANDLER_WORDS: Final = ("id", "type", "deadLetterUri")
ALL_EXCEPTIONS: Final = ("java.lang.Exception", "java.lang.Throwable")
TRUE: Final = ("true", "")
NO_REDELIVERY: Final = (
    "a target that is away is tried until it is back, and a message that fails would fail again; remove it"
)


class CamelFailures:
    """The error handlers and the ``onException`` of a context."""

    def __init__(self, file: str, context: Element) -> None:
        self._file: Final = file
        self._handlers: Final = {child.value("id"): child for child in context.children if child.name == ERROR_HANDLER}
        self._common: Final = [child for child in context.children if child.name == ON_EXCEPTION]

    def dead_letter(self, route: Element, reference: Entry | None) -> Entry | None:
        """Return the endpoint for dead letters of a route, or None.

        Raises:
            ConfigurationError: a part is unknown, or asks for a feature missing in the engines.
        """
        own = [child for child in route.children if child.name == ON_EXCEPTION]
        for element in own or self._common:
            return self._exception(element)
        handlers = [child for child in route.children if child.name == ERROR_HANDLER]
        if not handlers and reference is not None:
            name = text_of(reference.value, "errorHandlerRef")
            if name not in self._handlers:
                raise reference.location.unknown(ERROR_HANDLER, name, [one or "" for one in self._handlers])
            handlers = [self._handlers[name]]
        return self._handler(handlers[0]) if handlers else None

    def _handler(self, element: Element) -> Entry | None:
        location = self._location(element)
        kind = element.value("type") or CHANNEL
        for word in element.attributes:
            if word not in HANDLER_WORDS:
                raise location.unknown("word of errorHandler", word, HANDLER_WORDS)
        for child in element.children:
            raise self._location(child).error(f"<{child.name}> of an errorHandler is not supported: {NO_REDELIVERY}")
        if kind in NO_CHANNEL:
            return None
        if kind != CHANNEL:
            raise location.unknown("type of an errorHandler", kind, (CHANNEL, *NO_CHANNEL))
        uri = element.value("deadLetterUri")
        if uri is None:
            raise location.error(f"a {CHANNEL} needs deadLetterUri")
        return Entry(location, Word(location, uri))

    def _exception(self, element: Element) -> Entry:
        location = self._location(element)
        uris: list[str] = []
        for child in element.children:
            if child.name == "exception":
                if child.text.strip() not in ALL_EXCEPTIONS:
                    raise self._location(child).error(
                        f"{child.text.strip()[:60]} is an exception of Java; write {ALL_EXCEPTIONS[0]} for all failures"
                    )
            elif child.name == "handled":
                if not child.children or child.children[0].text.strip() not in TRUE:
                    raise self._location(child).error("handled must be <constant>true</constant>")
            elif child.name == "to" and child.value("uri") is not None:
                uris.append(child.value("uri") or "")
            elif child.name != "description":
                reason = NO_REDELIVERY if "edeliver" in child.name else "write one <to> for the failed messages"
                raise self._location(child).error(f"<{child.name}> of onException is not supported: {reason}")
        if len(uris) != 1:
            raise location.error("onException needs one <to> for the failed messages")
        return Entry(location, Word(location, uris[0]))

    def _location(self, element: Element) -> Location:
        return Location(self._file, element.line)
