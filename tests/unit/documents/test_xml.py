"""XML that attacks its reader: document types, bombs, depth, numbers; what is read keeps its lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.documents.element import MAX_ATTRIBUTES, MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_ELEMENTS
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError


def refusal(content: bytes) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read_xml(content, "a.xml")
    return str(raised.value)


def test_elements_and_attributes_keep_their_names_and_lines() -> None:
    root = read_xml(
        b'<beans xmlns="urn:b" xmlns:x="urn:x" x:schemaLocation="l">\n<bean id="i">\n te<!-- -->xt</bean></beans>',
        "a.xml",
    )
    assert (root.name, root.line, root.namespace, root.attributes) == ("beans", 1, "urn:b", {})
    bean = root.child("bean")
    assert bean is not None
    assert (bean.line, bean.value("id"), bean.attributes["id"].line, bean.text.split()) == (2, "i", 2, ["text"])
    assert root.child("other") is None and bean.value("other") is None


@pytest.mark.parametrize(
    "document_type",
    [
        "<!DOCTYPE broker>",
        '<!DOCTYPE broker SYSTEM "http://192.0.2.1/canary.dtd">',
        '<!DOCTYPE broker PUBLIC "x" "http://192.0.2.1/canary.dtd">',
        "<!DOCTYPE broker [<!ENTITY % p SYSTEM 'http://192.0.2.1/x'> %p;]>",
        "<!DOCTYPE b [<!ENTITY a 'aaaaaaaaaa'>" + "".join(f"<!ENTITY a{n} '{'&a;' * 10}'>" for n in range(20)) + "]>",
    ],
)
def test_s27_no_document_type_is_read_at_all(document_type: str) -> None:
    assert "DOCTYPE is refused" in refusal(f"{document_type}<broker/>".encode())


def test_s27_a_quadratic_blow_up_is_refused_before_it_begins() -> None:
    text = "<!DOCTYPE b [<!ENTITY a '" + "a" * 50_000 + "'>]><broker brokerName='" + "&a;" * 1000 + "'/>"
    assert "DOCTYPE is refused" in refusal(text.encode())


def test_an_undefined_entity_is_an_error_with_its_line() -> None:
    assert "a.xml:2: the XML is broken" in refusal(b"<broker>\n&xxe;</broker>")


def test_s27_a_hundred_thousand_levels_are_refused() -> None:
    assert "nested more than" in refusal(b"<broker>" * 100_000)


def test_s27_a_million_attributes_are_refused() -> None:
    attributes = b" ".join(b'a%d="1"' % number for number in range(60_000))
    assert "more than 128 attributes" in refusal(b"<broker " + attributes + b"/>")
    assert "is larger than" in refusal(b"<broker " + b'abcdef="1" ' * 1_000_000 + b"/>")


def test_too_many_elements_are_refused() -> None:
    assert "more than 20000 elements" in refusal(b"<broker><destinations>" + b"<queue/>" * 30_000)


def test_an_unknown_encoding_is_told_in_one_line() -> None:
    assert "encoding" in refusal(b'<?xml version="1.0" encoding="no-such"?><broker/>')


def test_the_largest_document_is_read() -> None:
    attributes = b" ".join(b'a%d="1"' % number for number in range(MAX_ATTRIBUTES))
    assert len(read_xml(b"<a " + attributes + b"/>", "a.xml").attributes) == MAX_ATTRIBUTES
    assert read_xml(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH, "a.xml").child("a") is not None
    assert len(read_xml(b"<a>" + b"<b/>" * (MAX_ELEMENTS - 1) + b"</a>", "a.xml").children) == MAX_ELEMENTS - 1
    assert read_xml(b"<a>" + b" " * (MAX_DOCUMENT_BYTES - 7) + b"</a>", "a.xml").name == "a"
    assert "is larger than" in refusal(b"<a>" + b" " * (MAX_DOCUMENT_BYTES - 6) + b"</a>")


@pytest.mark.parametrize(("content", "line"), [(b"", 1), (b"<!-- -->", 1), (b"<a>\n</b>", 2), (b"<a/>\n<a/>", 2)])
def test_what_is_no_document_is_an_error_with_its_line(content: bytes, line: int) -> None:
    assert f"a.xml:{line}: the XML is broken" in refusal(content)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<a>\n<b uri='tcp://h:1?x=1&wireFormat.y=2'/></a>", "a.xml:2: a & stands alone; write &amp; in its place"),
        (b"<a>\n<b>one & two</b></a>", "a.xml:2: a & stands alone; write &amp; in its place"),
        (b"<a>\n<b selector='price < 5'/></a>", "a.xml:2: a < stands in a value; write &lt; in its place"),
        (b"<a>\n<b>\n</c></a>", "a.xml:3: the XML is broken: mismatched tag; <b> of line 2 is still open"),
        (b"<a>\n<b>\n", "a.xml:3: the XML is broken: no element found; <b> of line 2 is still open"),
        (b"<a b=1/>", "a.xml:1: the XML is broken: not well-formed (invalid token)"),
    ],
)
def test_a_usual_slip_is_named_with_what_to_write(content: bytes, told: str) -> None:
    assert refusal(content) == told


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_an_error_in_one_line(content: bytes) -> None:
    try:
        read_xml(content, "a.xml")
    except ConfigurationError as error:
        (line,) = str(error).splitlines()
        assert line.startswith("a.xml")
