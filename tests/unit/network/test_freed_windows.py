"""Messages that wait for the window, the rights or the prefetch of a link, freed by what the answer advises."""

from __future__ import annotations

from spanwire.broker.explanation import explanation as cause
from spanwire.broker.explanation.explainer import Explainer
from spanwire.broker.explanation.explanation import Explanation
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import STARTED_MS, Client, Link, Network, Site
from tests.support.recording_authorizer import RecordingAuthorizer
from tests.support.why_dialogue import said
from tests.unit.network.test_why_links import Q, facts, id_of, pair, why

BODY = "x" * 4_000
SMALL_MEMORY = 40_000  # bytes; some eight messages of `BODY`
EVERYBODY = AccessList(*[frozenset("*")] * 3)


def why_link(site: Site, link: Link) -> Explanation:
    return Explainer(site.broker, STARTED_MS).link(facts(link), site.network.now)


def why_connection(site: Site, client: Client) -> Explanation:
    return Explainer(site.broker, STARTED_MS).connection(client.state, [], site.network.now)


def test_a_group_of_a_stalled_link_goes_to_another_consumer_when_the_link_is_stopped() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB", prefetch_size=1))
    b.client().consumes(Q)
    network.settles()
    producer = a.client()
    producer.sends(Q, "one", group="g")
    network.settles()
    link.stalled = True
    here = a.client().consumes(Q)
    for text in ("two", "three"):
        producer.sends(Q, text, group="g")
    network.settles()
    answer = why(a, id_of(producer, 3), link)
    assert answer.cause == cause.GROUP_OWNER
    assert "is the owner of its message group, and its window is full" in answer.sentence
    assert "1 of 1 messages are unacknowledged" in answer.sentence
    assert answer.advice == [
        "see what broker B waits for: spanwire why link 'toB' here, and spanwire why queue 'Q' at B",
        "if the link is only slow, raise prefetchSize of network connector toB",
        "to let other consumers have its messages, stop it: spanwire link stop 'toB'",
    ]
    assert here.texts == []
    link.enabled = False
    link.breaks()
    network.settles()
    assert here.texts == ["two", "three"]


def test_a_group_crosses_a_slow_link_with_a_larger_prefetch() -> None:
    for prefetch in (1, 100):
        network, a, b, link = pair(BridgeSettings(name="toB", prefetch_size=prefetch))
        b.client().consumes(Q)
        network.settles()
        link.stalled = True
        producer = a.client()
        for text in ("one", "two"):
            producer.sends(Q, text, group="g")
        network.settles()
        answer = why(a, id_of(producer, 2), link)
        if prefetch == 1:
            assert answer.cause == cause.WINDOW_FULL
            assert "raise prefetchSize of network connector toB" in said(answer)
        else:
            assert answer.cause == cause.FORWARDING


def test_another_group_waits_behind_one_whose_slow_consumer_fills_the_memory_beyond_the_link() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", memory_limit_bytes=SMALL_MEMORY)
    link = network.link(a, b, BridgeSettings(name="toB", prefetch_size=2))
    slow = b.client().consumes(Q, prefetch=1, manual=True)
    network.settles()
    producer = a.client()
    for _ in range(20):
        producer.sends(Q, BODY, group="g", persistent=False)
    network.settles()
    quick = b.client().consumes(Q)
    producer.sends(Q, "other", group="h", persistent=False)
    network.settles()
    answer = why(a, id_of(producer, 21), link)
    assert answer.cause == cause.WINDOW_FULL
    assert "spanwire why queue 'Q' at B" in said(answer)
    of_link = why_link(a, link)
    assert of_link.cause == cause.WINDOW_FULL
    assert "broker B has not answered 2 messages" in of_link.sentence
    assert "other" not in quick.texts
    slow.manual = False
    network.settles()
    assert quick.texts == ["other"]
    assert why_link(a, link).cause == cause.HEALTHY


