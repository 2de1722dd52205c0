"""Destinations: composite, virtual, temporary, with wildcards and with options in their names."""

from __future__ import annotations

from tests.conformance.differential.stage import Stage, slow


def a_client_sends_to_several_at_once(jms: Stage) -> None:
    session = jms.connection().session()
    subscriber = session.consumer(jms.topic("T"))
    session.producer(f"{jms.queue('A')},{jms.queue('B').removeprefix('queue://')},{jms.topic('T')}").sends("x")
    session.consumer(jms.queue("A")).receives(1, silence=True)
    session.consumer(jms.queue("B")).receives(1, silence=True)
    subscriber.receives(1, silence=True)


def a_client_consumes_from_several_at_once(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(f"{jms.queue('A')},{jms.queue('B')}")
    session.producer(jms.queue("A")).sends("a")
    consumer.receives(1)
    session.producer(jms.queue("B")).sends("b")
    consumer.receives(1, silence=True)


def a_star_stands_for_one_part_of_a_name(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.topic("A.*.C"))
    for name in ("A.B.C", "A.B.D", "A.X.C", "A.B.C.D", "A.C"):
        session.producer(jms.topic(name)).sends(name)
    consumer.receives(2, silence=True)


def a_bracket_stands_for_all_that_follows(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer(jms.topic("A.>"))
    for name in ("A.B", "A", "A.B.C", "B.A"):
        session.producer(jms.topic(name)).sends(name)
    consumer.drains()


def a_wildcard_consumer_of_queues_gets_queues_made_later(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("A.1")).sends("before")
    consumer = session.consumer(jms.queue("A.*"))
    consumer.receives(1)
    session.producer(jms.queue("A.2")).sends("after")
    consumer.receives(1, silence=True)


@slow
def a_send_to_a_wildcard_reaches_what_is_there(jms: Stage) -> None:
    session = jms.connection().session()
    one, two = session.consumer(jms.queue("A.1")), session.consumer(jms.queue("A.2"))
    session.producer(jms.queue("A.>")).sends("x")
    one.drains()
    two.drains()


@slow
def a_virtual_topic_fills_the_queue_of_each_group(jms: Stage) -> None:
    session = jms.connection().session()
    first = session.consumer("queue://Consumer.A.VirtualTopic.ONE")
    second = session.consumer("queue://Consumer.A.VirtualTopic.ONE")
    other = session.consumer("queue://Consumer.B.VirtualTopic.ONE")
    plain = session.consumer("topic://VirtualTopic.ONE")
    session.producer("topic://VirtualTopic.ONE").sends("a", "b")
    for consumer in (first, second, other, plain):
        consumer.drains()


def the_queue_of_a_group_collects_while_nobody_is_there(jms: Stage) -> None:
    session = jms.connection().session()
    session.consumer("queue://Consumer.A.VirtualTopic.TWO").closes()
    session.producer("topic://VirtualTopic.TWO").sends("a", properties={"p": "v"})
    session.consumer("queue://Consumer.A.VirtualTopic.TWO").receives(1, silence=True)


@slow
def a_consumer_of_a_pattern_is_a_group_of_each_topic(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer("queue://Consumer.A.VirtualTopic.THREE.>")
    producer = session.producer()
    producer.sends("a", to="topic://VirtualTopic.THREE.X")
    producer.sends("b", to="topic://VirtualTopic.THREE.Y.Z")
    consumer.drains()
    consumer.closes()
    producer.sends("c", to="topic://VirtualTopic.THREE.X")
    session.consumer("queue://Consumer.A.VirtualTopic.THREE.>").drains()


def a_copy_names_the_virtual_part_of_a_composite_as_its_original_destination(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer("queue://Consumer.A.VirtualTopic.PART")
    session.producer(f"topic://VirtualTopic.PART,{jms.queue('Q')}").sends("a")
    session.producer(f"{jms.queue('Q')},topic://VirtualTopic.PART").sends("b")
    consumer.receives(2, silence=True)
    session.consumer(jms.queue("Q")).receives(2, silence=True)


def a_selector_aware_virtual_topic_leaves_out_what_nobody_wants(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer("queue://Group.A.Picky.T", "n = 1")
    session.producer("topic://Picky.T").sends("one", properties={"n": 1})
    session.producer("topic://Picky.T").sends("two", properties={"n": 2})
    consumer.drains()
    jms.counts("queue://Group.A.Picky.T")


def a_composite_queue_forwards(jms: Stage) -> None:
    session = jms.connection().session()
    subscriber = session.consumer("topic://COMPOSITE.ONLY.T")
    session.producer("queue://COMPOSITE.ONLY").sends("a")
    session.consumer("queue://COMPOSITE.ONLY.A").receives(1)
    subscriber.receives(1)
    session.consumer("queue://COMPOSITE.ONLY").receives_nothing()


def a_composite_queue_can_keep_its_own(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://COMPOSITE.BOTH").sends("a")
    session.consumer("queue://COMPOSITE.BOTH.A").receives(1)
    session.consumer("queue://COMPOSITE.BOTH").receives(1)


def a_composite_topic_filters(jms: Stage) -> None:
    session = jms.connection().session()
    blue = session.consumer("topic://COMPOSITE.TOPIC.BLUE")
    for colour in ("red", "blue", "green"):
        session.producer("topic://COMPOSITE.TOPIC").sends(colour, properties={"colour": colour})
    blue.receives(1, silence=True)
    session.consumer("queue://COMPOSITE.TOPIC.RED").receives(1, silence=True)


def options_in_the_name_set_up_the_consumer(jms: Stage) -> None:
    session = jms.connection().session("client")
    few = session.consumer(jms.queue("Q", "?consumer.prefetchSize=1"))
    picky = session.consumer(jms.queue("Q", "?consumer.selector=n%3D1"))
    session.producer(jms.queue("Q")).sends("a", "b", "c", properties={"n": 1})
    few.receives(1)
    picky.receives(2)


def a_request_is_answered_to_a_temporary_queue(jms: Stage) -> None:
    asking = jms.connection().session()
    answers = asking.temporary()
    consumer = asking.consumer(answers)
    asking.producer(jms.queue("Q")).sends("question", replyTo=answers, correlation="7")
    answering = jms.connection().session()
    answering.consumer(jms.queue("Q")).receives(1)
    answering.producer().sends("answer", to=answers, correlation="7")
    consumer.receives(1, silence=True)


def a_temporary_topic_reaches_its_owner(jms: Stage) -> None:
    session = jms.connection().session()
    topic = session.temporary(topic=True)
    consumer = session.consumer(topic)
    jms.connection().session().producer(topic).sends("a")
    consumer.receives(1, silence=True)


def temporary_queues_belong_to_their_connection(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    jms.connection().session().tries_consumer(queue)


def a_temporary_queue_ends_with_its_connection(jms: Stage) -> None:
    owner = jms.connection()
    queue = owner.session().temporary()
    other = jms.connection("jms.watchTopicAdvisories=false").session()
    other.producer().sends("a", to=queue)
    owner.closes()
    other.producer().sends("b", to=queue)


def a_temporary_queue_in_use_cannot_be_deleted(jms: Stage) -> None:
    session = jms.connection().session()
    queue = session.temporary()
    consumer = session.consumer(queue)
    queue.deletes()
    consumer.closes()
    queue.deletes()
    session.producer().sends("a", to=queue)


def a_destination_is_removed(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("Q")).sends("a")
    connection.destroys(jms.queue("Q"))
    connection.session().consumer(jms.queue("Q")).receives_nothing()


def a_destination_in_use_is_not_removed(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().consumer(jms.topic("T"))
    connection.destroys(jms.topic("UNKNOWN"))
    connection.survives()


def an_anonymous_producer_names_its_destination_with_each_message(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer()
    producer.sends("a", to=jms.queue("A"))
    producer.sends("b", to=jms.queue("B"))
    session.consumer(jms.queue("A")).receives(1)
    session.consumer(jms.queue("B")).receives(1)


@slow
def a_queue_that_nobody_uses_is_removed_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    removals = session.consumer("topic://ActiveMQ.Advisory.Queue")
    removals.skips()
    consumer = session.consumer("queue://GONE.Q")
    removals.receives(1)
    removals.receives_nothing()
    consumer.closes()
    removals.receives(1)


def a_queue_with_messages_is_kept(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://GONE.KEPT").sends("a")
    away = session.consumer(jms.queue("EMPTY"))
    for _ in range(4):
        away.receives_nothing()
    session.consumer("queue://GONE.KEPT").receives(1)


@slow
def a_topic_that_nobody_uses_is_removed_where_the_policy_says_so(jms: Stage) -> None:
    session = jms.connection().session()
    removals = session.consumer("topic://ActiveMQ.Advisory.Topic")
    removals.skips()
    consumer = session.consumer("topic://GONE.T")
    removals.receives(1)
    removals.receives_nothing()
    consumer.closes()
    removals.receives(1)


@slow
def a_queue_with_a_producer_is_kept(jms: Stage) -> None:
    session = jms.connection().session()
    removals = session.consumer("topic://ActiveMQ.Advisory.Queue")
    removals.skips()
    producer = session.producer("queue://GONE.PRODUCED")
    removals.receives(1)
    jms.passes(1_000)
    removals.receives_nothing()
    producer.closes()
    removals.receives(1)


@slow
def a_removed_queue_is_made_again_when_it_is_used(jms: Stage) -> None:
    session = jms.connection().session()
    removals = session.consumer("topic://ActiveMQ.Advisory.Queue")
    removals.skips()
    session.consumer("queue://GONE.AGAIN").closes()
    removals.receives(2)
    session.producer("queue://GONE.AGAIN").sends("a")
    session.consumer("queue://GONE.AGAIN").receives(1, silence=True)


@slow
def options_in_the_name_choose_priority_and_exclusiveness(jms: Stage) -> None:
    session = jms.connection().session()
    low = session.consumer(jms.queue("Q", "?consumer.priority=1"))
    high = session.consumer(jms.queue("Q", "?consumer.priority=5"))
    session.producer(jms.queue("Q")).sends("a", "b")
    high.drains()
    low.receives_nothing()
    first = session.consumer(jms.queue("R", "?consumer.exclusive=true"))
    second = session.consumer(jms.queue("R", "?consumer.exclusive=true"))
    session.producer(jms.queue("R")).sends("c", "d")
    first.drains()
    second.receives_nothing()


def options_in_the_name_of_a_topic_leave_out_what_is_its_own(jms: Stage) -> None:
    session = jms.connection().session()
    own = session.consumer(jms.topic("T", "?consumer.noLocal=true"))
    session.producer(jms.topic("T")).sends("own")
    jms.connection().session().producer(jms.topic("T")).sends("other")
    own.receives(1, silence=True)


def an_option_in_the_name_makes_a_browser(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a", "b")
    session.consumer(jms.queue("Q", "?consumer.browser=true")).receives(2)
    session.consumer(jms.queue("Q")).receives_nothing()  # what a consumer acknowledges is gone, though it browses


def an_option_that_nobody_knows_is_refused(jms: Stage) -> None:
    session = jms.connection().session()
    session.tries_consumer(jms.queue("Q", "?consumer.wrong=1"))
    session.producer(jms.queue("Q", "?other=1")).sends("a")
    session.consumer(jms.queue("Q")).receives(1, silence=True)
