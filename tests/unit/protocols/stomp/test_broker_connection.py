"""Dialogues of STOMP clients with a real broker: the tutorial, receipts, transactions, temporary destinations, timers,
flow in both directions, and the attacks on a connection's surface.
"""

from __future__ import annotations

import pytest

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError, MessageFormatError, StoreError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.message_view import STRING_VALUE, TEXT, MessageView
from spanwire.protocols.base import LOGIN_DEADLINE, ConnectionSettings
from spanwire.protocols.stomp.broker_connection import MAX_PENDING_RECEIPTS
from spanwire.protocols.stomp.message_format import StompMessageFormat
from tests.support.stomp_dialogue import FORMAT_VIEW, WALL_MS, JmsClient, Peer, ReceivedFrame, Stage, ViewFormat


def only(peer: Peer) -> ReceivedFrame:
    (frame,) = peer.receives()
    return frame


def texts(peer: Peer) -> list[str]:
    return [frame.body.decode() for frame in peer.receives()]


def commands(peer: Peer) -> list[str]:
    return [frame.command for frame in peer.receives()]


def view_of(text: str) -> MessageView:
    view = MessageView(TEXT, Destination(QUEUE, "A"), MessageId(ProducerId("ID:jms-1-2-0:1", 1, 1), 1))
    view.body = text.encode()
    view.timestamp_ms = WALL_MS
    return view


def type_at_a_terminal(peer: Peer, text: str) -> None:
    """Sends what a person types, line by line with CR LF, ``^@`` being the NUL key."""
    for line in text.replace("\n", "\r\n").replace("^@", "\0").splitlines(keepends=True):
        peer.sends(line)


def test_the_tutorial_as_typed_into_two_terminals() -> None:
    stage = Stage()
    producer = stage.peer()
    type_at_a_terminal(producer, "CONNECT\nlogin:foo\npasscode:bar\n^@\n")
    answer = only(producer)
    assert (answer.command, answer.headers["version"], answer.headers["session"][:3]) == ("CONNECTED", "1.0", "ID:")
    type_at_a_terminal(producer, "SEND\ndestination:/queue/FOO.BAR\nreceipt:\n\nHello, queue FOO.BAR\n^@\n")
    receipt = only(producer)
    assert (receipt.command, receipt.headers) == ("RECEIPT", {"receipt-id": ""})

    consumer = stage.peer()
    type_at_a_terminal(consumer, "CONNECT\nlogin:foo\npasscode:bar\n\n^@\n")
    assert only(consumer).command == "CONNECTED"
    type_at_a_terminal(consumer, "SUBSCRIBE\ndestination:/queue/FOO.BAR\nack:client\n\n^@\n")
    message = only(consumer)
    assert message.body == b"Hello, queue FOO.BAR\r\n"
    assert message.headers == {
        "destination": "/queue/FOO.BAR",
        "timestamp": str(WALL_MS),
        "priority": "4",
        "expires": "0",
        "message-id": f"{answer.headers['session']}:-1:1:1",
    }
    (queue,) = [view for view in stage.broker.destination_views() if str(view.destination) == "queue://FOO.BAR"]
    assert (queue.enqueued, queue.dispatched, queue.dequeued) == (1, 1, 0)
    type_at_a_terminal(consumer, f"ACK\nmessage-id:{message.headers['message-id']}\n^@\n")
    (queue,) = [view for view in stage.broker.destination_views() if str(view.destination) == "queue://FOO.BAR"]
    assert queue.dequeued == 1
    type_at_a_terminal(consumer, "UNSUBSCRIBE\ndestination:/queue/FOO.BAR\nreceipt:\n^@\n")
    assert only(consumer).headers == {"receipt-id": ""}
    for peer in (producer, consumer):
        type_at_a_terminal(peer, "DISCONNECT\n\n^@\n")
        assert peer.closed
    assert stage.broker.connection_views() == []


def test_frames_sent_right_behind_the_connect_are_read_by_the_version_it_asked_for() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends(
        "CONNECT\naccept-version:1.2\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/A\r\n\r\n\0"
        "SEND\ndestination:/queue/A\nk:a\\rb\n\nx\0\n\nDISCONNECT\nreceipt:r\n\n\0"
    )
    frames = peer.receives()
    assert [frame.command for frame in frames] == ["CONNECTED", "MESSAGE", "RECEIPT"]
    assert frames[1].headers["k"] == "a\\rb"


