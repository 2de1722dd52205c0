"""Values of requests to the control destination, and of their answers."""

from __future__ import annotations

from spanwire.broker.exactly_once.cursor import Cursor
from spanwire.broker.exactly_once.part_names import number_text
from spanwire.broker.exactly_once.sink import Sink
from spanwire.broker.exactly_once.sink_commit import Committed
from spanwire.broker.request_errors import MALFORMED, refusal
from spanwire.broker.reserved_destinations import is_control
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.message_view import BOOLEAN_VALUE, LONG_VALUE, STRING_VALUE, PropertyValue

Answer = dict[str, PropertyValue]


def held(cursor: Cursor, with_epoch: bool) -> Answer:
    """Return the numbers that a cursor holds, and if asked its epoch and selector."""
    answer: Answer = {"from": (LONG_VALUE, cursor.reserved.first), "to": (LONG_VALUE, cursor.reserved.end)}
    if with_epoch:
        answer["epoch"] = (LONG_VALUE, cursor.epoch)
        if cursor.selector:
            answer["selector"] = (STRING_VALUE, cursor.selector)
    return answer


def begun(sink: Sink) -> Answer:
    """Return epoch and batch of a sink."""
    return {"epoch": (LONG_VALUE, sink.epoch), "batch": (LONG_VALUE, sink.batch)}


def committed(done: Committed) -> Answer:
    """Return the outcome of a commit."""
    return {"messages": (LONG_VALUE, done.messages), "repeated": (BOOLEAN_VALUE, done.repeated)}


def reserved(cursor: Cursor) -> Answer:
    """Return the numbers that a cursor holds, and the number of messages behind."""
    answer = held(cursor, False)
    answer["waiting"] = (LONG_VALUE, cursor.waiting())
    return answer


def queue_of(text: str) -> Destination:
    """Return the one queue in ``text``.

    Raises:
        JmsError: ``text`` names another destination, or several.
    """
    queue = parse_destination(text)
    if "?" in text or queue.kind != QUEUE or queue.is_pattern or queue.is_composite or is_control(queue):
        raise refusal(MALFORMED, f"a cursor reads one queue that is not temporary; {text[:40]!r} is none")
    return queue


def text_of(properties: dict[str, PropertyValue], name: str) -> str:
    """Return a property as text, empty if absent or null."""
    entry = properties.get(name)
    if entry is None or entry[1] is None:
        return ""
    return ("true" if entry[1] else "false") if isinstance(entry[1], bool) else str(entry[1])


def number_of(properties: dict[str, PropertyValue], name: str) -> int:
    """Return a property as a number of at least 0, from a number or text.

    Raises:
        ControlRefusal: the property has another value.
    """
    text = text_of(properties, name)
    number = number_text(text)
    if number < 0:
        raise refusal(MALFORMED, f"{name} is {text[:40]!r}, not a number of at least 0")
    return number
