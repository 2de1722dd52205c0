"""What ActiveMQ Classic answers, replayed against this broker frame by frame (tests/vectors/stomp-mapping.json).

`DEVIATIONS` lists the rows in which this broker differs on purpose;
what it does instead is asserted at the end of `test_broker_connection.py`, or where the reason says.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.ports import Principal
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination
from spanwire.model.errors import AuthenticationError, AuthorizationError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    MAP,
    NULL_VALUE,
    OBJECT,
    PLAIN,
    SHORT_VALUE,
    STREAM,
    STRING_VALUE,
    TEXT,
    MessageView,
    PropertyValue,
)
from spanwire.protocols.primitive_map import encode_map
from spanwire.protocols.stomp.bodies.map_body import read_map
from spanwire.protocols.stomp.message_format import StompMessageFormat
from tests.support.stomp_dialogue import FORMAT_VIEW, WALL_MS, JmsClient, Peer, Stage, ViewFormat

TABLE: Final = json.loads((Path(__file__).parents[3] / "vectors/stomp-mapping.json").read_text(encoding="utf-8"))
FORMAT: Final = StompMessageFormat()
MAP_BODY: Final = encode_map({"i": (INT_VALUE, 3), "b": (BOOLEAN_VALUE, True), "s": (STRING_VALUE, "v")})
OBJECTS: Final = "Java objects are passed on between Java clients and never made or read"
CUT: Final = "the table shows the frame shortened; test_codec.py sends one of the same kind"
SAYS_WHY: Final = "this broker says why in an ERROR before it closes"

UNKNOWN: Final = "a subscription that asks for what nobody does is refused"
KINDS: Final = ("map", "object", "object-pojo", "stream", "text-with")

DEVIATIONS: Final = {
    **{f"stomp_to_jms/transformation-jms-object-{name}": OBJECTS for name in ("xml", "json")},
    **{
        f"jms_to_stomp/{kind} transformation:jms-object-{name}": OBJECTS
        for kind in ("map", "object", "object-pojo", "stream", "text-with")
        for name in ("xml", "json")
    },
    **{
        f"jms_to_stomp/{kind} transformation:jms-{name}": OBJECTS
        for kind in ("object", "object-pojo")
        for name in ("map-xml", "map-json", "xml", "json")
    },
    **{f"jms_to_stomp/{kind} transformation:nosuch": UNKNOWN for kind in KINDS},
    "stomp_to_jms/transformation-unknown": "a property says that the transformation is unknown",
    "stomp_to_jms/transformation-bad-body": "the property says what is wrong with the text, it is not empty",
    "stomp_to_jms/priority-bad": SAYS_WHY,
    "stomp_to_jms/expires-bad": SAYS_WHY,
    "stomp_to_jms/reply-to /queue/": SAYS_WHY,
    "stomp_to_jms/destination /queue/": "the table holds no answer for it",
    "stomp_to_jms/destination queue://D.URL": "an OpenWire form in a STOMP header is refused with what was meant",
    "stomp_to_jms/JMS-headers-as-properties": "a client cannot set JMSRedelivered",
    "errors/SEND before CONNECT": "a connection that does not open with CONNECT is closed",
    "errors/durable without client-id": "nobody could ever come back to that subscription",
    "errors/OpenWire bytes": "a connection that does not open with CONNECT is closed",
    "errors/content-length negative": SAYS_WHY,
    "errors/bad selector": "this broker says what is wrong with the selector, not only the selector",
    "errors/header over 10 KB": CUT,
    "errors/command over 1 KB": CUT,
    "errors/over 1000 headers": CUT,
    "jms_to_stomp/escape-1.0": "a newline in a value must not start another header, so it is escaped in 1.0 too",
}


def rows(*sections: str) -> list[Any]:
    """The rows of some sections that are replayed here, each under its name."""
    found = []
    for section in sections:
        for row in TABLE[section]:
            name = f"{section}/{row['id']}"
            if name not in DEVIATIONS:
                version = row.get("version", "")
                found.append(pytest.param(row, id=f"{name}/{version}"))
    return found


def pattern(expected: str) -> str:
    """A header value of the table as a regular expression: ids and times are anything of their form."""
    if expected.startswith("ActiveMQ/"):
        return r"Spanwire/\d+\.\d+\.\d+"
    escaped = re.escape(expected)
    escaped = re.sub(r"ID(:|\\\\c)<conn>", lambda match: "ID" + match[1] + r".+?", escaped)
    return escaped.replace("<millis>", r"\d{12,}").replace("<n>", r"\d+")


def check_headers(expected: dict[str, str], received: dict[str, str], optional: set[str]) -> None:
    assert set(received) - optional == set(expected) - optional
    for name, value in expected.items():
        if name == "ack":
            assert received[name]
        elif name != "content-length" or value != "<n>":
            assert re.fullmatch(pattern(value), received[name], re.DOTALL), f"{name}: {received[name]!r}, not {value!r}"


def check_frames(peer: Peer, expected: list[Any]) -> None:
    """Compares what a client received with the ``received`` of a step."""
    frames = peer.receives()
    wanted = [frame for frame in expected if isinstance(frame, dict)]
    order = {"RECEIPT": 0, "MESSAGE": 1}  # the table's order of these two depends on Classic's threads
    frames.sort(key=lambda frame: order.get(frame.command, 0))
    wanted.sort(key=lambda frame: order.get(frame["command"], 0))
    assert [frame.command for frame in frames] == [frame["command"] for frame in wanted], frames
    for frame, want in zip(frames, wanted, strict=True):
        optional = {"content-length"} if frame.command == "ERROR" else set()
        check_headers(want["headers"], frame.headers, optional)
        if frame.command == "ERROR":
            first_line = re.sub(r"^[\w.]+Exception: ", "", want["body"].split("\n")[0])
            assert re.fullmatch(pattern(first_line), frame.body.decode()), frame
        else:
            assert frame.body.decode() == want["body"]


class TablesAuthenticator:
    """Knows one user, as the broker of the table's security rows did."""

    def authenticate(self, info: Any) -> Any:
        if (info.user_name, info.password) != ("u", "p"):
            raise AuthenticationError(f"User name [{info.user_name or 'null'}] or password is invalid.")
        return Principal(info.user_name)