def test_a_link_whose_user_may_not_read_advisories_comes_up_with_the_right_of_the_advice() -> None:
    network = Network()
    refused = ("*", "read", "topic://ActiveMQ.Advisory.Consumer.>")
    a, b = network.site("A"), network.site("B", authorizer=RecordingAuthorizer(refused))
    link = network.link(a, b, BridgeSettings(name="toB", user_name="bridge"))
    inbox = b.client().consumes(Q)
    for _ in range(10):
        link.turn()
    assert not link.running
    producer = a.client()
    producer.sends(Q, "one")
    a.store_turn()
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.LINK_DOWN
    assert "refused the subscription to advisories" in said(answer)
    right = "for which the connector's user needs the right to read ActiveMQ.Advisory.> there"
    assert right in said(answer)
    assert right in why_link(a, link).sentence
    b.broker.reconfiguration.use_authorizer(RecordingAuthorizer())
    network.settles()
    assert inbox.texts == ["one"]


def test_a_link_whose_user_may_read_other_advisories_alone_learns_of_a_queue_with_the_right_of_the_advice() -> None:
    def rights(*read: str) -> AuthorizationMap:
        """Everything with queues, what a bridge needs, and the advisories of ``read``."""
        topics = [
            *read,
            "ActiveMQ.Advisory.NetworkBridge",
            "ActiveMQ.Advisory.TempQueue",
            "ActiveMQ.Advisory.TempTopic",
        ]
        entries = [AuthorizationEntry(Destination(TOPIC, name), EVERYBODY) for name in topics]
        return AuthorizationMap([AuthorizationEntry(Destination(QUEUE, ">"), EVERYBODY), *entries])

    network = Network()
    a, b = network.site("A"), network.site("B", authorizer=rights("ActiveMQ.Advisory.Consumer.Topic.>"))
    link = network.link(a, b, BridgeSettings(name="toB"))
    inbox = b.client().consumes(Q)
    network.settles()
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    assert link.running
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.NO_DEMAND
    right = "the user of network connector toB lacks the right to read ActiveMQ.Advisory.> at B"
    assert right in said(answer)
    assert right in said(why_link(a, link))
    b.broker.reconfiguration.use_authorizer(rights("ActiveMQ.Advisory.Consumer.>"))
    link.breaks()
    network.settles()
    assert inbox.texts == ["one"]


def test_a_link_with_prefetch_0_takes_messages_with_that_of_the_advice() -> None:
    for prefetch in (0, 1):  # the reader of configurations refuses 0
        network, a, b, link = pair(BridgeSettings(name="toB", prefetch_size=prefetch))
        inbox = b.client().consumes(Q)
        network.settles()
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        if prefetch == 0:
            answer = why(a, id_of(producer), link)
            assert answer.cause == cause.NOT_PULLING
            assert "its prefetchSize is 0, and a bridge asks for no messages" in said(answer)
            assert answer.advice[0] == "set prefetchSize of network connector toB to 1 or more"
            assert inbox.texts == []
    assert inbox.texts == ["one"]


def test_a_message_waits_for_a_link_that_is_drained_and_goes_when_the_drain_is_over() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB"))
    inbox = b.client().consumes(Q)
    network.settles()
    assert link.bridge is not None
    assert link.bridge.forwarder is not None
    link.bridge.forwarder.local.hold(True, network.now)
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.NOT_PULLING
    assert "its link takes no further messages: it is being drained" in said(answer)
    assert answer.advice[0].startswith("wait for the end of the drain")
    link.bridge.forwarder.local.hold(False, network.now)
    network.settles()
    assert inbox.texts == ["one"]


def test_a_bridge_of_others_with_prefetch_0_hears_of_no_consumer_until_it_has_a_window() -> None:
    heard = {}
    for prefetch in (0, 1_000):  # ActiveMQ's bridge listens to advisories with the prefetchSize of its connector
        network = Network()
        b = network.site("B")
        listener = b.client()
        inbox = listener.consumes("topic://ActiveMQ.Advisory.Consumer.>", prefetch=prefetch, manual=True)
        b.client().consumes(Q)
        network.settles()
        heard[prefetch] = len(inbox.unread)
        if prefetch == 0:
            answer = why_connection(b, listener)
            assert answer.cause == cause.NOT_PULLING
            assert "asks for none of 1 message" in answer.sentence
            assert "set prefetchSize of its network connector to 1 or more" in said(answer)
    assert heard == {0: 0, 1_000: 1}
