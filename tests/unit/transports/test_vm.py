"""The transport without sockets: what crosses and when, who waits for whom, how it ends."""

from __future__ import annotations

import os

import pytest

from spanwire.model.errors import IllegalStateError
from spanwire.transports.vm import NOT_RUNNING, REFUSED, STOPPED, VM_BUFFER_BYTES, VmClient, VmConnector
from tests.unit.transports.vm_stage import RecordingFeed, VmStage


@pytest.fixture
def stage() -> VmStage:
    return VmStage()


def test_what_a_client_writes_within_a_turn_reaches_the_connection_in_one_batch(stage: VmStage) -> None:
    client, _, connection = stage.connect()
    before = stage.loop.posted
    for piece in (b"one ", b"two ", b"three"):
        assert client.write(piece)
    assert stage.loop.posted == before + 1
    stage.loop.settle()
    assert connection.received == [b"one two three"]


def test_what_was_written_before_the_broker_came_waits_for_it(stage: VmStage) -> None:
    feed = RecordingFeed()
    waiting: list[VmClient] = []
    client = VmClient("vm://stage", waiting.append)
    client.start(feed)
    client.write(b"early")
    waiting[0].attach(stage.connector)
    stage.loop.settle()
    assert stage.connections[0].received == [b"early"]


def test_what_the_broker_sends_reaches_the_feed(stage: VmStage) -> None:
    _, feed, connection = stage.connect()
    stage.sends(connection, b"hello")
    assert feed.received_bytes == b"hello"


def test_bytes_that_a_client_has_not_processed_count_as_unsent_above_a_sockets_buffers(stage: VmStage) -> None:
    client, _, connection = stage.connect()
    stage.sends(connection, b"x" * (VM_BUFFER_BYTES - 1))
    assert connection.unsent_reports[-1] == 0
    stage.sends(connection, b"x" * 1001)
    assert connection.unsent_reports[-1] == 1001
    client.taken(1000)
    stage.loop.settle()
    assert connection.unsent_reports[-1] == 1001
    client.taken(1)
    stage.loop.settle()
    assert connection.unsent_reports[-1] == 0


def test_a_client_that_keeps_up_posts_nothing_to_the_brokers_loop(stage: VmStage) -> None:
    client, _, connection = stage.connect()
    stage.sends(connection, b"hello")
    before = stage.loop.posted
    client.taken(5)
    assert stage.loop.posted == before


def test_a_client_that_writes_more_than_a_lane_holds_is_told_when_there_is_room(stage: VmStage) -> None:
    client, feed, connection = stage.connect()
    connection.wants_read = False
    stage.flush(connection)
    assert client.write(b"x" * (VM_BUFFER_BYTES - 1))
    assert not client.write(b"y")
    stage.loop.settle()
    assert (connection.received, feed.room_again) == ([], 0)
    connection.wants_read = True
    stage.flush(connection)
    assert feed.room_again == 1
    assert sum(len(piece) for piece in connection.received) == VM_BUFFER_BYTES


def test_the_end_of_a_client_follows_what_it_wrote(stage: VmStage) -> None:
    client, feed, connection = stage.connect()
    client.write(b"last words")
    client.close()
    client.close()
    client.write(b"too late")
    stage.loop.settle()
    assert (connection.received, connection.eofs > 0) == ([b"last words"], True)
    assert (stage.connector.connection_count, stage.admission.count) == (0, 0)
    assert feed.ends == []


def test_a_connection_that_the_broker_closes_ends_after_its_last_words(stage: VmStage) -> None:
    client, feed, connection = stage.connect()
    connection.closed = True
    stage.sends(connection, b"goodbye")
    assert (feed.received_bytes, feed.ends) == (b"goodbye", [None])
    client.write(b"nobody hears this")
    client.taken(7)
    client.close()
    stage.loop.settle()
    assert connection.received == []


def test_an_error_in_one_connection_ends_that_one_only(stage: VmStage) -> None:
    client, feed, connection = stage.connect()
    _, other_feed, other = stage.connect()

    def fails(data: bytes) -> None:
        raise ValueError("planted")

    connection.on_receive = fails
    client.write(b"x")
    stage.loop.settle()
    assert feed.ends == [None]
    stage.sends(other, b"alive")
    assert (other_feed.received_bytes, other_feed.ends) == (b"alive", [])


def test_a_connection_over_the_brokers_limit_is_refused_with_a_reason() -> None:
    stage = VmStage(max_connections=1)
    stage.connect()
    _, feed = stage.client()
    stage.loop.settle()
    assert feed.ends == [f"vm://stage: {REFUSED}"]
    assert (stage.connector.connection_count, stage.admission.count) == (1, 1)


def test_a_connector_that_has_stopped_takes_nobody_and_leaves_the_others_alone(stage: VmStage) -> None:
    _, first_feed, connection = stage.connect()
    stage.connector.stop()
    _, feed = stage.client()
    assert feed.ends == [f"vm://stage: {NOT_RUNNING}"]
    stage.sends(connection, b"still here")
    assert first_feed.received_bytes == b"still here"


def test_the_last_connection_that_goes_is_told(stage: VmStage) -> None:
    told: list[int] = []
    stage.connector.on_empty = lambda: told.append(stage.connector.connection_count)
    first, _, _ = stage.connect()
    second, _, _ = stage.connect()
    first.close()
    stage.loop.settle()
    assert told == []
    second.close()
    stage.loop.settle()
    assert told == [0]


def test_a_client_learns_that_the_brokers_loop_has_ended(stage: VmStage) -> None:
    client, feed, _ = stage.connect()
    stage.loop.ended = True
    client.write(b"x")
    client.write(b"x")
    assert feed.ends == [f"vm://stage: {STOPPED}"]


def test_a_connection_shows_the_broker_it_belongs_to_and_has_no_inactivity_monitor(stage: VmStage) -> None:
    stage.connect()
    stage.connect()
    settings = stage.settings[1]
    assert settings.remote_address == "vm://stage#2"
    assert settings.connector_name == "vm"
    assert settings.max_inactivity_ms == 0


def test_after_a_fork_every_call_of_the_child_raises(stage: VmStage) -> None:
    client, _, _ = stage.connect()
    child = os.fork()
    if child == 0:
        os._exit(_refusals(client))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    assert client.write(b"the parent goes on")


def _refusals(client: VmClient) -> int:
    """How many of the two calls raised; runs in the child."""
    raised = 0
    for call in (lambda: client.write(b"x"), lambda: client.taken(1)):
        try:
            call()
        except IllegalStateError:
            raised += 1
    client.close()
    return raised


def test_a_connector_that_never_started_says_so() -> None:
    feed = RecordingFeed()
    connector = VmConnector("early", VmStage().admission)
    VmClient("vm://early", lambda begun: begun.attach(connector)).start(feed)
    assert feed.ends == [f"vm://early: {NOT_RUNNING}"]