class TablesAuthorizer:
    """Lets that user use OK.> only."""

    def check(self, principal: Any, action: str, destination: Destination) -> None:
        if not destination.name.startswith("OK."):
            preposition = {"read": "read from", "write": "write to", "admin": "create"}[action]
            if action == "admin":
                return
            raise AuthorizationError(f"User {principal.name} is not authorized to {preposition}: {destination}")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


@pytest.mark.parametrize("row", rows("versions", "heart_beat", "errors", "receipts", "subscribe"))
def test_each_step_gets_the_answer_that_was_observed(row: dict[str, Any]) -> None:
    secured = "right" in row["id"] or row["id"] in ("wrong password", "no credentials")
    stage = Stage(TablesAuthenticator(), TablesAuthorizer()) if secured else Stage()
    peer = stage.peer(row.get("version") if "after" in row else None)
    for step in row["steps"]:
        peer.sends(step["sent"])
        if "<closed>" in step["received"] and not peer.closed:
            stage.passes(1.0)
        check_frames(peer, step["received"])
        assert peer.closed == ("<closed>" in step["received"])
    assert peer.closed == (row["connection"] == "closed by broker")


@pytest.mark.parametrize("row", [row for row in rows("ack") if "steps" in row.values[0]])
def test_messages_of_each_ack_mode_look_as_observed(row: dict[str, Any]) -> None:
    stage = Stage()
    peer = stage.peer(row["version"])
    for step in row["steps"]:
        peer.sends(step["sent"])
        check_frames(peer, step["received"])


