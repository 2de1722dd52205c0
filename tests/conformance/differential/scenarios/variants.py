"""On a broker that mirrors its queues, lets client ids move to the newest connection, takes slashes for dots, deletes
durable subscriptions that stay away for three seconds, and puts the user on each message. Its queues have priorities,
but temporary ones; its temporary topics keep their last two messages.
"""

from __future__ import annotations

from tests.conformance.differential.stage import Stage, slow

MIRROR = "topic://VirtualTopic.Mirror."


def _mirror(jms: Stage, name: str) -> str:
    """Where what is sent to a queue of this scenario can be seen as well."""
    return MIRROR + jms.queue(name).removeprefix("queue://")


def what_is_sent_to_a_queue_is_seen_on_its_mirror(jms: Stage) -> None:
    session = jms.connection().session()
    watcher = session.consumer(_mirror(jms, "Q"))
    session.producer(jms.queue("Q")).sends("a", "b", properties={"n": 1}, correlation="c")
    watcher.receives(2, silence=True)
    session.consumer(jms.queue("Q")).receives(2, silence=True)
    watcher.receives_nothing()


def the_queue_of_a_group_behind_a_mirror_collects(jms: Stage) -> None:
    session = jms.connection().session()
    group = f"queue://Consumer.A.{_mirror(jms, 'Q').removeprefix('topic://')}"
    session.consumer(group).closes()
    session.producer(jms.queue("Q")).sends("a")
    session.consumer(group).receives(1, silence=True)
    session.consumer(jms.queue("Q")).receives(1, silence=True)


def a_mirror_shows_a_transaction_when_it_commits(jms: Stage) -> None:
    session = jms.connection().session()
    watcher = session.consumer(_mirror(jms, "Q"))
    transacted = jms.connection().session("transacted")
    producer = transacted.producer(jms.queue("Q"))
    producer.sends("never")
    transacted.rolls_back()
    producer.sends("a")
    watcher.receives_nothing()
    transacted.commits()
    watcher.receives(1, silence=True)


def a_pattern_of_mirrors_sees_several_queues(jms: Stage) -> None:
    session = jms.connection().session()
    watcher = session.consumer(_mirror(jms, ">"))
    for name in ("A", "B.C"):
        session.producer(jms.queue(name)).sends(name)
    watcher.drains()


def a_mirror_has_a_selector(jms: Stage) -> None:
    session = jms.connection().session()
    watcher = session.consumer(_mirror(jms, "Q"), "n > 1")
    for number in range(3):
        session.producer(jms.queue("Q")).sends(str(number), properties={"n": ["int", number]})
    watcher.receives(1, silence=True)


def a_mirror_nobody_watches_keeps_nothing(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.queue("Q")).sends("a")
    session.consumer(_mirror(jms, "Q")).receives_nothing()
    jms.counts(jms.queue("Q"))


def the_newest_connection_has_the_client_id(jms: Stage) -> None:
    first = jms.connection(client_id=f"{jms.scenario}.id")
    first.session("client").consumer(jms.queue("Q"))
    second = jms.connection(client_id=f"{jms.scenario}.id")
    session = second.session()
    session.producer(jms.queue("Q")).sends("a")
    session.consumer(jms.queue("Q")).receives(1, silence=True)
    second.survives()


def the_older_connection_ends(jms: Stage) -> None:
    first = jms.connection(client_id=f"{jms.scenario}.id")
    session = first.session()
    jms.connection(client_id=f"{jms.scenario}.id").survives()
    jms.ask(do="heard", on=first.name, count=1, timeout=jms.patience_ms)  # Spanwire tells the reason as well
    jms.passes(500)  # the client closes its sessions a moment after it has told of the end
    session.tries_producer(jms.queue("Q"))


def what_the_older_connection_held_comes_again(jms: Stage) -> None:
    first = jms.connection(client_id=f"{jms.scenario}.id")
    session = first.session("client")
    session.producer(jms.queue("Q")).sends("a")
    session.consumer(jms.queue("Q")).receives(1)
    second = jms.connection(client_id=f"{jms.scenario}.id")
    second.session().consumer(jms.queue("Q")).receives(1, silence=True)


def a_durable_subscription_goes_to_the_newest_connection(jms: Stage) -> None:
    first = jms.connection(client_id=f"{jms.scenario}.id")
    first.session().subscriber(jms.topic("T"), "s")
    second = jms.connection(client_id=f"{jms.scenario}.id")
    subscriber = second.session().subscriber(jms.topic("T"), "s")
    jms.connection().session().producer(jms.topic("T")).sends("a")
    subscriber.receives(1, silence=True)


def other_client_ids_are_left_alone(jms: Stage) -> None:
    first = jms.connection(client_id=f"{jms.scenario}.one")
    jms.connection(client_id=f"{jms.scenario}.two").survives()
    jms.connection().survives()
    first.survives()


