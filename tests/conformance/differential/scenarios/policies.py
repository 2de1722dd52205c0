"""What policies say of topics and slow consumers (ActiveMQ, "Per Destination Policies", "Slow Consumer Handling")."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import Consumer, Session, Stage, slow

ONE_AT_A_TIME: Final = "jms.prefetchPolicy.all=1"
TWO_AT_A_TIME: Final = "jms.prefetchPolicy.all=2"
RETROACTIVE: Final = "?consumer.retroactive=true"


def _waits(jms: Stage, milliseconds: int) -> None:
    """Time goes by: nothing happens to a connection that is used for nothing."""
    jms.ask(do="heard", on=jms.connection().name, timeout=milliseconds)


def _all_arrived(session: Session) -> None:
    """What it sent without an answer is with the broker, which answers this."""
    session.consumer(session.stage.queue("EMPTY"))


def _sends(jms: Stage, topic: str, *bodies: str) -> None:
    """One volatile message a body, all of which have arrived."""
    session = jms.connection().session()
    session.producer(topic).sends(*bodies, volatile=True)
    _all_arrived(session)


def _watcher(jms: Stage, name: str) -> Consumer:
    """Sees consumers come and go."""
    return jms.connection().session().consumer(f"topic://ActiveMQ.Advisory.Consumer.{name}")


@slow
def a_topic_keeps_as_many_bytes_as_its_policy_says(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://KEPTBYTES.T").sends("a", "b", "c", "d", "e")
    session.consumer(f"topic://KEPTBYTES.T{RETROACTIVE}").drains()
    session.producer("topic://KEPTBYTES.T").sends("x" * 1_500)
    session.consumer(f"topic://KEPTBYTES.T{RETROACTIVE}").drains()


@slow
def a_topic_keeps_messages_as_long_as_its_policy_says(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://KEPTFOR.T").sends("a", "b")
    session.consumer(f"topic://KEPTFOR.T{RETROACTIVE}").drains()
    _waits(jms, 2_600)
    session.producer("topic://KEPTFOR.T").sends("c")
    session.consumer(f"topic://KEPTFOR.T{RETROACTIVE}").drains()


def a_topic_retains_the_message_that_its_sender_marked(jms: Stage) -> None:
    session = jms.connection().session()
    live = session.consumer("topic://LASTTWO.RETAINED")
    producer = session.producer("topic://LASTTWO.RETAINED")
    producer.sends("a", properties={"ActiveMQ.Retain": True, "colour": "red"})
    producer.sends("b", "c", "d")
    live.receives(4, silence=True)
    session.consumer(f"topic://LASTTWO.RETAINED{RETROACTIVE}").receives(3, silence=True)
    producer.sends("e", properties={"ActiveMQ.Retain": True})
    session.consumer(f"topic://LASTTWO.RETAINED{RETROACTIVE}").receives(2, silence=True)
    producer.sends("f", kind="bytes", properties={"ActiveMQ.Retain": True})
    session.consumer(f"topic://LASTTWO.RETAINED{RETROACTIVE}").receives(2, silence=True)


def a_retroactive_consumer_has_its_selector(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer("topic://LASTTWO.SELECTED")
    producer.sends("red", properties={"colour": "red"})
    producer.sends("blue", properties={"colour": "blue"})
    session.consumer(f"topic://LASTTWO.SELECTED{RETROACTIVE}", "colour = 'red'").drains()


def a_retroactive_consumer_of_a_pattern_gets_what_its_topics_keep(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://LASTTWO.MANY.A").sends("a", "b", "c")
    session.consumer(f"topic://LASTTWO.MANY.*{RETROACTIVE}").drains()


def what_is_kept_for_a_retroactive_consumer_comes_again_to_the_next(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://LASTTWO.AGAIN").sends("a", "b")
    first = session.consumer(f"topic://LASTTWO.AGAIN{RETROACTIVE}")
    first.receives(2)
    first.closes()
    session.consumer(f"topic://LASTTWO.AGAIN{RETROACTIVE}").receives(2, silence=True)


@slow
def a_durable_subscriber_may_be_retroactive(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    producer = jms.connection().session().producer("topic://LASTTWO.DURABLE")
    producer.sends("a", "b", "c")
    for body in ("d", "e"):
        subscriber = session.subscriber(f"topic://LASTTWO.DURABLE{RETROACTIVE}", "s")
        subscriber.drains()
        producer.sends(body)
        subscriber.drains()
        subscriber.closes()
    producer.sends("f")
    session.subscriber(f"topic://LASTTWO.DURABLE{RETROACTIVE}", "s").drains()


@slow
def every_consumer_is_retroactive_where_the_policy_says_so_but_durable_ones(jms: Stage) -> None:
    session = jms.connection(client_id=jms.scenario).session()
    session.producer("topic://IMAGE.DURABLE").sends("a", "b")
    session.subscriber("topic://IMAGE.DURABLE", "s").drains()
    session.consumer("topic://IMAGE.*").drains()


def a_new_durable_subscription_may_get_what_the_store_has_for_others(jms: Stage) -> None:
    jms.connection(client_id=f"{jms.scenario}.first").session().subscriber(jms.topic("T"), "s").closes()
    jms.connection().session().producer(jms.topic("T")).sends("a", "b")
    session = jms.connection(client_id=f"{jms.scenario}.second").session()
    session.subscriber(jms.topic("T", RETROACTIVE), "s").drains()


def a_topic_without_a_policy_may_retain_a_message(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.topic("T")).sends("a", properties={"ActiveMQ.Retain": True})
    session.consumer(jms.topic("T", RETROACTIVE)).receives_nothing()


def what_is_kept_expires(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("topic://LASTTWO.SHORT").sends("short", ttl=60)
    session.producer("topic://LASTTWO.SHORT").sends("long")
    _waits(jms, 200)
    session.consumer(f"topic://LASTTWO.SHORT{RETROACTIVE}").drains()


def a_limit_may_depend_on_the_prefetch(jms: Stage) -> None:
    slow = jms.connection(TWO_AT_A_TIME).session().consumer("topic://RATE.T")
    _sends(jms, "topic://RATE.T", *"abcdefghijkl")
    slow.drains()


def a_limit_of_its_own_holds_where_the_policy_leaves_it_to_the_consumer(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://OWNLIMIT.T?consumer.maximumPendingMessageLimit=3")
    _sends(jms, "topic://OWNLIMIT.T", *"abcdefgh")
    slow.drains()


def a_limit_of_nothing_leaves_what_is_out(jms: Stage) -> None:
    slow = jms.connection(TWO_AT_A_TIME).session().consumer("topic://NOLIMIT.T")
    _sends(jms, "topic://NOLIMIT.T", *"abcdefgh")
    slow.drains()


def the_lowest_priority_may_go_first(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://LOWFIRST.T")
    session = jms.connection().session()
    producer = session.producer("topic://LOWFIRST.T")
    for body, priority in (("out", 4), ("low", 1), ("high", 9), ("lower", 0), ("middle", 5), ("higher", 9)):
        producer.sends(body, priority=priority, volatile=True)
    _all_arrived(session)
    slow.drains()


def only_the_newest_of_each_value_may_stay(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://UNIQUE.T")
    session = jms.connection().session()
    producer = session.producer("topic://UNIQUE.T")
    for body, stock in (("out", "-"), ("A1", "A"), ("B1", "B"), ("A2", "A"), ("B2", "B"), ("C1", "C")):
        producer.sends(body, properties={"stock": stock}, volatile=True)
        _waits(jms, 5)  # each has a time of its own
    producer.sends("none", volatile=True)
    _all_arrived(session)
    slow.drains()


def an_expired_message_goes_before_a_good_one(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://LOWFIRST.EXPIRED")
    session = jms.connection().session()
    producer = session.producer("topic://LOWFIRST.EXPIRED")
    producer.sends("out", "low", priority=1, volatile=True)
    producer.sends("short", priority=9, ttl=60, volatile=True)
    _waits(jms, 200)
    producer.sends("new", priority=9, volatile=True)
    _all_arrived(session)
    slow.drains()


def what_a_slow_consumer_loses_is_a_dead_letter(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://LETTERS.T")
    session = jms.connection().session()
    session.producer("topic://LETTERS.T").sends("a", "b", "c", "d")
    session.producer("topic://LETTERS.T").sends("volatile", volatile=True)
    session.consumer("queue://DLQ.LETTERS.T").receives(3, silence=True)
    slow.drains()


@slow
def a_slow_consumer_is_ended(jms: Stage) -> None:
    watcher = _watcher(jms, "Topic.SLOW.T")
    connection = jms.connection(TWO_AT_A_TIME)
    slow = connection.session().consumer("topic://SLOW.T")
    fast = jms.connection().session().consumer("topic://SLOW.T")
    jms.connection().session().producer("topic://SLOW.T").sends(*"abcdef", volatile=True)
    watcher.receives(3)  # two came, one went
    slow.receives()
    fast.drains()
    connection.survives()


@slow
def a_consumer_that_lets_less_than_its_prefetch_wait_is_not_ended(jms: Stage) -> None:
    consumer = jms.connection(TWO_AT_A_TIME).session().consumer("topic://SLOW.ENOUGH")
    jms.connection().session().producer("topic://SLOW.ENOUGH").sends(*"abcd", volatile=True)
    _waits(jms, 1_500)
    consumer.drains()


def a_slow_consumer_s_connection_may_be_ended(jms: Stage) -> None:
    watcher = _watcher(jms, "Topic.SLOWCONNECTION.T")
    connection = jms.connection(TWO_AT_A_TIME)
    connection.session().consumer("topic://SLOWCONNECTION.T")
    jms.connection().session().producer("topic://SLOWCONNECTION.T").sends(*"abcdef", volatile=True)
    watcher.receives(2)
    _waits(jms, 200)
    connection.survives()


@slow
def a_consumer_of_a_queue_is_not_slow_by_what_waits(jms: Stage) -> None:
    consumer = jms.connection(TWO_AT_A_TIME).session().consumer("queue://SLOW.Q")
    jms.connection().session().producer("queue://SLOW.Q").sends(*"abcdef")
    _waits(jms, 1_500)
    consumer.drains()


@slow
def a_consumer_that_acknowledges_nothing_is_ended(jms: Stage) -> None:
    watcher = _watcher(jms, "Queue.SILENT.Q")
    connection = jms.connection(ONE_AT_A_TIME)
    silent = connection.session("client").consumer("queue://SILENT.Q")
    jms.connection().session().producer("queue://SILENT.Q").sends("a")
    silent.receives(1)
    watcher.receives(2)
    silent.receives(1)
    jms.connection().session().consumer("queue://SILENT.Q").receives(1, silence=True)
    connection.survives()


@slow
def a_consumer_of_a_topic_that_acknowledges_nothing_is_ended(jms: Stage) -> None:
    watcher = _watcher(jms, "Topic.SILENT.T")
    silent = jms.connection(ONE_AT_A_TIME).session("client").consumer("topic://SILENT.T")
    jms.connection().session().producer("topic://SILENT.T").sends("a", volatile=True)
    silent.receives(1)
    watcher.receives(2)
    silent.receives(1)


@slow
def an_idle_consumer_is_left_alone(jms: Stage) -> None:
    idle = jms.connection().session().consumer("queue://SILENT.IDLE")
    _waits(jms, 2_000)
    jms.connection().session().producer("queue://SILENT.IDLE").sends("a")
    idle.receives(1, silence=True)


@slow
def a_topic_s_policy_may_set_the_prefetch(jms: Stage) -> None:
    default = jms.connection().session().consumer("topic://FEWOUT.T")
    chosen = jms.connection("jms.prefetchPolicy.all=4").session().consumer("topic://FEWOUT.T")
    _sends(jms, "topic://FEWOUT.T", *"abcdefgh")
    default.drains()
    chosen.drains()


def a_policy_may_make_clients_pull(jms: Stage) -> None:
    first = jms.connection().session().consumer("queue://PULLED.Q")
    second = jms.connection().session().consumer("queue://PULLED.Q")
    jms.connection().session().producer("queue://PULLED.Q").sends("a", "b", "c")
    second.receives(2)
    first.receives(1, silence=True)


def a_policy_may_make_consumers_of_topics_pull(jms: Stage) -> None:
    consumer = jms.connection().session().consumer("topic://PULLED.T")
    jms.connection().session().producer("topic://PULLED.T").sends("a", "b")
    consumer.receives(2, silence=True)


def a_policy_may_make_browsers_pull(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://BROWSED.Q").sends("a", "b", "c")
    session.browses("queue://BROWSED.Q")
    session.consumer("queue://BROWSED.Q").receives(3, silence=True)


def a_policy_may_set_the_prefetch_of_browsers(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://BROWSEDFEW.Q").sends("a", "b", "c", "d", "e")
    session.browses("queue://BROWSEDFEW.Q")


@slow
def a_policy_may_set_the_prefetch_of_durable_subscribers(jms: Stage) -> None:
    connection = jms.connection(client_id=jms.scenario)
    connection.session("client").subscriber("topic://DURABLEFEW.T", "s")
    jms.connection().session().producer("topic://DURABLEFEW.T").sends(*"abcd")
    _waits(jms, 200)
    connection.dies()  # what was out comes again with the flag
    _waits(jms, 500)
    jms.connection(client_id=jms.scenario).session().subscriber("topic://DURABLEFEW.T", "s").receives(4, silence=True)


def without_flow_control_a_full_topic_loses_nothing_below_its_limit(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://NOFLOW.T")
    _sends(jms, "topic://NOFLOW.T", *(f"{number} {'x' * 9_000}" for number in range(20)))
    slow.drains()


def a_limit_keeps_a_topic_from_being_full(jms: Stage) -> None:
    slow = jms.connection(ONE_AT_A_TIME).session().consumer("topic://NEVERFULL.T")
    _sends(jms, "topic://NEVERFULL.T", *(f"{number} {'x' * 9_000}" for number in range(20)))
    slow.drains()