@pytest.mark.parametrize("row", [row for row in rows("ack") if "steps" not in row.values[0]])
def test_one_ack_settles_what_its_mode_says(row: dict[str, Any]) -> None:
    mode = row["id"].rpartition("mode ")[2]
    stage = Stage()
    producer = stage.peer("1.2")
    consumer = stage.peer(row["version"])
    consumer.sends(f"SUBSCRIBE\nid:1\ndestination:{row['queue']}\nack:{mode}\n\n\0")
    for body in "abc":
        producer.sends(f"SEND\ndestination:{row['queue']}\n\n{body}\0")
    second = consumer.receives()[1]
    assert ("ack" in second.headers) == row["message_has_ack_header"]
    if isinstance(row["answer"], dict):
        if row["message_has_ack_header"]:
            consumer.sends(f"ACK\nid:{second.headers['ack']}\nreceipt:k\n\n\0")
        else:
            consumer.sends(f"ACK\nmessage-id:{second.headers['message-id']}\nsubscription:1\nreceipt:k\n\n\0")
        check_frames(consumer, [row["answer"]])
    consumer.leaves()
    again = stage.peer(row["version"])
    again.sends(f"SUBSCRIBE\nid:1\ndestination:{row['queue']}\nack:auto\n\n\0")
    left = [
        frame.body.decode()
        + (f" (redelivered:{frame.headers['redelivered']})" if "redelivered" in frame.headers else "")
        for frame in again.receives()
    ]
    assert left == row["left"]


def jms_property(value: PropertyValue) -> str:
    kind, inner = value
    return f"{ {STRING_VALUE: 'String', LONG_VALUE: 'Long', INT_VALUE: 'Integer'}[kind] } {inner}"


def jms_headers(message: Message, view: MessageView) -> dict[str, Any]:
    return {
        "JMSDestination": str(message.destination),
        "JMSDeliveryMode": "PERSISTENT" if view.persistent else "NON_PERSISTENT",
        "JMSPriority": view.priority,
        "JMSExpiration": str(view.expiration_ms),
        "JMSTimestamp": str(view.timestamp_ms),
        "JMSCorrelationID": view.correlation_id,
        "JMSType": view.type,
        "JMSReplyTo": None if view.reply_to is None else str(view.reply_to),
        "JMSMessageID": str(view.message_id),
        "JMSRedelivered": False,
        "JMSXGroupID": view.group_id,
        "JMSXGroupSeq": view.group_sequence,
        "JMSXUserID": view.user_id,
    }


@pytest.mark.parametrize("row", rows("stomp_to_jms"))
def test_a_send_is_to_jms_the_message_that_was_observed(row: dict[str, Any]) -> None:
    stage = Stage()
    jms = JmsClient(stage)
    jms.listens(Destination(QUEUE, ">"), Destination(TOPIC, ">"))
    peer = stage.peer(row["version"])
    peer.sends(row["frame"])
    check_frames(peer, [row["answer"]])
    assert peer.closed == (row["connection"] == "closed by broker")
    expected = row["jms"]
    if expected.get("message") == "none arrived":
        assert jms.messages == []
        return
    message = jms.messages[0]
    view = FORMAT.view(message)
    assert {TEXT: "TextMessage", BYTES: "BytesMessage", MAP: "MapMessage"}[view.kind] == expected["class"]
    if view.kind == MAP:
        assert {name: jms_property(value) for name, value in read_map(view.body or b"").items()} == expected["body"]
    else:
        assert view.body == (
            bytes.fromhex(expected["body_hex"]) if "body_hex" in expected else expected["body"].encode()
        )
    assert {name: jms_property(value) for name, value in view.properties.items()} == expected["properties"]
    found = jms_headers(message, view)
    for name, value in expected["headers"].items():
        if isinstance(value, str):
            assert re.fullmatch(pattern(value), str(found[name])), f"{name}: {found[name]}, not {value}"
        else:
            assert found[name] == value, name


