"""Where dead letters go, and messages that come back instead (ActiveMQ, "Message Redelivery and DLQ Handling")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage, slow

AT_ONCE: Final = "jms.redeliveryPolicy.maximumRedeliveries=0"
GIVING_UP_MS: Final = 1_000  # a listener has failed, and its client tells so; far less than the delay of 6 s


def letters_of_a_queue_go_to_a_topic(jms: Stage) -> None:
    session = jms.connection().session()
    listener = session.consumer("topic://DLT.TOPICDLQ.Q")
    jms.connection(AT_ONCE).session().consumer("queue://TOPICDLQ.Q").listens(fail=9)
    session.producer("queue://TOPICDLQ.Q").sends("a")
    listener.receives(1, silence=True)


def letters_of_a_queue_wait_for_a_durable_subscriber(jms: Stage) -> None:
    reader = jms.connection(client_id="letters").session()
    reader.subscriber("topic://DLT.TOPICDLQ.R", "letters").closes()
    failing = jms.connection(AT_ONCE).session().consumer("queue://TOPICDLQ.R").listens(fail=9)
    jms.connection().session().producer("queue://TOPICDLQ.R").sends("a")
    failing.sees(1)
    jms.settles()
    reader.subscriber("topic://DLT.TOPICDLQ.R", "letters").receives(1, silence=True)


def each_durable_subscriber_has_letters_of_his_own(jms: Stage) -> None:
    failing = jms.connection(AT_ONCE, client_id="one").session().subscriber("topic://EACHDLQ.T", "sub")
    other = jms.connection(client_id="two").session().subscriber("topic://EACHDLQ.T", "sub")
    seen = failing.listens(fail=9)
    session = jms.connection().session()
    session.producer("topic://EACHDLQ.T").sends("a")
    seen.sees(1)
    other.receives(1)
    session.consumer("queue://DLQ.EACHDLQ.T.one:sub").receives(1, silence=True)
    session.consumer("queue://DLQ.EACHDLQ.T.two:sub").receives_nothing()


def two_subscribers_give_up_on_one_message(jms: Stage) -> None:
    session = jms.connection().session()
    letters = session.consumer("queue://DLQ.OWNDLQ.TWICE")
    seen = [
        jms.connection(AT_ONCE, client_id=client).session().subscriber("topic://OWNDLQ.TWICE", "sub").listens(fail=9)
        for client in ("first", "second")
    ]
    session.producer("topic://OWNDLQ.TWICE").sends("a")
    for one in seen:
        one.sees(1)
    letters.receives(1)
    letters.drains()


def letters_expire_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    jms.connection(AT_ONCE).session().consumer("queue://SHORTDLQ.Q").listens(fail=9)
    session.producer("queue://SHORTDLQ.Q").sends("a")
    session.consumer("queue://SHORT.DLQ").receives(1, silence=True)


@slow
def a_redelivery_survives_a_kill(jms: Stage) -> None:
    connection = jms.connection(AT_ONCE)
    failing = connection.session().consumer("queue://KILLED.Q").listens(fail=1)
    jms.connection().session().producer("queue://KILLED.Q").sends("a")
    failing.sees(1)
    jms.passes(GIVING_UP_MS)
    jms.settles()
    connection.dies()
    jms.restarts()
    session = jms.connection().session()
    session.consumer("queue://KILLED.Q").receives(1, silence=True)


def _gives_up(jms: Stage, source: str) -> None:
    session = jms.connection(AT_ONCE).session("transacted")
    consumer = session.consumer(source)
    consumer.receives(1)
    session.rolls_back()
    consumer.receives_nothing()


@slow
def a_letter_of_a_letter_is_gone(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://OWNDLQ.GONE").sends("a")
    _gives_up(jms, "queue://OWNDLQ.GONE")
    _gives_up(jms, "queue://DLQ.OWNDLQ.GONE")
    session.browses("queue://DLQ.OWNDLQ.GONE")
    session.browses("queue://DLQ.DLQ.OWNDLQ.GONE")
    session.consumer("queue://ActiveMQ.DLQ").drains()


def the_letter_of_a_group_of_a_virtual_topic_names_the_topic(jms: Stage) -> None:
    session = jms.connection().session()
    session.consumer("queue://Consumer.A.VirtualTopic.LETTERS").closes()
    session.producer("topic://VirtualTopic.LETTERS").sends("a", properties={"p": "v"})
    _gives_up(jms, "queue://Consumer.A.VirtualTopic.LETTERS")
    session.consumer("queue://ActiveMQ.DLQ").receives(1, silence=True)


@slow
def a_message_of_a_group_comes_back_and_dies_in_the_end(jms: Stage) -> None:
    session = jms.connection().session()
    queue = "queue://REDELIVER.GROUP"
    session.producer(queue).sends("a", properties={"JMSXGroupID": "g"}, priority=7, correlation="c", ttl=3_600_000)
    failing = jms.connection(AT_ONCE).session("transacted")
    consumer = failing.consumer(queue)
    for _ in range(3):
        consumer.receives(1)
        failing.rolls_back()
    consumer.receives_nothing()
    session.consumer("queue://ActiveMQ.DLQ").receives(1, silence=True)


@slow
def a_temporary_queue_has_a_policy_of_its_own(jms: Stage) -> None:
    connection = jms.connection(AT_ONCE)
    session = connection.session("transacted")
    queue = session.temporary()
    consumer = session.consumer(queue)
    connection.session().producer(queue).sends("a", volatile=True)
    consumer.receives(1)
    session.rolls_back()
    consumer.receives(1)
    session.commits()
    consumer.receives_nothing()


@slow
def a_consumer_of_a_pattern_gets_what_comes_back(jms: Stage) -> None:
    jms.connection().session().producer("queue://REDELIVER.PATTERN.A").sends("a", volatile=True)
    session = jms.connection(AT_ONCE).session("transacted")
    consumer = session.consumer("queue://REDELIVER.PATTERN.*")
    consumer.receives(1)
    session.rolls_back()
    consumer.receives(1)
    session.commits()
    consumer.receives_nothing()
    jms.counts("queue://REDELIVER.PATTERN.A")
