"""Topics and durable subscriptions (JMS 1.1, "Publish/Subscribe")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage, slow

ONE_AT_A_TIME: Final = "jms.prefetchPolicy.all=1"


def every_subscriber_gets_every_message(jms: Stage) -> None:
    session = jms.connection().session()
    first, second = session.consumer(jms.topic("T")), session.consumer(jms.topic("T"))
    session.producer(jms.topic("T")).sends("a", "b")
    first.receives(2, silence=True)
    second.receives(2, silence=True)


def who_comes_late_gets_nothing(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.topic("T")).sends("a")
    session.consumer(jms.topic("T")).receives_nothing()


def subscribers_have_selectors(jms: Stage) -> None:
    session = jms.connection().session()
    red = session.consumer(jms.topic("T"), "colour = 'red'")
    for colour in ("red", "blue", "red"):
        session.producer(jms.topic("T")).sends(colour, properties={"colour": colour})
    red.receives(2, silence=True)


def no_local_leaves_out_what_the_own_connection_sends(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.topic("T"), no_local=True)
    session.producer(jms.topic("T")).sends("own")
    jms.connection().session().producer(jms.topic("T")).sends("other's")
    consumer.receives(1, silence=True)


def messages_of_a_topic_are_flagged_after_recover(jms: Stage) -> None:
    connection = jms.connection("jms.redeliveryPolicy.initialRedeliveryDelay=10")
    session = connection.session("client")
    consumer = session.consumer(jms.topic("T"))
    session.producer(jms.topic("T")).sends("a")
    consumer.receives(1)
    session.recovers()
    consumer.receives(1)
    consumer.acknowledges()


def a_durable_subscription_collects_while_nobody_is_there(jms: Stage) -> None:
    connection = jms.connection(client_id=jms.scenario)
    connection.session().subscriber(jms.topic("T"), "s").closes()
    jms.connection().session().producer(jms.topic("T")).sends("a", "b", properties={"p": "v"})
    connection.session().subscriber(jms.topic("T"), "s").receives(2, silence=True)


def a_durable_subscription_outlives_its_connection(jms: Stage) -> None:
    first = jms.connection(client_id=jms.scenario)
    first.session().subscriber(jms.topic("T"), "s")
    first.closes()
    jms.connection().session().producer(jms.topic("T")).sends("a")
    jms.connection(client_id=jms.scenario).session().subscriber(jms.topic("T"), "s").receives(1, silence=True)


@slow
def a_durable_subscription_survives_a_kill(jms: Stage) -> None:
    connection = jms.connection(client_id=jms.scenario)
    connection.session().subscriber(jms.topic("T"), "s").closes()
    connection.session().producer(jms.topic("T")).sends("a", "b")
    jms.restarts()
    jms.connection(client_id=jms.scenario).session().subscriber(jms.topic("T"), "s").drains()


def unsubscribing_forgets_what_was_collected(jms: Stage) -> None:
    connection = jms.connection(client_id=jms.scenario)
    session = connection.session()
    session.subscriber(jms.topic("T"), "s").closes()
    session.producer(jms.topic("T")).sends("a")
    session.unsubscribes("s")
    session.subscriber(jms.topic("T"), "s").receives_nothing()


def another_selector_starts_the_subscription_anew(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    session.subscriber(jms.topic("T"), "s", "n = 1").closes()
    producer = session.producer(jms.topic("T"))
    producer.sends("one", properties={"n": 1})
    session.subscriber(jms.topic("T"), "s", "n = 2").closes()
    producer.sends("two", properties={"n": 2})
    session.subscriber(jms.topic("T"), "s", "n = 2").drains()


def another_topic_starts_the_subscription_anew(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    session.subscriber(jms.topic("T"), "s").closes()
    session.producer(jms.topic("T")).sends("of T")
    subscriber = session.subscriber(jms.topic("U"), "s")
    session.producer(jms.topic("T")).sends("of T again")
    session.producer(jms.topic("U")).sends("of U")
    subscriber.drains()


def durable_subscriptions_know_no_local(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    subscriber = session.subscriber(jms.topic("T"), "s", no_local=True)
    session.producer(jms.topic("T")).sends("own")
    jms.connection().session().producer(jms.topic("T")).sends("other's")
    subscriber.drains()


def what_a_durable_subscriber_did_not_acknowledge_comes_again(jms: Stage) -> None:
    connection = jms.connection(client_id=jms.scenario)
    session = connection.session("client")
    subscriber = session.subscriber(jms.topic("T"), "s")
    session.producer(jms.topic("T")).sends("a", "b")
    subscriber.receives(1)
    session.closes()
    connection.session().subscriber(jms.topic("T"), "s").receives(2, silence=True)


@slow
def two_subscriptions_of_one_client_are_independent(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    first, second = session.subscriber(jms.topic("T"), "s1"), session.subscriber(jms.topic("T"), "s2")
    session.producer(jms.topic("T")).sends("a")
    first.drains()
    second.drains()
    second.closes()
    session.producer(jms.topic("T")).sends("b")
    first.drains()
    session.subscriber(jms.topic("T"), "s2").drains()


def a_subscription_in_use_is_refused(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    session.subscriber(jms.topic("T"), "s")
    session.tries_subscriber(jms.topic("T"), "s")
    session.unsubscribes("s")


def a_client_id_in_use_is_refused(jms: Stage) -> None:
    jms.connection(client_id=jms.scenario)
    jms.tries(lambda: jms.connection(client_id=jms.scenario))


def a_retroactive_consumer_gets_the_last_ones(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://LASTTWO.T").sends("a", "b", "c")
    session.consumer("topic://LASTTWO.T?consumer.retroactive=true").drains()
    session.consumer("topic://LASTTWO.T").receives_nothing()


def every_consumer_gets_the_last_image_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://IMAGE.T").sends("a", "b")
    session.consumer("topic://IMAGE.T").drains()


def a_slow_subscriber_loses_the_oldest_beyond_its_limit(jms: Stage) -> None:
    session = jms.connection(ONE_AT_A_TIME).session()
    slow = session.consumer("topic://PENDING.T")
    sender = jms.connection().session()
    sender.producer("topic://PENDING.T").sends(*"abcdefgh", volatile=True)
    sender.consumer(jms.queue("EMPTY")).receives_nothing()  # all of them have arrived
    slow.drains()


@slow
def a_consumer_can_ask_for_a_lower_limit_than_the_policy_s(jms: Stage) -> None:
    session = jms.connection(ONE_AT_A_TIME).session()
    slow = session.consumer("topic://PENDING.LOWER?consumer.maximumPendingMessageLimit=1")
    slower = session.consumer("topic://PENDING.LOWER?consumer.maximumPendingMessageLimit=9")
    sender = jms.connection().session()
    sender.producer("topic://PENDING.LOWER").sends(*"abcdefgh", volatile=True)
    sender.consumer(jms.queue("EMPTY")).receives_nothing()  # all of them have arrived
    slow.drains()
    slower.drains()


def a_limit_of_a_consumer_alone_means_nothing_without_a_policy(jms: Stage) -> None:
    session = jms.connection(ONE_AT_A_TIME).session()
    slow = session.consumer(jms.topic("T", "?consumer.maximumPendingMessageLimit=1"))
    sender = jms.connection().session()
    sender.producer(jms.topic("T")).sends(*"abcdefgh", volatile=True)
    sender.consumer(jms.queue("EMPTY")).receives_nothing()
    slow.drains()


def a_durable_subscriber_knows_no_groups(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    subscriber = session.subscriber(jms.topic("T"), "s")
    session.producer(jms.topic("T")).sends("a", "b", properties={"JMSXGroupID": "g"})
    subscriber.receives(2, silence=True)


def a_durable_subscription_made_before_the_commit_gets_what_was_sent_before(jms: Stage) -> None:
    session = jms.connection().session("transacted")
    producer = session.producer(jms.topic("T"))
    producer.sends("a", "b")
    subscriber = jms.connection(client_id=jms.scenario).session().subscriber(jms.topic("T"), "s")
    producer.sends("c")
    session.commits()
    subscriber.receives(3, silence=True)