def test_a_receipt_for_a_persistent_send_waits_for_the_sync() -> None:
    stage = Stage()
    stage.syncs = False
    peer = stage.peer("1.2")
    peer.sends("SEND\ndestination:/queue/A\npersistent:true\nreceipt:safe\n\nx\0")
    peer.sends("SEND\ndestination:/queue/A\nreceipt:quick\n\nx\0")
    assert only(peer).headers == {"receipt-id": "quick"}
    stage.syncs = True
    stage.settle()
    assert only(peer).headers == {"receipt-id": "safe"}


def test_receipts_are_withheld_while_there_is_no_room_and_a_send_that_waited_too_long_is_an_error() -> None:
    stage = Stage(limits=UsageLimits(memory_bytes=100_000, fail_after_ms=500))
    peer = stage.peer("1.2")
    body = "x" * 99_000
    peer.sends(f"SEND\ndestination:/queue/a\nreceipt:1\n\n{body}\0")
    assert [frame.headers["receipt-id"] for frame in peer.receives()] == ["1"]
    peer.sends(f"SEND\ndestination:/queue/a\nreceipt:2\n\n{body}\0SEND\ndestination:/queue/a\n\n{body}\0")
    assert peer.receives() == []
    stage.passes(0.5)
    with_receipt, without = peer.receives()
    assert (with_receipt.command, with_receipt.headers["receipt-id"]) == ("ERROR", "2")
    assert without.command == "ERROR"
    assert "receipt-id" not in without.headers
    assert b"Usage Manager Memory Limit Wait Timeout" in without.body
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0SEND\ndestination:/queue/b\nreceipt:3\n\ny\0")
    assert [frame.command for frame in peer.receives()] == ["MESSAGE", "RECEIPT"]


def test_a_disconnect_waits_for_the_receipts_before_it() -> None:
    stage = Stage()
    stage.syncs = False
    peer = stage.peer("1.2")
    peer.sends("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nx\0DISCONNECT\nreceipt:2\n\n\0SEND\n\n\0")
    assert (peer.receives(), peer.closed) == ([], False)
    stage.syncs = True
    stage.settle()
    assert [frame.headers["receipt-id"] for frame in peer.receives()] == ["1", "2"]
    assert peer.closed


def test_a_disconnect_waits_until_what_was_sent_and_acknowledged_without_a_receipt_is_on_the_disk() -> None:
    for frame in ("SEND\ndestination:/queue/B\npersistent:true\n\ny\0", "ACK\nid:{}\n\n\0"):
        stage = Stage()
        peer = stage.peer("1.2")
        peer.sends("SEND\ndestination:/queue/A\npersistent:true\n\nx\0")
        peer.sends("SUBSCRIBE\nid:s\ndestination:/queue/A\nack:client\n\n\0")
        (message,) = peer.receives()
        stage.syncs = False
        peer.sends(frame.format(message.headers["ack"]))
        peer.sends("DISCONNECT\nreceipt:end\n\n\0")
        assert (peer.receives(), peer.closed) == ([], False)
        stage.syncs = True
        stage.settle()
        assert [answer.headers for answer in peer.receives()] == [{"receipt-id": "end"}]
        assert peer.closed


def test_a_durable_subscription_comes_and_goes_with_a_receipt_when_the_disk_has_it() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends("CONNECT\naccept-version:1.2\nhost:h\nclient-id:app\n\n\0")
    peer.receives()
    for frame in (
        "SUBSCRIBE\nid:s\ndestination:/topic/A\nactivemq.subscriptionName:s\nreceipt:1\n\n\0",
        "UNSUBSCRIBE\nid:s\nreceipt:0\n\n\0",
        "UNSUBSCRIBE\nid:s\nactivemq.subscriptionName:s\nreceipt:1\n\n\0",
    ):
        stage.syncs = False
        peer.sends(frame)
        waits = "receipt:1" in frame
        assert len(peer.receives()) == (not waits), frame
        stage.syncs = True
        stage.settle()
        assert len(peer.receives()) == waits, frame


def test_a_disconnect_gets_no_receipt_when_the_store_fails() -> None:
    stage = Stage()
    stage.syncs = False
    peer = stage.peer("1.2")
    peer.sends("SEND\ndestination:/queue/B\npersistent:true\n\ny\0DISCONNECT\nreceipt:end\n\n\0")
    stage.broker.store_failed(StoreError("the disk is gone"), stage.environment.now())
    stage.settle()
    assert {answer.command for answer in peer.receives()} == {"ERROR"}


