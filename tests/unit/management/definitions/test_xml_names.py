"""Names that XML cannot carry, in a document of definitions as XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from spanwire.management.definitions.document import from_rows
from spanwire.management.definitions.xml_document import to_xml


def test_a_name_that_xml_cannot_carry_is_named_and_breaks_no_file() -> None:
    names = ("A\ud800B", "C\x01D", "E\ufffeF", "G\tH")
    text, unsaid = to_xml(from_rows("b\x00", [{"kind": "queue", "name": name} for name in names]))
    queues = ET.fromstring(text.encode()).iter("queue")
    assert [queue.attrib["physicalName"] for queue in queues] == ["A\ufffdB", "C\ufffdD", "E\ufffdF", "G\tH"]
    assert unsaid == [f"queue {name}: XML cannot carry the name" for name in sorted(names[:3])]