def jms_view(row: dict[str, Any]) -> MessageView:
    """The message that a row of jms_to_stomp says was sent."""
    name = re.sub(r"(-1\.\d| transformation:[\w-]+|-transformation-on-message| )$", "", row["id"])
    kinds = {"bytes": BYTES, "bytes-empty": BYTES, "map": MAP, "object": OBJECT, "object-pojo": OBJECT,
             "stream": STREAM, "message": PLAIN}  # fmt: skip
    bodies = {"text": b"hello", "bytes": b"\1\0\2", "bytes-empty": b"", "text-null": None, "text-empty": b"",
              "text-utf8": "größe 山".encode(), "map": MAP_BODY, "stream": b"\1\1", "object": b"\xac\xed\0\5",
              "object-pojo": b"\xac\xed\0\5", "message": None}  # fmt: skip
    number = int(row["frame"]["headers"]["message-id"].replace("\\c", ":").rsplit(":", 2)[1])
    view = MessageView(
        kinds.get(name, TEXT),
        Destination(QUEUE, row["frame"]["headers"]["destination"].removeprefix("/queue/")),
        MessageId(ProducerId("ID:jms-1-2-0:1", 1, number), 1),
    )
    view.body = bodies.get(name, b"x")
    view.timestamp_ms = WALL_MS
    view.persistent = name != "np-text"
    if name == "prio-text":
        view.priority = 9
    elif name == "ttl-text":
        view.expiration_ms = WALL_MS + 60_000
    elif name == "headers":
        view.correlation_id, view.type, view.group_id = "c1", "t1", "g"
        view.reply_to = Destination(QUEUE, "R")
    elif name.startswith("reply-"):
        view.reply_to = {
            "reply-topic": Destination(TOPIC, "R"),
            "reply-temp-queue": Destination(TEMP_QUEUE, "ID:jms-1-2-0:1:1"),
            "reply-temp-topic": Destination(TEMP_TOPIC, "ID:jms-1-2-0:1:2"),
        }[name]
    elif name == "escape":
        view.properties["k"] = (STRING_VALUE, "a:b\\c\nd\re")
    elif row["id"] == "map-transformation-on-message":
        view.properties["transformation"] = (STRING_VALUE, "jms-map-xml")
    elif name == "property-types":
        view.properties = {
            "bo": (BOOLEAN_VALUE, True), "by": (BYTE_VALUE, 1), "sh": (SHORT_VALUE, 2), "in": (INT_VALUE, 3),
            "lo": (LONG_VALUE, 4), "fl": (FLOAT_VALUE, 1.5), "do": (DOUBLE_VALUE, 0.1), "st": (STRING_VALUE, "s"),
            "nu": (NULL_VALUE, None), "em": (STRING_VALUE, ""), "big": (DOUBLE_VALUE, 1e20),
        }  # fmt: skip
    elif name == "property-reserved":
        view.destination = Destination(QUEUE, "SQ.105")
        for reserved in ("destination", "priority", "receipt", "subscription"):
            view.properties[reserved] = (STRING_VALUE, "evil")
    return view


@pytest.mark.parametrize("row", rows("jms_to_stomp"))
def test_a_jms_message_is_to_stomp_the_frame_that_was_observed(row: dict[str, Any]) -> None:
    views = ViewFormat()
    stage = Stage(formats=MessageFormats({FORMAT_STOMP: FORMAT, FORMAT_VIEW: views}))
    view = jms_view(row)
    peer = stage.peer(row["version"])
    peer.sends(f"SUBSCRIBE\nid:s1\ndestination:/queue/{view.destination.name}\n{row['subscribe_headers']}\n\0")
    JmsClient(stage).sends(views.message(view))
    check_frames(peer, [row["frame"]])


def test_every_row_of_the_table_is_replayed_or_listed_with_its_reason() -> None:
    known = {f"{section}/{row['id']}" for section in TABLE if isinstance(TABLE[section], list) and section != "rules"
             for row in TABLE[section]}  # fmt: skip
    assert set(DEVIATIONS) <= known
    assert len(rows(*(section for section in TABLE if section not in ("about", "rules")))) >= 200
