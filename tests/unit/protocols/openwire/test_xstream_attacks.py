"""Attacks on readers of XStream's XML: gadgets, entities, references, depth and size. Each is refused in one line."""

from __future__ import annotations

import base64
import gc
import sys
import tracemalloc

import pytest

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import MAX_NESTED_DEPTH
from spanwire.protocols.openwire.xstream.elements import (
    MAX_ATTRIBUTE,
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_REPEATED,
    MAX_STEPS,
    Element,
    TreeBuilder,
)
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.values import MAX_CAUSES

COMMAND = "org.apache.activemq.command."
BROKER = f"{COMMAND}BrokerId"
MIB = 1024 * 1024
KIB_64 = 64 * 1024
# Outermost classes of the published chains (XStream's advisories, CVE-2013-7285 to CVE-2021-39154).
GADGETS = (
    "<sorted-set><string>foo</string><dynamic-proxy><interface>java.lang.Comparable</interface>"
    '<handler class="java.beans.EventHandler"><target class="java.lang.ProcessBuilder"><command><string>id</string>'
    "</command></target><action>start</action></handler></dynamic-proxy></sorted-set>",
    "<java.util.PriorityQueue serialization='custom'><unserializable-parents/></java.util.PriorityQueue>",
    "<linked-hash-set><jdk.nashorn.internal.objects.NativeString/></linked-hash-set>",
    "<java.lang.ProcessBuilder><command><string>id</string></command></java.lang.ProcessBuilder>",
    "<org.springframework.context.support.ClassPathXmlApplicationContext/>",
    "<map><entry><jdk.nashorn.internal.objects.NativeString/></entry></map>",
    "<void/>",
)


def refusal(text: str | bytes, max_frame_size: int = MIB) -> str:
    with pytest.raises(OpenWireProtocolError) as caught:
        XmlReader().frame(text if isinstance(text, bytes) else text.encode(), max_frame_size)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("gadget", GADGETS)
def test_xstream_gadgets_are_no_structures_of_openwire(gadget: str) -> None:
    modules = set(sys.modules)
    assert "no structure of OpenWire" in refusal(gadget)
    inner = f"<{COMMAND}RemoveInfo><objectId class='{gadget[1:].split('>')[0].split(' ')[0].rstrip('/')}'/>"
    assert "no structure of OpenWire" in refusal(f"{inner}</{COMMAND}RemoveInfo>")
    in_array = f"<{COMMAND}DataArrayResponse><data>{gadget}</data></{COMMAND}DataArrayResponse>"
    assert "no structure of OpenWire" in refusal(in_array)
    assert set(sys.modules) == modules


@pytest.mark.parametrize("gadget", GADGETS)
def test_xstream_gadgets_in_unknown_fields_are_skipped_unread(gadget: str) -> None:
    modules = set(sys.modules)
    frame = XmlReader().frame(f"<{COMMAND}KeepAliveInfo><x>{gadget}</x></{COMMAND}KeepAliveInfo>".encode())
    assert frame[4] == 10
    assert set(sys.modules) == modules


@pytest.mark.parametrize(
    "name", ["", "BrokerId.", "../BrokerId", "BrokerId\u0000", "\uff22rokerId", "brokerid", "Message"]
)
def test_only_exact_names_of_structures_are_classes(name: str) -> None:
    text = f"<{COMMAND}RemoveInfo><objectId class='{COMMAND}{name}'/></{COMMAND}RemoveInfo>"
    assert refusal(text.replace("\0", "&#0;"))


