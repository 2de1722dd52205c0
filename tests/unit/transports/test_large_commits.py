"""A socket whose client commits much: what follows in the same read, and its end, wait for the commit."""

from __future__ import annotations

from typing import Final, cast

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from spanwire.transports.base import StreamTransport
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn
from tests.support.stomp_dialogue import Stage
from tests.unit.transports.stage import FakeLoop, FakeSocket

MANY: Final = 3 * JOB_STEPS


class Door:
    """Lets one STOMP client in."""

    def __init__(self, stage: Stage) -> None:
        self.connection = StompBrokerConnection(stage.broker, ConnectionSettings(), stage.environment.now())

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        return self.connection

    def release(self, transport: StreamTransport) -> None:
        pass


def turns(stage: Stage, loop: FakeLoop, count: int) -> None:
    """Turns of the loop, in each of which the broker has its jobs done and the disk is as fast as can be."""
    for _ in range(count):
        loop.turn()
        if stage.broker.next_timeout() == 0.0:
            stage.broker.run(stage.environment.now())
        stage.broker.stored(stage.store.turn(), stage.environment.now())


def pending(stage: Stage, name: str) -> int:
    for view in stage.broker.destination_views():
        if view.destination == name:
            return view.pending
    return 0


def socket_of(stage: Stage, loop: FakeLoop) -> tuple[SocketPump, FakeSocket]:
    door = Door(stage)
    pump = SocketPump(Turn(loop, stage.broker, loop), door)
    socket = FakeSocket([])
    pump.connection_made(cast(StreamTransport, socket))
    return pump, socket


def frames() -> bytes:
    sends = "".join(f"SEND\ndestination:/queue/Q\ntransaction:t\npersistent:true\n\n{n}\0" for n in range(MANY))
    login = "CONNECT\naccept-version:1.2\nhost:h\n\n\0"
    return f"{login}BEGIN\ntransaction:t\n\n\0{sends}COMMIT\ntransaction:t\n\n\0".encode()


def test_a_commit_a_send_and_the_end_of_the_socket_in_one_read_lose_nothing() -> None:
    stage, loop = Stage(), FakeLoop()
    pump, socket = socket_of(stage, loop)
    pump.data_received(frames() + b"SEND\ndestination:/queue/R\n\nbehind\0")
    pump.eof_received()
    turns(stage, loop, 100)
    assert (pending(stage, "queue://Q"), pending(stage, "queue://R")) == (MANY, 1)
    assert socket.closing
    assert stage.broker.connection_views() == []


@pytest.mark.parametrize("after", range(0, 24, 3))
def test_a_socket_that_is_lost_during_a_commit_leaves_all_of_it_or_nothing(after: int) -> None:
    stage, loop = Stage(), FakeLoop()
    pump, _ = socket_of(stage, loop)
    pump.data_received(frames())
    turns(stage, loop, after)
    assert len(stage.broker.connection_views()) == 1
    pump.connection_lost(None)
    turns(stage, loop, 100)
    assert pending(stage, "queue://Q") == (MANY if after > 0 else 0), "the first turn does not come to the COMMIT"
    assert stage.broker.connection_views() == []
