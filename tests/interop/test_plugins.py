"""Plug-ins that change or drop messages do on Spanwire what they do on Classic, seen by a STOMP client."""

from __future__ import annotations

import time
from typing import Final

import pytest

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.stomp_socket import StompFrame, StompSocket

MINUTE_MS: Final = 60_000
CEILING_MS: Final = 20 * MINUTE_MS
OVERRIDE_MS: Final = 10 * MINUTE_MS
PLUGINS: Final = f"""\
    <plugins>
      <timeStampingBrokerPlugin ttlCeiling="{CEILING_MS}" zeroExpirationOverride="{OVERRIDE_MS}"/>
      <forcePersistencyModeBrokerPlugin persistenceFlag="true"/>
      <discardingDLQBrokerPlugin dropAll="false" dropTemporaryTopics="false" dropTemporaryQueues="false"
                                 dropOnly="DROPPED\\..* GONE"/>
    </plugins>
"""
# how long ago it was sent, and for how long it was to live (0: for ever); None for a message without a time
SENT: Final = [(60, 5), (60, 30), (60, 0), (-60, 5), (0, 5), (0, 0), None]

Seen = list[tuple[str, int, str]]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> list[BrokerProcess]:
    return [
        classic_broker(tmp_path_factory.mktemp("classic"), inside=PLUGINS),
        BrokerProcess(spanwire_command(), tmp_path_factory.mktemp("spanwire"), inside=PLUGINS),
    ]


def _next(client: StompSocket, destination: str, ack: str = "auto") -> StompFrame:
    """The next message of a queue."""
    client.type(f"SUBSCRIBE\nid:{destination}\ndestination:{destination}\nack:{ack}\n\n\0")
    frame = client.receive()
    assert frame is not None and frame.command == "MESSAGE", frame
    return frame


def _does(client: StompSocket, command: str, *headers: str, body: str = "") -> None:
    """A command that the broker has carried out when this returns."""
    client.type("\n".join([command, *headers, "receipt:r"]) + f"\n\n{body}\0")
    answer = client.receive()
    assert answer is not None and answer.command == "RECEIPT", answer


def _times(broker: BrokerProcess) -> Seen:
    """What became of the times in `SENT`: whether the message has the broker's time, and how many minutes it lives."""
    seen: Seen = []
    with StompSocket(broker.stomp_port) as client:
        client.connect("1.2")
        for number, sent in enumerate(SENT):
            headers = [f"destination:/queue/T.{number}"]
            now_ms = int(time.time() * 1_000)
            if sent is not None:
                ago, minutes = sent
                stamp_ms = now_ms - ago * MINUTE_MS
                headers.append(f"timestamp:{stamp_ms}")
                headers.append(f"expires:{stamp_ms + minutes * MINUTE_MS if minutes else 0}")
            _does(client, "SEND", *headers, body="x")
            frame = _next(client, f"/queue/T.{number}")
            stamped_ms, expires_ms = int(frame.headers.get("timestamp", "0")), int(frame.headers["expires"])
            age = (
                "of the broker" if abs(stamped_ms - now_ms) < 5 * MINUTE_MS else "none" if stamped_ms <= 0 else "other"
            )
            lives = round((expires_ms - stamped_ms) / MINUTE_MS) if expires_ms > 0 else 0
            seen.append((age, lives, frame.headers.get("persistent", "false")))
    return seen


def _letters(broker: BrokerProcess) -> list[str]:
    """Which of the messages that a consumer gave up are among the dead letters."""
    seen: list[str] = []
    with StompSocket(broker.stomp_port) as client:
        client.connect("1.2")
        for queue in ("DROPPED.A", "GONE", "KEPT.A", "MY.GONE", "DROPPED", "DROPPED.B", "LAST"):
            _does(client, "SEND", f"destination:/queue/{queue}", "persistent:true", body=queue)
            frame = _next(client, f"/queue/{queue}", "client-individual")
            _does(client, "NACK", f"id:{frame.headers['ack']}")
        client.type("SUBSCRIBE\nid:d\ndestination:/queue/ActiveMQ.DLQ\nack:auto\n\n\0")
        while "LAST" not in seen:
            letter = client.receive()
            assert letter is not None
            seen.append(letter.body.decode())
    return seen


def test_times_delivery_modes_and_dropped_dead_letters_are_those_of_classic(brokers: list[BrokerProcess]) -> None:
    times, letters = [], []
    for broker in brokers:
        with broker:
            times.append(_times(broker))
            letters.append(_letters(broker))
    assert times[1] == times[0]
    assert letters[1] == letters[0] == ["KEPT.A", "MY.GONE", "DROPPED", "LAST"]
    assert times[1][:3] == [("of the broker", 5, "true"), ("of the broker", 20, "true"), ("of the broker", 10, "true")]