def test_a_disconnect_waits_for_sends_without_a_receipt_that_wait_for_room() -> None:
    stage = Stage(limits=UsageLimits(memory_bytes=20_000))
    producer = stage.peer("1.2")
    body = "x" * 6_000
    producer.sends("".join(f"SEND\ndestination:/queue/A\n\n{number}{body}\0" for number in range(8)))
    producer.sends("DISCONNECT\nreceipt:end\n\n\0")
    assert producer.receives() == []
    assert not producer.closed
    consumer = stage.peer("1.2")
    consumer.sends("SUBSCRIBE\nid:s\ndestination:/queue/A\n\n\0")
    assert [frame.body[:1] for frame in consumer.receives()] == [b"%d" % number for number in range(8)]
    (answer,) = producer.receives()
    assert answer.headers == {"receipt-id": "end"}
    assert producer.closed


def test_a_store_that_fails_turns_the_waiting_receipt_into_an_error() -> None:
    stage = Stage()
    stage.syncs = False
    peer = stage.peer("1.2")
    peer.sends("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nx\0")
    stage.broker.store_failed(StoreError("the disk is full"), stage.environment.now())
    stage.settle()
    first, *_ = peer.receives()
    assert (first.command, first.headers["message"], first.headers["receipt-id"]) == ("ERROR", "the disk is full", "1")
    assert peer.closed


@pytest.mark.large
def test_we_stop_reading_from_a_client_that_is_owed_too_many_receipts() -> None:
    stage = Stage()
    stage.syncs = False
    peer = stage.peer("1.2")
    frames = [f"SEND\ndestination:/queue/A\npersistent:true\nreceipt:{n}\n\n\0" for n in range(MAX_PENDING_RECEIPTS)]
    peer.connection.receive_data("".join(frames[:-1]).encode(), stage.environment.now())
    assert peer.connection.wants_read
    peer.connection.receive_data(frames[-1].encode(), stage.environment.now())
    assert not peer.connection.wants_read
    stage.syncs = True
    stage.settle()
    assert peer.connection.wants_read
    assert len(peer.receives()) == MAX_PENDING_RECEIPTS


