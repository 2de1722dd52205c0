"""Message convertors: files of the operator that see and change the messages of a bridge."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as compile_file

import pytest

from spanwire.bridges.model.convertible import Convertible
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import Convert, ProxyReplyTo
from spanwire.bridges.ports import MessageRefusedError
from spanwire.bridges.running.convertors import MAX_FILE_BYTES, Conversion, Convertors, convertor_obstacles
from spanwire.bridges.running.links import PairLink
from spanwire.bridges.running.replies import reply_proxies
from spanwire.model.destination import QUEUE, TEMP_QUEUE, Destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.message_view import BYTES, INT_VALUE, MAP, SHORT_VALUE, STREAM, STRING_VALUE, TEXT
from spanwire.protocols.primitive_map import encode_map
from tests.support.bridge_dialogue import definition, text_message, text_messages
from tests.unit.bridges.test_replies import Ends

UPPER = "def convert(message):\n    message.body = message.body.upper()\n    message.properties['by'] = 'us'\n"


def convertors(directory: Path, source: str = UPPER, name: str = "upper") -> Convertors:
    directory.chmod(0o755)
    (directory / f"{name}.py").write_text(source)
    return Convertors(directory)


def conversion(directory: Path, source: str = UPPER) -> Conversion:
    found = convertors(directory, source).conversion(definition(steps=(Convert("upper"),)))
    assert found is not None
    return found


def converted(directory: Path, source: str, message: BridgeMessage) -> BridgeMessage:
    (answer,) = asyncio.run(conversion(directory, source).convert([message]))
    return answer


def refused(directory: Path, source: str, messages: list[BridgeMessage]) -> MessageRefusedError:
    with pytest.raises(MessageRefusedError) as raised:
        asyncio.run(conversion(directory, source).convert(messages))
    return raised.value


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        act()
    return str(raised.value)


def test_a_convertor_changes_body_properties_and_headers(tmp_path: Path) -> None:
    source = UPPER + "    message.priority = 9\n    message.correlation_id = message.message_id\n"
    before = text_message(1, properties={"n": (SHORT_VALUE, 7)})
    after = converted(tmp_path, source, before)
    assert after.content.neutral_body() == b"TEXT 1"
    assert after.property_values() == {"n": (SHORT_VALUE, 7), "by": (STRING_VALUE, "us")}
    assert (after.priority, after.correlation_id, after.kind) == (9, "ID:1", TEXT)
    assert (after.message_id, after.timestamp_ms, after.persistent) == ("ID:1", before.timestamp_ms, True)


def test_a_body_that_nobody_touches_is_forwarded_as_it_came(tmp_path: Path) -> None:
    before = text_message(1)
    assert converted(tmp_path, "def convert(message):\n    return message\n", before).content is before.content


@pytest.mark.parametrize(
    ("value", "kind", "body"),
    [
        ("b'ab'", BYTES, b"ab"),
        ("{'n': 1}", MAP, encode_map({"n": (INT_VALUE, 1)})),
        ("['x']", STREAM, b"\x09\x00\x01x"),
        ("None", 0, None),
    ],
)
def test_a_new_body_decides_the_type_of_the_message(tmp_path: Path, value: str, kind: int, body: bytes | None) -> None:
    after = converted(tmp_path, f"def convert(message):\n    message.body = {value}\n", text_message(1))
    assert (after.kind, after.content.neutral_body()) == (kind, body)


class MapContent:
    def neutral_body(self) -> bytes | None:
        return encode_map({"n": (SHORT_VALUE, 7)})

    def property_values(self) -> dict[str, tuple[int, object]]:
        return {}


def test_a_map_changes_in_place_and_keeps_its_types_if_it_is_only_read() -> None:
    reader = Convertible(BridgeMessage("ID:1", MAP, MapContent(), 10))
    assert reader.body == {"n": 7}
    assert reader.converted().content.neutral_body() == encode_map({"n": (SHORT_VALUE, 7)})
    writer = Convertible(BridgeMessage("ID:1", MAP, MapContent(), 10))
    writer.body["n"] = 8
    assert writer.converted().content.neutral_body() == encode_map({"n": (INT_VALUE, 8)})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise ValueError('no total')", "the convertor upper has failed at upper.py:2: ValueError: no total"),
        ("return 1", "TypeError: convert returns int; it must change the message, and return nothing"),
        ("message.properties['a b'] = 1", "a property cannot be called 'a b'"),
        ("message.properties['a'] = []", "the property 'a' is a value of the type list"),
        ("message.body = 3", "body is a int"),
        ("message.priority = 11", "priority is '11'; it must be a whole number from 0 to 9"),
        ("message.reply_to = 'x'", "reply_to is no destination"),
        ("message.nothing.x", "AttributeError"),
        ("raise SystemExit(1)", "SystemExit: 1"),
    ],
)
def test_a_message_at_which_a_convertor_fails_is_refused_with_the_cause(tmp_path: Path, line: str, words: str) -> None:
    error = refused(tmp_path, f"def convert(message):\n    {line}\n", [text_message(1)])
    assert words in str(error)
    assert "\n" not in str(error)


def test_the_first_message_at_fault_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    source = "def convert(message):\n    assert message.body != 'text 1', 'odd'\n"
    ends = Ends()
    link = PairLink(ends, ends, None, conversion(tmp_path, source))
    with pytest.raises(MessageRefusedError) as raised:
        asyncio.run(link.send(text_messages(3)))
    assert raised.value.index == 1


def test_a_convertor_sees_the_temporary_queue_in_place_of_the_reply_destination(tmp_path: Path) -> None:
    source = "def convert(message):\n    message.properties['reply'] = message.reply_to.qualified_name\n"
    sent: list[BridgeMessage] = []

    class Recording(Ends):
        async def send(self, messages: list[BridgeMessage]) -> None:
            sent.extend(messages)

    async def scenario() -> None:
        ends = Recording()
        replies = reply_proxies(definition(steps=(ProxyReplyTo(),)), ends, ends)
        message = text_message(1)
        message.reply_to = Destination(QUEUE, "ANSWERS")
        await PairLink(ends, ends, replies, conversion(tmp_path, source)).send([message])

    asyncio.run(scenario())
    assert sent[0].property_values()["reply"] == (STRING_VALUE, Destination(TEMP_QUEUE, "proxy0").qualified_name)


def test_a_convertor_that_does_not_return_fails_the_link_and_is_not_called_again(tmp_path: Path) -> None:
    release, hanging = threading.Event(), set[str]()

    def wait(message: Convertible) -> None:
        release.wait(30)

    async def scenario() -> None:
        with pytest.raises(JmsError, match=r"the convertor slow has not returned for 0\.05 s"):
            await Conversion("slow", wait, hanging, 0.05).convert([text_message(1)])
        assert hanging == {"slow"}
        release.set()

    asyncio.run(scenario())  # waits for the thread
    assert hanging == set()
    busy = convertors(tmp_path)
    busy._hanging.add("upper")
    assert "has still not returned" in refusal(lambda: busy.conversion(definition(steps=(Convert("upper"),))))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def convert(message)\n    pass\n", "upper.py:1: expected ':'"),
        ("import nothing_of_the_kind\n", "does not load at upper.py:1: ModuleNotFoundError"),
        ("x = 1\n", "has no function convert; write def convert(message): …"),
        ("async def convert(message):\n    pass\n", "has no function convert"),
        ("convert = 1\n", "has no function convert"),
    ],
)
def test_a_file_that_is_no_convertor_is_refused(tmp_path: Path, source: str, words: str) -> None:
    assert words in refusal(lambda: conversion(tmp_path, source))


def test_a_file_that_is_too_large_is_no_convertor(tmp_path: Path) -> None:
    assert f"is larger than {MAX_FILE_BYTES} bytes" in refusal(lambda: conversion(tmp_path, "#" * (MAX_FILE_BYTES + 1)))


def test_a_mended_file_loads_at_the_next_attempt(tmp_path: Path) -> None:
    found = convertors(tmp_path, "broken(")
    bridge = definition(steps=(Convert("upper"),))
    assert "upper.py:1" in refusal(lambda: found.conversion(bridge))
    (tmp_path / "upper.py").write_text(UPPER)
    assert found.conversion(bridge) is not None
    assert not (tmp_path / "__pycache__").exists()


def test_a_compiled_form_beside_the_file_is_never_read(tmp_path: Path) -> None:
    conversion(tmp_path)
    compiled = Path(cache_from_source(str(tmp_path / "upper.py")))
    compiled.parent.mkdir()
    (tmp_path / "lower.py").write_text(UPPER.replace("upper()", "lower()"))
    compile_file(str(tmp_path / "lower.py"), str(compiled), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    after = converted(tmp_path, UPPER, text_message(1))
    assert after.content.neutral_body() == b"TEXT 1"


def test_only_the_owner_may_write_to_directory_and_file(tmp_path: Path) -> None:
    found = convertors(tmp_path)
    tmp_path.chmod(0o775)
    assert f"chmod go-w {tmp_path}" in refusal(lambda: found.check("upper"))
    tmp_path.chmod(0o755)
    (tmp_path / "upper.py").chmod(0o646)
    assert "can be written by other users" in refusal(lambda: found.check("upper"))
    (tmp_path / "upper.py").chmod(0o644)
    found.check("upper")


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(UPPER)
    directory = tmp_path / "convertors"
    directory.mkdir(mode=0o755)
    (directory / "upper.py").symlink_to(tmp_path / "elsewhere")
    assert "is no file of this directory" in refusal(lambda: Convertors(directory).check("upper"))


def test_a_start_says_what_is_missing(tmp_path: Path) -> None:
    bridge = replace(definition(steps=(Convert("lower"),)), name="far")
    found = convertors(tmp_path)
    assert found is not None
    assert convertor_obstacles([bridge], None) == [
        "bridge far: the convertor lower needs --convertors DIRECTORY with the file lower.py"
    ]
    (missing,) = convertor_obstacles([bridge], tmp_path)
    assert missing.endswith("lower.py; known are upper")
    (absent,) = convertor_obstacles([bridge], tmp_path / "no")
    assert absent.endswith("no: No such file or directory")
    assert convertor_obstacles([replace(bridge, steps=(Convert("upper"),))], tmp_path) == []
