"""The bytes of a stream become its header, its stanzas and its end, or one failure; nothing is ever looked up."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.protocols.xmpp.codec.elements import Element, encode_element, is_writable
from spanwire.protocols.xmpp.codec.stream_decoder import (
    END,
    HEADER,
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_NAME,
    MAX_NAMES,
    MAX_NAMESPACES,
    MAX_RESCANNED,
    MAX_STANZA,
    STANZA,
    StreamDecoder,
)

START = (
    b"<?xml version='1.0'?><stream:stream to='h' version='1.0' xmlns='jabber:client' "
    b"xmlns:stream='http://etherx.jabber.org/streams'>"
)
STANZAS = (
    b"<message to='a@h' type='chat'><body>K\xc3\xb6ln &amp; &#9730; <![CDATA[<so>]]></body></message> \n"
    b"<x:y xmlns:x='urn:x' x:a='>' b=\"'\"><z/>text</x:y><iq/></stream:stream>"
)


def decode(*parts: bytes, limit: int = MAX_STANZA) -> tuple[list[tuple[int, str]], str]:
    """The kinds and XML of all events, and the condition of the failure."""
    decoder = StreamDecoder(limit)
    events = [event for part in parts for event in decoder.feed(part)]
    failure = "" if decoder.failure is None else decoder.failure.condition
    shown = [(event.kind, encode_element(event.element).decode()) for event in events]
    decoder.release()
    return shown, failure


def failure_of(*parts: bytes, limit: int = MAX_STANZA) -> str:
    return decode(START, *parts, limit=limit)[1]


def test_a_stream_is_split_into_header_stanzas_and_end() -> None:
    events, failure = decode(START + STANZAS)
    assert failure == ""
    assert [kind for kind, _ in events] == [HEADER, STANZA, STANZA, STANZA, END]
    assert events[1][1] == "<message to='a@h' type='chat'><body>Köln &amp; ☂ &lt;so&gt;</body></message>"
    assert events[2][1].startswith("<y xmlns='urn:x' urn:x a='&gt;' b='&apos;'>")


@given(st.lists(st.integers(min_value=0, max_value=len(START + STANZAS)), max_size=30))
def test_a_stream_means_the_same_however_it_is_cut(cuts: list[int]) -> None:
    whole = START + STANZAS
    places = sorted({0, len(whole), *cuts})
    parts = [whole[start:end] for start, end in itertools.pairwise(places)]
    assert decode(*parts) == decode(whole)


def test_a_stream_means_the_same_byte_by_byte() -> None:
    whole = START + STANZAS
    assert decode(*[whole[index : index + 1] for index in range(len(whole))]) == decode(whole)


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_raise_anything(data: bytes, begins: bool) -> None:
    decoder = StreamDecoder(MAX_STANZA)
    if begins:
        decoder.feed(START)
    decoder.feed(data)
    decoder.feed(b">")
    assert decoder.buffered_bytes <= len(START) + len(data) + 1


@given(st.text(st.characters(codec="utf-8"), max_size=50), st.text(st.characters(codec="utf-8"), max_size=50))
def test_what_is_written_is_read_again(text: str, value: str) -> None:
    element = Element("jabber:client", "message", {"id": value}, text)
    _, (_, shown) = decode(START, encode_element(element))[0]
    if is_writable(text) and is_writable(value):
        assert shown == encode_element(element).decode()


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]>" + START, "restricted-xml"),
        (b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'>" + START, "restricted-xml"),
        (START + b"<message>&lol;</message>", "restricted-xml"),
        (START + b"<!-- a --><iq/>", "restricted-xml"),
        (START + b"<?php a?><iq/>", "restricted-xml"),
        (START + b"<iq></message>", "not-well-formed"),
        (START + b"<p:iq/>", "not-well-formed"),
        (START + b"<iq>\xff</iq>", "not-well-formed"),
        (START + b"<iq>&#0;</iq>", "not-well-formed"),
        (START + b"words<iq/>", "bad-format"),
        (START.replace(b"stream:stream to", b"stream:other to"), "bad-format"),
        (b"<iq/>", "invalid-namespace"),
        (START.replace(b"?>", b" encoding='ISO-8859-1'?>"), "unsupported-encoding"),
        (START.decode().encode("utf-16"), "unsupported-encoding"),
    ],
)
def test_s44_forbidden_xml_ends_the_stream(data: bytes, condition: str) -> None:
    assert decode(data)[1] == condition
    assert decode(*[data[index : index + 1] for index in range(len(data))])[1] == condition


def test_s44_entities_are_never_expanded() -> None:
    levels = "".join(f"<!ENTITY e{level} '{f'&e{level - 1};' * 10}'>" for level in range(1, 20))
    bomb = f"<!DOCTYPE x [<!ENTITY e0 'x'>{levels}]>".encode() + START + b"<message>&e19;</message>"
    decoder = StreamDecoder(MAX_STANZA)
    assert decoder.feed(bomb) == []
    assert decoder.failure is not None


def test_s44_depth_elements_attributes_and_namespaces_of_a_stanza_are_limited() -> None:
    depth = MAX_DEPTH - 1
    assert failure_of(b"<a>" * depth + b"</a>" * depth) == ""
    assert failure_of(b"<a>" * (depth + 1)) == "policy-violation"
    assert failure_of(b"<a>" + b"<b/>" * (MAX_ELEMENTS - 1) + b"</a>") == ""
    assert failure_of(b"<a>" + b"<b/>" * MAX_ELEMENTS) == "policy-violation"
    attributes = b" ".join(b"a%d=''" % number for number in range(MAX_ATTRIBUTES))
    assert failure_of(b"<a " + attributes + b"/>") == ""
    assert failure_of(b"<a b='' " + attributes + b"/>") == "policy-violation"
    namespaces = b" ".join(b"xmlns:a%d='u'" % number for number in range(MAX_NAMESPACES - 2))
    assert failure_of(b"<a " + namespaces + b"/>", b"<a " + namespaces + b"/>") == ""
    assert failure_of(b"<a xmlns='u' " + namespaces + b"/>") == "policy-violation"


def test_s44_names_of_a_stream_are_limited_as_expat_forgets_none() -> None:
    assert failure_of(b"<" + b"n" * (MAX_NAME - len("jabber:client ")) + b"/>") == ""
    assert failure_of(b"<" + b"n" * MAX_NAME + b"/>") == "policy-violation"
    assert failure_of(*[b"<n%d/>" % number for number in range(MAX_NAMES // 2)]) == ""
    assert failure_of(*[b"<n%d/>" % number for number in range(MAX_NAMES)]) == "policy-violation"
    assert failure_of(*[b"<n/>"] * MAX_NAMES * 2) == ""


@pytest.mark.parametrize("size", [1, 100, 3000, 100_000])
@pytest.mark.parametrize("huge", [b"<a>" + b"x" * 99_000, b"<a b='" + b"x" * 99_000, b"<a>" + b"<b/>x" * 20_000])
def test_s44_a_huge_stanza_is_refused_before_it_is_kept(huge: bytes, size: int) -> None:
    decoder = StreamDecoder(MAX_STANZA)
    decoder.feed(START)
    for start in range(0, len(huge), size):
        decoder.feed(huge[start : start + size])
        assert decoder.buffered_bytes <= MAX_STANZA + size
        if decoder.failure is not None:
            break
    assert decoder.failure is not None
    assert decoder.failure.condition == "policy-violation"


def test_s44_a_tag_in_many_pieces_costs_no_more_than_its_limit() -> None:
    decoder = StreamDecoder(MAX_STANZA)
    decoder.feed(START + b"<a b='")
    pieces = 0
    while decoder.failure is None:
        decoder.feed(b">")
        pieces += 1
    assert pieces * pieces / 2 < MAX_RESCANNED * 1.1
    assert failure_of(*[b"<a b='" + b">" * 1400] * 1, *[b">" * 1400] * 40, b"'/>") == ""


def test_blanks_between_stanzas_are_never_kept() -> None:
    decoder = StreamDecoder(MAX_STANZA)
    decoder.feed(START + b"<iq/>")
    for _ in range(3):
        decoder.feed(b" \n" * MAX_STANZA)
        assert decoder.buffered_bytes == 0
    assert decoder.failure is None
    assert len(decoder.feed(b"<iq/>")) == 1


def test_a_stanza_is_limited_by_itself_whatever_came_before() -> None:
    stanza = b"<message><body>" + b"x" * 900 + b"</body></message>"
    assert decode(START, *[stanza] * 200, limit=1_000)[1] == ""
    assert decode(START, stanza * 200, limit=1_000)[1] == ""
