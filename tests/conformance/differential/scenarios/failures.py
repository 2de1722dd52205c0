"""What is refused: one scenario per row of `tests/vectors/exceptions.json`, under the row's name with underscores.

Rows about selectors and about XA come from the shape of their action; the others are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.conformance.differential.stage import TMFAIL, TMJOIN, TMRESUME, TMSUSPEND, Session, Stage

BEGIN: Final = 0
PREPARE: Final = 1
COMMIT_ONE_PHASE: Final = 2
COMMIT_TWO_PHASE: Final = 3
ROLLBACK: Final = 4
FORGET: Final = 6
END: Final = 7
STANDARD_ACK: Final = 2
INDIVIDUAL_ACK: Final = 4


def conn_duplicate_client_id(jms: Stage) -> None:
    jms.connection(client_id="dup")
    jms.tries(lambda: jms.connection(client_id="dup"))


def conn_client_id_after_use(jms: Stage) -> None:
    connection = jms.connection()
    connection.session()
    connection.does("client_id", id="late")
    connection.survives()


def conn_client_id_empty(jms: Stage) -> None:
    jms.connection(client_id="").survives()


def conn_closed_use(jms: Stage) -> None:
    connection = jms.connection()
    connection.closes()
    jms.tries(connection.session)


def conn_broker_stops(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer(jms.queue("Q"))
    jms.restarts()
    session.connection.heard()
    jms.connection().session().consumer(jms.queue("Q")).receives_nothing()
    producer.sends("a")


def with_selector(text: str) -> Callable[[Stage], None]:
    """The rows "createConsumer with selector: …"."""

    def scenario(jms: Stage) -> None:
        session = jms.connection().session()
        session.tries_consumer("queue://SEL", text)
        session.connection.survives()

    return scenario


def sel_bad_browser(jms: Stage) -> None:
    session = jms.connection().session()
    session.browses("queue://SEL", "i = =")
    session.connection.survives()


def sel_bad_durable(jms: Stage) -> None:
    session = jms.connection(client_id="selbad").session()
    session.tries_subscriber("topic://SEL", "s", "i = =")
    session.connection.survives()


def sel_runtime_error_queue(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer("queue://SEL.RUN", "flag + 1 = 2")
    session.producer("queue://SEL.RUN").sends("a", properties={"flag": True})
    consumer.receives_nothing()
    session.connection.survives()


def sel_runtime_error_topic(jms: Stage) -> None:
    session = jms.connection().session()
    session.consumer("topic://SEL.RUN", "flag + 1 = 2")
    session.producer("topic://SEL.RUN").sends("a", properties={"flag": True})
    session.connection.survives()


def pf_zero_listener(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer("queue://PF?consumer.prefetchSize=0")
    jms.tries(consumer.listens)
    session.connection.survives()


def pf_negative(jms: Stage) -> None:
    session = jms.connection().session()
    session.consumer("queue://PF?consumer.prefetchSize=-1")
    session.connection.survives()


def pf_bad_option(jms: Stage) -> None:
    session = jms.connection().session()
    session.tries_consumer("queue://PF?consumer.nosuch=1")
    session.connection.survives()


def pf_too_large(jms: Stage) -> None:
    session = jms.connection("jms.prefetchPolicy.all=40000").session()
    session.consumer("queue://PF.LARGE")
    session.connection.survives()


def pf_topic_zero(jms: Stage) -> None:
    session = jms.connection("jms.prefetchPolicy.all=0").session()
    session.consumer("topic://PF.ZERO").receives_nothing()
    session.connection.survives()


def browse_topic(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("consumer", to="topic://BROWSE", number=91, browser=True)
    connection.survives()


def dur_unsubscribe_active(jms: Stage) -> None:
    session = jms.connection(client_id="du1").session()
    session.subscriber("topic://T.d1", "n")
    session.unsubscribes("n")
    session.connection.survives()


def dur_unsubscribe_unknown(jms: Stage) -> None:
    session = jms.connection(client_id="du2").session()
    session.unsubscribes("nobody")
    session.connection.survives()


def dur_twice(jms: Stage) -> None:
    session = jms.connection(client_id="du3").session()
    session.subscriber("topic://T.d3", "n")
    session.tries_subscriber("topic://T.d3", "n")
    session.connection.survives()


def dur_no_client_id(jms: Stage) -> None:
    session = jms.connection().session()
    session.tries_subscriber("topic://T.d4", "n")
    session.connection.survives()


def dur_on_temp_topic(jms: Stage) -> None:
    session = jms.connection(client_id="du5").session()
    session.tries_subscriber(session.temporary(topic=True), "n")
    session.connection.survives()


def dur_destroy_active_topic(jms: Stage) -> None:
    session = jms.connection(client_id="du7").session()
    session.subscriber("topic://T.d7", "n")
    session.connection.destroys("topic://T.d7")
    session.connection.survives()


def tmp_send_deleted_own(jms: Stage) -> None:
    session = jms.connection().session()
    queue = session.temporary()
    producer = session.producer(queue)
    queue.deletes()
    producer.sends("a")
    session.connection.survives()


def tmp_send_deleted_unwatched(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    session = jms.connection("jms.watchTopicAdvisories=false").session()
    producer = session.producer()
    queue.deletes()
    producer.sends("a", to=queue)
    session.connection.survives()


def tmp_send_deleted_other(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    session = jms.connection().session()
    producer = session.producer()
    queue.deletes()
    session.consumer(jms.queue("AWHILE")).receives_nothing()
    producer.sends("a", to=queue)
    session.connection.survives()


def tmp_send_owner_closed(jms: Stage) -> None:
    owner = jms.connection()
    queue = owner.session().temporary()
    session = jms.connection().session()
    producer = session.producer()
    owner.closes()
    session.consumer(jms.queue("AWHILE")).receives_nothing()
    producer.sends("a", to=queue)
    session.connection.survives()


def tmp_consume_other_queue(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    session = jms.connection().session()
    session.tries_consumer(queue)
    session.connection.survives()


def tmp_consume_other_topic(jms: Stage) -> None:
    topic = jms.connection().session().temporary(topic=True)
    session = jms.connection().session()
    session.tries_consumer(topic)
    session.connection.survives()


def tmp_consume_other_raw(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    connection = jms.connection()
    connection.raw("consumer", to=queue.name, number=92)
    connection.survives()


def tmp_delete_in_use(jms: Stage) -> None:
    session = jms.connection().session()
    queue = session.temporary()
    session.consumer(queue)
    queue.deletes()
    session.connection.survives()


def tmp_delete_other(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    connection = jms.connection()
    connection.destroys(queue.name)
    connection.survives()


def tmp_browse_other(jms: Stage) -> None:
    queue = jms.connection().session().temporary()
    session = jms.connection().session()
    session.browses(queue)
    session.connection.survives()


def tx_commit_unknown(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("transaction", local=777, type=COMMIT_ONE_PHASE)
    connection.survives()


def tx_rollback_unknown(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("transaction", local=778, type=ROLLBACK)
    connection.survives()


def tx_commit_twice_raw(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("transaction", local=779, type=BEGIN)
    connection.raw("transaction", local=779, type=COMMIT_ONE_PHASE)
    connection.raw("transaction", local=779, type=COMMIT_ONE_PHASE)
    connection.survives()


def tx_begin_twice_raw(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("transaction", local=780, type=BEGIN)
    connection.raw("transaction", local=780, type=BEGIN)
    connection.survives()


def tx_end_local_raw(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("transaction", local=781, type=BEGIN)
    connection.raw("transaction", local=781, type=END)
    connection.survives()


def tx_send_unknown(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("producer", to="queue://RAWQ")
    connection.raw("message", to="queue://RAWQ", local=782)
    connection.survives()


def tx_commit_twice_jms(jms: Stage) -> None:
    session = jms.connection().session("transacted")
    session.commits()
    session.commits()
    session.connection.survives()


def tx_commit_not_transacted(jms: Stage) -> None:
    session = jms.connection().session()
    session.commits()
    session.connection.survives()


def tx_rollback_not_transacted(jms: Stage) -> None:
    session = jms.connection().session()
    session.rolls_back()
    session.connection.survives()


def tx_recover_transacted(jms: Stage) -> None:
    session = jms.connection().session("transacted")
    session.recovers()
    session.connection.survives()


def tx_commit_closed(jms: Stage) -> None:
    session = jms.connection().session("transacted")
    session.closes()
    session.commits()
    session.connection.survives()


def _acknowledges_raw(jms: Stage, kind: int, known: bool) -> None:
    connection = jms.connection()
    connection.raw("consumer", to="queue://ACKED", number=95)
    connection.raw("acknowledge", to="queue://ACKED", number=95 if known else 888, type=kind)
    connection.survives()


def ack_unknown_message(jms: Stage) -> None:
    _acknowledges_raw(jms, STANDARD_ACK, known=True)


def ack_individual_unknown(jms: Stage) -> None:
    _acknowledges_raw(jms, INDIVIDUAL_ACK, known=True)


def ack_unknown_consumer(jms: Stage) -> None:
    _acknowledges_raw(jms, STANDARD_ACK, known=False)


def ack_twice(jms: Stage) -> None:
    session = jms.connection().session("client")
    session.producer(jms.queue("Q")).sends("a")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(1)
    consumer.acknowledges()
    consumer.acknowledges()
    session.connection.survives()


def ack_closed_session(jms: Stage) -> None:
    session = jms.connection().session("client")
    session.producer(jms.queue("Q")).sends("a")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(1)
    session.closes()
    consumer.acknowledges()
    session.connection.survives()


def ack_closed_consumer(jms: Stage) -> None:
    session = jms.connection().session("client")
    session.producer(jms.queue("Q")).sends("a")
    consumer = session.consumer(jms.queue("Q"))
    consumer.receives(1)
    consumer.closes()
    consumer.acknowledges()
    session.connection.survives()


def raw_unknown_session(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("producer", to="queue://RAWQ", session=999)
    connection.survives()


def raw_unknown_session_consumer(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("consumer", to="queue://RAWQ", session=999)
    connection.survives()


def raw_duplicate_consumer(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("consumer", to="queue://RAWQ", number=93)
    connection.raw("consumer", to="queue://RAWQ", number=93)
    connection.survives()


def raw_duplicate_session(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("session", session=555)
    connection.raw("session", session=555)
    connection.survives()


def raw_remove_unknown_consumer(jms: Stage) -> None:
    connection = jms.connection()
    connection.session()
    connection.raw("remove", what="consumer", session=1, number=666)
    connection.survives()


def raw_remove_unknown_session(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("remove", what="session", number=666)
    connection.survives()


def raw_remove_unknown_producer(jms: Stage) -> None:
    connection = jms.connection()
    connection.session()
    connection.raw("remove", what="producer", session=1, number=666)
    connection.survives()


def raw_unknown_producer_send(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("message", to="queue://RAWQ", number=666)
    connection.survives()


def raw_destroy_in_use(jms: Stage) -> None:
    connection = jms.connection()
    connection.session().consumer("queue://INUSE")
    connection.destroys("queue://INUSE")
    connection.survives()


def raw_destroy_unknown(jms: Stage) -> None:
    connection = jms.connection()
    connection.destroys("queue://NOBODY.KNOWS")
    connection.survives()


def raw_unsubscribe_unknown(jms: Stage) -> None:
    connection = jms.connection(client_id="rsu")
    connection.raw("unsubscribe", name="nope")
    connection.survives()


def cli_wildcard_send(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer("queue://A.>").sends("a")
    session.connection.survives()


def cli_closed_session(jms: Stage) -> None:
    session = jms.connection().session()
    session.closes()
    session.tries_producer("queue://A")
    session.connection.survives()


def cli_closed_producer(jms: Stage) -> None:
    session = jms.connection().session()
    producer = session.producer("queue://A")
    producer.closes()
    producer.sends("a")
    session.connection.survives()


def cli_closed_consumer(jms: Stage) -> None:
    session = jms.connection().session()
    consumer = session.consumer("queue://A")
    consumer.closes()
    consumer.receives_nothing()
    session.connection.survives()


def _branch(jms: Stage, *, work: bool, ended: bool = True, steps: Callable[[Session], None]) -> None:
    session = jms.connection(xa=True).session("xa")
    session.begins("x")
    if work:
        session.producer("queue://XAQ").sends("a")
    if ended:
        session.leaves("x")
    steps(session)
    session.connection.survives()


def _unknown(jms: Stage, step: Callable[[Session], None]) -> None:
    session = jms.connection(xa=True).session("xa")
    step(session)
    session.connection.survives()


def xa_end_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.leaves("x"))


def xa_prepare_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.prepares("x"))


def xa_commit2_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.commits_branch("x"))


def xa_commit1_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.commits_branch("x", one_phase=True))


def xa_rollback_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.rolls_branch_back("x"))


def xa_forget_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.forgets("x"))


def xa_start_same_twice(jms: Stage) -> None:
    _branch(jms, work=False, ended=False, steps=lambda session: session.begins("x"))


def xa_start_two(jms: Stage) -> None:
    _branch(jms, work=False, ended=False, steps=lambda session: session.begins("y"))


def xa_start_after_end(jms: Stage) -> None:
    _branch(jms, work=False, steps=lambda session: session.begins("x"))


def xa_start_join_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.begins("x", TMJOIN))


def xa_start_resume_unknown(jms: Stage) -> None:
    _unknown(jms, lambda session: session.begins("x", TMRESUME))


def xa_null_start(jms: Stage) -> None:
    _unknown(jms, lambda session: session.begins(None))


def xa_commit2_not_prepared(jms: Stage) -> None:
    _branch(jms, work=True, steps=lambda session: session.commits_branch("x"))


def xa_commit1_after_prepare(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.commits_branch("x", one_phase=True)

    _branch(jms, work=True, steps=steps)


def xa_prepare_twice(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.prepares("x")
        session.rolls_branch_back("x")

    _branch(jms, work=True, steps=steps)


def xa_commit_twice(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.commits_branch("x")
        session.commits_branch("x")

    _branch(jms, work=True, steps=steps)


def xa_commit1_twice(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.commits_branch("x", one_phase=True)
        session.commits_branch("x", one_phase=True)

    _branch(jms, work=True, steps=steps)


def xa_rollback_after_commit(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.commits_branch("x", one_phase=True)
        session.rolls_branch_back("x")

    _branch(jms, work=True, steps=steps)


def xa_commit_after_rollback(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.rolls_branch_back("x")
        session.commits_branch("x")

    _branch(jms, work=True, steps=steps)


def xa_rollback_twice(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.rolls_branch_back("x")
        session.rolls_branch_back("x")

    _branch(jms, work=True, steps=steps)


def xa_prepare_not_ended(jms: Stage) -> None:
    _branch(jms, work=True, ended=False, steps=lambda session: session.prepares("x"))


def xa_commit1_not_ended(jms: Stage) -> None:
    _branch(jms, work=True, ended=False, steps=lambda session: session.commits_branch("x", one_phase=True))


def xa_rollback_not_ended(jms: Stage) -> None:
    _branch(jms, work=True, ended=False, steps=lambda session: session.rolls_branch_back("x"))


def xa_prepare_empty(jms: Stage) -> None:
    _branch(jms, work=False, steps=lambda session: session.prepares("x"))


def xa_commit_after_empty_prepare(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.commits_branch("x")

    _branch(jms, work=False, steps=steps)


def xa_end_fail_then_commit(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.leaves("x", TMFAIL)
        session.commits_branch("x", one_phase=True)

    _branch(jms, work=True, ended=False, steps=steps)


def xa_end_suspend_resume(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.leaves("x", TMSUSPEND)
        session.begins("x", TMRESUME)
        session.leaves("x")
        session.commits_branch("x", one_phase=True)

    _branch(jms, work=True, ended=False, steps=steps)


def xa_end_wrong_xid(jms: Stage) -> None:
    _branch(jms, work=False, ended=False, steps=lambda session: session.leaves("y"))


def xa_forget_prepared(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.forgets("x")

    _branch(jms, work=True, steps=steps)


def xa_session_commit(jms: Stage) -> None:
    _unknown(jms, lambda session: session.commits())


def xa_session_rollback(jms: Stage) -> None:
    _unknown(jms, lambda session: session.rolls_back())


def xa_recover(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.recovers_branches()
        session.rolls_branch_back("x")

    _branch(jms, work=True, steps=steps)


def xa_recover_noflags(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.recovers_branches(0)
        session.rolls_branch_back("x")

    _branch(jms, work=True, steps=steps)


def xa_start_prepared(jms: Stage) -> None:
    def steps(session: Session) -> None:
        session.prepares("x")
        session.begins("x")

    _branch(jms, work=True, steps=steps)


def _raw_branch(jms: Stage, *types: int, work: bool = True) -> None:
    """Commands about one branch: BEGIN, a message in it, and what follows."""
    connection = jms.connection()
    xid = f"{jms.scenario}.x"
    connection.raw("transaction", xid=xid, type=BEGIN)
    if work:
        connection.raw("producer", to="queue://XAQ")
        connection.raw("message", to="queue://XAQ", xid=xid)
    for kind in types:
        connection.raw("transaction", xid=xid, type=kind)
    connection.survives()


def _raw_unknown(jms: Stage, kind: int) -> None:
    connection = jms.connection()
    connection.raw("transaction", xid=f"{jms.scenario}.x", type=kind)
    connection.survives()


def xaraw_begin_twice(jms: Stage) -> None:
    _raw_branch(jms, BEGIN, work=False)


def xaraw_end_unknown(jms: Stage) -> None:
    _raw_unknown(jms, END)


def xaraw_prepare_unknown(jms: Stage) -> None:
    _raw_unknown(jms, PREPARE)


def xaraw_commit1_unknown(jms: Stage) -> None:
    _raw_unknown(jms, COMMIT_ONE_PHASE)


def xaraw_commit2_unknown(jms: Stage) -> None:
    _raw_unknown(jms, COMMIT_TWO_PHASE)


def xaraw_rollback_unknown(jms: Stage) -> None:
    _raw_unknown(jms, ROLLBACK)


def xaraw_forget_unknown(jms: Stage) -> None:
    _raw_unknown(jms, FORGET)


def xaraw_commit2_active(jms: Stage) -> None:
    _raw_branch(jms, COMMIT_TWO_PHASE)


def xaraw_commit1_prepared(jms: Stage) -> None:
    _raw_branch(jms, PREPARE, COMMIT_ONE_PHASE)


def xaraw_prepare_twice(jms: Stage) -> None:
    _raw_branch(jms, PREPARE, PREPARE)


def xaraw_commit_twice(jms: Stage) -> None:
    _raw_branch(jms, PREPARE, COMMIT_TWO_PHASE, COMMIT_TWO_PHASE)


def xaraw_prepare_empty(jms: Stage) -> None:
    _raw_branch(jms, PREPARE, work=False)


def xaraw_commit2_empty(jms: Stage) -> None:
    _raw_branch(jms, COMMIT_TWO_PHASE, work=False)


def xaraw_send_prepared(jms: Stage) -> None:
    connection = jms.connection()
    xid = f"{jms.scenario}.x"
    connection.raw("transaction", xid=xid, type=BEGIN)
    connection.raw("producer", to="queue://XAQ")
    connection.raw("message", to="queue://XAQ", xid=xid)
    connection.raw("transaction", xid=xid, type=PREPARE)
    connection.raw("message", to="queue://XAQ", xid=xid)
    connection.survives()


def xaraw_send_unknown(jms: Stage) -> None:
    connection = jms.connection()
    connection.raw("producer", to="queue://XAQ")
    connection.raw("message", to="queue://XAQ", xid=f"{jms.scenario}.x")
    connection.survives()


def xaraw_bad_type(jms: Stage) -> None:
    _raw_unknown(jms, 99)


def xaraw_begin_prepared(jms: Stage) -> None:
    _raw_branch(jms, PREPARE, BEGIN)


def xaraw_forget_prepared(jms: Stage) -> None:
    _raw_branch(jms, PREPARE, FORGET)
