"""Messages that STOMP clients have delivered later, and what they ask the scheduler (ActiveMQ, "Delay and Schedule
Message Delivery").
"""

from __future__ import annotations

from spanwire.broker.scheduler.schedule import SchedulerSettings
from tests.support.stomp_dialogue import Peer, Stage


def listener(stage: Stage, destination: str = "/queue/Q") -> Peer:
    peer = stage.peer("1.2")
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:{destination}\nack:auto\n\n\0")
    assert peer.receives() == []
    return peer


def test_a_message_comes_after_its_delay_without_the_headers_that_asked_for_it() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    consumer, sender = listener(stage), stage.peer("1.2")
    sender.sends("SEND\ndestination:/queue/Q\nAMQ_SCHEDULED_DELAY:5000\ncolour:red\nreceipt:r\n\nx\0")
    assert [frame.command for frame in sender.receives()] == ["RECEIPT"]
    stage.passes(4.75)
    assert consumer.receives() == []
    stage.passes(1.25)
    (frame,) = consumer.receives()
    assert (frame.command, frame.body, frame.headers["colour"]) == ("MESSAGE", b"x", "red")
    assert "AMQ_SCHEDULED_DELAY" not in frame.headers
    assert "scheduledJobId" in frame.headers


def test_a_message_repeats_with_ids_of_its_own() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    consumer, sender = listener(stage), stage.peer("1.2")
    sender.sends(
        "SEND\ndestination:/queue/Q\npersistent:true\nAMQ_SCHEDULED_DELAY:1000\nAMQ_SCHEDULED_PERIOD:2000\n"
        "AMQ_SCHEDULED_REPEAT:2\n\nx\0"
    )
    stage.passes(20)
    frames = consumer.receives()
    assert len(frames) == 3
    assert len({frame.headers["message-id"] for frame in frames}) == 3


def test_a_cron_entry_that_cannot_be_read_is_an_error() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    sender = stage.peer("1.2")
    sender.sends("SEND\ndestination:/queue/Q\nAMQ_SCHEDULED_CRON:every day\nreceipt:r\n\nx\0")
    (frame,) = sender.receives()
    assert frame.command == "ERROR"
    assert "cron entry" in frame.headers["message"]


def test_scheduled_messages_are_browsed_and_removed() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    consumer, asker, sender = listener(stage), listener(stage, "/queue/ANSWERS"), stage.peer("1.2")
    for text in ("first", "second"):
        sender.sends(f"SEND\ndestination:/queue/Q\nAMQ_SCHEDULED_DELAY:5000\n\n{text}\0")
    management = "SEND\ndestination:/topic/ActiveMQ.Scheduler.Management\nAMQ_SCHEDULER_ACTION:"
    sender.sends(f"{management}BROWSE\nreply-to:/queue/ANSWERS\n\n\0")
    stage.passes(1)
    answers = asker.receives()
    assert [answer.body for answer in answers] == [b"first", b"second"]
    sender.sends(f"{management}REMOVE\nscheduledJobId:{answers[0].headers['scheduledJobId']}\n\n\0")
    stage.passes(8)
    assert [frame.body for frame in consumer.receives()] == [b"second"]
