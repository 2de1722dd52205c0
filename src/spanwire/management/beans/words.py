"""Arguments of the broker's commands, made of a bean's subject and the words of a request."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Final

from spanwire.logs.levels import ROOT
from spanwire.management.beans.errors import ILLEGAL, STATE, BeanError
from spanwire.management.beans.executions import DATE, Answer, Arguments, Node
from spanwire.management.beans.messages import sent
from spanwire.management.browsing import MAX_SHOWN
from spanwire.model.destination import QUEUE, TOPIC, parse_destination
from spanwire.model.errors import SpanwireError

LOG4J: Final = {"warn": "warning", "fatal": "error", "trace": "debug"}  # levels that this broker names otherwise
MAX_DIGITS: Final = 9  # of a number of messages
MAX_LONG_DIGITS: Final = 18  # of a limit


def subject_of(subject: Node, words: list[str]) -> Node:
    """Return the subject, unchanged."""
    return dict(subject)


def keys_of(*names: str) -> Arguments:
    """Return a function for values of the subject; the function raises `BeanError` for a missing value."""

    def arguments(subject: Node, words: list[str]) -> Node:
        missing = next((name for name in names if subject.get(name) is None), None)
        if missing is not None:
            raise BeanError(500, STATE, f"this bean has no {missing} now, as a subscription without a subscriber")
        return {name: subject[name] for name in names}

    return arguments


def queue_of(subject: Node, words: list[str]) -> Node:
    """Return the destination of the bean."""
    return {"destinations": [subject["destination"]]}


def bridge_of(subject: Node, words: list[str]) -> Node:
    """Return the name of the bean's bridge."""
    bridges = subject["bridges"]
    assert isinstance(bridges, list), "a bean of a bridge names one"
    return {"name": bridges[0]}


def with_value(base: Arguments, name: str, read: Callable[[str], object]) -> Arguments:
    """Return a function to add the first word, read by ``read``, as the argument ``name``."""
    return lambda subject, words: {**base(subject, words), name: read(words[0])}


def one_message(subject: Node, words: list[str]) -> Node:
    """Return the destination, and the selector of one message."""
    quoted = words[0].replace("'", "''")
    return {**queue_of(subject, words), "selector": f"JMSMessageID = '{quoted}'", "limit": 1}


def some_messages(subject: Node, words: list[str]) -> Node:
    """Return the destination, a selector and, if given, a number of messages."""
    return {**queue_of(subject, words), "selector": words[0], **_most(words, 1)}


def first_messages(subject: Node, words: list[str]) -> Node:
    """Return the destination and a number of messages."""
    return {**queue_of(subject, words), **_most(words, 0)}


def one_message_to(subject: Node, words: list[str]) -> Node:
    """Return the arguments of `one_message`, and a target."""
    return {**one_message(subject, words), "target": words[1]}


def some_messages_to(subject: Node, words: list[str]) -> Node:
    """Return the destination, a selector, a target and, if given, a number of messages."""
    return {**queue_of(subject, words), "selector": words[0], "target": words[1], **_most(words, 2)}


def browsed(subject: Node, words: list[str]) -> Node:
    """Return the queue for a browse, with a selector if given."""
    return {"destination": subject["destination"], "limit": MAX_SHOWN, **({"selector": words[0]} if words else {})}


def browsed_one(subject: Node, words: list[str]) -> Node:
    """Return the queue to be browsed, and the selector of one message."""
    return {**browsed(subject, []), "selector": one_message(subject, words)["selector"], "limit": 1}


def browsed_queue(subject: Node, words: list[str]) -> Node:
    """Return the queue named by the first word."""
    return browsed({"destination": f"queue://{words[0]}"}, [])


def _most(words: list[str], index: int) -> Node:
    if len(words) <= index:
        return {}
    if not (words[index].isascii() and words[index].isdigit() and len(words[index]) <= MAX_DIGITS):
        raise BeanError(400, ILLEGAL, "the number of messages is no whole number")
    return {"limit": int(words[index])}


def text_message(subject: Node, words: list[str]) -> Node:
    """Return the text of a message; the first of two words is an object of headers."""
    headers = {} if len(words) == 1 else sent(_object(words[0]))
    return {"destination": subject["destination"], "body": words[-1], **headers}


def _object(word: str) -> Mapping[str, object]:
    try:
        value = json.loads(word)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BeanError(400, ILLEGAL, "the headers are an object of texts, numbers, true and false")
    return value


