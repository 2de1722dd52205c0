"""One socket and its connection: what is read, what is written and when, how it ends."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from spanwire.model.environment import Time
from spanwire.model.units import KIB
from spanwire.protocols.base import ProtocolConnection
from spanwire.transports.admission import ReceiveBudget
from spanwire.transports.base import (
    CLOSE_LINGER,
    DIRECT_WRITE_BYTES,
    END_LINGER,
    MAX_BYTES_PER_CALLBACK,
    SWEEP_INTERVAL,
    StreamTransport,
)
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn
from spanwire.transports.rationing import STALL_SECONDS
from tests.unit.transports.stage import (
    FakeBroker,
    FakeConnection,
    FakeLoop,
    FakeSocket,
    FakeStore,
)


class Stage:
    """A turn, and as many connected sockets as asked for."""

    def __init__(self, budget_bytes: int = 0) -> None:
        self.loop = FakeLoop()
        self.broker = FakeBroker()
        self.store = FakeStore(self.broker.journal)
        self.turn = Turn(self.loop, self.broker, self.loop, self.store, ReceiveBudget(budget_bytes))
        self.release: list[StreamTransport] = []
        self.next_connection: ProtocolConnection | None = None

    def connect(self, connection: ProtocolConnection) -> tuple[SocketPump, FakeSocket]:
        self.next_connection = connection
        pump = SocketPump(self.turn, _Acceptor(self))
        socket = FakeSocket(self.broker.journal)
        pump.connection_made(cast(StreamTransport, socket))
        return pump, socket


class _Acceptor:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        return self._stage.next_connection

    def release(self, transport: StreamTransport) -> None:
        self._stage.release.append(transport)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_what_arrives_reaches_the_connection_at_once(stage: Stage) -> None:
    connection = FakeConnection()
    pump, _ = stage.connect(connection)
    pump.data_received(b"abc")
    assert connection.received == [b"abc"]


def test_a_greeting_is_written_without_waiting_for_the_peer(stage: Stage) -> None:
    connection = FakeConnection()
    connection.to_send = [b"hello"]
    _, socket = stage.connect(connection)
    stage.loop.settle()
    assert socket.written == b"hello"


def test_many_reads_of_one_turn_are_answered_by_one_write(stage: Stage) -> None:
    connection = FakeConnection()
    connection.on_receive = lambda data: connection.to_send.append(b"<" + data + b">")
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    for data in (b"1", b"2", b"3"):
        pump.data_received(data)
    assert socket.writes == []
    stage.loop.settle()
    assert socket.writes == [b"<1><2><3>"]


def test_output_is_written_before_the_journal_gets_its_batch(stage: Stage) -> None:
    connection = FakeConnection()
    connection.on_receive = lambda data: connection.to_send.append(data)
    pump, _ = stage.connect(connection)
    stage.loop.settle()
    stage.broker.journal.clear()
    pump.data_received(b"x")
    stage.loop.settle()
    assert stage.broker.journal[:2] == ["write", "hand over"]


def test_a_dispatch_to_another_connection_is_written_in_the_same_turn(stage: Stage) -> None:
    producer, consumer = FakeConnection(), FakeConnection()
    producer_pump, _ = stage.connect(producer)
    _, consumer_socket = stage.connect(consumer)
    stage.loop.settle()

    def dispatch(data: bytes) -> None:
        consumer.to_send.append(data)
        stage.broker.dirty.append(consumer)

    producer.on_receive = dispatch
    producer_pump.data_received(b"message")
    assert stage.loop.turn() == 1
    assert consumer_socket.written == b"message"


def test_a_dispatch_that_a_flush_makes_possible_follows_in_the_same_turn(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    waiting = [b"2", b"3"]

    def sent(count: int) -> None:
        if waiting and count == 0:
            connection.to_send.append(waiting.pop(0))
            stage.broker.dirty.append(connection)

    connection.on_unsent = sent
    connection.to_send = [b"1"]
    pump.data_received(b"go")
    assert stage.loop.turn() == 1
    assert socket.written == b"123"


def test_dispatches_without_end_give_the_loop_its_turns(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    stage.loop.settle()

    def sent(count: int) -> None:
        connection.to_send.append(b"x")
        stage.broker.dirty.append(connection)

    connection.on_unsent = sent
    pump.data_received(b"go")
    for _ in range(5):
        stage.loop.turn()
    assert 5 < len(socket.written) < 50


def test_every_flush_reports_what_the_kernel_left_also_nothing(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    connection.unsent_reports.clear()
    socket.room = 3
    connection.to_send = [b"12345"]
    pump.data_received(b"x")
    stage.loop.settle()
    assert connection.unsent_reports == [2]
    socket.buffered = 0
    pump.resume_writing()
    stage.loop.settle()
    assert connection.unsent_reports == [2, 0]
    assert socket.high == 0  # the transport calls back when all is taken, not when half is


def test_small_chunks_are_joined_and_big_ones_written_as_they_are(stage: Stage) -> None:
    big = b"B" * DIRECT_WRITE_BYTES
    connection = FakeConnection()
    connection.to_send = [b"a", b"b", big, b"c", b"d"]
    _, socket = stage.connect(connection)
    stage.loop.settle()
    assert socket.writes == [b"ab", big, b"cd"]
    assert socket.writes[1] is big


def test_a_connection_that_does_not_want_to_read_leaves_bytes_in_the_kernel(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    connection.wants_read = False
    pump.data_received(b"x")
    stage.loop.settle()
    assert not socket.reading
    connection.wants_read = True
    stage.broker.dirty.append(connection)
    stage.turn.wake()
    stage.loop.settle()
    assert socket.reading


def test_a_paused_connection_is_asked_again_by_the_sweep(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    stage.turn.start()
    connection.wants_read = False
    pump.data_received(b"x")
    stage.loop.settle()
    connection.wants_read = True
    stage.loop.advance(SWEEP_INTERVAL)
    assert socket.reading


def test_a_timer_shorter_than_the_sweep_is_kept_to_the_moment(stage: Stage) -> None:
    connection = FakeConnection()
    stage.connect(connection)
    stage.turn.start()
    due = stage.loop.now().monotonic + SWEEP_INTERVAL + 0.05
    connection.due = due
    stage.loop.advance(SWEEP_INTERVAL * 2)
    assert len(connection.timeouts) == 1
    assert connection.timeouts[0] == pytest.approx(due, abs=0.01)


def test_a_big_read_is_fed_in_pieces_and_nothing_is_lost(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    data = bytes(range(256)) * 1024
    connection.on_receive = lambda _: setattr(stage.loop, "time", stage.loop.time + 0.0015)
    pump.data_received(data)
    assert 0 < sum(map(len, connection.received)) < len(data)
    stage.loop.turn()
    assert not socket.reading
    stage.loop.settle()
    assert b"".join(connection.received) == data
    assert max(map(len, connection.received)) <= MAX_BYTES_PER_CALLBACK
    assert socket.reading


def test_pieces_of_a_big_read_wait_while_the_connection_does_not_want_to_read(stage: Stage) -> None:
    connection = FakeConnection()
    pump, _ = stage.connect(connection)

    def pause(data: bytes) -> None:
        connection.wants_read = False

    connection.on_receive = pause
    pump.data_received(b"x" * (3 * MAX_BYTES_PER_CALLBACK))
    stage.loop.settle()
    assert len(connection.received) == 1
    connection.on_receive = None
    connection.wants_read = True
    stage.broker.dirty.append(connection)
    stage.turn.wake()
    stage.loop.settle()
    assert sum(map(len, connection.received)) == 3 * MAX_BYTES_PER_CALLBACK


def test_a_closed_connection_writes_what_is_left_and_closes_the_socket(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)

    def refuse(data: bytes) -> None:
        connection.to_send.append(b"ERROR")
        connection.closed = True

    connection.on_receive = refuse
    pump.data_received(b"garbage")
    stage.loop.settle()
    assert socket.written == b"ERROR"
    assert socket.closing and not socket.aborted
    assert connection.eofs == 1
    pump.data_received(b"more garbage")
    assert connection.received == [b"garbage"]


def test_at_the_end_nothing_more_is_taken_and_answers_still_go_out(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    stage.turn.stop_reading()
    pump.data_received(b"too late")
    connection.to_send.append(b"answer")
    stage.loop.settle()
    assert connection.received == []
    assert socket.written == b"answer"
    assert not socket.reading


def test_a_broker_that_stops_reads_until_the_peer_has_closed_so_that_no_answer_is_lost(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    stage.turn.stop_reading()
    stage.loop.settle()
    connection.to_send.append(b"the last answer")
    stage.turn.close_all()
    assert socket.written == b"the last answer"
    assert (socket.ended, socket.reading, socket.closing) == (True, True, False)
    pump.data_received(b"dropped")
    assert connection.received == []
    stage.loop.advance(END_LINGER)
    assert socket.closing


def test_a_closing_socket_that_does_not_drain_is_aborted_after_the_linger(stage: Stage) -> None:
    connection = FakeConnection()
    connection.closed = True
    _, socket = stage.connect(connection)
    stage.loop.settle()
    stage.loop.advance(CLOSE_LINGER - 0.1)
    assert not socket.aborted
    stage.loop.advance(0.2)
    assert socket.aborted


def test_a_lost_socket_frees_the_connection_and_is_counted_out(stage: Stage) -> None:
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    pump.connection_lost(ConnectionResetError())
    assert connection.eofs == 1
    assert [id(transport) for transport in stage.release] == [id(socket)]
    assert stage.turn.connection_count == 0


def test_bytes_and_end_in_one_turn_are_answered_before_the_socket_closes(stage: Stage) -> None:
    connection = FakeConnection()
    connection.on_receive = lambda data: connection.to_send.append(b"answer")
    pump, socket = stage.connect(connection)
    pump.data_received(b"question")
    assert pump.eof_received() is False
    assert socket.written == b"answer"
    assert connection.eofs == 1
    assert socket.closing
    stage.loop.advance(CLOSE_LINGER)
    assert socket.aborted  # a peer that reads no more holds nothing up


def test_an_unexpected_error_closes_that_socket_only_and_is_logged_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    broken, healthy = FakeConnection(), FakeConnection()
    broken_pump, broken_socket = stage.connect(broken)
    healthy_pump, healthy_socket = stage.connect(healthy)
    healthy.on_receive = lambda data: healthy.to_send.append(data)

    def fail(data: bytes) -> None:
        raise ZeroDivisionError

    broken.on_receive = fail
    with caplog.at_level(logging.ERROR):
        broken_pump.data_received(b"x")
        healthy_pump.data_received(b"y")
        stage.loop.settle()
    assert broken_socket.aborted
    assert broken.eofs == 1
    assert healthy_socket.written == b"y"
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is not None


def test_an_unexpected_error_while_flushing_does_not_keep_others_from_being_flushed(stage: Stage) -> None:
    broken, healthy = FakeConnection(), FakeConnection()
    _, broken_socket = stage.connect(broken)
    _, healthy_socket = stage.connect(healthy)
    stage.loop.settle()

    def fail(count: int) -> None:
        raise ZeroDivisionError

    broken.on_unsent = fail
    healthy.to_send = [b"still here"]
    stage.broker.dirty = [broken, healthy]
    stage.turn.wake()
    stage.loop.settle()
    assert broken_socket.aborted
    assert healthy_socket.written == b"still here"


def test_an_unexpected_error_while_closing_still_closes_the_socket(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    connection = FakeConnection()
    _, socket = stage.connect(connection)
    stage.loop.settle()

    def fail() -> None:
        raise ZeroDivisionError

    connection.on_send = fail
    with caplog.at_level(logging.ERROR):
        stage.turn.close_all()
    assert socket.closing
    assert len(caplog.records) == 1


def test_over_the_receive_budget_only_the_connection_that_holds_most_is_read() -> None:
    stage = Stage(budget_bytes=1000 * KIB)
    first, second = FakeConnection(), FakeConnection()
    first_pump, first_socket = stage.connect(first)
    second_pump, second_socket = stage.connect(second)
    first.pending_bytes = 800 * KIB
    first_pump.data_received(b"x")
    second.pending_bytes = 300 * KIB
    second_pump.data_received(b"x")
    stage.loop.settle()
    assert first_socket.reading
    assert not second_socket.reading
    first.pending_bytes = 0
    first_pump.data_received(b"the end of its frame")
    stage.loop.settle()
    assert second_socket.reading
    assert not first_socket.aborted
    assert not second_socket.aborted
    assert stage.turn.budget.used_bytes == 300 * KIB


def test_a_frame_that_is_complete_in_the_turn_that_held_it_back_leaves_its_connection_read() -> None:
    stage = Stage(budget_bytes=1000 * KIB)
    first, second = FakeConnection(), FakeConnection()
    first_pump, _ = stage.connect(first)
    second_pump, second_socket = stage.connect(second)
    first.pending_bytes = 900 * KIB
    first_pump.data_received(b"x")
    second.pending_bytes = 200 * KIB
    second_pump.data_received(b"the start of its frame")
    second.pending_bytes = 0
    second_pump.data_received(b"the end of its frame, read in the same turn")
    stage.loop.settle()
    assert second_socket.reading


def test_a_big_read_of_a_connection_that_is_not_read_waits() -> None:
    stage = Stage(budget_bytes=1000 * KIB)
    first, second = FakeConnection(), FakeConnection()
    first_pump, _ = stage.connect(first)
    second_pump, _ = stage.connect(second)
    first.pending_bytes = 900 * KIB
    first_pump.data_received(b"x")
    second.pending_bytes = 200 * KIB
    second_pump.data_received(b"y" * 3 * MAX_BYTES_PER_CALLBACK)
    stage.loop.settle()
    assert sum(len(data) for data in second.received) == MAX_BYTES_PER_CALLBACK
    first.pending_bytes = 0
    first_pump.data_received(b"the end of its frame")
    stage.loop.settle()
    assert sum(len(data) for data in second.received) == 3 * MAX_BYTES_PER_CALLBACK


def test_a_connection_that_is_not_read_for_want_of_memory_is_told_that_its_silence_proves_nothing() -> None:
    stage = Stage(budget_bytes=1000 * KIB)
    stage.turn.start()
    first, second = FakeConnection(), FakeConnection()
    first_pump, _ = stage.connect(first)
    second_pump, _ = stage.connect(second)
    for connection, pump, held in ((first, first_pump, 900), (second, second_pump, 200)):
        connection.pending_bytes = held * KIB
        pump.data_received(b"x")
    stage.loop.advance(2 * SWEEP_INTERVAL + 0.01)
    assert first.received == [b"x"]
    assert second.received == [b"x", b"", b""]


def test_one_that_is_let_read_over_the_budget_and_sends_no_more_is_closed() -> None:
    stage = Stage(budget_bytes=1000 * KIB)
    stage.turn.start()
    first, second = FakeConnection(), FakeConnection()
    first_pump, first_socket = stage.connect(first)
    second_pump, second_socket = stage.connect(second)
    for connection, pump, held in ((first, first_pump, 900), (second, second_pump, 200)):
        connection.pending_bytes = held * KIB
        pump.data_received(b"x")
    stage.loop.advance(STALL_SECONDS + 2 * SWEEP_INTERVAL)
    assert first_socket.aborted
    assert not second_socket.aborted
    assert second_socket.reading


def test_a_completed_frame_gives_its_share_of_the_receive_budget_back() -> None:
    stage = Stage(budget_bytes=100)
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    for _ in range(5):
        connection.pending_bytes = 90
        pump.data_received(b"begin")
        connection.pending_bytes = 0
        pump.data_received(b"end")
    assert not socket.aborted
    pump.connection_lost(None)
    assert stage.turn.budget.used_bytes == 0


def holding(*requests: bytes) -> FakeConnection:
    """A connection that acts on the first byte string it gets, and holds ``requests`` behind that."""
    connection = FakeConnection()

    def hold(data: bytes) -> None:
        if len(connection.received) == 1:
            connection.held.extend(requests)

    connection.on_receive = hold
    return connection


def test_requests_that_are_held_follow_one_turn_each_and_other_sockets_come_between(stage: Stage) -> None:
    connection, other = holding(b"2", b"3"), FakeConnection()
    pump, socket = stage.connect(connection)
    other_pump, _ = stage.connect(other)
    stage.loop.settle()
    pump.data_received(b"1")
    stage.loop.turn()
    assert connection.received == [b"1"]
    assert not socket.reading
    for expected in ([b"1", b"2"], [b"1", b"2", b"3"]):
        other_pump.data_received(b"x")
        stage.loop.turn()
        assert connection.received == expected
        stage.loop.turn()
    assert other.received == [b"x", b"x"]
    stage.loop.settle()
    assert socket.reading


def test_bytes_that_come_meanwhile_wait_behind_the_requests_that_are_held(stage: Stage) -> None:
    connection = holding(b"2", b"3")
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    pump.data_received(b"1")
    stage.loop.turn()
    pump.data_received(b"4")
    pump.data_received(b"5")
    stage.loop.settle()
    assert connection.received == [b"1", b"2", b"3", b"4", b"5"]
    assert socket.reading


def test_a_peer_that_has_ended_is_closed_behind_the_requests_that_are_held(stage: Stage) -> None:
    connection = holding(b"2", b"3")
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    pump.data_received(b"1")
    assert pump.eof_received() is True
    assert connection.received == [b"1", b"2"]
    assert not socket.closing
    stage.loop.settle()
    assert connection.received == [b"1", b"2", b"3"]
    assert connection.eofs == 1
    assert socket.closing


def test_requests_that_are_held_are_not_taken_after_the_end_of_reading(stage: Stage) -> None:
    connection = holding(b"2")
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    pump.data_received(b"1")
    pump.stop_reading()
    stage.loop.settle()
    assert connection.received == [b"1"]
    assert pump.eof_received() is False
    assert socket.ended


def test_requests_that_are_held_are_taken_though_the_broker_would_not_read_more(stage: Stage) -> None:
    connection = holding(b"2")
    pump, socket = stage.connect(connection)
    stage.loop.settle()
    pump.data_received(b"1")
    connection.wants_read = False
    stage.loop.settle()
    assert connection.received == [b"1", b"2"]
    assert not socket.reading


def test_held_requests_behind_a_login_are_not_tried_again_before_its_answer() -> None:
    stage = Stage()
    connection = FakeConnection()
    pump, socket = stage.connect(connection)
    connection.held.append(b"login")
    stage.broker.awaiting.add(connection)
    stage.turn.touch(pump)
    stage.loop.settle()
    assert (connection.received, socket.reading) == ([], False), "nothing is read, and the loop may sleep"
    stage.broker.awaiting.clear()
    stage.broker.dirty.append(connection)
    stage.turn.wake()
    stage.loop.settle()
    assert (connection.received, socket.reading) == ([b"login"], True)
