"""Acknowledgement, redelivery and dead letters (JMS 1.1, "Message Acknowledgment"; ActiveMQ's RedeliveryPolicy)."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage, slow

ONE_RETRY: Final = (
    "jms.redeliveryPolicy.maximumRedeliveries=1&jms.redeliveryPolicy.initialRedeliveryDelay=10"
    "&jms.redeliveryPolicy.redeliveryDelay=10"
)
MANY_RETRIES: Final = "jms.redeliveryPolicy.initialRedeliveryDelay=10&jms.redeliveryPolicy.redeliveryDelay=10"
ONE_AT_A_TIME: Final = "jms.prefetchPolicy.all=1"


def _mark(jms: Stage) -> dict[str, str]:
    """A property by which a scenario finds its own messages in a queue that all share."""
    return {"scenario": jms.scenario}


def _own(jms: Stage) -> str:
    return f"scenario = '{jms.scenario}'"


@slow
def automatic_acknowledgement_settles_each_message(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", "b", "c")
    jms.counts(jms.queue("Q"))
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(3, silence=True)
    consumer.closes()
    jms.counts(jms.queue("Q"))


def client_acknowledgement_settles_all_before_it(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a", "b", "c")
    session = connection.session("client")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(2)
    consumer.acknowledges()
    consumer.receives(1)
    session.closes()
    connection.session().consumer(jms.queue("Q")).receives(1, silence=True)
    jms.counts(jms.queue("Q"))


def acknowledging_an_earlier_message_settles_later_ones_too(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a", "b", "c")
    session = connection.session("client")
    messages = session.consumer(jms.queue("Q")).receives(3)
    messages[0].acknowledges()
    session.closes()
    connection.session().consumer(jms.queue("Q")).receives_nothing()
    jms.counts(jms.queue("Q"))


def individual_acknowledgement_settles_one(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a", "b", "c")
    session = connection.session("individual")
    messages = session.consumer(jms.queue("Q")).receives(3)
    messages[1].acknowledges()
    session.closes()
    connection.session().consumer(jms.queue("Q")).receives(2, silence=True)
    jms.counts(jms.queue("Q"))


def individual_acknowledgements_may_come_backwards(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a", "b", "c")
    session = connection.session("individual")
    messages = session.consumer(jms.queue("Q")).receives(3)
    for message in reversed(messages):
        message.acknowledges()
    session.closes()
    jms.counts(jms.queue("Q"))


def lazy_acknowledgement_is_complete_after_closing(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends(*"abcdefgh")
    session = connection.session("dups_ok")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(8)
    consumer.closes()
    jms.counts(jms.queue("Q"))


def recover_delivers_again_with_a_flag(jms: Stage) -> None:
    connection = jms.connection(MANY_RETRIES)
    connection.session().producer(jms.queue("Q")).sends("a", "b")
    session = connection.session("client")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(2)
    session.recovers()
    consumer.receives(2)
    consumer.acknowledges()
    jms.counts(jms.queue("Q"))


def what_a_closed_consumer_held_goes_to_the_next(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a", "b", "c")
    session = connection.session("client")
    first = session.consumer(jms.queue("Q"))
    first.receives(1)
    session.closes()
    second = connection.session().consumer(jms.queue("Q"))
    second.receives(3, silence=True)


def what_a_dead_client_held_is_flagged(jms: Stage) -> None:
    producer = jms.connection().session().producer(jms.queue("Q"))
    producer.sends("a")
    dying = jms.connection(ONE_AT_A_TIME)
    dying.session("client").consumer(jms.queue("Q")).receives(1)
    dying.dies()
    producer.sends("b")
    jms.connection().session().consumer(jms.queue("Q")).receives(2, silence=True)


def a_listener_that_fails_sees_the_message_again(jms: Stage) -> None:
    connection = jms.connection(MANY_RETRIES)
    listener = connection.session().consumer(jms.queue("Q")).listens(fail=2)
    connection.session().producer(jms.queue("Q")).sends("a")
    listener.sees(3, silence=True)
    jms.counts(jms.queue("Q"))


def a_listener_that_fails_too_often_sends_it_to_the_dead_letter_queue(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    listener = connection.session().consumer(jms.queue("Q")).listens(fail=9)
    connection.session().producer(jms.queue("Q")).sends("a", properties=_mark(jms))
    listener.sees(2, silence=True)
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives(1, silence=True)
    jms.counts(jms.queue("Q"))


def rollbacks_beyond_the_limit_send_it_to_the_dead_letter_queue(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    connection.session().producer(jms.queue("Q")).sends("a", properties=_mark(jms), ttl=600_000)
    session = connection.session("transacted")
    consumer = session.consumer(jms.queue("Q"))
    for _ in range(2):
        consumer.receives(1)
        session.rolls_back()
    consumer.receives_nothing()
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives(1, silence=True)
    jms.counts(jms.queue("Q"))


def recovers_beyond_the_limit_send_it_to_the_dead_letter_queue(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    connection.session().producer(jms.queue("Q")).sends("a", properties=_mark(jms))
    session = connection.session("client")
    consumer = session.consumer(jms.queue("Q"))
    for _ in range(2):
        consumer.receives(1)
        session.recovers()
    consumer.receives_nothing()
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives(1, silence=True)


def volatile_messages_get_no_dead_letter(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    listener = connection.session().consumer(jms.queue("Q")).listens(fail=9)
    connection.session().producer(jms.queue("Q")).sends("a", volatile=True, properties=_mark(jms))
    listener.sees(2, silence=True)
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives_nothing()
    jms.counts(jms.queue("Q"))


def volatile_messages_get_one_where_the_policy_says_so(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    listener = connection.session().consumer("queue://KEEPVOLATILE.Q").listens(fail=9)
    connection.session().producer("queue://KEEPVOLATILE.Q").sends("a", volatile=True)
    listener.sees(2, silence=True)
    connection.session().consumer("queue://KEPT.DLQ").receives(1, silence=True)


def each_queue_can_have_its_own_dead_letter_queue(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    listener = connection.session().consumer("queue://OWNDLQ.Q").listens(fail=9)
    connection.session().producer("queue://OWNDLQ.Q").sends("a", priority=7, correlation="c", type="t")
    listener.sees(2, silence=True)
    connection.session().consumer("queue://DLQ.OWNDLQ.Q").receives(1, silence=True)


def what_a_plain_subscriber_gives_up_is_no_dead_letter(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    listener = connection.session().consumer("topic://OWNDLQ.T").listens(fail=9)
    connection.session().producer("topic://OWNDLQ.T").sends("a")
    listener.sees(2, silence=True)
    connection.session().consumer("queue://DLQ.OWNDLQ.T").receives_nothing()


def dead_letters_can_be_dropped(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    listener = connection.session().consumer("queue://NODLQ.Q").listens(fail=9)
    connection.session().producer("queue://NODLQ.Q").sends("a", properties=_mark(jms))
    listener.sees(2, silence=True)
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives_nothing()
    jms.counts("queue://NODLQ.Q")


def a_dead_letter_that_dies_again_is_gone(jms: Stage) -> None:
    connection = jms.connection(ONE_RETRY)
    connection.session().consumer(jms.queue("Q")).listens(fail=9).sees(0)
    connection.session().producer(jms.queue("Q")).sends("a", properties=_mark(jms))
    session = connection.session("transacted")
    consumer = session.consumer("queue://ActiveMQ.DLQ", _own(jms))
    for _ in range(2):
        consumer.receives(1)
        session.rolls_back()
    consumer.receives_nothing()


def acknowledging_twice_changes_nothing(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a", "b")
    consumer = connection.session("client").consumer(jms.queue("Q"))
    message = consumer.receives(1)[0]
    message.acknowledges()
    message.acknowledges()
    consumer.receives(1)
    consumer.acknowledges()
    jms.counts(jms.queue("Q"))


def the_delivery_count_survives_the_consumer(jms: Stage) -> None:
    connection = jms.connection(MANY_RETRIES)
    connection.session().producer(jms.queue("Q")).sends("a")
    for _ in range(3):
        session = connection.session("transacted")
        session.consumer(jms.queue("Q")).receives(1)
        session.rolls_back()
        session.closes()
    connection.session().consumer(jms.queue("Q")).receives(1)


def rollbacks_in_one_session_are_counted_by_the_client(jms: Stage) -> None:
    connection = jms.connection(MANY_RETRIES)
    connection.session().producer(jms.queue("Q")).sends("a")
    session = connection.session("transacted")
    consumer = session.consumer(jms.queue("Q"))
    for _ in range(3):
        consumer.receives(1)
        session.rolls_back()
    session.closes()
    connection.session().consumer(jms.queue("Q")).receives(1)


def a_dead_client_s_rollbacks_are_counted(jms: Stage) -> None:
    jms.connection().session().producer(jms.queue("Q")).sends("a")
    dying = jms.connection(MANY_RETRIES)
    session = dying.session("transacted")
    consumer = session.consumer(jms.queue("Q"))
    for _ in range(3):
        consumer.receives(1)
        session.rolls_back()
    consumer.receives(1)
    dying.dies()
    jms.connection().session().consumer(jms.queue("Q")).receives(1)


@slow
def the_broker_redelivers_later_where_its_plugin_says_so(jms: Stage) -> None:
    connection = jms.connection("jms.redeliveryPolicy.maximumRedeliveries=0")
    listener = connection.session().consumer("queue://REDELIVER.Q").listens(fail=2)
    connection.session().producer("queue://REDELIVER.Q").sends("a", properties=_mark(jms))
    listener.sees(3, silence=True)
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives_nothing()


@slow
def the_broker_gives_up_after_the_redeliveries_of_its_plugin(jms: Stage) -> None:
    connection = jms.connection("jms.redeliveryPolicy.maximumRedeliveries=0")
    listener = connection.session().consumer("queue://REDELIVER.HOPELESS").listens(fail=9)
    connection.session().producer("queue://REDELIVER.HOPELESS").sends("a", properties=_mark(jms))
    listener.sees(3, silence=True)
    connection.session().consumer("queue://ActiveMQ.DLQ", _own(jms)).receives(1, silence=True)