def destination(scheme: str) -> Arguments:
    """Return a function for the destination named by the first word."""
    return lambda subject, words: {"destinations": [f"{scheme}://{words[0]}"]}


def new_subscription(subject: Node, words: list[str]) -> Node:
    """Return client id, name, topic and selector of a durable subscription."""
    selector: Node = {"selector": words[3]} if words[3].strip() else {}
    return {"client_id": words[0], "name": words[1], "topic": words[2], **selector}


def logger_of(subject: Node, words: list[str]) -> Node:
    """Return the name of a logger."""
    return {"logger": _logger(words[0])}


def level_of(subject: Node, words: list[str]) -> Node:
    """Return the name of a logger, and a level under Python's name."""
    return {"logger": _logger(words[0]), "level": LOG4J.get(words[1].lower(), words[1].lower())}


def root_level(subject: Node, words: list[str]) -> Node:
    """Return a level for all loggers without own levels."""
    return level_of(subject, [ROOT, words[0]])


def _logger(name: str) -> str:
    return ROOT if name in ("", "ROOT") else name


def flag(word: str) -> bool:
    """Return the value of a word. Raises `BeanError`."""
    if word not in ("true", "false"):
        raise BeanError(400, ILLEGAL, "the value is true or false")
    return word == "true"


def whole(word: str) -> int:
    """Return the value of a word, possibly negative. Raises `BeanError`."""
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_LONG_DIGITS):
        raise BeanError(400, ILLEGAL, "the value is no whole number")
    return int(word)


def instant(text: str) -> int:
    """Return the milliseconds since 1970 of a time in the form of the scheduler's bean."""
    try:
        return int(time.mktime(time.strptime(text, DATE))) * 1000
    except (ValueError, OverflowError) as error:
        raise BeanError(400, ILLEGAL, "a time has the form 2026-01-31 23:59:59") from error


def at_instant(subject: Node, words: list[str]) -> Node:
    """Return the bounds of a second."""
    first = instant(words[0])
    return {"from_ms": first, "to_ms": first + 999}


def between(subject: Node, words: list[str]) -> Node:
    """Return two times."""
    return {"from_ms": instant(words[0]), "to_ms": instant(words[1])}


def jobs_between(attributes: Node, words: list[str]) -> object:
    """Return the scheduled messages with a next delivery between two times."""
    first, last = instant(words[0]), instant(words[1])
    jobs = attributes["AllJobs"]
    assert isinstance(jobs, dict)
    return {key: job for key, job in jobs.items() if first <= instant(str(job["next"])) <= last}


def attribute(name: str) -> Answer:
    """Return a function for one attribute of a bean."""
    return lambda attributes, words: attributes.get(name)


def connector_uri(attributes: Node, words: list[str]) -> object:
    """Return the address of the first connector of a type, such as ``stomp``; None without one."""
    connectors = attributes["TransportConnectors"]
    assert isinstance(connectors, dict)
    return next((uri for uri in connectors.values() if str(uri).startswith(f"{words[0]}:")), None)


def matches(scheme: str) -> Answer:
    """Return a function to tell if the consumer of a bean gets messages of the named queue or topic."""

    def answer(attributes: Node, words: list[str]) -> object:
        is_queue = scheme == "queue"
        if attributes.get("DestinationQueue") is not is_queue:
            return False
        kind = QUEUE if is_queue else TOPIC
        try:
            own = parse_destination(str(attributes["DestinationName"]), kind)
            return any(part.matches(parse_destination(words[0], kind)) for part in own.parts())
        except SpanwireError as error:
            raise BeanError(400, ILLEGAL, str(error)) from error

    return answer


def slow_consumer(subject: Node, words: list[str]) -> Node:
    """Return the id of a consumer for the name of its bean."""
    return {"consumer_id": _consumer_row(subject, words)["consumer_id"]}


def slow_connection(subject: Node, words: list[str]) -> Node:
    """Return the connection of a consumer for the name of its bean."""
    return {"client": _consumer_row(subject, words)["connection_id"]}


def _consumer_row(subject: Node, words: list[str]) -> Mapping[str, object]:
    name = words[0]
    if name.startswith("{"):  # a reference, as in SlowConsumers
        name = str(_object(name).get("objectName"))
    consumers = subject["consumers"]
    row = consumers.get(name) if isinstance(consumers, dict) else None
    if not isinstance(row, dict):
        raise BeanError(400, ILLEGAL, f"no consumer has the name {name[:200]}")
    return row
