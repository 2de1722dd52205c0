"""Frames behind a commit or rollback of many messages are held until that has ended, and none is lost."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from tests.support.stomp_dialogue import Peer, Stage

MANY: Final = 3 * JOB_STEPS


def transaction(count: int = MANY, name: str = "t") -> str:
    sends = "".join(
        f"SEND\ndestination:/queue/Q\ntransaction:{name}\npersistent:true\n\n{number}\0" for number in range(count)
    )
    return f"BEGIN\ntransaction:{name}\n\n\0{sends}"


def feeds(stage: Stage, peer: Peer, frames: str) -> None:
    """Bytes arrive as one read, and the turn ends there."""
    peer.connection.receive_data(frames.encode(), stage.environment.now())


def turn(stage: Stage, peer: Peer) -> None:
    """The broker has its turn, and then the connection."""
    stage.broker.run(stage.environment.now())
    peer.connection.go_on(stage.environment.now())


def works(stage: Stage, peer: Peer, frames: str) -> None:
    """``frames`` are acted on until the first has begun what takes several turns."""
    feeds(stage, peer, frames)
    while peer.connection.holds_requests and stage.broker.next_timeout() != 0.0:
        peer.connection.go_on(stage.environment.now())


def receipts(peer: Peer) -> list[str]:
    return [frame.headers.get("receipt-id", frame.command) for frame in peer.receives()]


def waiting(stage: Stage, destination: str = "queue://Q") -> int:
    for view in stage.broker.destination_views():
        if view.destination == destination:
            return view.pending
    return 0


def test_frames_behind_a_commit_are_held_until_it_has_ended() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    works(
        stage,
        peer,
        transaction() + "COMMIT\ntransaction:t\nreceipt:commit\n\n\0SEND\ndestination:/queue/R\nreceipt:send\n\nx\0",
    )
    for _ in range(3):
        assert peer.connection.holds_requests
        assert waiting(stage, "queue://R") == 0
        turn(stage, peer)
    stage.settle()
    assert waiting(stage) == MANY
    assert waiting(stage, "queue://R") == 1
    assert sorted(receipts(peer)) == ["commit", "send"]
    assert not peer.connection.holds_requests


def test_a_disconnect_behind_a_commit_is_answered_when_the_store_has_it() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    works(stage, peer, transaction() + "COMMIT\ntransaction:t\n\n\0DISCONNECT\nreceipt:bye\n\n\0")
    for _ in range(2):
        turn(stage, peer)
        assert receipts(peer) == []
    while peer.connection.holds_requests:
        turn(stage, peer)
    assert receipts(peer) == [], "it is handed over, and not on the disk"
    assert not peer.connection.closed
    stage.settle()
    assert receipts(peer) == ["bye"]
    assert peer.connection.closed
    assert waiting(stage) == MANY


@pytest.mark.parametrize("turns", range(5))
def test_a_socket_that_breaks_during_a_commit_loses_nothing_of_it(turns: int) -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    works(stage, peer, transaction() + "COMMIT\ntransaction:t\n\n\0")
    for _ in range(turns):
        turn(stage, peer)
    peer.leaves()
    assert waiting(stage) == MANY
    assert stage.broker.connection_views() == []


def test_a_client_whose_commit_takes_long_is_not_taken_for_silent() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends("CONNECT\naccept-version:1.2\nhost:h\nheart-beat:1000,0\n\n\0")
    peer.receives()
    works(stage, peer, transaction() + "COMMIT\ntransaction:t\nreceipt:done\n\n\0")
    while peer.connection.holds_requests:
        stage.environment.monotonic += 0.9
        turn(stage, peer)
        peer.connection.handle_timeout(stage.environment.now())
        assert not peer.connection.closed
    stage.settle()
    assert receipts(peer) == ["done"]


def test_frames_behind_a_large_abort_are_held() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    works(
        stage,
        peer,
        transaction() + "ABORT\ntransaction:t\nreceipt:abort\n\n\0SEND\ndestination:/queue/R\nreceipt:send\n\nx\0",
    )
    assert peer.connection.holds_requests
    assert waiting(stage, "queue://R") == 0
    stage.settle()
    assert (waiting(stage), waiting(stage, "queue://R")) == (0, 1)
    assert receipts(peer) == ["abort", "send"]


def test_bytes_that_a_transport_feeds_during_a_commit_come_behind_it() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    works(stage, peer, transaction() + "COMMIT\ntransaction:t\nreceipt:commit\n\n\0")
    assert peer.connection.holds_requests
    feeds(stage, peer, "SEND\ndestination:/queue/Q\nreceipt:send\n\nx\0")
    stage.settle()
    assert waiting(stage) == MANY + 1
    assert sorted(receipts(peer)) == ["commit", "send"]


def test_a_small_commit_is_answered_in_its_own_turn() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    feeds(stage, peer, transaction(JOB_STEPS) + "COMMIT\ntransaction:t\nreceipt:commit\n\n\0")
    assert stage.broker.next_timeout() != 0.0
    assert not peer.connection.holds_requests
    stage.settle()
    assert receipts(peer) == ["commit"]
