"""Queues: who gets which message, in which order, and who only looks (JMS 1.1, "Point-to-Point")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Stage, slow

ONE_AT_A_TIME: Final = "jms.prefetchPolicy.all=1"


def order_is_kept(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    producer.sends("a", "b")
    producer.sends("c", volatile=True)
    producer.sends("d")
    session.consumer(jms.queue("Q")).receives(4, silence=True)


@slow
def two_consumers_take_turns(jms: Stage) -> None:
    session = jms.connection().session()
    first, second = session.consumer(jms.queue("Q")), session.consumer(jms.queue("Q"))
    session.producer(jms.queue("Q")).sends(*"abcdef")
    first.drains()
    second.drains()


@slow
def strict_order_serves_the_first_consumer_first(jms: Stage) -> None:
    session = jms.connection().session()
    first, second = session.consumer("queue://STRICT.Q"), session.consumer("queue://STRICT.Q")
    session.producer("queue://STRICT.Q").sends(*"abcdef")
    first.drains()
    second.drains()


def priorities_do_not_matter_by_default(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    for priority in (1, 9, 5):
        producer.sends(str(priority), priority=priority)
    session.consumer(jms.queue("Q")).receives(3)


def higher_priority_comes_first_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer("queue://PRIO.Q")
    for priority in (1, 9, 5, 0, 9, 4, 7, 2, 3, 6, 8):
        producer.sends(f"p{priority}", priority=priority)
    session.consumer("queue://PRIO.Q", None).drains()


def one_priority_keeps_the_order_of_sending(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer("queue://PRIO.SAME")
    for number in range(4):
        producer.sends(f"high {number}", priority=8)
        producer.sends(f"low {number}", priority=2)
    session.consumer("queue://PRIO.SAME").drains()


@slow
def a_selector_takes_its_messages_only(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    for number in range(6):
        producer.sends(f"m{number}", properties={"number": number, "colour": "red" if number % 2 else "blue"})
    session.consumer(jms.queue("Q"), "colour = 'red' AND number > 1").drains()
    session.consumer(jms.queue("Q")).drains()


def selectors_see_the_headers(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    producer.sends("a", correlation="c1", type="t1", priority=7)
    producer.sends("b", correlation="c2", type="t2", volatile=True)
    for selector in ("JMSCorrelationID = 'c1'", "JMSType = 't2'", "JMSPriority = 7", "JMSDeliveryMode = 'PERSISTENT'",
                     "JMSDeliveryMode = 'NON_PERSISTENT'", "JMSTimestamp > 0"):  # fmt: skip
        session.browses(jms.queue("Q"), selector)


@slow
def the_consumer_with_higher_priority_is_served_first(jms: Stage) -> None:
    session = jms.connection().session()
    low = session.consumer(jms.queue("Q"))
    high = session.consumer(jms.queue("Q", "?consumer.priority=5"))
    session.producer(jms.queue("Q")).sends("a", "b")
    low.drains()
    high.drains()


@slow
def the_consumer_with_lower_priority_gets_what_the_higher_has_no_room_for(jms: Stage) -> None:
    session = jms.connection(ONE_AT_A_TIME).session("client")
    low = session.consumer(jms.queue("Q"))
    high = session.consumer(jms.queue("Q", "?consumer.priority=5"))
    session.producer(jms.queue("Q")).sends("a", "b")
    high.drains()
    low.drains()


@slow
def an_exclusive_consumer_gets_everything(jms: Stage) -> None:
    session = jms.connection().session()
    plain = session.consumer(jms.queue("Q"))
    exclusive = session.consumer(jms.queue("Q", "?consumer.exclusive=true"))
    session.producer(jms.queue("Q")).sends("a", "b", "c")
    plain.drains()
    exclusive.drains()


@slow
def the_next_exclusive_consumer_takes_over(jms: Stage) -> None:
    session = jms.connection().session()
    first = session.consumer(jms.queue("Q", "?consumer.exclusive=true"))
    second = session.consumer(jms.queue("Q", "?consumer.exclusive=true"))
    producer = session.producer(jms.queue("Q"))
    producer.sends("a", "b")
    first.drains()
    second.drains()
    first.closes()
    producer.sends("c")
    second.drains()


def what_an_exclusive_consumer_would_not_have_goes_to_the_next(jms: Stage) -> None:
    session = jms.connection("jms.prefetchPolicy.all=1").session()
    next_one = session.consumer(jms.queue("Q", "?consumer.exclusive=true"), "n = 1")
    first = session.consumer(jms.queue("Q", "?consumer.exclusive=true&consumer.priority=5"), "n = 2")
    producer = session.producer(jms.queue("Q"))
    producer.sends("a", properties={"n": ["int", 1]})
    producer.sends("b", properties={"n": ["int", 2]})
    first.receives(1, silence=True)
    next_one.receives_nothing()
    first.closes()
    next_one.receives(1, silence=True)


def an_exclusive_consumer_that_pulls_makes_way(jms: Stage) -> None:
    first = jms.connection("jms.prefetchPolicy.all=0").session().consumer(jms.queue("Q", "?consumer.exclusive=true"))
    other = jms.connection().session().consumer(jms.queue("Q"))
    jms.connection().session().producer(jms.queue("Q")).sends("a")
    other.receives_nothing()
    first.closes()
    other.receives(1, silence=True)


@slow
def an_exclusive_consumer_of_higher_priority_displaces_the_first(jms: Stage) -> None:
    session = jms.connection().session()
    first = session.consumer(jms.queue("Q", "?consumer.exclusive=true"))
    second = session.consumer(jms.queue("Q", "?consumer.exclusive=true&consumer.priority=9"))
    session.producer(jms.queue("Q")).sends("a", "b")
    first.drains()
    second.drains()


@slow
def consumers_are_exclusive_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    first, second = session.consumer("queue://EXCLUSIVE.Q"), session.consumer("queue://EXCLUSIVE.Q")
    session.producer("queue://EXCLUSIVE.Q").sends("a", "b", "c")
    first.drains()
    second.drains()


@slow
def a_group_stays_with_one_consumer(jms: Stage) -> None:
    session = jms.connection().session()
    first, second = session.consumer(jms.queue("Q")), session.consumer(jms.queue("Q"))
    producer = session.producer(jms.queue("Q"))
    for name in ("g1", "g2", "h1", "h2", "g3", "h3"):
        producer.sends(name, properties={"JMSXGroupID": name[0]}, quiet=True)
    first.drains()
    second.drains()


def the_first_message_of_a_group_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", "b", properties={"JMSXGroupID": "g"})
    session.consumer(jms.queue("Q")).receives(2)


def a_closed_group_is_given_away_anew(jms: Stage) -> None:
    session = jms.connection().session()
    first = session.consumer(jms.queue("Q"))
    producer = session.producer(jms.queue("Q"))
    producer.sends("a", properties={"JMSXGroupID": "g", "JMSXGroupSeq": ["int", 1]})
    first.receives(1)
    session.consumer(jms.queue("Q"))
    producer.sends("last", properties={"JMSXGroupID": "g", "JMSXGroupSeq": ["int", -1]})
    producer.sends("again", properties={"JMSXGroupID": "g", "JMSXGroupSeq": ["int", 1]})
    first.drains()


def a_group_that_begins_with_its_end_is_closed(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    producer.sends("last", properties={"JMSXGroupID": "g", "JMSXGroupSeq": ["int", -1]})
    producer.sends("next", properties={"JMSXGroupID": "g", "JMSXGroupSeq": ["int", 2]})
    session.consumer(jms.queue("Q")).receives(2)


def what_comes_back_stands_where_it_stood(jms: Stage) -> None:
    connection = jms.connection()
    session = connection.session()
    session.producer(jms.queue("Q")).sends("a", properties={"n": 1})
    session.producer(jms.queue("Q")).sends("b", properties={"n": 2})
    picky = connection.session("client").consumer(jms.queue("Q"), "n = 2")
    picky.receives(1)
    picky.closes()
    session.consumer(jms.queue("Q")).receives(2)


@slow
def the_group_of_a_closed_consumer_goes_to_another(jms: Stage) -> None:
    session = jms.connection().session()
    first, second = session.consumer(jms.queue("Q")), session.consumer(jms.queue("Q"))
    producer = session.producer(jms.queue("Q"))
    producer.sends("a", "b", properties={"JMSXGroupID": "g"})
    first.drains()
    second.drains()
    first.closes()
    producer.sends("c", properties={"JMSXGroupID": "g"})
    second.receives(1)


@slow
def a_pulling_consumer_gets_one_for_each_request(jms: Stage) -> None:
    session = jms.connection("jms.prefetchPolicy.queuePrefetch=0").session()
    puller = session.consumer(jms.queue("Q"))
    other = jms.connection().session()
    other.producer(jms.queue("Q")).sends("a", "b", "c")
    puller.receives(1)
    other.consumer(jms.queue("Q")).drains()
    puller.receives_at_once()
    puller.receives_nothing()
    jms.counts(jms.queue("Q"))


def a_browser_changes_nothing(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", "b", "c")
    session.browses(jms.queue("Q"))
    session.browses(jms.queue("Q"))
    jms.counts(jms.queue("Q"))
    session.consumer(jms.queue("Q")).receives(3, silence=True)
    session.browses(jms.queue("Q"))


def a_browser_has_a_selector(jms: Stage) -> None:
    session = jms.connection().session()
    for number in range(4):
        session.producer(jms.queue("Q")).sends(f"m{number}", properties={"number": number})
    session.browses(jms.queue("Q"), "number BETWEEN 1 AND 2")


def a_browser_sees_what_is_out_elsewhere(jms: Stage) -> None:
    connection = jms.connection(ONE_AT_A_TIME)
    connection.session().producer(jms.queue("Q")).sends("a", "b")
    connection.session("client").consumer(jms.queue("Q")).receives(1)
    jms.connection().session().browses(jms.queue("Q"))


def a_browser_sees_what_a_transaction_has_acknowledged(jms: Stage) -> None:
    connection = jms.connection(ONE_AT_A_TIME)
    connection.session().producer(jms.queue("Q")).sends("a", "b", "c")
    session = connection.session("transacted")
    session.consumer(jms.queue("Q")).receives(2)
    jms.connection().session().browses(jms.queue("Q"))
    session.commits()
    jms.connection().session().browses(jms.queue("Q"))


def a_browser_tells_what_was_delivered_before(jms: Stage) -> None:
    session = jms.connection(ONE_AT_A_TIME).session("transacted")
    jms.connection().session().producer(jms.queue("Q")).sends("a", "b")
    session.consumer(jms.queue("Q")).receives(1)
    session.closes()
    jms.connection().session().browses(jms.queue("Q"))


def a_browser_of_many_sees_all_of_them(jms: Stage) -> None:
    connection = jms.connection(ONE_AT_A_TIME)
    sender = jms.connection("jms.useAsyncSend=true").session()
    producer = sender.producer(jms.queue("Q"))
    producer.sends(*[str(number) for number in range(30)])
    connection.session("client").consumer(jms.queue("Q"), "JMSMessageID IS NOT NULL").receives(1)
    jms.connection("jms.prefetchPolicy.queueBrowserPrefetch=7").session().browses(jms.queue("Q"))
    jms.counts(jms.queue("Q"))


def browsing_an_empty_queue_makes_it(jms: Stage) -> None:
    session = jms.connection().session()
    session.browses(jms.queue("Q"))
    jms.counts(jms.queue("Q"))


@slow
def dispatch_waits_for_the_second_consumer(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://AWAIT.Q").sends("a", "b")
    first = session.consumer("queue://AWAIT.Q")
    first.receives_nothing()
    second = session.consumer("queue://AWAIT.Q")
    first.drains()
    second.drains()


@slow
def dispatch_waits_for_a_time(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://LATE.Q").sends("a")
    consumer = session.consumer("queue://LATE.Q")
    consumer.receives_nothing()
    consumer.receives(1)


def the_policy_sets_the_window_of_the_usual_consumer(jms: Stage) -> None:
    connection = jms.connection()
    session = connection.session("client")
    session.producer("queue://FEW.Q").sends("a", "b", "c", "d")
    session.consumer("queue://FEW.Q")
    jms.connection().session().consumer("queue://FEW.Q").drains()


def no_local_means_nothing_to_a_queue(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.queue("Q"), no_local=True)
    session.producer(jms.queue("Q")).sends("a")
    consumer.receives_nothing()
    jms.counts(jms.queue("Q"))


def a_stopped_connection_delivers_nothing(jms: Stage) -> None:
    connection = jms.connection(stopped=True)
    session = connection.session()
    session.producer(jms.queue("Q")).sends("a")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives_nothing()
    connection.starts()
    consumer.receives(1)


@slow
def messages_survive_a_kill_and_volatile_ones_do_not(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", "b", properties={"number": ["int", 5]}, type="t")
    session.producer(jms.queue("Q")).sends("gone", volatile=True)
    jms.restarts()
    jms.connection().session().consumer(jms.queue("Q")).drains()