def test_a_subscribe_is_answered_before_its_first_message() -> None:
    stage = Stage()
    stage.peer("1.2").sends("SEND\ndestination:/queue/A\n\nx\0")
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nreceipt:r\n\n\0")
    assert commands(peer) == ["RECEIPT", "MESSAGE"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_message_with_odd_headers_arrives_in_every_version(version: str) -> None:
    stage = Stage()
    peer = stage.peer(version)
    peer.sends("SUBSCRIBE\nid:s:1\ndestination:/queue/A\nack:client\n\n\0")
    stage.peer("1.2").sends("SEND\ndestination:/queue/A\nk:a\\cb\\nc\\\\d\\re\n\nx\0")
    expected = {"1.0": "a:b\\nc\\d\\re", "1.1": "a\\cb\\nc\\\\d\re", "1.2": "a\\cb\\nc\\\\d\\re"}
    message = only(peer)
    assert message.headers["k"] == expected[version]
    assert message.headers["subscription"] == ("s:1" if version == "1.0" else "s\\c1")


def test_sends_and_acks_of_a_transaction_take_effect_with_its_commit() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    other = stage.peer("1.2")
    other.sends("SUBSCRIBE\nid:1\ndestination:/queue/OUT\n\n\0")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/IN\nack:client-individual\n\n\0")
    other.sends("SEND\ndestination:/queue/IN\npersistent:true\n\nwork\0")
    ack = only(peer).headers["ack"]
    peer.sends(f"BEGIN\ntransaction:t\n\n\0ACK\nid:{ack}\ntransaction:t\n\n\0")
    peer.sends("SEND\ndestination:/queue/OUT\ntransaction:t\npersistent:true\n\nresult\0")
    assert other.receives() == []
    peer.sends("COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    assert texts(other) == ["result"]
    assert only(peer).headers == {"receipt-id": "c"}
    peer.leaves()
    other.sends("SUBSCRIBE\nid:2\ndestination:/queue/IN\n\n\0")
    assert other.receives() == []


def test_an_abort_leaves_the_message_to_be_acknowledged_again() -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0SEND\ndestination:/queue/A\n\nx\0")
    identity = only(peer).headers["message-id"]
    peer.sends(f"BEGIN\ntransaction:t\n\n\0ACK\nmessage-id:{identity}\nsubscription:1\ntransaction:t\n\n\0")
    peer.sends("SEND\ndestination:/queue/B\ntransaction:t\n\nnever\0ABORT\ntransaction:t\n\n\0")
    peer.sends(f"ACK\nmessage-id:{identity}\nsubscription:1\nreceipt:k\n\n\0")
    assert only(peer).headers == {"receipt-id": "k"}
    peer.sends("SUBSCRIBE\nid:2\ndestination:/queue/B\nreceipt:s\n\n\0")
    assert commands(peer) == ["RECEIPT"]


def in_flight(stage: Stage, name: str) -> tuple[int, int]:
    (queue,) = [view for view in stage.broker.destination_views() if str(view.destination) == name]
    return queue.dequeued, queue.in_flight


def acks(frames: list[ReceivedFrame]) -> str:
    return "".join(f"ACK\nid:{frame.headers['ack']}\n\n\0" for frame in frames)


@pytest.mark.parametrize("step", [1, -1, 7])
def test_single_acks_in_any_order_take_each_message_off_the_queue(step: int) -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client-individual\n\n\0")
    for number in range(250):
        peer.sends(f"SEND\ndestination:/queue/A\n\n{number}\0")
    messages = peer.receives()
    assert len({message.headers["ack"] for message in messages}) == 250
    chosen = [messages[number * step % 250] for number in range(240)]
    peer.sends(acks(chosen[:7]))
    peer.sends(acks(chosen[7:]))
    assert peer.receives() == []
    assert in_flight(stage, "queue://A") == (240, 10)
    peer.leaves()
    other = stage.peer("1.2")
    other.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client-individual\n\n\0")
    left = [message.body for message in messages if message not in chosen]
    assert [message.body for message in other.receives()] == left


def test_each_of_many_acks_that_names_no_message_in_flight_is_refused_and_the_others_count() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client-individual\n\n\0")
    for body in "abcd":
        peer.sends(f"SEND\ndestination:/queue/A\n\n{body}\0")
    a, b, c, _ = peer.receives()
    strange = "ACK\nid:1-4711\n\n\0ACK\nid:9-1\n\n\0"
    peer.sends(acks([a, b, a]) + strange + acks([c]))
    assert commands(peer) == ["ERROR", "ERROR", "ERROR"]
    assert not peer.closed
    assert in_flight(stage, "queue://A") == (3, 1)


def test_acks_of_the_mode_client_in_one_read_take_all_before_them() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0")
    for number in range(10):
        peer.sends(f"SEND\ndestination:/queue/A\n\n{number}\0")
    messages = peer.receives()
    peer.sends(acks([messages[3], messages[7]]))
    assert peer.receives() == []
    assert in_flight(stage, "queue://A") == (8, 2)


def test_a_message_of_an_aborted_transaction_keeps_its_ack_id() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client-individual\n\n\0")
    for body in "abc":
        peer.sends(f"SEND\ndestination:/queue/A\n\n{body}\0")
    a, b, c = peer.receives()
    peer.sends(f"BEGIN\ntransaction:t\n\n\0ACK\nid:{b.headers['ack']}\ntransaction:t\n\n\0")
    peer.sends(acks([a, c]) + "ABORT\ntransaction:t\n\n\0")
    assert peer.receives() == []
    assert in_flight(stage, "queue://A") == (2, 1)
    peer.sends(acks([b]))
    assert peer.receives() == []
    assert in_flight(stage, "queue://A") == (3, 0)


def test_acks_of_a_browser_take_nothing_off_the_queue() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    for body in "ab":
        peer.sends(f"SEND\ndestination:/queue/A\n\n{body}\0")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nbrowser:true\nack:client-individual\n\n\0")
    a, b, _ = peer.receives()
    peer.sends(acks([b, a]))
    assert peer.receives() == []
    assert in_flight(stage, "queue://A") == (0, 0)


def test_a_nacked_message_goes_to_the_dead_letters() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0")
    peer.sends("SEND\ndestination:/queue/A\npersistent:true\nk:v\n\nbad\0SEND\ndestination:/queue/A\n\ngood\0")
    bad, good = peer.receives()
    peer.sends(f"NACK\nid:{bad.headers['ack']}\nreceipt:n\n\n\0ACK\nid:{good.headers['ack']}\nreceipt:k\n\n\0")
    assert commands(peer) == ["RECEIPT", "RECEIPT"]
    peer.sends("SUBSCRIBE\nid:2\ndestination:/queue/ActiveMQ.DLQ\n\n\0")
    dead = only(peer)
    assert (dead.body, dead.headers["k"], dead.headers["original-destination"]) == (b"bad", "v", "/queue/A")
    assert dead.headers["destination"] == "/queue/ActiveMQ.DLQ"


def test_request_and_reply_over_temporary_queues() -> None:
    stage = Stage()
    client = stage.peer("1.1")
    server = stage.peer("1.1")
    server.sends("SUBSCRIBE\nid:1\ndestination:/queue/SERVICE\n\n\0")
    client.sends("SUBSCRIBE\nid:1\ndestination:/temp-queue/answers\n\n\0")
    client.sends("SEND\ndestination:/queue/SERVICE\nreply-to:/temp-queue/answers\n\nquestion\0")
    reply_to = only(server).headers["reply-to"]
    assert reply_to == f"/remote-temp-queue/{client.session}:1".replace(":", "\\c")
    server.sends(f"SEND\ndestination:{reply_to}\ncorrelation-id:7\n\nanswer\0")
    answer = only(client)
    assert (answer.headers["destination"], answer.body) == ("/temp-queue/answers", b"answer")
    client.leaves()
    server.sends(f"SEND\ndestination:{reply_to}\nreceipt:late\n\nx\0")
    assert only(server).command == "ERROR"
    assert not server.closed


def test_s6_cve_2026_54475_another_connections_temporary_queue_cannot_be_read() -> None:
    stage = Stage()
    owner = stage.peer("1.1")
    thief = stage.peer("1.1")
    owner.sends("SUBSCRIBE\nid:1\ndestination:/temp-queue/mine\n\n\0")
    thief.sends(f"SUBSCRIBE\nid:1\ndestination:/remote-temp-queue/{owner.session}:1\nreceipt:r\n\n\0")
    assert only(thief).command == "ERROR"


def test_what_a_composite_names_is_sent_to_all_of_them() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    for number, name in enumerate(("/queue/A", "/topic/B", "/queue/C")):
        peer.sends(f"SUBSCRIBE\nid:{number}\ndestination:{name}\n\n\0")
    peer.sends("SEND\ndestination:/queue/A,/topic/B\n\nx\0")
    assert sorted(frame.headers["destination"] for frame in peer.receives()) == ["/queue/A", "/topic/B"]


def test_a_browser_sees_what_is_there_and_then_the_end() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SEND\ndestination:/queue/A\n\na\0SEND\ndestination:/queue/A\npersistent:true\n\nb\0")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nbrowser:true\nack:client\n\n\0")
    first, second, end = peer.receives()
    assert ([first.body, second.body], end.headers["browser"]) == ([b"a", b"b"], "end")
    peer.sends("UNSUBSCRIBE\nid:1\n\n\0SUBSCRIBE\nid:2\ndestination:/queue/A\n\n\0")
    assert texts(peer) == ["a", "b"]


def test_a_slow_clients_window_is_its_prefetch() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client-individual\nactivemq.prefetchSize:2\n\n\0")
    for body in "abc":
        peer.sends(f"SEND\ndestination:/queue/A\n\n{body}\0")
    first, second = peer.receives()
    peer.sends(f"ACK\nid:{first.headers['ack']}\n\n\0")
    assert texts(peer) == ["c"]
    assert second.body == b"b"


def test_an_auto_subscription_acknowledges_what_was_written() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nactivemq.prefetchSize:1\n\n\0")
    for body in "abc":
        peer.sends(f"SEND\ndestination:/queue/A\n\n{body}\0")
    assert texts(peer) == ["a", "b", "c"]


def test_an_unsubscribe_gives_messages_back_marked_as_redelivered() -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0SEND\ndestination:/queue/A\n\nx\0")
    assert "redelivered" not in only(peer).headers
    peer.sends("UNSUBSCRIBE\nid:1\n\n\0SUBSCRIBE\nid:2\ndestination:/queue/A\nack:client\n\n\0")
    assert only(peer).headers["redelivered"] == "true"


def test_ids_of_the_same_name_are_all_unsubscribed_at_once() -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/B\n\n\0")
    peer.sends("UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0SEND\ndestination:/queue/A\n\nx\0")
    assert commands(peer) == ["RECEIPT"]


@pytest.mark.parametrize(
    "header", ["activemq.subscriptionName", "activemq.subcriptionName", "durable-subscription-name"]
)
def test_a_durable_subscription_collects_while_its_client_is_away(header: str) -> None:
    stage = Stage()
    subscribe = f"SUBSCRIBE\nid:1\ndestination:/topic/T\n{header}:mine\n\n\0"
    for expected in ([], ["while away"]):
        peer = stage.peer("1.1", client_id="app")
        peer.sends(subscribe)
        assert texts(peer) == expected
        peer.sends("DISCONNECT\n\n\0")
        stage.peer("1.1").sends("SEND\ndestination:/topic/T\n\nwhile away\0")
    peer = stage.peer("1.1", client_id="app")
    peer.sends(f"UNSUBSCRIBE\nid:1\n{header}:mine\nreceipt:u\n\n\0")
    assert commands(peer) == ["RECEIPT"]
    peer.sends(subscribe)
    assert texts(peer) == []


def test_a_durable_subscription_in_use_is_not_deleted() -> None:
    peer = Stage().peer("1.1", client_id="app")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/topic/T\nactivemq.subscriptionName:mine\n\n\0")
    peer.sends("UNSUBSCRIBE\nid:1\nactivemq.subscriptionName:mine\nreceipt:u\n\n\0")
    error = only(peer)
    assert (error.command, "Durable consumer is in use" in error.headers["message"]) == ("ERROR", True)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("activemq.subscriptionName:n", "needs a client-id"),
        ("transformation:jms-object-json", "Java objects are passed on"),
        ("activemq.prefetchSize:many", "not a number"),
    ],
)
def test_a_subscribe_option_that_cannot_be_honoured_is_refused(header: str, words: str) -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:/topic/A\n{header}\nreceipt:r\n\n\0")
    error = only(peer)
    assert (error.command, error.headers["receipt-id"], peer.closed) == ("ERROR", "r", False)
    assert words in error.headers["message"]


