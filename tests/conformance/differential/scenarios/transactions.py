"""Local and distributed transactions (JMS 1.1, "Transactions"; X/Open XA as in `javax.transaction.xa`)."""

from __future__ import annotations

from typing import Final

from tests.conformance.differential.stage import TMFAIL, TMJOIN, TMRESUME, TMSUSPEND, Stage, slow

QUICK: Final = "jms.redeliveryPolicy.initialRedeliveryDelay=10&jms.redeliveryPolicy.redeliveryDelay=10"


def sends_come_with_the_commit(jms: Stage) -> None:
    connection = jms.connection()
    consumer = connection.session().consumer(jms.queue("Q"))
    session = connection.session("transacted")
    session.producer(jms.queue("Q")).sends("a", "b")
    consumer.receives_nothing()
    session.commits()
    consumer.receives(2, silence=True)


def sends_that_are_rolled_back_never_come(jms: Stage) -> None:
    connection = jms.connection()
    consumer = connection.session().consumer(jms.queue("Q"))
    session = connection.session("transacted")
    producer = session.producer(jms.queue("Q"))
    producer.sends("a")
    session.rolls_back()
    producer.sends("b")
    session.commits()
    consumer.receives(1, silence=True)
    jms.counts(jms.queue("Q"))


def acknowledgements_come_with_the_commit(jms: Stage) -> None:
    connection = jms.connection(QUICK)
    connection.session().producer(jms.queue("Q")).sends("a", "b")
    session = connection.session("transacted")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(2)
    session.rolls_back()
    consumer.receives(2)
    session.commits()
    jms.counts(jms.queue("Q"))


def a_transaction_covers_queues_and_topics(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("IN")).sends("a")
    subscriber = connection.session().consumer(jms.topic("OUT"))
    session = connection.session("transacted")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.topic("OUT")).sends("a of topic")
    session.producer(jms.queue("OUT")).sends("a of queue")
    subscriber.receives_nothing()
    session.commits()
    subscriber.receives(1)
    connection.session().consumer(jms.queue("OUT")).receives(1)
    jms.counts(jms.queue("IN"))


def closing_a_session_rolls_back(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("IN")).sends("a")
    session = connection.session("transacted")
    session.producer(jms.queue("OUT")).sends("never")
    session.consumer(jms.queue("IN")).receives(1)
    session.closes()
    connection.session().consumer(jms.queue("IN")).receives(1)
    jms.counts(jms.queue("OUT"))


def a_dead_client_rolls_back(jms: Stage) -> None:
    dying = jms.connection()
    session = dying.session("transacted")
    session.producer(jms.queue("Q")).sends("never")
    dying.dies()
    jms.connection().session().consumer(jms.queue("Q")).receives_nothing()


def an_empty_transaction_commits(jms: Stage) -> None:
    session = jms.connection().session("transacted")
    session.commits()
    session.commits()
    session.rolls_back()


@slow
def a_transaction_is_gone_after_a_kill(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("IN")).sends("a")
    session = connection.session("transacted")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.queue("OUT")).sends("never")
    jms.restarts()
    again = jms.connection().session()
    again.consumer(jms.queue("IN")).drains()
    again.consumer(jms.queue("OUT")).receives_nothing()


@slow
def a_committed_transaction_survives_a_kill(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().producer(jms.queue("IN")).sends("a")
    session = connection.session("transacted")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.queue("OUT")).sends("b")
    session.commits()
    jms.restarts()
    again = jms.connection().session()
    again.consumer(jms.queue("IN")).receives_nothing()
    again.consumer(jms.queue("OUT")).drains()


def a_message_of_a_transaction_can_be_browsed_after_its_commit_only(jms: Stage) -> None:
    connection = jms.connection()
    session = connection.session("transacted")
    session.producer(jms.queue("Q")).sends("a")
    connection.session().browses(jms.queue("Q"))
    session.commits()
    connection.session().browses(jms.queue("Q"))