def test_entity_bombs_are_refused_before_an_entity_is_read() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "lol">{entities}]><{COMMAND}KeepAliveInfo>&e9;</{COMMAND}KeepAliveInfo>'
    tracemalloc.start()
    assert "document type" in refusal(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB


@pytest.mark.parametrize(
    "prologue",
    [
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:1/canary.dtd">',
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:1/canary.dtd">%p;]>',
        "<!DOCTYPE x>",
        '<?xml-stylesheet href="http://127.0.0.1:1/"?>',
    ],
)
def test_document_types_and_instructions_are_refused(prologue: str) -> None:
    line = refusal(f"{prologue}<{COMMAND}KeepAliveInfo/>")
    assert "document type" in line or "processing instruction" in line


def test_unknown_entities_are_refused() -> None:
    assert "no XML" in refusal(f"<{COMMAND}KeepAliveInfo>&lol;</{COMMAND}KeepAliveInfo>")


def test_references_to_themselves_are_refused() -> None:
    response = f"{COMMAND}DataResponse"
    text = f"<{response}><data class='{response}' reference='..'/></{response}>"
    assert f"more than {MAX_NESTED_DEPTH} deep" in refusal(text)
    circle = f"<{response}><data class='{response}' reference='../data'/></{response}>"
    assert "leads to another reference" in refusal(circle)


def test_a_bomb_of_references_ends_at_the_size_of_a_frame() -> None:
    """Each array has the one before it twice, so that 25 short lines stand for 32 million structures."""
    info = f"{COMMAND}BrokerInfo"
    text = f"<{info}><brokerName>{'x' * 1000}</brokerName></{info}>"
    for _ in range(25):
        twin = f"<{info} reference='../{info}'/>"
        text = f"<{info}><peerBrokerInfos>{text}{twin}</peerBrokerInfos></{info}>"
    tracemalloc.start()
    assert "larger than 65536 bytes" in refusal(text, KIB_64)
    assert f"repeat more than {MAX_REPEATED} characters" in refusal(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MIB


def test_strings_repeated_by_reference_are_refused_at_the_limit_of_the_frame_and_released() -> None:
    text = "t" * 60_000
    repeated = "".join(f"<{BROKER}><value reference='../../../t'/></{BROKER}>" for _ in range(2_000))
    bomb = f"<{COMMAND}ProducerInfo><brokerPath>{repeated}</brokerPath><t>{text}</t></{COMMAND}ProducerInfo>".encode()
    reader = XmlReader()
    tracemalloc.start()
    for limit, line in ((KIB_64, "larger than 65536 bytes"), (128 * MIB, "repeat more than")):
        with pytest.raises(OpenWireProtocolError, match=line):
            reader.frame(bomb, limit)
    current, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MIB
    assert current < 64 * 1024


def test_values_repeated_by_reference_are_counted_in_a_known_shape() -> None:
    repeated = "".join(f'<{BROKER}><value reference="../../../t"/></{BROKER}>' for _ in range(40))
    text = f"<{COMMAND}ProducerInfo><brokerPath>{repeated}</brokerPath><t>{{}}</t></{COMMAND}ProducerInfo>"
    reader = XmlReader()
    for _ in range(3):
        assert reader.frame(text.format("t").encode())
    with pytest.raises(OpenWireProtocolError, match="repeat more than"):
        reader.frame(text.format("t" * 20_000).encode(), 64 * MIB)
    with pytest.raises(OpenWireProtocolError, match="larger than 65536 bytes"):
        reader.frame(text.format("t" * 5_000).encode(), KIB_64)


def test_a_known_shape_keeps_no_body() -> None:
    body = "QUJD" * 10_000
    message = (
        f"<{COMMAND}ActiveMQMessage><content><data>{body}</data><offset>0</offset></content></{COMMAND}ActiveMQMessage>"
    )
    reader = XmlReader()
    reader.frame(message.encode())
    tracemalloc.start()
    for _ in range(4):
        reader.frame(message.encode())
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < len(body) // 4


@pytest.mark.large
def test_a_reader_keeps_nothing_of_a_command() -> None:
    reader = XmlReader()
    text = f"<{COMMAND}ActiveMQMessage><content><data>{'A' * MIB}</data></content></{COMMAND}ActiveMQMessage>".encode()
    failing = (text.replace(b"</content>", b"</content><commandId>x</commandId>"), text[:-9], b"<!DOCTYPE x>" + text)
    gc.collect()
    gc.disable()
    before = elements()  # of failures of other tests
    tracemalloc.start()
    try:
        for _ in range(2):
            reader.frame(text)
            for broken in failing:
                with pytest.raises(OpenWireProtocolError):
                    reader.frame(broken)
        assert tracemalloc.get_traced_memory()[0] < MIB // 4
        assert elements() <= before
    finally:
        tracemalloc.stop()
        gc.enable()


def elements() -> int:
    return sum(isinstance(thing, Element) for thing in gc.get_objects())


def test_paths_of_references_are_short() -> None:
    path = "/".join(["..", "objectId"] * (MAX_STEPS // 2))
    text = f"<{COMMAND}RemoveInfo><objectId class='{BROKER}' reference='{{}}'/></{COMMAND}RemoveInfo>"
    assert f"more than {MAX_STEPS} steps" in refusal(text.format(f"{path}/.."))
    assert "leads to another reference" in refusal(text.format(path))


def test_elements_passed_on_the_way_to_others_are_counted() -> None:
    first = f"<{BROKER}><value>v</value></{BROKER}>"
    junk = "<a/>" * 4_000
    last = f"<{BROKER}><value reference='../../../x/y'/></{BROKER}>" * 100
    text = f"<brokerPath>{first}{last}</brokerPath><x>{junk}<y>v</y></x>"
    assert "repeat more than" in refusal(f"<{COMMAND}ProducerInfo>{text}</{COMMAND}ProducerInfo>")


def test_base64_is_not_decoded_again_and_again() -> None:
    data = base64.b64encode(bytes(60_000)).decode()
    response = f"{COMMAND}DataArrayResponse"
    message = f"{COMMAND}ActiveMQMessage"
    empty = "<length>0</length></content>"
    first = f"<{message}><content><data>{data}</data>{empty}</{message}>"
    by_data = f"<{message}><content><data reference='../../../{message}/content/data'/>{empty}</{message}>" * 50
    assert "repeat more than" in refusal(f"<{response}><data>{first}{by_data}</data></{response}>", 64 * MIB)
    whole = f"<{message} reference='../{message}'/>" * 50
    assert "repeat more than" in refusal(f"<{response}><data>{first}{whole}</data></{response}>", 64 * MIB)


def test_commands_without_references_have_no_limit_but_that_of_the_frame() -> None:
    content = f"<content><data>{'A' * MIB}</data><offset>0</offset></content>"
    paths = "".join(f"<{BROKER}><value>{number}</value></{BROKER}>" for number in range(20_000))
    text = f"{content}<brokerPath>{paths}</brokerPath><type>{'t' * 60_000}</type>"
    assert XmlReader().frame(f"<{COMMAND}ActiveMQMessage>{text}</{COMMAND}ActiveMQMessage>".encode(), MIB)


def test_text_is_joined_once_at_the_end_of_its_element() -> None:
    builder = TreeBuilder(False)
    builder.on_start("a", [])
    for _ in range(3):
        builder.on_text("part ")
    root = builder.root
    assert root is not None and root.text == ""
    builder.on_start("b", [])
    builder.on_text("inner")
    builder.on_end("b")
    builder.on_text("dropped")
    builder.on_end("a")
    assert (root.text, root.children[0].text) == ("part part part ", "inner")


@pytest.mark.parametrize("path", [".", "/", "../nothing", "../../..", "../x[0]", "../x[-1]", "../x[1", "a" * 1024])
def test_references_that_lead_nowhere_are_refused(path: str) -> None:
    text = f"<{COMMAND}RemoveInfo><objectId class='{COMMAND}BrokerId' reference='{path}'/></{COMMAND}RemoveInfo>"
    assert "nowhere" in refusal(text)


@pytest.mark.large
def test_deep_wide_and_long_documents_are_refused() -> None:
    root = f"{COMMAND}KeepAliveInfo"
    assert f"more than {MAX_DEPTH} deep" in refusal(f"<{root}>" + "<a>" * 100_000)
    assert f"more than {MAX_ELEMENTS} elements" in refusal(f"<{root}>" + "<a/>" * (MAX_ELEMENTS + 1))
    attributes = " ".join(f"a{n}='1'" for n in range(MAX_ATTRIBUTES + 1))
    assert f"more than {MAX_ATTRIBUTES} attributes" in refusal(f"<{root} {attributes}/>")
    assert f"longer than {MAX_ATTRIBUTE}" in refusal(f"<{root} class='{'x' * (MAX_ATTRIBUTE + 1)}'/>")


def test_long_chains_of_causes_are_refused() -> None:
    cause = "<cause class='java.lang.Error'>" * (MAX_CAUSES + 2) + "</cause>" * (MAX_CAUSES + 2)
    text = f"<{COMMAND}ExceptionResponse><exception class='java.lang.Error'>{cause}</exception>"
    assert f"more than {MAX_CAUSES} causes" in refusal(f"{text}</{COMMAND}ExceptionResponse>")


@pytest.mark.parametrize(
    "field",
    [
        "<commandId>1e3</commandId>",
        "<commandId>\uff11</commandId>",
        "<commandId>1_0</commandId>",
        f"<commandId>{'9' * 5000}</commandId>",
        "<commandId>4294967296</commandId>",
        "<content><data>%%%</data></content>",
        "<content><data>AAAA</data><offset>2</offset><length>2147483647</length></content>",
        "<content><data>AAAA</data><offset>-1</offset><length>1</length></content>",
        "<priority>300</priority>",
        f"<type>{'x' * 70_000}</type>",
        "<type>&#xd800;</type>",
        "<destination/>",
    ],
)
def test_values_without_a_form_in_openwire_are_refused(field: str) -> None:
    assert refusal(f"<{COMMAND}ActiveMQMessage>{field}</{COMMAND}ActiveMQMessage>")


@pytest.mark.parametrize("text", ["", " ", "x", "<a", "<a></b>", "<a/><b/>", "\ufeff", "<?xml version='1.0'?>"])
def test_what_is_no_document_is_refused(text: str) -> None:
    assert refusal(text)


def test_the_declared_encoding_is_ignored() -> None:
    text = f"<?xml version='1.0' encoding='utf-7'?><{COMMAND}KeepAliveInfo/>"
    assert XmlReader().frame(text.encode())[4] == 10
