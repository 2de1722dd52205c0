"""Messages cross from STOMP to the Java client and back; both see what they would see through Classic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import assert_alike
from tests.support.broker_process import BrokerProcess
from tests.support.java import JavaProcess, Observation
from tests.support.stomp_socket import StompSocket

VECTORS = Path(__file__).parent.parent / "vectors" / "stomp-mapping.json"
VERSIONS = ("1.0", "1.1", "1.2")
VARYING = ("message-id", "timestamp", "ack", "expires")


def _cases() -> list[dict[str, Any]]:
    """The SEND frames that arrive in a queue of their own; transformations need libraries that few Classics have."""
    cases: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))["stomp_to_jms"]
    return [
        case
        for case in cases
        if "class" in (case.get("jms") or {})
        and case["frame"].startswith("SEND\ndestination:/queue/SQ.")
        and "\ntransformation:" not in case["frame"]
    ]


def _sent_by_stomp(broker: BrokerProcess, java: JavaProcess) -> list[Observation]:
    cases = _cases()
    for version in VERSIONS:
        with StompSocket(broker.stomp_port) as client:
            client.connect(version)
            for case in cases:
                if case["version"] == version:
                    client.type(case["frame"])
                    answer = client.receive()
                    assert answer is not None and answer.command == "RECEIPT", (case["id"], answer)
    rows = []
    for case in cases:
        queue = case["frame"].split("\n")[1].removeprefix("destination:/queue/")
        for row in java.ask("receive", broker.openwire_uri(), f"queue://{queue}", "1"):
            rows.append({"id": case["id"], **row})
    return rows


def _sent_by_java(broker: BrokerProcess, java: JavaProcess, version: str) -> list[Observation]:
    rows = []
    with StompSocket(broker.stomp_port) as client:
        client.connect(version)
        client.type(f"SUBSCRIBE\nid:s\ndestination:/queue/FROM.JMS.{version}\nack:client\n\n\0")
        for row in java.ask("send-every-message", broker.openwire_uri(), f"queue://FROM.JMS.{version}"):
            frame = client.receive()
            assert frame is not None
            # A text with NUL needs its length; Classic writes such a NUL as two octets.
            if row["kind"].startswith("text") and frame.headers.pop("content-length", None):
                assert b"\0" in frame.body
            # Half a character: Classic writes a question mark, Spanwire the replacement character.
            headers = {
                name: "*" if name in VARYING else value.replace("\ufffd", "?")
                for name, value in sorted(frame.headers.items())
            }
            rows.append({**row, "headers": headers, "body": _as_utf_8(frame.body)})
    return rows


def _as_utf_8(body: bytes) -> str:
    """A body for comparison. Texts that Classic passes on in Java's modified UTF-8 are, by STOMP, to be UTF-8."""
    try:
        text = body.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.hex()
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@pytest.mark.smoke
def test_what_stomp_sends_is_what_the_java_client_gets(
    java: JavaProcess, spanwire: BrokerProcess, classic: BrokerProcess
) -> None:
    ours = _sent_by_stomp(spanwire, java)
    assert len(ours) > 60
    assert_alike(ours, _sent_by_stomp(classic, java))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_java_client_sends_is_what_stomp_gets(
    java: JavaProcess, spanwire: BrokerProcess, classic: BrokerProcess, version: str
) -> None:
    ours = _sent_by_java(spanwire, java, version)
    assert len(ours) > 20
    assert_alike(ours, _sent_by_java(classic, java, version))


def test_a_reply_to_a_temporary_queue_of_the_java_client_crosses_back(
    java: JavaProcess, spanwire: BrokerProcess, classic: BrokerProcess
) -> None:
    def conversation(broker: BrokerProcess) -> list[Observation]:
        with StompSocket(broker.stomp_port) as server:
            server.connect("1.1")
            server.type("SUBSCRIBE\nid:s\ndestination:/queue/ASKED.BY.JMS\nack:auto\n\n\0")

            def answer(_: str) -> None:
                question = server.receive()
                assert question is not None
                reply_to = question.headers["reply-to"]
                correlation = question.headers["correlation-id"]
                server.type(
                    f"SEND\ndestination:{reply_to}\ncorrelation-id:{correlation}\n\nre: {question.body.decode()}\0"
                )

            return java.ask("ask", broker.openwire_uri(), "ASKED.BY.JMS", on_event=answer)

    ours = conversation(spanwire)
    assert ours == [{"answer": "re: how much?", "correlation": "c-1"}]
    assert ours == conversation(classic)
