"""Which consumer gets a message, and when its window opens (ActiveMQ, "Dispatch Policies", "What is the Prefetch Limit
For?").
"""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Listener, Stage, slow

TWO_AT_A_TIME: Final = "jms.prefetchPolicy.all=2"


def a_window_that_is_not_extended_opens_with_the_commit(jms: Stage) -> None:
    jms.connection().session().producer(f"queue://CLOSED.{jms.scenario}").sends("a", "b", "c", "d", "e")
    session = jms.connection(TWO_AT_A_TIME).session("transacted")
    consumer = session.consumer(f"queue://CLOSED.{jms.scenario}")
    consumer.receives(2, silence=True)
    session.commits()
    consumer.receives(2, silence=True)
    session.commits()
    consumer.receives(1)
    session.commits()


@slow
def a_window_that_is_not_extended_stays_closed_after_a_rollback(jms: Stage) -> None:
    jms.connection().session().producer(f"queue://CLOSED.{jms.scenario}").sends("a", "b", "c")
    session = jms.connection(TWO_AT_A_TIME).session("transacted")
    consumer = session.consumer(f"queue://CLOSED.{jms.scenario}")
    consumer.receives(2)
    session.rolls_back()
    consumer.receives(2, silence=True)
    session.commits()
    consumer.receives(1)
    session.commits()


def a_durable_subscriber_s_window_opens_with_the_commit(jms: Stage) -> None:
    session = jms.connection(TWO_AT_A_TIME, client_id=jms.scenario).session("transacted")
    subscriber = session.subscriber(f"topic://CLOSED.{jms.scenario}", "s")
    jms.connection().session().producer(f"topic://CLOSED.{jms.scenario}").sends("a", "b", "c")
    subscriber.receives(2, silence=True)
    session.commits()
    subscriber.receives(1, silence=True)
    session.commits()


def a_subscriber_s_window_opens_with_the_commit(jms: Stage) -> None:
    session = jms.connection(TWO_AT_A_TIME).session("transacted")
    subscriber = session.consumer(f"topic://CLOSED.{jms.scenario}")
    jms.connection().session().producer(f"topic://CLOSED.{jms.scenario}").sends("a", "b", "c", "d")
    subscriber.receives(2, silence=True)
    session.commits()
    subscriber.receives(2, silence=True)
    session.commits()


@slow
def a_message_for_one_client_reaches_no_other(jms: Stage) -> None:
    anna = jms.connection(client_id=f"{jms.scenario}.anna").session()
    berta = jms.connection(client_id=f"{jms.scenario}.berta").session()
    theirs = [session.consumer(f"topic://FORONE.{jms.scenario}.PTP") for session in (anna, berta)]
    producer = jms.connection().session().producer(f"topic://FORONE.{jms.scenario}.PTP")
    producer.sends("for all")
    producer.sends("for anna", properties={"PTP_CLIENTID": f"{jms.scenario}.anna"})
    producer.sends("for nobody", properties={"PTP_CLIENTID": "carla"})
    producer.sends("for a number", properties={"PTP_CLIENTID": ["int", 7]})
    producer.sends("for all again")
    for consumer in theirs:
        consumer.drains()


def a_message_for_one_client_goes_nowhere_in_a_topic_of_another_name(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.anna").session()
    consumer = session.consumer(f"topic://FORONE.{jms.scenario}")
    producer = jms.connection().session().producer(f"topic://FORONE.{jms.scenario}")
    producer.sends("for anna", properties={"PTP_CLIENTID": f"{jms.scenario}.anna"})
    producer.sends("for all")
    consumer.drains()


@slow
def a_durable_subscriber_gets_what_is_for_its_client(jms: Stage) -> None:
    anna = jms.connection(client_id=f"{jms.scenario}.anna").session()
    berta = jms.connection(client_id=f"{jms.scenario}.berta").session()
    for session in (anna, berta):
        session.subscriber(f"topic://FORONE.{jms.scenario}.PTP", "s").closes()
    producer = jms.connection().session().producer(f"topic://FORONE.{jms.scenario}.PTP")
    producer.sends("for all")
    producer.sends("for anna", properties={"PTP_CLIENTID": f"{jms.scenario}.anna"})
    for session in (anna, berta):
        session.subscriber(f"topic://FORONE.{jms.scenario}.PTP", "s").drains()


def consumers_of_a_higher_priority_get_a_message_first(jms: Stage) -> None:
    session, topic = jms.connection().session(), f"topic://RANKED.{jms.scenario}"
    consumers = {str(number): session.consumer(f"{topic}?consumer.priority={number}") for number in (1, 5, 3, 7)}
    listener: Listener | None = None
    for priority, consumer in consumers.items():
        listener = consumer.listens_too(listener, f"the consumer of priority {priority}")
    assert listener is not None
    jms.connection().session().producer(topic).sends("a")
    listener.sees(4)
    consumers["7"].closes()
    jms.connection().session().producer(topic).sends("b")
    listener.sees(3, silence=True)


@slow
def consumers_that_are_no_bridges_all_get_a_message(jms: Stage) -> None:
    session = jms.connection().session()
    consumers = [session.consumer(f"topic://ROUTED.{jms.scenario}?consumer.priority={priority}") for priority in (1, 5)]
    jms.connection().session().producer(f"topic://ROUTED.{jms.scenario}").sends("a", "b")
    for consumer in consumers:
        consumer.drains()