def test_a_body_is_shared_by_all_subscribers_and_never_copied() -> None:
    stage = Stage()
    peers = [stage.peer("1.2") for _ in range(3)]
    for peer in peers:
        peer.sends("SUBSCRIBE\nid:1\ndestination:/topic/T\n\n\0")
    body = b"x" * 100_000
    producer = stage.peer("1.2")
    producer.connection.receive_data(
        b"SEND\ndestination:/topic/T\ncontent-length:100000\n\n" + body + b"\0", stage.environment.now()
    )
    chunks = [peer.connection.data_to_send() for peer in peers]
    assert {id(chunk[-1]) for chunk in chunks} == {id(chunks[0][-1])}
    assert chunks[0][-1].endswith(body + b"\0")


def test_a_message_of_another_protocol_that_cannot_be_decoded_arrives_empty_and_says_why() -> None:
    class Broken(ViewFormat):
        def view(self, message: Message) -> MessageView:
            raise MessageFormatError("the body is damaged")

    views = Broken()
    stage = Stage(formats=MessageFormats({FORMAT_STOMP: StompMessageFormat(), FORMAT_VIEW: views}))
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client-individual\n\n\0")
    JmsClient(stage).sends(views.message(view_of("x")))
    message = only(peer)
    assert (message.headers["transformation-error"], message.body) == ("the body is damaged", b"")
    peer.sends(f"ACK\nid:{message.headers['ack']}\nreceipt:k\n\n\0")
    assert only(peer).command == "RECEIPT"


