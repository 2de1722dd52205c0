"""A broker that stands still for seconds, a wall clock that leaps by a day: nobody is thrown out, nothing comes twice.

The leaps need libfaketime (apt package libfaketime); without it that test is skipped.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

import pytest

from tests.faults.broker import FragileBroker
from tests.faults.load import Client, MixedLoad, drain, until, verdict_of
from tests.support.stomp_socket import StompSocket
from tests.support.total_queue import Ledger, Verdict

PAUSES_S: Final = (1.0, 2.0, 5.0)
BETWEEN_S: Final = 1.2  # the broker looks at the system's clock each second
PATIENCE_S: Final = 20.0
WAITING: Final = "FAULTS.WAITING"
LAST: Final = "nothing follows"
LIBRARIES: Final = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


def everybody_works(clients: list[Client]) -> None:
    """Nobody was thrown out: every client does another round."""
    before = [client.rounds for client in clients]
    until(
        lambda: all(client.rounds > then for client, then in zip(clients, before, strict=True)),
        f"that each of {[client.name for client in clients]} goes on",
    )


def send(port: int, body: str, lifetime_ms: int) -> None:
    """One persistent message that expires, if ``lifetime_ms`` is above 0."""
    expires = f"expires:{int(time.time() * 1000) + lifetime_ms}\n" if lifetime_ms else ""
    with StompSocket(port) as sender:
        sender.connect("1.2")
        sender.type(f"SEND\ndestination:/queue/{WAITING}\npersistent:true\n{expires}receipt:r\n\n{body}\0")
        answer = sender.receive()
        assert answer is not None and answer.command == "RECEIPT", answer


def received(port: int) -> list[str]:
    """What is in the queue now; a last message, sent behind all others, tells where it ends."""
    send(port, LAST, 0)
    found: list[str] = []
    with StompSocket(port) as receiver:
        receiver.connect("1.2")
        receiver.type(f"SUBSCRIBE\nid:s\ndestination:/queue/{WAITING}\nack:auto\n\n\0")
        while True:
            frame = receiver.receive()
            assert frame is not None, "the broker has ended the connection"
            if (body := frame.body.decode()) == LAST:
                return found
            found.append(body)


def no_storm(ledger: Ledger, verdict: Verdict) -> None:
    """What comes twice was rolled back, or held by a client that left: the others come once."""
    assert verdict.ok, verdict.report()
    rolled_back = sum(event.kind == "delivered" and event.who.endswith(".ot") for event in ledger.events)
    held = sum(event.kind == "delivered" and event.flag for event in ledger.events)
    assert verdict.duplicated <= rolled_back + held
    assert verdict.duplicated < verdict.delivered // 2, verdict.summary()


def test_a_broker_that_stands_still_loses_no_client_and_sends_nothing_twice(tmp_path: Path) -> None:
    ledger = Ledger()
    load = MixedLoad(ledger, "p")
    with FragileBroker(tmp_path / "broker") as broker:
        load.start(broker.openwire_port, broker.stomp_port)
        send(broker.stomp_port, "lives", 60_000)
        ledger.attempted(WAITING, "p.w", 1, "dies")
        send(broker.stomp_port, "dies", 300)
        ledger.granted("dies")  # it expires, so it must be among the dead letters in the end
        for pause in PAUSES_S:
            everybody_works(load.clients)
            broker.pause()
            threading.Event().wait(pause)
            broker.resume()
        everybody_works(load.clients)
        assert received(broker.stomp_port) == ["lives"]
        load.end()
        drain(ledger, broker.stomp_port, "d")
    no_storm(ledger, verdict_of(ledger))


def test_a_wall_clock_that_leaps_by_a_day_disturbs_nobody(tmp_path: Path) -> None:
    if not LIBRARIES:
        pytest.skip("libfaketime is missing (apt package libfaketime)")
    clock = tmp_path / "clock"
    clock.write_text("+0", "ascii")
    ledger = Ledger()
    load = MixedLoad(ledger, "c")
    broker = FragileBroker(tmp_path / "broker")
    broker.runs_under = (
        "env", f"LD_PRELOAD={LIBRARIES[0]}", f"FAKETIME_TIMESTAMP_FILE={clock}", "FAKETIME_NO_CACHE=1",
        "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
    )  # fmt: skip
    with broker:
        load.start(broker.openwire_port, broker.stomp_port)
        send(broker.stomp_port, "no end", 0)
        for leap in ("+1d", "-1d", "-2d", "+0"):
            new = tmp_path / "clock.new"
            new.write_text(leap, "ascii")
            new.replace(clock)
            threading.Event().wait(BETWEEN_S)
            everybody_works(load.clients)
        send(broker.stomp_port, "lives", 60_000)
        assert received(broker.stomp_port) == ["no end", "lives"]
        load.end()
        assert broker.stop() == 0
        broker.start()
        drain(ledger, broker.stomp_port, "d")
    no_storm(ledger, verdict_of(ledger))
