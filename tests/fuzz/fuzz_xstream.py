"""Fuzz the reader of OpenWire's XML: any bytes give a frame that decodes, or one line of refusal.

python tests/fuzz/fuzz_xstream.py [COUNT [SEED]]      seeded damage to recorded commands; atheris if it is installed
python tests/fuzz/fuzz_xstream.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import copy
import random
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
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from tests.fuzz.harness import run
from tests.support.openwire_structures import load_vectors
from tests.support.xml_trees import difference

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
DAMAGED_SHARE: Final = 0.3
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


TARGET: Final = Target()


def loop(source: random.Random, count: int) -> str:
    """Damaged commands."""
    for _ in range(count):
        change = damaged if source.random() < DAMAGED_SHARE else rearranged
        TARGET.run(change(source, TARGET.samples))
    return f"xstream: {count} commands, {TARGET.read} of them read"


if __name__ == "__main__":
    sys.exit(run(sys.argv, TARGET.run, DEFAULT_COUNT, loop))