def test_without_connect_a_connection_is_closed_at_the_login_deadline() -> None:
    stage = Stage()
    silent = stage.peer()
    slow = stage.peer()
    slow.sends("CONNECT\naccept-version:1.2\n")
    stage.passes(LOGIN_DEADLINE - 1)
    slow.sends("host:h\n")
    assert not silent.closed and not slow.closed
    stage.passes(1.25)
    assert silent.closed and slow.closed
    assert only(silent).command == "ERROR"


def test_heart_beats_are_sent_as_promised_and_a_silent_client_is_dropped() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends("CONNECT\naccept-version:1.2\nheart-beat:2000,1000\n\n\0")
    assert only(peer).headers["heart-beat"] == "1000,2000"
    for _ in range(5):
        stage.passes(1.0)
        assert peer.raw.startswith(b"\n")
        peer.raw = b""
        peer.sends("\n")
    assert not peer.closed
    stage.passes(4.25)
    assert peer.closed
    assert stage.broker.connection_views() == []


def test_a_connector_has_heart_beats_for_clients_that_name_none() -> None:
    stage = Stage()
    peer = stage.peer(settings=ConnectionSettings(options={"defaultHeartBeat": "1000,2000"}))
    peer.sends("CONNECT\naccept-version:1.2\n\n\0")
    assert only(peer).headers["heart-beat"] == "2000,1000"
    other = stage.peer(settings=ConnectionSettings(options={"defaultHeartBeat": "1000,2000"}))
    other.sends("CONNECT\naccept-version:1.2\nheart-beat:0,0\n\n\0")
    assert only(other).headers["heart-beat"] == "0,0"


