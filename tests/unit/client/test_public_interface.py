"""What programs import from `spanwire.client`, what a type checker says of it, and what it refuses at run time."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spanwire.client
from spanwire.client import Body, MessageFormatError, Property, Session
from spanwire.client.messages.message_encoder import delayed_properties, property_octets
from spanwire.client.messages.typed_values import Long
from spanwire.model import errors
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.protocols.primitive_map import decode_map
from spanwire.testing import Broker
from tests.support.client_shells import SHELLS, opened

WAIT_S = 10.0
SNIPPET = """
from spanwire.client import JmsError, connect, aio
with connect("tcp://h") as connection, connection.session("individual") as session:
    producer = session.create_producer("queue://A")
    numbers: dict[str, int] = {"a": 1}
    producer.send(numbers, properties=numbers, delay_ms=1)
    producer.send(["a", b"b", {"c": [1.5, None]}])
    message = session.create_consumer("queue://A").receive(1)
    if message is not None:
        producer.send(message, properties={**message.properties, "again": True})
        print(len(message.text), message.json()["a"], f"{message.body}")
        message.reply("yes")
async def main() -> None:
    async with aio.connect("tcp://h") as connection, connection.session("xa") as session:
        message = await (await session.create_consumer("queue://A")).receive(1)
        if message is not None:
            await message.reply({"a": 1})
"""
MISTAKES = {
    'connection.session("manual")': "incompatible type \"Literal['manual']\"",
    "producer.send(object())": 'incompatible type "object"',
    'producer.send("x", properties={"a": [1]})': 'Dict entry 0 has incompatible type "str": "list[int]"',
    'producer.send({"a": object()})': 'incompatible type "str": "object"',
    'aio.connect("tcp://h").session()': '"Connecting" has no attribute "session"',
    "import spanwire.client; spanwire.client.nonsense": 'Module has no attribute "nonsense"',
}


def test_a_type_checker_takes_what_can_be_sent_and_finds_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="type checks need mypy, which the environment of the compiled build has not")
    program = tmp_path / "program.py"
    lines = (SNIPPET + "\n".join(MISTAKES)).splitlines()
    program.write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = {int(line.split(":")[1]): line for line in done.stdout.splitlines() if ": error: " in line}
    first = len(lines) - len(MISTAKES) + 1
    assert sorted(told) == list(range(first, len(lines) + 1)), done.stdout + done.stderr
    for number, words in enumerate(MISTAKES.values(), first):
        assert words in told[number]


def test_the_names_that_a_type_checker_sees_are_those_that_can_be_imported() -> None:
    tree = ast.parse(Path(spanwire.client.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    seen = {name.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert seen == spanwire.client.EXPORTS
    for name in seen:
        assert name in dir(spanwire.client)
        assert getattr(spanwire.client, str(name)) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        spanwire.client.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_that_a_broker_or_a_url_causes_can_be_imported() -> None:
    raised = {found.__name__ for found in vars(errors).values() if isinstance(found, type)}
    public = {name for name in spanwire.client.EXPORTS if name.endswith("Error")}
    of_brokers = {"ProtocolError", "LocalProtocolError", "RemoteProtocolError", "StoreError", "FencedError"}
    assert raised - of_brokers == public


def test_importing_the_package_alone_loads_no_shell() -> None:
    program = "import sys, spanwire.client; print(*[name for name in sys.modules if name.startswith('spanwire')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) <= {"spanwire", "spanwire.client", "spanwire.registry"}


@pytest.mark.parametrize("name", ["a b", "a.b", "1a", "and", "NULL", "Between", "a:b", "-a", "ä b"])
def test_a_property_that_no_selector_can_name_is_refused(name: str) -> None:
    with pytest.raises(MessageFormatError, match="a property cannot be called"):
        property_octets({name: 1}, None)


@pytest.mark.parametrize("name", ["a", "_a", "$a", "a1", "größe", "JMSXGroupID", "content-type", "android", "isle"])
def test_other_names_are_taken(name: str) -> None:
    assert list(decode_map(property_octets({name: 1}, None))) == [name]


@pytest.mark.parametrize("delay", [-1, 1.5, "5", 2**53 + 1])
def test_a_delay_is_a_whole_number_of_milliseconds(delay: Any) -> None:
    with pytest.raises(MessageFormatError, match="a delay is 0 or more whole milliseconds"):
        delayed_properties(None, None, delay)


def test_a_delay_joins_the_other_properties() -> None:
    given: dict[str, Property] = {"n": Long(1)}
    found = decode_map(delayed_properties(given, None, 5))
    assert {name: value for name, (_, value) in found.items()} == {"n": 1, "AMQ_SCHEDULED_DELAY": 5}
    assert delayed_properties(None, None, 0) == b""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_delayed_message_comes_when_its_time_is_over(shell: str, spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://LATER")
            consumer = await session.create_consumer("queue://LATER")
            await producer.send("later", properties={"n": 1}, delay_ms=3_600_000)
            await producer.send("now")
            assert (await consumer.receive(WAIT_S)).text == "now"
            assert await consumer.receive(0.01) is None
            await asyncio.to_thread(spanwire_broker.advance, 3_601)
            message = await consumer.receive(WAIT_S)
            assert (message.text, message.properties["n"]) == ("later", 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_reply_goes_back_to_who_asked(shell: str, spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session("client") as server:
            requests = await server.create_consumer("queue://PRICES")

            async def answer() -> None:
                message = await requests.receive(WAIT_S)
                sent = message.reply({"price": message.json()["book"]}, properties={"n": 1})
                await sent

            answering = asyncio.create_task(answer())
            async with connection.session() as client:
                reply = await client.request("queue://PRICES", '{"book": 12}', timeout=WAIT_S)
                await answering
                assert (reply.body, reply.properties) == ({"price": 12}, {"n": 1})

    asyncio.run(scenario())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_message_without_reply_to_cannot_be_answered(shell: str, spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session() as session:
            await (await session.create_producer("queue://A")).send("x")
            message = await (await session.create_consumer("queue://A")).receive(WAIT_S)
            with pytest.raises(InvalidDestinationError, match="the message has no reply_to"):
                await message.reply("y")

    asyncio.run(scenario())


def exchanged(session: Session, body: Body) -> Any:
    session.create_producer("queue://X").send(body)
    with session.create_consumer("queue://X") as consumer:
        return consumer.receive(WAIT_S)


def test_the_text_of_text_and_bytes_is_a_str(spanwire_broker: Broker) -> None:
    with spanwire.client.connect(spanwire_broker.url) as connection, connection.session() as session:
        assert exchanged(session, "grüße").text == "grüße"
        assert exchanged(session, "grüße".encode()).text == "grüße"
        assert exchanged(session, '{"a": [1, null]}').json() == {"a": [1, None]}
        for body, told in (
            (None, "there is no text"),
            ({"a": 1}, "a map message has no text"),
            (b"\xff", "the body is no text in UTF-8"),
        ):
            with pytest.raises(JmsError, match=told):
                exchanged(session, body).text  # noqa: B018
        with pytest.raises(MessageFormatError, match="the body is no JSON: "):
            exchanged(session, "{").json()
