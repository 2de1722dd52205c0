"""Maps as XML and JSON: what is written is read back, what ActiveMQ's clients write is understood, what is wrong is
refused without effort.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import MessageFormatError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_STOMP
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    TEXT,
    MessageView,
    PropertyValue,
)
from spanwire.protocols.primitive_map import encode_map
from spanwire.protocols.stomp.bodies.map_body import MAX_MAP_BYTES, read_map
from spanwire.protocols.stomp.bodies.transformation import JSON, MAX_TEXT_BYTES, XML, map_text, read_map_text
from spanwire.protocols.stomp.message_format import StompMessageFormat
from tests.support.stomp_dialogue import FORMAT_VIEW, JmsClient, Stage, ViewFormat

FORMAT = StompMessageFormat()
EVERYTHING: dict[str, PropertyValue] = {
    "none": (NULL_VALUE, None),
    "yes": (BOOLEAN_VALUE, True),
    "no": (BOOLEAN_VALUE, False),
    "byte": (BYTE_VALUE, -128),
    "char": (CHAR_VALUE, "ä"),
    "short": (SHORT_VALUE, 32767),
    "int": (INT_VALUE, -(2**31)),
    "long": (LONG_VALUE, 2**63 - 1),
    "float": (FLOAT_VALUE, 1.5),
    "double": (DOUBLE_VALUE, 0.1),
    "text": (STRING_VALUE, "<größe> & 'x' \"山\" \U0001f600\r\n"),
    "empty": (STRING_VALUE, ""),
    "bytes": (BYTES_VALUE, b"\0\xff"),
    "map": (MAP_VALUE, {"inner": (INT_VALUE, 1)}),
    "list": (LIST_VALUE, [(INT_VALUE, 1), (STRING_VALUE, "two")]),
}
# floats cross as the shortest text that gives back the same 32 bits
VALUES: st.SearchStrategy[PropertyValue] = st.one_of(
    st.just((NULL_VALUE, None)),
    st.booleans().map(lambda value: (BOOLEAN_VALUE, value)),
    st.integers(-(2**7), 2**7 - 1).map(lambda value: (BYTE_VALUE, value)),
    st.integers(-(2**15), 2**15 - 1).map(lambda value: (SHORT_VALUE, value)),
    st.integers(-(2**31), 2**31 - 1).map(lambda value: (INT_VALUE, value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: (LONG_VALUE, value)),
    st.floats(width=32, allow_nan=False).map(lambda value: (FLOAT_VALUE, value)),
    st.floats(allow_nan=False).map(lambda value: (DOUBLE_VALUE, value)),
    st.text(max_size=20).map(lambda value: (STRING_VALUE, value)),
    st.binary(max_size=20).map(lambda value: (BYTES_VALUE, value)),
)
NESTED: st.SearchStrategy[PropertyValue] = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.dictionaries(st.text(max_size=5), inner, max_size=4).map(lambda value: (MAP_VALUE, value)),
        st.lists(inner, max_size=4).map(lambda value: (LIST_VALUE, value)),
    ),
    max_leaves=10,
)
MAPS = st.dictionaries(st.text(max_size=10), NESTED, max_size=6)


def test_the_body_of_a_map_is_openwires() -> None:
    assert read_map(encode_map(EVERYTHING)) == EVERYTHING
    long: dict[str, PropertyValue] = {"long text": (STRING_VALUE, "x" * 100_000), "nul": (STRING_VALUE, "a\0b")}
    assert read_map(encode_map(long)) == long


@pytest.mark.large
@given(MAPS)
def test_any_map_body_is_openwires(entries: dict[str, PropertyValue]) -> None:
    assert read_map(encode_map(entries)) == entries


@given(st.binary(max_size=60))
def test_octets_that_are_no_map_are_refused_or_read(octets: bytes) -> None:
    try:
        read_map(octets)
    except MessageFormatError:
        pass


def test_a_map_is_written_as_activemq_writes_it() -> None:
    entries: dict[str, PropertyValue] = {"i": (INT_VALUE, 3), "s": (STRING_VALUE, "v")}
    assert map_text(entries, XML).decode() == (
        "<map>\n  <entry>\n    <string>i</string>\n    <int>3</int>\n  </entry>\n"
        "  <entry>\n    <string>s</string>\n    <string>v</string>\n  </entry>\n</map>"
    )
    assert map_text(entries, JSON).decode() == '{"map":{"entry":[{"string":"i","int":3},{"string":["s","v"]}]}}'
    assert map_text({}, XML) == b"<map/>"


def test_all_types_come_back_from_xml() -> None:
    assert read_map_text(map_text(EVERYTHING, XML), XML) == EVERYTHING


def test_all_types_come_back_from_json() -> None:
    assert read_map_text(map_text(EVERYTHING, JSON), JSON) == EVERYTHING


@given(st.dictionaries(st.text(max_size=10), VALUES, max_size=6))
def test_flat_maps_come_back_from_both(entries: dict[str, PropertyValue]) -> None:
    assert read_map_text(map_text(entries, XML), XML) == entries
    assert read_map_text(map_text(entries, JSON), JSON) == entries


@given(MAPS)
def test_nested_maps_come_back_from_xml(entries: dict[str, PropertyValue]) -> None:
    assert read_map_text(map_text(entries, XML), XML) == entries


@pytest.mark.parametrize(
    ("transformation", "text"),
    [
        (JSON, '{"map":{"entry":{"string":"one","int":1}}}'),
        (JSON, '{"map": {"entry": [{"int": 1, "string": "one"}]}}'),
        (JSON, '{"map":{"entry":[{"string":"one","int":"1"}]}}'),
        (XML, '<?xml version="1.0" encoding="UTF-8"?>\n<map><entry><string>one</string><int>1</int></entry></map>\n'),
        (XML, "<map>\n <entry>\n  <string>&#111;ne</string><int>1</int>\n </entry>\n</map>"),
    ],
)
def test_other_ways_to_write_a_map_are_understood(transformation: str, text: str) -> None:
    assert read_map_text(text.encode(), transformation) == {"one": (INT_VALUE, 1)}


@pytest.mark.parametrize(
    "text",
    [
        "", "not xml", "<map>", "<map></list>", "<list/>", "<map/>x", "<map a='1'/>", "<map><!-- --></map>",
        "<map><entry/></map>", "<map><entry><string>a</string></entry></map>", "<map>text<entry/></map>",
        "<map><entry><string>a</string><int>x</int></entry></map>",
        "<map><entry><string>a</string><int>2147483648</int></entry></map>",
        "<map><entry><string>a</string><nosuch>1</nosuch></entry></map>",
        "<map><entry><string>&nosuch;</string><int>1</int></entry></map>",
        "<map><entry><string>&amp</string><int>1</int></entry></map>",
        '<!DOCTYPE a [<!ENTITY b "c">]><map/>', "<?xml version='1.0'",
        "<map><entry><string>a</string><byte-array>?</byte-array></entry></map>",
    ],
)  # fmt: skip
def test_xml_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(MessageFormatError, match="the text is no map"):
        read_map_text(text.encode(), XML)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "1", "null", "{}", '{"map":1,"other":2}', '{"map":null}', '{"map":{"entry":[1]}}',
        '{"map":{"entry":{"string":"a"}}}', '{"map":{"entry":{"string":"a","int":1.5}}}',
        '{"map":{"entry":{"string":"a","int":[1,2]}}}', '{"map":{"entry":{"string":"a","nosuch":1}}}',
        '{"map":{"entry":[[1]]}}',
    ],
)  # fmt: skip
def test_json_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(MessageFormatError, match="the text is no map"):
        read_map_text(text.encode(), JSON)


@pytest.mark.parametrize(
    ("transformation", "text"),
    [
        (XML, "<map>" * 100_000),
        (XML, "<map><entry><string>a</string>" * 10_000),
        (JSON, '{"map":' * 100_000),
        (JSON, "[" * 100_000),
        (XML, "<" * 100_000),
    ],
)
def test_deep_texts_are_refused(transformation: str, text: str) -> None:
    with pytest.raises(MessageFormatError):
        read_map_text(text.encode(), transformation)


@pytest.mark.parametrize(("text", "expected"), [("", "\0"), ("a", "a"), ("ab", "a")])
def test_a_character_is_the_first_of_its_text(text: str, expected: str) -> None:
    entries = read_map_text(f"<map><entry><string>c</string><char>{text}</char></entry></map>".encode(), XML)
    assert read_map(encode_map(entries)) == {"c": (CHAR_VALUE, expected)}


def test_half_a_surrogate_pair_cannot_be_written_into_a_map() -> None:
    entries = read_map_text(b'{"map":{"entry":[{"string":["half","\\ud800"]}]}}', JSON)
    with pytest.raises(MessageFormatError, match="half of a surrogate pair"):
        encode_map(entries)


def test_a_text_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(MessageFormatError, match=f"{MAX_TEXT_BYTES} are allowed"):
        read_map_text(b"x" * (MAX_TEXT_BYTES + 1), XML)


@given(st.text(max_size=60))
def test_any_text_is_a_map_or_refused(text: str) -> None:
    for transformation in (XML, JSON):
        try:
            read_map_text(text.encode(), transformation)
        except MessageFormatError:
            pass


SENT = '{"map":{"entry":{"string":"size","int":3}}}'


def test_a_map_that_one_stomp_client_sends_another_gets_as_it_asks() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends(f"SEND\ndestination:/queue/Q\ntransformation:jms-map-json\n\n{SENT}\0")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/Q\ntransformation:jms-xml\n\n\0")
    (message,) = peer.receives()
    assert message.body.decode() == map_text({"size": (INT_VALUE, 3)}, XML).decode()
    assert message.headers["transformation"] == "jms-map-xml"


def test_without_asking_it_gets_the_text_as_it_was_sent() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends(f"SEND\ndestination:/queue/Q\ntransformation:jms-map-json\n\n{SENT}\0")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/Q\n\n\0")
    (message,) = peer.receives()
    assert (message.body.decode(), message.headers["transformation"]) == (SENT, "jms-map-json")


def test_a_map_from_jms_given_back_and_dispatched_again_says_so() -> None:
    views = ViewFormat()
    stage = Stage(formats=MessageFormats({FORMAT_STOMP: FORMAT, FORMAT_VIEW: views}))
    view = MessageView(MAP, Destination(QUEUE, "Q"), MessageId(ProducerId("ID:jms-1-2-0:1", 1, 1), 1))
    view.body = encode_map({"size": (INT_VALUE, 3)})
    first, second = stage.peer("1.1"), stage.peer("1.1")
    subscribe = "SUBSCRIBE\nid:1\ndestination:/queue/Q\nack:client\ntransformation:jms-map-json\n\n\0"
    first.sends(subscribe)
    JmsClient(stage).sends(views.message(view))
    (before,) = first.receives()
    first.leaves()
    second.sends(subscribe)
    (after,) = second.receives()
    assert before.body == after.body == SENT.encode()
    assert "redelivered" not in before.headers
    assert after.headers["redelivered"] == "true"


def test_a_map_that_is_too_large_to_be_turned_into_text_arrives_without_a_body_and_says_why() -> None:
    views = ViewFormat()
    stage = Stage(formats=MessageFormats({FORMAT_STOMP: FORMAT, FORMAT_VIEW: views}))
    view = MessageView(MAP, Destination(QUEUE, "Q"), MessageId(ProducerId("ID:jms-1-2-0:1", 1, 1), 1))
    view.body = encode_map({"large": (BYTES_VALUE, b"x" * MAX_MAP_BYTES)})
    view.properties["transformation"] = (STRING_VALUE, "jms-map-json")
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/Q\ntransformation:jms-map-json\n\n\0")
    JmsClient(stage).sends(views.message(view))
    (message,) = peer.receives()
    assert message.body == b""
    assert message.headers["transformation-error"].endswith(f"{MAX_MAP_BYTES} are allowed")


def test_a_dead_letter_of_a_map_keeps_its_entries() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/Q\nack:client-individual\n\n\0")
    peer.sends(f"SEND\ndestination:/queue/Q\npersistent:true\ntransformation:jms-map-json\n\n{SENT}\0")
    (message,) = peer.receives()
    peer.sends(f"NACK\nid:{message.headers['ack']}\n\n\0")
    peer.sends("SUBSCRIBE\nid:2\ndestination:/queue/ActiveMQ.DLQ\n\n\0")
    (letter,) = peer.receives()
    assert letter.body.decode() == SENT
    assert letter.headers["transformation"] == "jms-map-json"


def test_a_text_that_is_no_map_stays_a_text_with_a_property_that_says_why() -> None:
    stage = Stage()
    jms = JmsClient(stage)
    jms.listens(Destination(QUEUE, "Q"))
    stage.peer("1.2").sends("SEND\ndestination:/queue/Q\ntransformation:jms-map-xml\n\nnot xml\0")
    view = FORMAT.view(jms.messages[0])
    assert (view.kind, view.body) == (TEXT, b"not xml")
    assert str(view.properties["transformation-error"][1]).startswith("the text is no map: ")


def test_a_body_with_a_length_is_bytes_and_never_a_map() -> None:
    stage = Stage()
    jms = JmsClient(stage)
    jms.listens(Destination(QUEUE, "Q"))
    frame = f"SEND\ndestination:/queue/Q\ntransformation:jms-map-json\ncontent-length:{len(SENT)}\n\n{SENT}\0"
    stage.peer("1.2").sends(frame)
    view = FORMAT.view(jms.messages[0])
    assert view.body == SENT.encode()
    assert view.kind != MAP


@pytest.mark.parametrize("transformation", ["jms-object-xml", "jms-object-json"])
def test_java_objects_are_refused_where_they_are_asked_for(transformation: str) -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends(f"SEND\ndestination:/queue/Q\nreceipt:r\ntransformation:{transformation}\n\n<string>a</string>\0")
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:/queue/Q\nreceipt:s\ntransformation:{transformation}\n\n\0")
    first, second = peer.receives()
    assert (first.command, second.command) == ("ERROR", "ERROR")
    assert "Java objects" in first.headers["message"]
    assert not peer.closed


@pytest.mark.parametrize("name", ["jms-byte", "jms-advisory-json", "jms-advisory-xml"])
def test_a_subscription_may_ask_for_what_changes_no_text(name: str) -> None:
    peer = Stage().peer("1.1")
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:/queue/Q\ntransformation:{name}\n\n\0")
    peer.sends("SEND\ndestination:/queue/Q\n\nx\0")
    (message,) = peer.receives()
    assert (message.command, message.headers["transformation"], message.body) == ("MESSAGE", name, b"x")


@pytest.mark.parametrize(
    ("name", "text"),
    [("jms-byte", b"<map>"), ("jms-advisory-xml", b"<map>"), ("jms-advisory-json", b'{"map":{"entry":')],
)
def test_a_map_becomes_xml_unless_json_is_asked_for_as_in_activemq(name: str, text: bytes) -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:/queue/Q\ntransformation:{name}\n\n\0")
    peer.sends(f"SEND\ndestination:/queue/Q\ntransformation:jms-map-json\n\n{SENT}\0")
    (message,) = peer.receives()
    assert message.headers["transformation"] == name
    assert message.body.startswith(text)


@pytest.mark.parametrize("name", ["jms-bytes", "nosuch"])
def test_a_subscription_that_asks_for_what_nobody_does_is_refused_by_name(name: str) -> None:
    peer = Stage().peer("1.1")
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:/queue/Q\ntransformation:{name}\n\n\0")
    (error,) = peer.receives()
    assert error.command == "ERROR"
    assert f"the transformation {name} is refused: there are jms-map-xml, jms-map-json" in error.body.decode()


@pytest.mark.parametrize("name", ["jms-advisory-json", "jms-advisory-xml", "nosuch"])
def test_a_text_sent_with_an_unknown_transformation_says_so_to_everybody(name: str) -> None:
    stage = Stage()
    jms = JmsClient(stage)
    jms.listens(Destination(QUEUE, "J"))
    peer = stage.peer("1.1")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/S\n\n\0")
    for queue in "JS":
        peer.sends(f"SEND\ndestination:/queue/{queue}\ntransformation:{name}\n\n<x/>\0")
    (message,) = peer.receives()
    told = f"Unknown transformation: {name}"
    assert (message.body, message.headers["transformation-error"]) == (b"<x/>", told.replace(":", "\\c"))
    view = StompMessageFormat().view(jms.messages[0])
    assert (view.body, view.properties["transformation-error"]) == (b"<x/>", (STRING_VALUE, told))


@pytest.mark.parametrize("length", ["", "content-length:4\n"])
def test_a_body_sent_as_bytes_is_what_it_is_without_that_word(length: str) -> None:
    stage = Stage()
    jms = JmsClient(stage)
    jms.listens(Destination(QUEUE, "J"))
    peer = stage.peer("1.1")
    peer.sends(f"SEND\ndestination:/queue/J\n{length}transformation:jms-byte\n\n<x/>\0")
    view = StompMessageFormat().view(jms.messages[0])
    assert (view.kind, view.body) == (BYTES if length else TEXT, b"<x/>")
    assert "transformation-error" not in view.properties
