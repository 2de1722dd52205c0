"""Time: messages that expire, and messages that are delivered later (ActiveMQ, "Delay and Schedule Message")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage, slow

SOON_MS: Final = 500  # not over before a message has arrived
PAST_MS: Final = SOON_MS + 100
LATER_MS: Final = 1_500  # not over before the next message has arrived


@slow
def an_expired_message_is_not_delivered(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    producer.sends("short", ttl=SOON_MS, properties={"scenario": jms.scenario})
    producer.sends("long", ttl=600_000)
    producer.sends("ever")
    jms.passes(PAST_MS)
    session.consumer(jms.queue("Q")).receives(2, silence=True)
    jms.counts(jms.queue("Q"))


@slow
def an_expired_message_becomes_a_dead_letter(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("short", ttl=SOON_MS, properties={"scenario": jms.scenario}, correlation="c")
    jms.passes(PAST_MS)
    session.consumer(jms.queue("Q")).receives_nothing()
    session.consumer("queue://ActiveMQ.DLQ", f"scenario = '{jms.scenario}'").receives(1, silence=True)


@slow
def an_expired_volatile_message_is_gone(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("short", ttl=SOON_MS, volatile=True, properties={"scenario": jms.scenario})
    jms.passes(PAST_MS)
    session.consumer(jms.queue("Q")).receives_nothing()
    session.consumer("queue://ActiveMQ.DLQ", f"scenario = '{jms.scenario}'").receives_nothing()
    jms.counts(jms.queue("Q"))


def the_sweep_finds_expired_messages_nobody_asks_for(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://SWEPT.Q").sends("short", ttl=SOON_MS, properties={"scenario": jms.scenario})
    session.consumer("queue://ActiveMQ.DLQ", f"scenario = '{jms.scenario}'").receives(1)


@slow
def an_expired_message_of_a_topic_is_not_delivered(jms: Stage) -> None:
    connection = jms.connection(stopped=True)
    session = connection.session()
    consumer = session.consumer(jms.topic("T"))
    sender = jms.connection().session()
    sender.producer(jms.topic("T")).sends("short", ttl=SOON_MS, volatile=True)
    sender.producer(jms.topic("T")).sends("ever", volatile=True)
    jms.passes(PAST_MS)
    connection.starts()
    consumer.receives(1, silence=True)


@slow
def a_message_is_delivered_after_its_delay(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.queue("Q"))
    session.producer(jms.queue("Q")).sends("later", properties={"AMQ_SCHEDULED_DELAY": LATER_MS})
    session.producer(jms.queue("Q")).sends("now")
    consumer.receives(1, silence=True)
    consumer.receives(1)


def a_message_is_delivered_several_times(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.queue("Q"))
    session.producer(jms.queue("Q")).sends(
        "again",
        properties={"AMQ_SCHEDULED_DELAY": 50, "AMQ_SCHEDULED_PERIOD": 50, "AMQ_SCHEDULED_REPEAT": ["int", 2]},
    )
    consumer.receives(3, silence=True)


def a_scheduled_message_of_a_transaction_waits_for_its_commit(jms: Stage) -> None:
    connection = jms.connection()
    consumer = connection.session().consumer(jms.queue("Q"))
    session = connection.session("transacted")
    producer = session.producer(jms.queue("Q"))
    producer.sends("never", properties={"AMQ_SCHEDULED_DELAY": 50})
    session.rolls_back()
    producer.sends("later", properties={"AMQ_SCHEDULED_DELAY": 50})
    consumer.receives_nothing()
    session.commits()
    consumer.receives(1, silence=True)


@slow
def a_scheduled_message_survives_a_kill_and_comes_when_it_was_missed(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("missed", properties={"AMQ_SCHEDULED_DELAY": LATER_MS})
    session.producer(jms.queue("R")).sends("never", properties={"AMQ_SCHEDULED_DELAY": 600_000})
    jms.restarts(LATER_MS)
    session = jms.connection().session()
    session.consumer(jms.queue("Q")).receives(1)
    session.consumer(jms.queue("R")).receives_nothing()


def scheduled_messages_are_browsed_and_removed_by_message(jms: Stage) -> None:
    session = jms.connection().session()
    manager = "topic://ActiveMQ.Scheduler.Management"
    answers = session.temporary()
    found = session.consumer(answers)
    consumer = session.consumer(jms.queue("Q"))
    session.producer(jms.queue("Q")).sends("later", properties={"AMQ_SCHEDULED_DELAY": 600_000})
    session.producer(manager).sends("", kind="plain", properties={"AMQ_SCHEDULER_ACTION": "BROWSE"}, replyTo=answers)
    message = found.receives(1)
    if message:
        found.receives_nothing()
    session.producer(manager).sends("", kind="plain", properties={"AMQ_SCHEDULER_ACTION": "REMOVEALL"})
    session.producer(manager).sends("", kind="plain", properties={"AMQ_SCHEDULER_ACTION": "BROWSE"}, replyTo=answers)
    found.receives_nothing()
    consumer.receives_nothing()


def a_message_that_would_repeat_too_often_is_refused(jms: Stage) -> None:
    session = jms.connection().session()
    properties = {"AMQ_SCHEDULED_DELAY": 600_000, "AMQ_SCHEDULED_PERIOD": 1_000, "AMQ_SCHEDULED_REPEAT": ["int", 1_001]}
    session.producer(jms.queue("Q")).sends("x", properties=properties)


def texts_say_when_a_message_is_delivered(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.queue("Q"))
    properties = {"AMQ_SCHEDULED_DELAY": "50", "AMQ_SCHEDULED_PERIOD": "50", "AMQ_SCHEDULED_REPEAT": "1"}
    session.producer(jms.queue("Q")).sends("x", properties=properties)
    consumer.receives(2, silence=True)


def a_message_with_the_id_of_a_job_is_delivered_at_once(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.queue("Q"))
    properties = {"AMQ_SCHEDULED_DELAY": 600_000, "scheduledJobId": "ID:elsewhere:1"}
    session.producer(jms.queue("Q")).sends("x", properties=properties)
    consumer.receives(1, silence=True)


def a_cron_entry_that_cannot_be_read_is_refused(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("x", properties={"AMQ_SCHEDULED_CRON": "every day"})


def a_scheduled_message_expires_after_its_delivery(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("x", ttl=30_000, properties={"AMQ_SCHEDULED_DELAY": 50})
    session.consumer(jms.queue("Q")).receives(1, silence=True)


def a_topic_is_sent_to_later(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.topic("T"))
    session.producer(jms.topic("T")).sends("x", volatile=True, properties={"AMQ_SCHEDULED_DELAY": 50})
    consumer.receives(1, silence=True)


def a_delay_that_is_null_asks_for_nothing(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", properties={"AMQ_SCHEDULED_DELAY": ["null", 0]})
    session.consumer(jms.queue("Q")).receives(1, silence=True)