@pytest.mark.parametrize(
    ("multiplier", "silence", "lives"), [("3.0", 2.5, True), ("3.0", 3.5, False), ("1", 1.5, False)]
)
def test_a_connector_says_how_long_a_client_may_be_silent(multiplier: str, silence: float, lives: bool) -> None:
    stage = Stage()
    peer = stage.peer(settings=ConnectionSettings(options={"hbGracePeriodMultiplier": multiplier}))
    peer.sends("CONNECT\naccept-version:1.2\nheart-beat:1000,0\n\n\0")
    stage.passes(silence)
    assert peer.closed != lives


def test_without_heart_beats_nothing_is_due() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    assert peer.connection.next_timeout() is None
    stage.passes(100.0)
    assert (peer.closed, peer.raw) == (False, b"")


def test_the_broker_ends_a_connection_in_order_when_it_stops() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    stage.broker.stop(stage.environment.now())
    stage.settle()
    assert only(peer).headers["message"] == "the broker is stopping"
    assert peer.closed
    peer.leaves()
    peer.connection.receive_eof(stage.environment.now())


def test_a_client_id_in_use_is_refused() -> None:
    stage = Stage()
    first = stage.peer()
    first.sends("CONNECT\nclient-id:c\n\n\0")
    assert only(first).headers["session"] == "c"
    second = stage.peer()
    second.sends("CONNECT\nclient-id:c\n\n\0")
    assert "already connected" in only(second).headers["message"]
    assert second.closed and not first.closed


def test_clients_that_leave_their_client_id_empty_do_not_collide() -> None:
    stage = Stage()
    for _ in range(2):
        peer = stage.peer()
        peer.sends("CONNECT\nclient-id:\n\n\0")
        assert only(peer).headers["session"].startswith("ID:")


def test_one_clients_fatal_error_reaches_no_other() -> None:
    stage = Stage()
    good = stage.peer("1.2")
    bad = stage.peer("1.2")
    good.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\n\n\0")
    bad.sends(b"SEND\ndestination:/queue/A\n\nlast\0NONSENSE\n\n\0SEND\ndestination:/queue/A\n\nnever\0")
    assert only(bad).command == "ERROR"
    assert bad.closed
    assert texts(good) == ["last"]


def test_http_to_the_stomp_port_is_closed_at_once() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends("POST /x HTTP/1.1\r\nHost: localhost\r\n\r\nCONNECT\n\n\0SEND\ndestination:/queue/A\n\nx\0")
    assert peer.closed
    assert only(peer).headers["message"] == "Unknown STOMP action: POST /x HTTP/1.1"
    assert stage.broker.destination_views() == []


def test_s3_before_the_login_every_other_command_closes_and_changes_nothing() -> None:
    for command in ("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"):
        stage = Stage()
        peer = stage.peer()
        peer.sends(f"{command}\ndestination:/queue/A\nid:1\ntransaction:t\nreceipt:r\n\n\0" * 3)
        assert only(peer).headers["message"] == "Not connected."
        assert peer.closed
        assert stage.broker.destination_views() == []
        assert stage.broker.connection_views() == []


def test_s9_a_client_cannot_forge_an_advisory_also_not_within_a_composite() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    listener = JmsClient(stage)
    listener.listens(Destination(TOPIC, ">"))
    for name in ("/topic/ActiveMQ.Advisory.Connection", "/queue/A,/topic/ActiveMQ.Advisory.Queue"):
        peer.sends(f"SEND\ndestination:{name}\nreceipt:r\n\nforged\0")
        assert only(peer).command == "ERROR"
    assert listener.messages == []
    peer.sends("SEND\ndestination:/topic/T\nreceipt:ok\n\nx\0")
    assert only(peer).command == "RECEIPT"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("header", ["receipt", "k", "correlation-id", "type", "reply-to", "JMSXGroupID"])
def test_s16_a_value_with_newlines_comes_back_as_one_value(version: str, header: str) -> None:
    """Every header that a client chose and another client gets: RECEIPT, MESSAGE and the subscription's own."""
    stage = Stage()
    reader = stage.peer(version)
    reader.sends("SUBSCRIBE\nid:1\\ninjected:yes\ndestination:/queue/A\n\n\0")
    sender = stage.peer(version)
    sender.sends(f"SEND\ndestination:/queue/A\n{header}:a\\ninjected:yes\\n\\nbody\n\nx\0")
    for frame in [*reader.receives(), *sender.receives()]:
        assert "injected" not in frame.headers
        assert frame.body in (b"x", b"")


