"""The language xpath: conditions, values and parts of bodies in XML, and bodies that strangers made."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.engine import xpath
from spanwire.bridges.engine.changed_messages import text_of
from spanwire.bridges.engine.message_values import header
from spanwire.bridges.engine.xpath import MAX_XML_BYTES, MAX_XML_DEPTH, XPathExpression
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.files.route_json import plain_route, route_of
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import RouteDefinition
from spanwire.bridges.model.route_diagram import route_diagram
from spanwire.bridges.running.process import check_bridge
from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.model.message_view import TEXT
from spanwire.routes.model import EMBEDDED, XPATH, Expression
from spanwire.routes.readers.nodes import Location
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.bridge_dialogue import Content
from tests.support.route_world import RouteWorld, route
from tests.unit.bridges.test_routes import TO, message, texts_after

ORDER: Final = (
    '<?xml version="1.0" encoding="ISO-8859-1"?>'
    '<order id="7" region="us"><item price="5">a &amp; b</item><item price="50">ü</item></order>'
)
NAMESPACED: Final = '<o:order xmlns:o="urn:orders"><o:item>1</o:item></o:order>'


def expression(text: str, **options: str) -> XPathExpression:
    return XPathExpression(Expression(Location("r.yaml", 3), XPATH, text, tuple(options.items())), text_of, header)


def value(text: str, body: str = ORDER, **options: str) -> object:
    return expression(text, **options).value(message(1, body))


def test_a_choice_a_filter_and_a_header_read_the_body() -> None:
    region = "{setHeader: {name: region, xpath: /order/@region}}, "
    when = "{xpath: '/order/item[@price > 10]', steps: [" + region + TO + "]}"
    steps = "{choice: {when: [" + when + "], otherwise: {steps: []}}}"
    world = RouteWorld(route(steps), [message(1, ORDER), message(2, '<order><item price="1"/></order>')])
    world.play()
    (sent,) = world.sent[0]
    assert sent.property_values()["region"][1] == "us"
    by_header = "{filter: {xpath: \"in:header('n') = 3\"}}, " + TO
    assert texts_after(by_header, message(1, "<a/>", n=3), message(2, "<b/>")) == ["<a/>"]


def test_a_split_makes_a_message_of_each_node() -> None:
    assert texts_after("{split: {xpath: //item}}, " + TO, message(1, ORDER)) == [
        '<item price="5">a &amp; b</item>',
        '<item price="50">ü</item>',
    ]
    assert texts_after("{split: {xpath: //item/@price}}, " + TO, message(1, ORDER)) == ["5", "50"]
    assert texts_after("{split: {xpath: /none}}, " + TO, message(1, ORDER)) == []
    assert texts_after("{split: {xpath: count(//item)}}, " + TO, message(1, ORDER)) == ["2"]
    parts = texts_after(
        "{split: {xpath: {expression: /o:order/*, namespace: [{key: o, value: 'urn:orders'}]}}}, " + TO,
        message(1, NAMESPACED),
    )
    assert parts == ['<o:item xmlns:o="urn:orders">1</o:item>']


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("/order/@id", {}, "7"),
        ("/order/item", {}, "a & b"),
        ("/order/none", {}, None),
        ("count(/order/item)", {}, "2"),
        ("sum(//@price) div 2", {}, "27.5"),
        ("/order/@id = 7", {}, "true"),
        ("/order/@id", {"resultType": "integer"}, 7),
        ("count(//item)", {"resultType": "integer"}, 2),
        ("sum(//@price) div 2", {"resultType": "number"}, 27.5),
        ("/order/none", {"resultType": "boolean"}, False),
        ("/order/item", {"resultType": "boolean"}, True),
        ("/order/item[2]", {"resultType": "xml"}, '<item price="50">ü</item>'),
        ("in:header('n')", {}, "4"),
        ("in:header('none')", {}, ""),
        ("'9007199254740993'", {"resultType": "integer"}, 2**53 + 1),
        ("' -7.00 '", {"resultType": "integer"}, -7),
        ("0 div 0", {}, "NaN"),
        ("1 div 0", {}, "Infinity"),
        ("-1 div 0", {}, "-Infinity"),
    ],
)
def test_a_result_has_the_type_of_the_expression(text: str, options: dict[str, str], expected: object) -> None:
    result = expression(text, **options).value(message(1, ORDER, n=4))
    assert (result, type(result)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("//item", True),
        ("//none", False),
        ("0", False),
        ("0 div 0", False),
        ("''", False),
        ("'a'", True),
        ("not(//none)", True),
    ],
)
def test_a_condition_is_what_the_function_boolean_says(text: str, holds: bool) -> None:
    assert expression(text).holds(message(1, ORDER)) is holds


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("/order[", "r.yaml:3: xpath '/order[': "),
        ("/o:order/x", "the prefix o has no namespace; declare it in the file"),
        ("$body", "there are no variables such as $body; write in:header('NAME')"),
        ("/order[matches(@id, 'a')]", "there is no function matches; there are those of XPath 1.0 and in:header"),
        ("in:body()", "there is no function in:body"),
        ("document('file:///etc/passwd')", "there is no function document"),
    ],
)
def test_an_expression_that_no_message_can_pass_is_refused_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        expression(text)
    assert fault in str(refused.value)


def test_words_in_literals_are_no_names() -> None:
    assert value("concat('o:order $x document(', \"it's\", ')')") == "o:order $x document(it's)"
    assert value("/child::order/child::item/attribute::price") == "5"


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("order/item", "order"),
        ("count(item) > 1", "item"),
        ("//a = b", "b"),
        ("@id", "@"),
        ("../a", ".."),
        (".//a", "."),
        ("*", "*"),
        ("child::a", "child"),
        ("text()", "text"),
        ("o:a", "o:a"),
        ("1 * a", "a"),
        ("//a | b", "b"),
        ("concat('x', a)", "a"),
    ],
)
def test_a_relative_path_is_refused_because_it_would_begin_elsewhere(text: str, step: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the path that begins with {re.escape(step)} is relative"):
        expression(text, **{"xmlns:o": "urn:o"})


@pytest.mark.parametrize(
    "text",
    [
        "/a/b[c = d/@e]/text()", "//*[@id][2]", "/", "count(//a) * 2", "//a div 2 and //b or 3 mod 2", "string(.)",
        "not(/a/b) and (//c | //d)", "-1.5 + sum(//x/@y)", "//or/and", "'a' = //b", "//a[b][last()]/../c", "/o:a/o:*",
        "//processing-instruction('x')", "boolean(/a/node())",
    ],
)  # fmt: skip
def test_paths_from_the_document_and_predicates_are_taken(text: str) -> None:
    assert expression(text, **{"xmlns:o": "urn:o"}).holds(message(1, ORDER)) in (True, False)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("no xml", "the body is no XML: "),
        ("", "the body is no XML"),
        ("<a>", "the body is no XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "DOCTYPE, which xpath refuses: entities are not expanded"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "DOCTYPE"),
        ("<a>&b;</a>", "the body is no XML"),
        ("<a>" * (MAX_XML_DEPTH + 1) + "</a>" * (MAX_XML_DEPTH + 1), "the body is no XML"),
        (f"<a>{'x' * MAX_XML_BYTES}</a>", "and xpath reads 1048576 at most"),
        ("<a>\ud800</a>", "half of a surrogate pair"),
    ],
)
def test_a_body_that_is_no_xml_within_the_limits_is_at_fault(body: str, fault: str) -> None:
    with pytest.raises(MessageFormatError) as refused:
        XPathExpression(Expression(Location("r.yaml", 3), XPATH, "//a"), lambda message: body, header).holds(message(1))
    assert fault in str(refused.value)


def test_as_many_elements_as_the_limit_may_be_inside_of_each_other() -> None:
    deep = "<a>" * (MAX_XML_DEPTH - 1) + "</a>" * (MAX_XML_DEPTH - 1)
    assert value("count(//a)", deep, resultType="integer") == MAX_XML_DEPTH - 1


def test_a_message_that_is_no_xml_becomes_a_dead_letter_and_the_others_go_on() -> None:
    steps = "{filter: {xpath: /order}}, " + TO
    world = RouteWorld(route(steps, "far:queue:DEAD"), [message(1, ORDER), message(2, "broken"), message(3, ORDER)])
    world.play()
    assert [[text_of(one) for one in target] for target in world.sent] == [[ORDER, ORDER], ["broken"]]


def test_a_header_with_a_control_character_makes_a_dead_letter_and_the_others_go_on() -> None:
    steps = "{filter: {xpath: \"in:header('n') = 'a'\"}}, " + TO
    inputs = [message(1, "<a/>", n="a"), message(2, "<b/>", n="a\0"), message(3, "<c/>", n="a")]
    world = RouteWorld(route(steps, "far:queue:DEAD"), inputs)
    world.play()
    assert [[text_of(one) for one in target] for target in world.sent] == [["<a/>", "<c/>"], ["<b/>"]]


def test_a_result_that_grows_with_each_level_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xpath, "MAX_RESULT_BYTES", 100)
    with pytest.raises(MessageFormatError, match="the result of xpath is longer than 100 characters"):
        expression("//a").parts(message(1, "<a>" * 20 + "</a>" * 20), 1_000)
    with pytest.raises(MessageFormatError, match="split makes 20 messages, more than 10"):
        expression("//a").parts(message(1, "<a>" * 20 + "</a>" * 20), 10)


def test_a_result_that_is_no_number_is_at_fault() -> None:
    for text, kind in (("/order/@region", "number"), ("/order/@region", "integer"), ("1 div 2", "integer")):
        with pytest.raises(MessageFormatError, match="number"):
            value(text, resultType=kind)


def test_without_the_package_a_route_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.setitem(sys.modules, "lxml.etree", None)
    with pytest.raises(ConfigurationError, match=r"r.yaml:3: the language xpath needs the extra xpath, .*run: .*pip"):
        expression("//a")


CAMEL: Final = """<beans xmlns="http://www.springframework.org/schema/beans">
<camelContext xmlns="http://camel.apache.org/schema/spring" xmlns:o="urn:orders"><route id="r">
<from uri="near:queue:A"/>
<choice><when><xpath>/o:order/o:item = 1</xpath><to uri="far:queue:B"/></when></choice>
<split><xpath resultType="java.util.List">/o:order</xpath></split>
</route></camelContext></beans>"""


def read(text: str, file: str = "r.xml") -> RouteDefinition:
    brokers = {"near": "tcp://near:1", "far": "tcp://far:1"}
    file_of_routes = read_routes(text.encode(), file, Placeholders({}, {}), brokers).only(EMBEDDED)
    (definition,) = bridges_of(file_of_routes.routes)
    check_bridge(definition)
    assert isinstance(definition, RouteDefinition)
    return definition


def test_prefixes_of_a_camel_file_are_those_of_its_elements() -> None:
    definition = read(CAMEL.replace(' resultType="java.util.List"', ""))
    assert route_of(plain_route(definition)) == definition
    assert "when xpath /o:order/o:item = 1" in "\n".join(route_diagram(definition).splitlines())
    with pytest.raises(ConfigurationError, match=r"r.xml:5: there is no resultType 'java.util.List'"):
        read(CAMEL)
    with pytest.raises(ConfigurationError, match="the prefix o has no namespace"):
        read(CAMEL.replace(' resultType="java.util.List"', "").replace(' xmlns:o="urn:orders"', ""))


def test_spark_refuses_xpath_by_name() -> None:
    text = "- route: {id: r, from: {uri: 'near:queue:A', steps: [{filter: {xpath: //a}}, " + TO + "]}}"
    brokers = {"near": "tcp://near:1", "far": "tcp://far:1"}
    with pytest.raises(ConfigurationError, match="the language xpath is for the engine embedded"):
        read_routes(text.encode(), "r.yaml", Placeholders({}, {}), brokers).only("spark")


@given(st.text(max_size=200), st.sampled_from(["//a", "string(/)", "count(//*)"]))
def test_any_body_is_read_or_at_fault(body: str, text: str) -> None:
    content = BridgeMessage("ID:1", TEXT, Content(body.encode("utf-8", "replace").decode(), {}), 1)
    for call in (expression(text).holds, expression(text).value, lambda one: expression(text).parts(one, 10)):
        with contextlib.suppress(MessageFormatError):
            call(content)
