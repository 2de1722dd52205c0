"""What Classic refuses, Spanwire refuses with the same exception and the same words, and the connection lives on."""

from __future__ import annotations

from tests.interop.conftest import OnBoth, assert_alike

# Where Spanwire answers otherwise, and why.
NOT_YOURS = "javax.jms.InvalidDestinationException: Cannot use a Temporary destination from another Connection"
NOT_OUT = "javax.jms.JMSException: Could not correlate acknowledgment with dispatched message: "
DEVIATIONS: dict[str, str] = {
    # another client's selector does not fail a send; the message does not match
    "selector that fails on a topic": "no exception: null",
    # Classic tells of a failed cast between two of its Java classes
    "browser on a topic": "javax.jms.InvalidDestinationException: topic://BROWSE cannot be browsed: "
    "only a single queue can",
    # the broker itself sees to whom a temporary destination belongs
    "consume another's temporary queue, raw": NOT_YOURS,
    "delete another's temporary queue, raw": NOT_YOURS,
    # a mistake is told, but to failover clients
    "acknowledge an unknown message": NOT_OUT + "ID:<conn>:1:1:4711 is not out at consumer ID:<conn>:1:1",
    "acknowledge an unknown message, individual": NOT_OUT + "ID:<conn>:1:1:4711 is not out at consumer ID:<conn>:1:1",
    "acknowledge for an unknown consumer": "javax.jms.JMSException: The subscription does not exist: ID:<conn>:1:888",
    # Classic goes on with its own description of the subscription
    "destroy a queue in use": "javax.jms.JMSException: Destination: queue://INUSE still has an active subscription",
}


def test_refusals_have_the_same_class_and_words(on_both: OnBoth) -> None:
    ours, classics = on_both("refusals")
    assert len(ours) > 40
    assert [row["case"] for row in ours] == [row["case"] for row in classics]
    mine, theirs = [[row for row in rows if row["case"] not in DEVIATIONS] for rows in (ours, classics)]
    assert_alike(mine, theirs)
    assert {row["case"]: row["outcome"] for row in ours if row["case"] in DEVIATIONS} == DEVIATIONS
