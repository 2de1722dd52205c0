"""Fuzz the reader of OpenWire's XML: any bytes give a frame that decodes, or one line of refusal.

python tests/fuzz/fuzz_xstream.py [COUNT [SEED]]      seeded damage to recorded commands; atheris if it is installed
python tests/fuzz/fuzz_xstream.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import copy
import random
import re
import sys
import time
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.protocols.openwire.codec.codec import StructureDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.shapes import CutText
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from tests.fuzz.harness import run
from tests.support.openwire_structures import load_vectors
from tests.support.xml_trees import difference, outcome

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 1.0  # one command, interpreted, on a busy machine
MAX_FRAME_SIZE: Final = 1024 * 1024
PIECES: Final = (
    b"<a>|</a>|<a/>|<|>|&|&lt;|&#0;|&#x1f;|&#xd800;|]]>|<![CDATA[x]]>|<!--x-->|<?x y?>|<!DOCTYPE x>|-1|0|true|"
    b"9223372036854775808|AAAA|=|\xff|\xef\xbf\xbf|\x00| class='org.apache.activemq.command.BrokerInfo'|"
    b" class='org.apache.activemq.command.DataArrayResponse'| reference='..'| reference='../../data'|"
    b"<string>x</string>|<value>1</value>|<data>QUJD</data>|<length>99</length>|<cause class='x'>|</cause>|<null/>"
).split(b"|")
TEXTS: Final = (
    "",
    "0",
    "-1",
    "128",
    "4294967296",
    "1e9",
    "true",
    "QUJD",
    "QUI=",
    "=",
    "\u00e9",
    "\ufdd0",
    "x" * 70_000,
)
PATHS: Final = ("", "..", "../..", "../../..", "../producerId", "../../messageId", "../*", "../value[2]", "../data")
MAX_ELEMENTS: Final = 2_000
DAMAGED_SHARE: Final = 0.2
REVALUED_SHARE: Final = 0.4
LIMITS: Final = (300, 64 * 1024, MAX_FRAME_SIZE)  # bytes of a frame
VALUE: Final = re.compile(rb">([^<\s][^<]*)<")
VALUES: Final = b"0|-1|1|true|false|128|-32769|65536|4294967296|9223372036854775808|1e9|QUJD|QUI=|=|x|x>y|a b\nc".split(
    b"|"
)
OTHER_VALUES: Final = b"| 1|1 |\n1|\t|&amp;|&#0;|]]>|\xc3\xa9|\xff".split(b"|")  # change the shape, or are not plain
LONG_VALUES: Final = (b"x" * 20_000, b"QUJD" * 5_000)
COMMAND: Final = "org.apache.activemq.command."
ODD: Final = [
    f"<{COMMAND}{text}</{COMMAND}{text.partition('>')[0]}>".encode()
    for text in (
        "ActiveMQMessage>a<producerId>b<connectionId>c</connectionId>d<value>1</value></producerId>",
        "ActiveMQMessage><producerId>b<connectionId>c</connectionId></producerId><messageId>x"
        "<producerId reference='../../producerId'/></messageId>".replace("'", '"'),
        "ActiveMQMessage><content><data>QUJD</data></content><new>1<new>2</new></new><type>t</type>",
        "ActiveMQMessage><content><data></data><offset>0</offset><length>0</length></content><type>t</type>",
        "ActiveMQMessage><content><data>QUJD</data><offset>1</offset><length>2</length></content>",
        "ActiveMQMessage><content><data>QUJD</data><offset>1</offset></content><priority> 4</priority>",
        "ActiveMQTextMessage><text>one</text><commandId>1</commandId><commandId>2</commandId>",
        "ActiveMQTextMessage><text>one</text><correlationId>2</correlationId><type reference='../text'/>".replace(
            "'", '"'
        ),
        "WireFormatInfo><magic>QWN0aXZlTVE=</magic><version>1</version>",
        "ProducerInfo><brokerPath>"
        + f"<{COMMAND}BrokerId><value>b</value></{COMMAND}BrokerId>" * 100
        + "</brokerPath>",
    )
]
TAGS: Final = (
    "data destination messageId producerId content brokerPath objectId exception transactionId command".split()
)


class Target:
    """The reader and the writer, and the recorded commands that are damaged."""

    def __init__(self) -> None:
        self._reader: Final = XmlReader()
        self._writer: Final = XmlWriter()
        self._decoder: Final = StructureDecoder(WireFormat())
        self.samples: Final = [case["xml"].encode() for case in load_vectors("xstream")["cases"]]
        self.read = 0
        self.misplaced = 0
        self.known = 0
        self._knowing: Final = XmlReader()

    def run(self, data: bytes) -> None:
        """Read a text; what was read decodes, and is unchanged after writing and reading."""
        started = time.process_time()
        refusal = ""
        try:
            frame = self._reader.frame(data, MAX_FRAME_SIZE)
        except OpenWireProtocolError as error:
            refusal = str(error)
        else:
            self.read += 1
            assert len(frame) < 2 * MAX_FRAME_SIZE
            self.check(frame, data)
        assert not difference(data), difference(data)
        assert "\n" not in refusal
        assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {data!r}"

    def compare(self, sample: bytes, text: bytes, max_frame_size: int) -> str:
        """How a reader with the shape of ``sample`` reads ``text`` otherwise than a new reader; empty if alike."""
        reader = self._knowing
        for _ in range(2):
            outcome(reader, sample, MAX_FRAME_SIZE)
        self.known += CutText(text).shape == CutText(sample).shape
        found, expected = (outcome(each, text, max_frame_size) for each in (reader, XmlReader()))
        return "" if found == expected else f"{text!r} after {sample!r}: {found} and not {expected}"

    def check(self, frame: bytes, data: bytes) -> None:
        """The frame is one structure, which the writer and the reader leave as it is, but for lines of stack traces.

        The decoder of frames, which a connection asks next, may refuse a structure of a wrong class.
        """
        try:
            self._decoder.decode(frame, 4, len(frame))
        except OpenWireProtocolError:
            self.misplaced += 1
        again = self._reader.frame(self._writer.text(frame))
        if again != frame:
            assert b"stackTrace" in data, f"changed by writing: {data!r}"
            assert self._reader.frame(self._writer.text(again)) == again, f"changed twice: {data!r}"


def damaged(source: random.Random, samples: list[bytes]) -> bytes:
    """A recorded command with pieces put in, cut out, moved or taken from another command."""
    data = bytearray(source.choice(samples))
    for _ in range(source.randrange(1, 5)):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.randrange(40))
        kind = source.randrange(6)
        if kind == 0:
            data[start:start] = source.choice(PIECES)
        elif kind == 1:
            del data[start:end]
        elif kind == 2:
            data[start:end] = bytes(data[start:end]) * 2
        elif kind == 3:
            data[start : start + 1] = bytes((source.randrange(256),))
        elif kind == 4:
            other = source.choice(samples)
            cut = source.randrange(len(other))
            data[start:end] = other[cut : cut + 200]
        else:
            tag = source.choice(TAGS).encode()
            data[start:end] = b"<" + tag + b">" + source.choice(PIECES) + b"</" + tag + b">"
    return bytes(data)


def rearranged(source: random.Random, samples: list[bytes]) -> bytes:
    """A recorded command as another document, well-formed: elements, texts and attributes moved or exchanged."""
    root = ElementTree.fromstring(source.choice(samples).replace(b"&#x0;", b""))
    for _ in range(source.randrange(1, 5)):
        elements = list(root.iter())
        element, other = source.choice(elements), source.choice(elements)
        kind = source.randrange(6)
        if kind == 0:
            element.text = source.choice(TEXTS)
        elif kind == 1:
            element.set("class", source.choice((other.tag, other.get("class", ""), "java.lang.Runtime")))
        elif kind == 2:
            element.set("reference", source.choice(PATHS))
        elif kind == 3 and len(element):
            element.remove(source.choice(list(element)))
        elif kind == 4:
            element.append(copy.deepcopy(other))
        else:
            element.tag = other.tag
        if sum(1 for _ in root.iter()) > MAX_ELEMENTS:
            break
    return ElementTree.tostring(root)


def revalued(source: random.Random, sample: bytes) -> bytes:
    """A command with other values in the same elements: new ones, or some of its own in other places."""
    values: list[bytes] = VALUE.findall(sample)
    share = source.choice((0.03, 0.1, 0.5))
    new = VALUES if source.random() < 0.8 else OTHER_VALUES

    def other(match: re.Match[bytes]) -> bytes:
        if source.random() > share:
            return match[0]
        kind = source.random()
        if kind < 0.02:
            return b">" + source.choice(LONG_VALUES) + b"<"
        if kind < 0.5 and match[1].isdigit():
            return b">%d<" % source.randrange(1 << source.randrange(1, 66))
        return b">" + source.choice(values if kind < 0.7 else new) + b"<"

    return VALUE.sub(other, sample)


def compare_revalued(source: random.Random) -> None:
    """Compare the readings of a command that has the shape of one before, mostly."""
    sample = source.choice(TARGET.samples if source.random() < 0.8 else ODD)
    if source.random() < 0.5:
        sample = revalued(source, sample)
    found = TARGET.compare(sample, revalued(source, sample), source.choice(LIMITS))
    assert not found, found


TARGET: Final = Target()


def loop(source: random.Random, count: int) -> str:
    """Damaged commands."""
    for _ in range(count):
        kind = source.random()
        if kind < REVALUED_SHARE:
            compare_revalued(source)
        else:
            change = damaged if kind < REVALUED_SHARE + DAMAGED_SHARE else rearranged
            TARGET.run(change(source, TARGET.samples))
    return f"xstream: {count} commands, {TARGET.read} of them read, {TARGET.known} of a known shape"


if __name__ == "__main__":
    sys.exit(run(sys.argv, TARGET.run, DEFAULT_COUNT, loop))
