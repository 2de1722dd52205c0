"""Advisories and statistics: what the broker tells about itself (ActiveMQ, "Advisory Message", "StatisticsPlugin")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage

PREFIX: Final = "topic://ActiveMQ.Advisory."


def _bare(destination: str) -> str:
    return destination.partition("://")[2]


def consumers_of_a_queue_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Consumer.Queue.{_bare(jms.queue('Q'))}")
    consumer = jms.connection().session().consumer(jms.queue("Q"), "a = 1")
    listener.receives(1)
    consumer.closes()
    listener.receives(1, silence=True)


def producers_of_a_queue_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Producer.Queue.{_bare(jms.queue('Q'))}")
    producer = jms.connection().session().producer(jms.queue("Q"))
    listener.receives(1)
    producer.closes()
    listener.receives(1, silence=True)


def consumers_of_a_topic_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Consumer.Topic.{_bare(jms.topic('T'))}")
    jms.connection().session().consumer(jms.topic("T"))
    listener.receives(1, silence=True)


def a_late_listener_hears_of_consumers_that_are_there(jms: Stage) -> None:
    session = jms.connection().session()
    session.consumer(jms.queue("Q"))
    session.consumer(f"{PREFIX}Consumer.Queue.{_bare(jms.queue('Q'))}").receives(1, silence=True)


def new_temporary_queues_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}TempQueue")
    listener.skips()
    queue = jms.connection().session().temporary()
    listener.receives(1)
    queue.deletes()
    listener.receives(1, silence=True)


def a_message_nobody_takes_is_told_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}NoConsumer.Queue.TOLD.NOBODY")
    session.producer("queue://TOLD.NOBODY").sends("a", volatile=True)
    listener.receives(1, silence=True)


def a_delivered_message_is_told_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    delivered = session.consumer(f"{PREFIX}MessageDelivered.Queue.TOLD.Q")
    consumed = session.consumer(f"{PREFIX}MessageConsumed.Queue.TOLD.Q")
    session.producer("queue://TOLD.Q").sends("a")
    delivered.receives(1, silence=True)
    session.consumer("queue://TOLD.Q").receives(1)
    consumed.receives(1, silence=True)


def an_expired_message_is_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Expired.Queue.{_bare(jms.queue('Q'))}")
    session.producer(jms.queue("Q")).sends("short", ttl=60, properties={"scenario": jms.scenario})
    session.consumer(jms.queue("EMPTY")).receives_nothing()
    session.consumer(jms.queue("Q")).receives_nothing()
    listener.receives(1, silence=True)


def a_dead_letter_is_told(jms: Stage) -> None:
    connection = jms.connection("jms.redeliveryPolicy.maximumRedeliveries=0")
    session = connection.session()
    listener = session.consumer(f"{PREFIX}MessageDLQd.Queue.OWNDLQ.TOLD")
    connection.session().consumer("queue://OWNDLQ.TOLD").listens(fail=1)
    session.producer("queue://OWNDLQ.TOLD").sends("a")
    listener.receives(1, silence=True)


def connections_are_told(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.listener").session()
    listener = session.consumer(f"{PREFIX}Connection", None)
    listener.skips()
    other = jms.connection(client_id=f"{jms.scenario}.other")
    listener.receives(1)
    other.closes()
    listener.receives(1, silence=True)


def clients_cannot_send_advisories(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Consumer.Queue.{_bare(jms.queue('Q'))}")
    session.producer(f"{PREFIX}Consumer.Queue.{_bare(jms.queue('Q'))}").sends("forged")
    listener.drains()


def the_statistics_plugin_answers(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", "b")
    answers = session.temporary()
    consumer = session.consumer(answers)
    session.producer(f"queue://ActiveMQ.Statistics.Destination{_bare(jms.queue('UNKNOWN'))}").sends(
        None, kind="plain", replyTo=answers
    )
    consumer.receives_nothing()
    session.producer(f"queue://ActiveMQ.Statistics.Destination{_bare(jms.queue('Q'))}").sends(
        None, kind="plain", replyTo=answers
    )
    answered = jms.ask(do="receive", consumer=consumer.name, timeout=2_000)["result"]
    names = sorted(answered["body"]) if answered else None
    size = answered["body"]["size"] if answered else None
    jms.writes("names and size of the answer", [names, size])