@slow
def a_durable_subscription_that_stays_away_is_gone(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.id").session()
    session.subscriber(jms.topic("T"), "s").closes()
    session.producer(jms.topic("T")).sends("a")
    jms.passes(6_000)
    session.unsubscribes("s")
    session.subscriber(jms.topic("T"), "s").receives_nothing()


@slow
def a_durable_subscriber_that_is_there_for_long_keeps_its_subscription(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.id").session()
    subscriber = session.subscriber(jms.topic("T"), "s")
    jms.passes(6_000)
    session.producer(jms.topic("T")).sends("a")
    subscriber.receives(1, silence=True)


def both_separators_name_one_queue(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(f"{jms.queue('A')}/B").sends("slash")
    session.producer(f"{jms.queue('A')}.B").sends("dot")
    session.consumer(f"{jms.queue('A')}/B").receives(2, silence=True)
    jms.counts(f"{jms.queue('A')}.B")


@slow
def a_pattern_may_have_slashes(jms: Stage) -> None:
    session = jms.connection().session()
    star, bracket = session.consumer(f"{jms.topic('A')}/*/C"), session.consumer(f"{jms.topic('A')}/>")
    for name in ("A.B.C", "A.B/C", "A/D"):
        session.producer(jms.topic(name)).sends(name)
    star.drains()
    bracket.drains()


def a_durable_subscriber_may_write_slashes(jms: Stage) -> None:
    session = jms.connection(client_id=f"{jms.scenario}.id").session()
    subscriber = session.subscriber(f"{jms.topic('A')}/B", "s")
    jms.connection().session().producer(f"{jms.topic('A')}.B").sends("a")
    subscriber.receives(1, silence=True)
    subscriber.closes()
    session.unsubscribes("s")


def a_queue_with_slashes_is_browsed(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(f"{jms.queue('A')}/B").sends("a")
    session.browses(f"{jms.queue('A')}/B")
    session.browses(f"{jms.queue('A')}.B")


def slashes_at_the_ends_are_left_out(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(f"{jms.queue('A')}//B/").sends("a")
    session.consumer(f"{jms.queue('A')}.B").receives(1, silence=True)


def an_anonymous_producer_and_a_transaction_know_slashes(jms: Stage) -> None:
    session = jms.connection().session("transacted")
    session.producer().sends("a", to=f"{jms.queue('A')}/B")
    session.commits()
    jms.connection().session().consumer(f"{jms.queue('A')}.B").receives(1, silence=True)


def a_message_names_the_user_of_its_connection(jms: Stage) -> None:
    consumer = jms.connection().session().consumer(jms.queue("Q"))
    jms.connection(user="alice", password="secret").session().producer(jms.queue("Q")).sends("a")
    consumer.receives(1)
    jms.connection().session().producer(jms.queue("Q")).sends("b")
    consumer.receives(1, silence=True)


def a_message_of_a_transaction_names_its_user(jms: Stage) -> None:
    session = jms.connection(user="alice", password="secret").session("transacted")
    session.producer(jms.topic("T")).sends("nobody is there")
    consumer = jms.connection().session().consumer(jms.topic("T"))
    session.producer(jms.topic("T")).sends("a", volatile=True)
    session.commits()
    consumer.receives(1)


def a_selector_sees_the_user(jms: Stage) -> None:
    jms.connection(user="alice", password="secret").session().producer(jms.queue("Q")).sends("a")
    jms.connection(user="bob", password="secret").session().producer(jms.queue("Q")).sends("b")
    session = jms.connection().session()
    session.browses(jms.queue("Q"), "JMSXUserID = 'bob'")


def _in_order_of_their_priorities(jms: Stage, permanent: bool) -> None:
    connection = jms.connection("?jms.prefetchPolicy.all=1")
    session = connection.session()
    queue = jms.queue("Q") if permanent else session.temporary()
    producer = session.producer(queue)
    producer.sends("low", priority=1)
    producer.sends("high", priority=8)
    session.consumer(queue).receives(2, silence=True)


def a_queue_has_priorities(jms: Stage) -> None:
    _in_order_of_their_priorities(jms, True)


def an_entry_for_queues_says_nothing_of_temporary_ones(jms: Stage) -> None:
    _in_order_of_their_priorities(jms, False)


def an_entry_may_be_for_temporary_topics(jms: Stage) -> None:
    session = jms.connection().session()
    topic = session.temporary(topic=True)
    session.producer(topic).sends("a", "b", "c")
    session.consumer(topic).receives(2, silence=True)


def an_entry_for_temporary_topics_says_nothing_of_others(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(jms.topic("T")).sends("a", "b", "c")
    session.consumer(jms.topic("T")).receives_nothing()


def a_send_makes_the_temporary_destination_of_a_connection_that_is_gone(jms: Stage) -> None:
    owner = jms.connection()
    temporary = owner.session().temporary()
    sender = jms.connection("jms.watchTopicAdvisories=false").session()
    owner.closes()
    sender.producer(temporary).sends("a", volatile=True)
    sender.producer().sends("b", volatile=True, to=temporary.name)
