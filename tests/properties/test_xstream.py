"""Whatever text arrives as a command in XML, it is read as a frame or refused in one line."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from spanwire.protocols.openwire.codec._marshallers import ConnectionInfo, ExceptionResponse
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.xstream.elements import Element
from spanwire.protocols.openwire.xstream.plain import plain_elements
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.shapes import VALUE, CutText
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from tests.fuzz.fuzz_xstream import ODD, TARGET, damaged, rearranged, revalued
from tests.support.xml_trees import PlainReader, difference, outcome

CONNECTION_INFO = "org.apache.activemq.command.ConnectionInfo"
UNPAIRED = dict.fromkeys(range(0xD800, 0xE000), None)  # halves of surrogate pairs, which UTF-8 does not have


@given(st.integers(0, 2**32))
def test_damaged_commands_are_read_or_refused(seed: int) -> None:
    TARGET.run(damaged(random.Random(seed), TARGET.samples))


@given(st.integers(0, 2**32))
def test_rearranged_commands_are_read_or_refused(seed: int) -> None:
    TARGET.run(rearranged(random.Random(seed), TARGET.samples))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    before = TARGET.read
    TARGET.run(data)
    assert TARGET.read == before


@given(st.text(st.characters(max_codepoint=0xFFFF, codec="utf-8"), max_size=300))
def test_every_text_is_unchanged_after_writing_and_reading(text: str) -> None:
    frame = FrameEncoder().encode(ConnectionInfo(user_name=text, password=f"\0{text}"))
    assert XmlReader().frame(XmlWriter().text(frame)) == frame


def test_every_character_of_the_basic_plane_is_unchanged_after_writing_and_reading() -> None:
    plane = "".join(map(chr, range(0x10000))).translate(UNPAIRED)
    for start in range(0, len(plane), 16_384):
        part = plane[start : start + 16_384]
        for text in (part, part[::-1], part.replace("\ufffe", "").replace("\uffff", "").replace("&", "")):
            frame = FrameEncoder().encode(ConnectionInfo(user_name=text))
            assert XmlReader().frame(XmlWriter().text(frame)) == frame


@given(st.text(st.sampled_from("\ufdee\ufdefA@a\ufffe\uffff\x00\x1f&#x;"), max_size=20))
def test_escapes_and_the_characters_they_stand_for_stay_apart(text: str) -> None:
    frame = FrameEncoder().encode(ExceptionResponse(exception=Throwable(f"X{text}", text)))
    xml = XmlWriter().text(frame)
    assert XmlReader().frame(xml) == frame
    references = "".join([f"&#{ord(character)};&#x00{ord(character):X};" for character in text])
    named = f"<{CONNECTION_INFO}><userName>{references}</userName></{CONNECTION_INFO}>".encode()
    doubled = "".join([2 * character for character in text])
    assert XmlReader().frame(named) == FrameEncoder().encode(ConnectionInfo(user_name=doubled))


PARTS = (
    b'<a>|</a>|<a/>|<b>|</b>|<a class="x">|<a reference="../b"/>|<|>|/|"|]]>|&lt;|&#65;|<!--x-->|<![CDATA[x]]>|<?x y?>'
    b"|=| |\n|\r|\t|x|'|:|\xc3\xa9|\xff|\x00|\x7f"
).split(b"|")
COMMANDS = st.integers(0, 2**32).map(lambda seed: damaged(random.Random(seed), TARGET.samples))
SHORT = st.lists(st.sampled_from(PARTS), max_size=8).map(lambda parts: b"<a>" + b"".join(parts) + b"</a>")
LOOSE = st.lists(st.sampled_from(PARTS), max_size=8).map(b"".join)
XML = st.one_of(SHORT, LOOSE, COMMANDS)


def without_text(text: bytes) -> Element | None:
    root = plain_elements(text)
    if root is not None:
        root.text = ""
    return root


FAULTS: dict[str, PlainReader] = {
    "accepts the end of a section": lambda text: plain_elements(text.replace(b"]]>", b"]]")),
    "reads references as they stand": lambda text: plain_elements(text.replace(b"&", b"_")),
    "skips what follows the command": lambda text: plain_elements(text[: text.rfind(b">") + 1]),
    "skips markup other than elements": lambda text: plain_elements(re.sub(rb"<[!?][^>]*>", b"", text)),
    "skips octets beyond ASCII": lambda text: plain_elements(text.decode("ascii", "ignore").encode()),
    "accepts elements without an end": lambda text: plain_elements(text) or plain_elements(text + b"</a>"),
    "reads any attribute as a class": lambda text: plain_elements(text.replace(b"reference", b"class")),
    "loses the text": without_text,
}


@given(XML)
def test_what_is_read_without_expat_is_the_tree_that_expat_builds(text: bytes) -> None:
    assert not difference(text), difference(text)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_reader_without_expat_is_noticed(fault: str) -> None:
    assert find(XML, lambda text: bool(difference(text, FAULTS[fault])))


LIMIT = 64 * 1024
PAIRS = st.integers(0, 2**32).map(lambda seed: pair(random.Random(seed)))
SIBLINGS = re.compile(rb"(>[^<\s][^<]*<)(.*?)(>[^<\s][^<]*<)", re.DOTALL)
SHAPE_FAULTS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "takes the text before": lambda sample, text: sample,
    "takes long values of the text before": lambda sample, text: mixed(sample, text, lambda value: len(value) > 8),
    "takes short values of the text before": lambda sample, text: mixed(sample, text, lambda value: len(value) < 3),
    "exchanges values": lambda sample, text: SIBLINGS.sub(rb"\3\2\1", text, count=1),
    "ignores an offset": lambda sample, text: re.sub(rb"<offset>[^<]*", b"<offset>0", text),
    "reads any number as 0": lambda sample, text: re.sub(rb">-?[0-9]+<", b">0<", text),
    "accepts values of other kinds": lambda sample, text: re.sub(rb"Id>[a-z]+<", b"Id>1<", text),
}


def pair(source: random.Random) -> tuple[bytes, bytes]:
    """A command and another one, which mostly has the same shape."""
    sample = source.choice(TARGET.samples if source.random() < 0.5 else ODD)
    return sample, revalued(source, sample)


def mixed(sample: bytes, text: bytes, is_old: Callable[[bytes], bool]) -> bytes:
    old = iter(CutText(sample).values)
    return VALUE.sub(lambda match: b">" + (value if is_old(value := next(old, match[1])) else match[1]), text)


@given(PAIRS)
def test_a_command_of_a_known_shape_is_read_as_by_a_new_reader(commands: tuple[bytes, bytes]) -> None:
    for limit in (300, LIMIT):
        found = TARGET.compare(*commands, limit)
        assert not found, found


def test_most_of_these_commands_have_a_known_shape() -> None:
    commands = [pair(random.Random(seed)) for seed in range(400)]
    assert sum(CutText(sample).shape == CutText(text).shape for sample, text in commands) > 250


@pytest.mark.parametrize("fault", SHAPE_FAULTS)
def test_a_fault_of_the_reader_by_shapes_is_noticed(fault: str) -> None:
    def is_noticed(commands: tuple[bytes, bytes]) -> bool:
        text = SHAPE_FAULTS[fault](*commands)
        return outcome(XmlReader(), text, LIMIT) != outcome(XmlReader(), commands[1], LIMIT)

    assert find(PAIRS, is_noticed)


def test_a_text_of_many_ends_is_cut_in_one_pass() -> None:
    TARGET.run(b"<a>" + 60_000 * b">")
    TARGET.run(b"<a>" + 30_000 * b"> ")