def test_s16_an_error_that_quotes_the_client_stays_one_frame() -> None:
    stage = Stage()
    for version in ("1.0", "1.1", "1.2"):
        peer = stage.peer(version)
        peer.sends("COMMIT\ntransaction:t\\ninjected:yes\\n\\nbody\nreceipt:r\\ninjected:yes\n\n\0")
        error = only(peer)
        assert error.command == "ERROR"
        assert "injected" not in error.headers


def test_s34_a_wildcard_reads_only_what_its_principal_may_read() -> None:
    class Guard:
        def check(self, principal: object, action: str, destination: Destination) -> None:
            if action == "read" and destination.name.startswith("SECRET"):
                raise JmsError("no")
            if action == "read" and destination.is_pattern and destination.name == ">":
                raise JmsError(f"User anonymous is not authorized to read from: {destination}")

        def check_all(self, principal: object, action: str, destination: Destination) -> None:
            self.check(principal, action, destination)

    stage = Stage(authorizer=Guard())
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/>\nreceipt:r\n\n\0")
    assert only(peer).command == "ERROR"
    peer.sends("SUBSCRIBE\nid:2\ndestination:/queue/OPEN.A,/queue/SECRET.B\nreceipt:r\n\n\0")
    assert only(peer).command == "ERROR"


def test_s45_subscriptions_and_transactions_of_one_connection_are_bounded() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends(
        "".join(f"SUBSCRIBE\nid:{n}\ndestination:/queue/A\n\n\0BEGIN\ntransaction:{n}\n\n\0" for n in range(1_001))
    )
    assert commands(peer) == ["ERROR", "ERROR"]
    assert not peer.closed


def test_a_stranger_cannot_acknowledge_what_was_given_to_another() -> None:
    stage = Stage()
    owner = stage.peer("1.2")
    thief = stage.peer("1.2")
    owner.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0SEND\ndestination:/queue/A\n\nx\0")
    thief.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0")
    ack = only(owner).headers["ack"]
    thief.sends(f"ACK\nid:{ack}\nreceipt:k\n\n\0")
    assert only(thief).command == "ERROR"
    owner.sends(f"ACK\nid:{ack}\nreceipt:k\n\n\0")
    assert only(owner).command == "RECEIPT"


@pytest.mark.parametrize(
    "ack", ["", "-", "1-", "x-ID:a:1:1:1", "99999999999999999999-ID:a:1:1:1", "1-nonsense", "١-ID:a:1:1:1"]
)
def test_an_ack_of_nonsense_is_refused(ack: str) -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0SEND\ndestination:/queue/A\n\nx\0")
    peer.receives()
    peer.sends(f"ACK\nid:{ack}\nreceipt:k\n\n\0")
    error = only(peer)
    assert (error.command, error.headers["receipt-id"], peer.closed) == ("ERROR", "k", False)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("SEND\ndestination:/queue/A\npriority:high\nreceipt:r\n\nx\0", "priority"),
        ("SEND\ndestination:/queue/A\nexpires:soon\nreceipt:r\n\nx\0", "expires"),
        ("SEND\ndestination:/queue/A\nreply-to:/queue/\nreceipt:r\n\nx\0", "empty name"),
        ("SEND\ndestination:/queue/\nreceipt:r\n\nx\0", "empty name"),
        ("SEND\ndestination:/queue/A\ncontent-length:-5\n\nx\0", "content-length"),
    ],
)
def test_deviation_a_connection_is_not_closed_without_saying_why(frame: str, words: str) -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends(frame)
    error = only(peer)
    assert error.command == "ERROR"
    assert words in error.headers["message"]
    assert peer.closed


def test_deviation_a_property_with_a_newline_is_escaped_for_1_0_too() -> None:
    views = ViewFormat()
    stage = Stage(formats=MessageFormats({FORMAT_STOMP: StompMessageFormat(), FORMAT_VIEW: views}))
    peer = stage.peer("1.0")
    peer.sends("SUBSCRIBE\ndestination:/queue/A\n\n\0")
    view = view_of("x")
    view.properties["k"] = (STRING_VALUE, "a:b\\c\nd\re")
    JmsClient(stage).sends(views.message(view))
    message = only(peer)
    assert message.headers["k"] == "a:b\\c\\nd\\re"
    assert set(message.headers) == {"destination", "expires", "message-id", "priority", "timestamp", "k"}


def test_deviation_the_error_for_a_selector_says_what_is_wrong_with_it() -> None:
    stage = Stage()
    peer = stage.peer("1.1")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nselector:i = = 1\nreceipt:r\n\n\0")
    error = only(peer)
    assert "i = = 1" in error.body.decode()
    assert "convert_string_expressions" not in error.body.decode()
    assert not peer.closed