def one_phase_commits_a_branch(jms: Stage) -> None:
    connection = jms.connection(xa=True)
    consumer = jms.connection().session().consumer(jms.queue("Q"))
    session = connection.session("xa")
    session.begins("x")
    session.producer(jms.queue("Q")).sends("a")
    session.leaves("x")
    consumer.receives_nothing()
    session.commits_branch("x", one_phase=True)
    consumer.receives(1)


def two_phases_commit_a_branch(jms: Stage) -> None:
    connection = jms.connection(xa=True)
    consumer = jms.connection().session().consumer(jms.queue("OUT"))
    jms.connection().session().producer(jms.queue("IN")).sends("a")
    session = connection.session("xa")
    session.begins("x")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.queue("OUT")).sends("b")
    session.leaves("x")
    session.prepares("x")
    consumer.receives_nothing()
    session.commits_branch("x")
    consumer.receives(1)
    jms.counts(jms.queue("IN"))


def a_prepared_branch_can_be_rolled_back(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    jms.connection().session().producer(jms.queue("IN")).sends("a")
    session.begins("x")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.queue("OUT")).sends("never")
    session.leaves("x")
    session.prepares("x")
    session.rolls_branch_back("x")
    session.recovers_branches()
    jms.counts(jms.queue("OUT"))
    session.closes()
    jms.connection().session().consumer(jms.queue("IN")).receives(1)


