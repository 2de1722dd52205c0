"""The XML that activemq-http wrote for each command reads as the frame of the command, and frames as that XML."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from spanwire.protocols.openwire.codec._marshallers import (
    ActiveMQQueue,
    ActiveMQTextMessage,
    ActiveMQTopic,
    ConnectionInfo,
    ExceptionResponse,
    ProducerInfo,
    RemoveInfo,
)
from spanwire.protocols.openwire.codec.codec import FrameEncoder, StructureDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.xstream._fields import FIELDS, NESTED
from spanwire.protocols.openwire.xstream.elements import MAX_ATTRIBUTE, MAX_DEPTH, MAX_ELEMENTS
from spanwire.protocols.openwire.xstream.plain import MAX_PLAIN, plain_elements
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.shapes import MAX_SHAPE, MAX_SHAPES, MAX_VALUES, CutText
from spanwire.protocols.openwire.xstream.writer import CARRIER, XmlWriter
from tests.support.openwire_structures import load_vectors
from tests.support.xml_trees import difference

CASES: list[dict[str, Any]] = load_vectors("xstream")["cases"]
TYPES = sorted({case["type"] for case in CASES})
COMPLETE_CASES = 256
# Fields that Java's classes do not send: transient ones, and those that only Java's classes have.
TRANSIENT = {"networkSubscription", "networkConsumerPath", "receivedByDFBridge"}
ONLY_IN_JAVA = {"size", "readOnlyProperties", "readOnlyBody", "firstAckNumber", "lastAckNumber"}
COMMAND = "org.apache.activemq.command."


def read(text: str) -> Any:
    frame = XmlReader().frame(text.encode())
    return StructureDecoder(WireFormat()).decode(frame, 4, len(frame))


def written(structure: DataStructure) -> str:
    return XmlWriter().text(FrameEncoder().encode(structure)).decode()


def fields(element: ElementTree.Element) -> Any:
    """An element as text, or as its inner elements: by name, and in order where a name repeats."""
    if len(element) == 0:
        return element.text or ""
    values = [(child.tag, child.get("class"), fields(child)) for child in element]
    return sorted((value for value in values if value[0] not in TRANSIENT | ONLY_IN_JAVA), key=lambda value: value[0])


def tree(text: str) -> Any:
    """The document without what may differ: white space, and names of exceptions that XStream refuses to create."""
    root = ElementTree.fromstring(text.replace("&#x0;", "NUL"))
    for element in root.iter():
        if element.get("class", "").startswith(("java.io", "javax.jms")):
            element.set("class", CARRIER)
    return root.tag, fields(root)


def test_the_vectors_are_complete() -> None:
    assert len(CASES) == COMPLETE_CASES
    assert len(TYPES) == 57


@pytest.mark.parametrize("kind", TYPES)
def test_java_s_xml_of_every_command_reads_as_java_reads_it(kind: str) -> None:
    for case in (case for case in CASES if case["type"] == kind):
        frame = XmlReader().frame(case["xml"].encode())
        assert frame.hex() == (case["back"] or case["frame"]), case["note"]


@pytest.mark.parametrize("kind", TYPES)
def test_every_command_is_written_with_java_s_fields_and_values(kind: str) -> None:
    for case in (case for case in CASES if case["type"] == kind):
        text = XmlWriter().text(bytes.fromhex(case["frame"])).decode()
        assert tree(text) == tree(case["xml"]), case["note"]


@pytest.mark.parametrize("kind", TYPES)
def test_every_command_is_unchanged_after_writing_and_reading(kind: str) -> None:
    for case in (case for case in CASES if case["type"] == kind):
        frame = bytes.fromhex(case["frame"])
        assert XmlReader().frame(XmlWriter().text(frame)) == frame, case["note"]


def test_a_reference_stands_for_the_element_that_its_path_leads_to() -> None:
    text = f"""<{COMMAND}ProducerInfo><brokerPath><{COMMAND}BrokerId><value>a</value></{COMMAND}BrokerId>
        <{COMMAND}BrokerId><value>b</value></{COMMAND}BrokerId>
        <{COMMAND}BrokerId reference="../{COMMAND}BrokerId[2]"/></brokerPath></{COMMAND}ProducerInfo>"""
    info = read(text)
    assert isinstance(info, ProducerInfo)
    assert [broker.value for broker in info.broker_path or []] == ["a", "b", "b"]


def test_the_text_of_a_text_message_is_read_where_it_has_no_content() -> None:
    message = read(f"<{COMMAND}ActiveMQTextMessage><text>caf\u00e9</text></{COMMAND}ActiveMQTextMessage>")
    assert isinstance(message, ActiveMQTextMessage)
    assert message.content == b"\x00\x00\x00\x05caf\xc3\xa9"


def test_base64_may_have_line_ends() -> None:
    content = "<content><data>AAAA\nAWE=\n</data><offset>4</offset><length>1</length></content>"
    message = read(f"<{COMMAND}ActiveMQBytesMessage>{content}</{COMMAND}ActiveMQBytesMessage>")
    assert message.content == b"a"


def test_absent_fields_have_java_s_default_values() -> None:
    info = read(f"<{COMMAND}ConnectionInfo/>")
    assert isinstance(info, ConnectionInfo)
    assert (info.command_id, info.response_required, info.user_name, info.connection_id) == (0, False, None, None)


def test_unknown_fields_are_skipped() -> None:
    info = read(f"<{COMMAND}ConnectionInfo><password>p</password><novelty><a/></novelty></{COMMAND}ConnectionInfo>")
    assert info.password == "p"


def test_control_characters_pass_in_both_directions() -> None:
    name = "a\x00\x01\x1f\t\r\n<&>\"'\u00e9\u20ac\U0001f600"
    structure = ConnectionInfo()
    structure.user_name = name
    text = written(structure)
    assert "&#x0;&#x1;&#x1f;" in text
    assert read(text).user_name == name
    assert read(text.replace("&#x1f;", "&#31;")).user_name == name


def test_an_exception_that_xstream_would_refuse_is_carried_by_another_one() -> None:
    refusal = Throwable(
        "javax.jms.InvalidClientIDException", "taken", [], Throwable("java.lang.SecurityException", None)
    )
    text = written(ExceptionResponse(exception=refusal, correlation_id=7))
    assert f'<exception class="{CARRIER}" ' in text
    assert '<cause class="java.lang.SecurityException">' in text
    response = read(text)
    assert isinstance(response, ExceptionResponse)
    assert response.exception is not None and response.exception.cause is not None
    assert response.exception.class_name == "javax.jms.InvalidClientIDException"
    assert response.exception.cause.class_name == "java.lang.SecurityException"


def test_an_exception_without_a_class_has_the_class_of_its_field() -> None:
    acknowledgement = read(
        f"<{COMMAND}MessageAck><poisonCause><detailMessage>d</detailMessage><cause><detailMessage>c</detailMessage>"
        f"</cause></poisonCause></{COMMAND}MessageAck>"
    )
    cause = acknowledgement.poison_cause
    assert (cause.class_name, cause.message) == ("java.lang.Throwable", "d")
    assert (cause.cause.class_name, cause.cause.message) == ("java.lang.Throwable", "c")


def test_a_class_name_cannot_leave_its_attribute() -> None:
    text = written(ExceptionResponse(exception=Throwable('java.lang.X"/><a b="', "m")))
    response = read(text)
    assert response.exception.class_name == 'java.lang.X"/><a b="'


def test_a_frame_that_ends_early_cannot_be_written() -> None:
    frame = FrameEncoder().encode(RemoveInfo(object_id=ActiveMQQueue(physical_name="A")))
    with pytest.raises(OpenWireProtocolError):
        XmlWriter().text(frame[:-1])
    with pytest.raises(OpenWireProtocolError, match="left over"):
        XmlWriter().text(frame + b"\x00")


def test_a_frame_of_an_unknown_type_cannot_be_written() -> None:
    with pytest.raises(OpenWireProtocolError, match="unknown data structure type 250"):
        XmlWriter().text(b"\x00\x00\x00\x01\xfa")


def test_commands_of_java_are_read_without_expat_to_the_same_trees() -> None:
    """But for those with references to characters, or with characters beyond ASCII."""
    plain = [case["xml"].encode() for case in CASES if "&" not in case["xml"] and case["xml"].isascii()]
    assert len(plain) > 200
    for text in plain:
        assert plain_elements(text) is not None
        assert not difference(text)


@pytest.mark.parametrize(
    "text",
    [
        '<a b="1">x</a>', "<a class='x'/>", '<a class="x" reference="y"/>', '<a class="<"/>', '<a class="x\ty"/>',
        '<a class="x>y"/>', "<a>&lt;</a>", "<a>]]></a>", "<a>\r</a>",
        "<a>\0</a>", "<a>\u00e9</a>", "<!--x--><a/>", "<?x y?><a/>", "<!DOCTYPE a><a/>",
        "<a><![CDATA[x]]></a>", " <a/>", "<a", "<", "", "<>", "</>", "<a></b>", "<a>", "</a>", "<a/>x", "<a/><b/>",
        "<a></a></a>", "<a ></a >", "<a:b/>", "<-/>", "x", "xa/>",
        "<a>" * (MAX_DEPTH + 1) + "</a>" * (MAX_DEPTH + 1),
    ],
)  # fmt: skip
def test_all_but_plain_elements_are_left_to_expat(text: str) -> None:
    assert plain_elements(text.encode()) is None


def test_long_texts_and_long_attributes_are_left_to_expat() -> None:
    for text in (f"<a>{'x' * MAX_PLAIN}</a>", f'<a class="{"x" * (MAX_ATTRIBUTE + 1)}"/>'):
        assert plain_elements(text.encode()) is None


def test_a_plain_text_is_too_short_for_too_many_elements() -> None:
    assert MAX_PLAIN // len("<a/>") < MAX_ELEMENTS


@pytest.mark.parametrize(
    "text",
    [
        "<a/>", "<a></a>\n", "<a>\n <b>1</b>\tx<c/>y</a>", '<a reference="../b[2]">]]</a>',
        "<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH, '<a_1.b-c class=""><string>"\'=/</string></a_1.b-c>',
    ],
)  # fmt: skip
def test_plain_elements_have_the_tree_that_expat_builds(text: str) -> None:
    assert plain_elements(text.encode()) is not None
    assert not difference(text.encode())


def shape_of(text: str) -> bytes:
    return CutText(text.encode()).shape


def keeps(reader: XmlReader, text: str) -> bool:
    return CutText(text.encode()) in reader.shapes


def twice(reader: XmlReader, text: str) -> None:
    for _ in range(2):
        reader.frame(text.encode())


def test_commands_with_the_same_elements_have_one_shape() -> None:
    assert shape_of("<a><b>1</b><c>x>y</c></a>") == shape_of("<a><b>22</b><c>z</c></a>")
    for other in ("<a><b>1</b><c></c></a>", "<a><b>1</b><c> x</c></a>", "<a><b>1</b><c>x</c>\n</a>", "<a><b>1</b></a>"):
        assert shape_of(other) != shape_of("<a><b>1</b><c>x</c></a>")


def test_values_cannot_be_taken_for_elements_of_a_shape() -> None:
    assert shape_of("<a>x</a><b>y</b>") != shape_of("<a>x</a>y<b></b>") != shape_of("<a></a>x<b>y</b>")


def test_a_shape_is_kept_when_it_comes_again() -> None:
    reader = XmlReader()
    text = f"<{COMMAND}KeepAliveInfo><commandId>1</commandId></{COMMAND}KeepAliveInfo>"
    reader.frame(text.encode())
    assert not keeps(reader, text)
    reader.frame(text.replace(">1<", ">2<").encode())
    assert keeps(reader, text)


def test_shapes_are_kept_for_nearly_all_commands_of_java() -> None:
    reader = XmlReader()
    plain = [case["xml"] for case in CASES if "&" not in case["xml"] and case["xml"].isascii()]
    kept = 0
    for text in plain:
        twice(reader, text)
        kept += keeps(reader, text)
        assert reader.frame(text.encode()) == XmlReader().frame(text.encode())
    assert kept > 0.9 * len(plain)


def test_a_reader_keeps_few_shapes_and_the_latest_ones() -> None:
    reader = XmlReader()
    texts = [
        f"<{COMMAND}KeepAliveInfo><commandId>1</commandId><x{number}/></{COMMAND}KeepAliveInfo>"
        for number in range(MAX_SHAPES + 2)
    ]
    for text in texts:
        twice(reader, text)
    assert len(reader.shapes) == MAX_SHAPES
    assert [keeps(reader, text) for text in texts] == 2 * [False] + MAX_SHAPES * [True]


def test_long_shapes_and_shapes_of_many_values_are_not_kept() -> None:
    reader = XmlReader()
    for more in ("<a/>" * (MAX_SHAPE // len("<a/>")), "<a>1</a>" * (MAX_VALUES + 1)):
        twice(reader, f"<{COMMAND}KeepAliveInfo>{more}</{COMMAND}KeepAliveInfo>")
    assert len(reader.shapes) == 0


@pytest.mark.parametrize(
    "repeated",
    [
        "<brokerName>a</brokerName><brokerURL>b</brokerURL>",  # values
        f"<brokerName>a</brokerName><brokerURL> {'b' * 500}</brokerURL>",  # a value and constant octets
    ],
)
def test_elements_that_refer_to_others_do_not_enlarge_what_a_reader_keeps(repeated: str) -> None:
    references = f'<{COMMAND}BrokerInfo reference="../../x1"/>' * 60
    infos = f"<x1>{repeated}</x1><peerBrokerInfos>{references}</peerBrokerInfos>"
    text = f"<{COMMAND}BrokerInfo>{infos}</{COMMAND}BrokerInfo>"
    reader = XmlReader()
    twice(reader, text)
    assert not keeps(reader, text)
    assert reader.frame(text.encode()) == XmlReader().frame(text.encode())


def test_the_shape_of_a_command_with_a_password_is_not_kept() -> None:
    text = f"<{COMMAND}ConnectionInfo><userName>u</userName><password> secret</password></{COMMAND}ConnectionInfo>"
    reader = XmlReader()
    twice(reader, text)
    assert len(reader.shapes) == 0


@pytest.mark.parametrize(
    "field",
    [
        "<exception><detailMessage>d</detailMessage></exception>",  # several texts
        "<correlationId>1</correlationId>between",
        "<correlationId>1<x/>between</correlationId>",
    ],
)
def test_shapes_whose_values_are_not_all_texts_of_fields_are_not_kept(field: str) -> None:
    reader = XmlReader()
    text = f"<{COMMAND}ExceptionResponse>{field}</{COMMAND}ExceptionResponse>"
    twice(reader, text)
    assert not keeps(reader, text)


def test_a_refused_command_of_a_known_shape_is_refused_as_the_first_would_be() -> None:
    reader = XmlReader()
    text = f"<{COMMAND}KeepAliveInfo><commandId>1</commandId></{COMMAND}KeepAliveInfo>"
    twice(reader, text)
    with pytest.raises(OpenWireProtocolError, match="<commandId> of a command is no number"):
        reader.frame(text.replace(">1<", ">x<").encode())
    with pytest.raises(OpenWireProtocolError, match="larger than 5 bytes"):
        reader.frame(text.encode(), 5)
    assert reader.frame(text.encode()) == XmlReader().frame(text.encode())


def test_equal_structures_are_written_alike_and_others_are_not_taken_for_them() -> None:
    writer = XmlWriter()
    names = ("A", "A", "B", "A.longer", "A", "x" * 300, "x" * 300)
    frames = [FrameEncoder().encode(RemoveInfo(object_id=ActiveMQQueue(physical_name=name))) for name in names]
    frames.insert(3, FrameEncoder().encode(RemoveInfo(object_id=ActiveMQTopic(physical_name="B"))))
    assert [writer.text(frame) for frame in frames] == [XmlWriter().text(frame) for frame in frames]


def test_a_frame_that_ends_in_a_remembered_structure_is_refused() -> None:
    writer = XmlWriter()
    frame = FrameEncoder().encode(RemoveInfo(object_id=ActiveMQQueue(physical_name="A")))
    writer.text(frame)
    with pytest.raises(OpenWireProtocolError):
        writer.text(frame[:12])


def test_a_field_has_the_same_declared_class_in_all_commands() -> None:
    """A writer remembers structures by the name of their field."""
    nested = [field for fields in FIELDS.values() for field in fields if field[1] == NESTED]
    assert len({name for name, _, _ in nested}) == len({(name, declared) for name, _, declared in nested})
