"""Advisories and statistics: what the broker tells about itself (ActiveMQ, "Advisory Message", "StatisticsPlugin")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage, slow

PREFIX: Final = "topic://ActiveMQ.Advisory."
SOON_MS: Final = 500  # not over before a message has arrived
PAST_MS: Final = SOON_MS + 100


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


def nobody_subscribes_durably_to_advisories(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    session.tries_subscriber(f"{PREFIX}Consumer.Queue.{_bare(jms.queue('Q'))}", "s")
    session.tries_subscriber(f"{PREFIX}>", "s")
    session.tries_subscriber(f"{jms.topic('T')},ActiveMQ.Advisory.Queue", "s")
    session.subscriber(jms.topic("T"), "s")


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


@slow
def an_expired_message_is_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Expired.Queue.{_bare(jms.queue('Q'))}")
    session.producer(jms.queue("Q")).sends("short", ttl=SOON_MS, properties={"scenario": jms.scenario})
    jms.passes(PAST_MS)
    session.consumer(jms.queue("Q")).receives_nothing()
    listener.receives(1, silence=True)


def a_dead_letter_is_told(jms: Stage) -> None:
    connection = jms.connection("jms.redeliveryPolicy.maximumRedeliveries=0")
    session = connection.session()
    listener = session.consumer(f"{PREFIX}MessageDLQd.Queue.OWNDLQ.TOLD")
    connection.session().consumer("queue://OWNDLQ.TOLD").listens(fail=1)
    session.producer("queue://OWNDLQ.TOLD").sends("a")
    listener.receives(1, silence=True)


@slow
def an_expired_message_is_told_twice_where_it_becomes_a_dead_letter(jms: Stage) -> None:
    session = jms.connection().session()
    for name, volatile in (("Q", False), ("V", True)):
        queue = jms.queue(name)
        listener = session.consumer(f"{PREFIX}MessageDLQd.Queue.{_bare(queue)},{PREFIX}Expired.Queue.{_bare(queue)}")
        session.producer(queue).sends("short", ttl=SOON_MS, type="T", correlation="c", volatile=volatile)
        jms.passes(PAST_MS)
        session.consumer(queue).receives_nothing()
        listener.receives(1 if volatile else 2, silence=True)


@slow
def a_message_that_expires_at_its_consumer_is_told(jms: Stage) -> None:
    name = _bare(jms.queue("Q"))
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}MessageDLQd.Queue.{name},{PREFIX}Expired.Queue.{name}")
    consumer = session.consumer(jms.queue("Q"))
    session.producer(jms.queue("Q")).sends("kept", ttl=SOON_MS)
    jms.passes(PAST_MS)
    consumer.receives_nothing()
    listener.receives(2, silence=True)


@slow
def an_expired_message_of_a_durable_subscriber_is_told(jms: Stage) -> None:
    topic = jms.topic("T")
    session = jms.connection(client_id=f"{jms.scenario}.durable").session()
    session.subscriber(topic, "s").closes()
    other = jms.connection().session()
    listener = other.consumer(f"{PREFIX}MessageDLQd.Topic.{_bare(topic)},{PREFIX}Expired.Topic.{_bare(topic)}")
    other.producer(topic).sends("late", ttl=SOON_MS)
    jms.passes(PAST_MS)
    session.subscriber(topic, "s").receives_nothing()
    listener.receives(2, silence=True)


@slow
def a_dead_letter_s_own_death_is_no_dead_letter(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}MessageDLQd.Queue.ActiveMQ.DLQ,{PREFIX}Expired.Queue.ActiveMQ.DLQ")
    session.producer("queue://ActiveMQ.DLQ").sends("short", ttl=SOON_MS, type=jms.scenario)
    jms.passes(PAST_MS)
    session.consumer("queue://ActiveMQ.DLQ", f"JMSType = '{jms.scenario}'").receives_nothing()
    listener.receives(1, silence=True)


def a_topic_message_nobody_takes_is_told_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}NoConsumer.Topic.TOLD.NOBODY")
    producer = session.producer("topic://TOLD.NOBODY")
    producer.sends("stored")
    producer.sends("nobody", volatile=True, properties={"a": 2})
    session.consumer("topic://TOLD.NOBODY", "a = 1")
    producer.sends("unwanted", volatile=True, properties={"a": 2})
    producer.sends("wanted", volatile=True, properties={"a": 1})
    listener.receives(2, silence=True)


def a_queue_message_with_a_picky_consumer_is_not_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}NoConsumer.Queue.TOLD.PICKY")
    session.consumer("queue://TOLD.PICKY", "a = 1")
    session.producer("queue://TOLD.PICKY").sends("unwanted", volatile=True)
    listener.receives_nothing()


def a_delivered_topic_message_is_told_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}MessageDelivered.Topic.TOLD.T")
    consumed = session.consumer(f"{PREFIX}MessageConsumed.Topic.TOLD.T")
    consumer = session.consumer("topic://TOLD.T")
    session.producer("topic://TOLD.T").sends("a", volatile=True, properties={"n": 1})
    listener.receives(1, silence=True)
    consumer.receives(1)
    consumed.receives_nothing()


def a_durable_subscriber_s_acknowledgement_is_told(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.durable").session()
    listener = session.consumer(f"{PREFIX}MessageDelivered.Topic.TOLD.D,{PREFIX}MessageConsumed.Topic.TOLD.D")
    subscriber = session.subscriber("topic://TOLD.D", "s")
    session.producer("topic://TOLD.D").sends("a", properties={"n": 1})
    listener.receives(1, silence=True)
    subscriber.receives(1)
    listener.receives(1, silence=True)


def a_message_of_a_transaction_is_told_with_its_commit(jms: Stage) -> None:
    connection = jms.connection()
    listener = connection.session().consumer(f"{PREFIX}MessageDelivered.Queue.TOLD.TX")
    session = connection.session("transacted")
    producer = session.producer("queue://TOLD.TX")
    producer.sends("undone")
    session.rolls_back()
    producer.sends("done")
    listener.receives_nothing()
    session.commits()
    listener.receives(1, silence=True)
    connection.session().consumer("queue://TOLD.TX").receives(1)


def an_acknowledgement_in_a_transaction_is_told(jms: Stage) -> None:
    connection = jms.connection()
    listener = connection.session().consumer(f"{PREFIX}MessageConsumed.Queue.TOLD.TXACK")
    connection.session().producer("queue://TOLD.TXACK").sends("a")
    session = connection.session("transacted")
    session.consumer("queue://TOLD.TXACK").receives(1)
    session.commits()
    listener.receives(1, silence=True)


def the_whole_message_is_told_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    delivered = session.consumer(f"{PREFIX}MessageDelivered.Queue.WHOLE.Q")
    consumed = session.consumer(f"{PREFIX}MessageConsumed.Queue.WHOLE.Q")
    producer = session.producer("queue://WHOLE.Q")
    consumer = session.consumer("queue://WHOLE.Q")
    producer.sends("a", properties={"n": 1})
    producer.sends({"x": 1, "y": "z"}, kind="map", correlation="c")
    producer.sends("bytes", kind="bytes", priority=7)
    consumer.receives(3)
    delivered.receives(3, silence=True)
    consumed.receives(3, silence=True)


def messages_of_every_kind_are_told_without_their_bodies(jms: Stage) -> None:
    session = jms.connection().session()
    delivered = session.consumer(f"{PREFIX}MessageDelivered.Queue.TOLD.KINDS")
    producer = session.producer("queue://TOLD.KINDS")
    producer.sends("a", properties={"n": 1})
    producer.sends({"x": 1}, kind="map")
    producer.sends("b", kind="bytes")
    producer.sends([1, "s"], kind="stream")
    producer.sends(None, kind="plain", type="T")
    delivered.receives(5, silence=True)
    session.consumer("queue://TOLD.KINDS").receives(5)


def a_slow_consumer_of_a_topic_is_told_once(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}SlowConsumer.Topic.TARDY.T")
    consumer = jms.connection().session().consumer("topic://TARDY.T?consumer.prefetchSize=2")
    producer = session.producer("topic://TARDY.T")
    producer.sends(*"abcde", volatile=True)
    listener.receives_nothing()
    producer.sends("f", "g", volatile=True)
    listener.receives(1, silence=True)
    consumer.receives(7)
    jms.settles()  # its acknowledgements come by another connection than the messages
    producer.sends(*"abcdefg", volatile=True)
    listener.receives(1, silence=True)


def a_slow_consumer_of_a_queue(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}SlowConsumer.Queue.TARDY.Q")
    consumer = jms.connection().session().consumer("queue://TARDY.Q?consumer.prefetchSize=2")
    session.producer("queue://TARDY.Q").sends(*"abcdefgh")
    listener.receives_nothing()
    consumer.receives(8)
    listener.receives_nothing()


def a_slow_durable_subscriber(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.durable").session()
    listener = jms.connection().session().consumer(f"{PREFIX}SlowConsumer.Topic.TARDY.D")
    subscriber = session.subscriber("topic://TARDY.D?consumer.prefetchSize=2", "s")
    session.producer("topic://TARDY.D").sends(*"abcdefgh")
    listener.receives(1, silence=True)
    subscriber.receives(8)


def discarded_messages_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}MessageDiscarded.Topic.DROPPED.T")
    consumer = jms.connection().session().consumer("topic://DROPPED.T?consumer.prefetchSize=1")
    session.producer("topic://DROPPED.T").sends(*"abcde", volatile=True, properties={"n": 1})
    listener.receives(2, silence=True)
    consumer.drains()


def a_full_queue_and_who_fills_it_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    full = session.consumer(f"{PREFIX}FULL.Queue.FULL.Q")
    fast = session.consumer(f"{PREFIX}FastProducer.Queue.FULL.Q")
    producer = jms.connection().session().producer("queue://FULL.Q")
    producer.sends("a" * 12_000, "b" * 12_000, volatile=True)
    full.receives_nothing()
    producer.sends("c" * 12_000, volatile=True)
    full.receives(1, silence=True)
    fast.receives(1, silence=True)
    session.consumer("queue://FULL.Q").receives(3)


def a_full_topic_and_who_fills_it_are_told(jms: Stage) -> None:
    session = jms.connection().session()
    full = session.consumer(f"{PREFIX}FULL.Topic.FULL.T")
    fast = session.consumer(f"{PREFIX}FastProducer.Topic.FULL.T")
    consumer = jms.connection().session().consumer("topic://FULL.T?consumer.prefetchSize=1")
    producer = jms.connection().session().producer("topic://FULL.T")
    producer.sends("in its window", "b" * 12_000, "c" * 12_000, volatile=True)
    full.receives_nothing()
    producer.sends("d" * 12_000, volatile=True)
    full.receives(1, silence=True)
    fast.receives(1, silence=True)
    consumer.receives(4)


def producers_without_a_destination_are_told_where_the_broker_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer(f"{PREFIX}Producer.Anonymous")
    producer = jms.connection().session().producer()
    listener.receives(1)
    producer.closes()
    listener.receives(1, silence=True)


def a_late_listener_hears_of_producers_without_a_destination(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer()
    listener = session.consumer(f"{PREFIX}Producer.Anonymous")
    listener.receives(1, silence=True)
    producer.closes()
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