def a_branch_without_work_is_read_only(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.leaves("x")
    session.prepares("x")


def a_prepared_branch_is_listed(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("Q")).sends("a")
    session.leaves("x")
    session.recovers_branches()
    session.prepares("x")
    session.recovers_branches()
    session.commits_branch("x")
    session.recovers_branches()


@slow
def a_prepared_branch_survives_a_kill(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    jms.connection().session().producer(jms.queue("IN")).sends("a")
    session.begins("x")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.queue("OUT")).sends("b")
    session.leaves("x")
    session.prepares("x")
    jms.restarts()
    outside = jms.connection().session()
    outside.consumer(jms.queue("IN")).receives_nothing()
    consumer = outside.consumer(jms.queue("OUT"))
    consumer.receives_nothing()
    again = jms.connection(xa=True).session("xa")
    again.recovers_branches()
    again.commits_branch("x")
    again.recovers_branches()
    consumer.receives(1)


@slow
def a_prepared_branch_can_be_rolled_back_after_a_kill(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    jms.connection().session().producer(jms.queue("IN")).sends("a")
    session.begins("x")
    session.consumer(jms.queue("IN")).receives(1)
    session.producer(jms.queue("OUT")).sends("never")
    session.leaves("x")
    session.prepares("x")
    jms.restarts()
    again = jms.connection(xa=True).session("xa")
    again.recovers_branches()
    again.rolls_branch_back("x")
    outside = jms.connection().session()
    outside.consumer(jms.queue("IN")).drains()
    outside.consumer(jms.queue("OUT")).receives_nothing()


@slow
def an_unprepared_branch_is_gone_after_a_kill(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("OUT")).sends("never")
    session.leaves("x")
    jms.restarts()
    again = jms.connection(xa=True).session("xa")
    again.recovers_branches()
    again.commits_branch("x", one_phase=True)
    jms.connection().session().consumer(jms.queue("OUT")).receives_nothing()


def a_client_that_dies_in_doubt_leaves_its_branch_prepared(jms: Stage) -> None:
    dying = jms.connection(xa=True)
    session = dying.session("xa")
    session.begins("x")
    session.producer(jms.queue("Q")).sends("a")
    session.leaves("x")
    session.prepares("x")
    dying.dies()
    consumer = jms.connection().session().consumer(jms.queue("Q"))
    consumer.receives_nothing()
    again = jms.connection(xa=True).session("xa")
    again.recovers_branches()
    again.commits_branch("x")
    consumer.receives(1)


def work_can_be_suspended_and_resumed(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    producer = session.producer(jms.queue("Q"))
    session.begins("x")
    producer.sends("in x")
    session.leaves("x", TMSUSPEND)
    session.begins("y")
    producer.sends("in y")
    session.leaves("y")
    session.begins("x", TMRESUME)
    producer.sends("in x again")
    session.leaves("x")
    session.rolls_branch_back("y")
    session.commits_branch("x", one_phase=True)
    jms.connection().session().consumer(jms.queue("Q")).drains()


def a_second_session_joins_the_branch(jms: Stage) -> None:
    connection = jms.connection(xa=True)
    first, second = connection.session("xa"), connection.session("xa")
    first.begins("x")
    first.producer(jms.queue("Q")).sends("first")
    first.leaves("x")
    second.begins("x", TMJOIN)
    second.producer(jms.queue("Q")).sends("second")
    second.leaves("x")
    first.prepares("x")
    first.commits_branch("x")
    jms.connection().session().consumer(jms.queue("Q")).drains()


def failed_work_can_still_be_rolled_back(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("Q")).sends("never")
    session.leaves("x", TMFAIL)
    session.rolls_branch_back("x")
    jms.counts(jms.queue("Q"))


def a_prepared_branch_can_be_forgotten(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("OUT")).sends("never")
    session.leaves("x")
    session.prepares("x")
    session.forgets("x")
    session.recovers_branches()
    jms.counts(jms.queue("OUT"))


def another_connection_commits_a_prepared_branch(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    other = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("OUT")).sends("a")
    session.leaves("x")
    session.prepares("x")
    other.commits_branch("x")
    jms.counts(jms.queue("OUT"))


def another_connection_cannot_prepare_a_branch(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    other = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("OUT")).sends("a")
    session.leaves("x")
    other.prepares("x")
    session.rolls_branch_back("x")


def another_connection_cannot_prepare_a_prepared_branch_again(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    other = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("OUT")).sends("a")
    session.leaves("x")
    session.prepares("x")
    other.prepares("x")
    session.commits_branch("x")


def another_connection_rolls_back_an_open_branch(jms: Stage) -> None:
    session = jms.connection(xa=True).session("xa")
    other = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.queue("OUT")).sends("a")
    session.leaves("x")
    other.rolls_branch_back("x")
    session.commits_branch("x", one_phase=True)


def a_branch_covers_a_topic(jms: Stage) -> None:
    subscriber = jms.connection().session().consumer(jms.topic("T"))
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    session.producer(jms.topic("T")).sends("a", "b")
    session.leaves("x")
    session.prepares("x")
    subscriber.receives_nothing()
    session.commits_branch("x")
    subscriber.receives(2, silence=True)


def a_branch_covers_a_durable_subscription(jms: Stage) -> None:
    connection = jms.connection(xa=True, client_id=jms.scenario)
    plain = jms.connection().session()
    session = connection.session("xa")
    session.begins("w")
    subscriber = session.subscriber(jms.topic("T"), "s")
    plain.producer(jms.topic("T")).sends("a")
    subscriber.receives(1)
    session.leaves("w")
    session.prepares("w")
    session.commits_branch("w")
    session.closes()
    connection.session().subscriber(jms.topic("T"), "s").receives_nothing()


@slow
def a_branch_schedules_with_its_commit(jms: Stage) -> None:
    consumer = jms.connection().session().consumer(jms.queue("Q"))
    session = jms.connection(xa=True).session("xa")
    for name in ("rolled back", "one phase", "two phases"):
        session.begins(name)
        session.producer(jms.queue("Q")).sends(name, properties={"AMQ_SCHEDULED_DELAY": 50})
        session.leaves(name)
    session.rolls_branch_back("rolled back")
    consumer.receives_nothing()
    session.commits_branch("one phase", one_phase=True)
    consumer.receives(1, silence=True)
    session.prepares("two phases")
    consumer.receives_nothing()
    session.commits_branch("two phases")
    consumer.receives(1, silence=True)
