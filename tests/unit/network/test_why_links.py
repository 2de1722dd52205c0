"""Why messages do not cross a link: built with two or three brokers, explained, and freed by the advice."""

from __future__ import annotations

from typing import Final

from spanwire.broker.explanation import explanation as cause
from spanwire.broker.explanation.explainer import Explainer
from spanwire.broker.explanation.explanation import Explanation
from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.destination import parse_destination
from spanwire.network.bridge.forward_retries import FIRST_PAUSE
from spanwire.network.bridge.link_description import link_description
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.network_dialogue import STARTED_MS, Client, Link, Network, Site
from tests.support.why_dialogue import said
from tests.unit.network.test_refused_messages import Refusing

Q: Final = "queue://Q"


def facts(link: Link) -> LinkDescription:
    """What the connector of a link knows of it."""
    bridge = link.bridge
    forwarder = None if bridge is None or bridge.closed else bridge.forwarder
    state = "running" if link.running else "waiting"
    reason = link.reasons[-1] if link.reasons and not link.running else ""
    return link_description(link.settings, forwarder, link.far.name, link.broker_url, state, reason, 5.0)


def why(site: Site, message_id: str, *links: Link) -> Explanation:
    """The answer of one broker about a message; the journal is not read."""
    explainer = Explainer(site.broker, STARTED_MS)
    search = explainer.search(message_id)
    while search.step():
        pass
    assert search.next_read() is None
    (answer,) = explainer.message(message_id, search, [facts(link) for link in links], site.network.now)
    return answer


def id_of(client: Client, number: int = 1) -> str:
    return f"{client.connection_id}:1:1:{number}"


def pair(settings: BridgeSettings) -> tuple[Network, Site, Site, Link]:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, settings)
    network.settles()
    return network, a, b, link


def test_no_demand_until_a_consumer_comes_beyond_the_link() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB"))
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.NO_DEMAND
    assert "link toB to B: no consumer of queue://Q is known beyond it" in said(answer)
    assert "start a consumer of queue://Q at B or beyond" in said(answer)
    inbox = b.client().consumes(Q)
    network.settles()
    assert inbox.texts == ["one"]


def test_an_excluded_queue_says_so() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB", excluded=(parse_destination(Q),)))
    producer = a.client()
    b.client().consumes(Q)
    producer.sends(Q, "one")
    network.settles()
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.EXCLUDED
    assert "its configuration excludes queue://Q" in said(answer)
    network2, a2, b2, _ = pair(BridgeSettings(name="toB"))
    inbox = b2.client().consumes(Q)
    a2.client().sends(Q, "one")
    network2.settles()
    assert inbox.texts == ["one"]


def test_a_link_that_is_down_says_why_and_since_when() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB"))
    producer, inbox = a.client(), b.client().consumes(Q)
    network.settles()
    link.enabled = False
    link.breaks()
    producer.sends(Q, "one")
    network.settles()
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.LINK_DOWN
    assert "it is waiting for 5 s" in said(answer)
    assert any("spanwire why link toB" in line for line in answer.advice)
    link.enabled = True
    link.connects()
    network.settles()
    assert inbox.texts == ["one"]


def test_a_message_that_used_its_hops_up_stays_until_somebody_consumes_there() -> None:
    network = Network()
    a, b, c = network.site("A"), network.site("B"), network.site("C")
    network.link(a, b, BridgeSettings(name="toB", consumer_ttl=2))
    onwards = network.link(b, c, BridgeSettings(name="toC", message_ttl=1))
    inbox = c.client().consumes(Q)
    network.settles()
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    answer = why(b, id_of(producer), onwards)
    assert answer.cause == cause.TTL
    assert "the message has passed 1 broker, and messageTTL of the link is 1" in said(answer)
    assert "raise messageTTL of network connector toC for later messages" in said(answer)
    assert "start a consumer of queue://Q at this broker" in said(answer)
    assert inbox.texts == []
    here = b.client().consumes(Q)
    network.settles()
    assert here.texts == ["one"]


def test_a_message_does_not_return_to_the_broker_that_it_came_from() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, BridgeSettings(name="toB"))
    back = network.link(b, a, BridgeSettings(name="toA"))
    inbox = b.client().consumes(Q, manual=True)
    network.settles()
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    inbox.leaves()
    a.client().consumes(Q)
    network.settles()
    answer = why(b, id_of(producer), back)
    assert answer.cause == cause.PATH
    assert "the message has come through that broker, and does not return" in said(answer)
    assert "replayWhenNoConsumers" in said(answer)
    here = b.client().consumes(Q)
    network.settles()
    assert here.texts == ["one"]


def test_a_message_that_may_return_later_waits_for_its_replay() -> None:
    replays = PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(bridges=BridgePolicy(replays=True)))
    network = Network()
    a, b = network.site("A"), network.site("B", policies=PolicyMap([replays]))
    network.link(a, b, BridgeSettings(name="toB"))
    back = network.link(b, a, BridgeSettings(name="toA"))
    inbox = b.client().consumes(Q, manual=True)
    network.settles()
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    b.client().consumes(Q, selector="n = 1")  # it keeps the queue from giving the message back
    inbox.leaves()
    there = a.client().consumes(Q)
    network.settles()
    answer = why(b, id_of(producer), back)
    assert answer.cause == cause.REPLAY
    assert "the policy lets it return when no consumer is left here" in said(answer)
    assert answer.advice == ["wait, or end the consumers here that want it"]
    assert there.texts == []


def test_a_conduit_hides_the_selectors_of_the_consumers_beyond() -> None:
    network, a, b, _ = pair(BridgeSettings(name="toB"))
    b.client().consumes(Q, selector="n = 1")
    network.settles()
    producer = a.client()
    producer.sends(Q, "one", properties={"n": 2})
    network.settles()
    answer = why(b, id_of(producer))
    assert answer.cause == cause.SELECTOR
    assert "a link with conduitSubscriptions forwards for any consumer of queue://Q and hides its selector" in said(
        answer
    )
    assert 'set conduitSubscriptions="false"' in said(answer)
    here = b.client().consumes(Q)
    network.settles()
    assert here.texts == ["one"]


def test_without_a_conduit_the_selector_of_the_demand_keeps_it_here() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB", conduit=False))
    b.client().consumes(Q, selector="n = 1")
    network.settles()
    producer = a.client()
    producer.sends(Q, "one", properties={"n": 2})
    network.settles()
    answer = why(a, id_of(producer), link)
    assert answer.cause == cause.SELECTOR
    assert "bridge " in said(answer)
    assert "its selector n = 1 does not choose the message: n = 1 fails: n is 2" in said(answer)
    inbox = b.client().consumes(Q, selector="n = 2")
    network.settles()
    assert inbox.texts == ["one"]


def test_what_the_remote_broker_refuses_says_in_its_words_why() -> None:
    remote = Refusing()
    (command,) = remote.sends("one")
    bridge = remote.bridge
    link = link_description(bridge.settings, bridge.forwarder, "remote", "tcp://remote", "running", "", 1.0)
    explainer = Explainer(remote.site.broker, STARTED_MS)

    def answer(link: LinkDescription) -> Explanation:
        search = explainer.search(id_of(remote.client))
        while search.step():
            pass
        (found,) = explainer.message(id_of(remote.client), search, [link], remote.network.now)
        return found

    assert answer(link).cause == cause.FORWARDING
    remote.refuses(command)
    link = link_description(bridge.settings, bridge.forwarder, "remote", "tcp://remote", "running", "", 1.0)
    refused = answer(link)
    assert refused.cause == cause.REFUSED
    assert (
        "broker remote refuses it over link NC to remote, and it is tried again: java.lang.SecurityException: not?you"
        in refused.sentence
    )
    assert explainer.link(link, remote.network.now).cause == cause.REFUSED
    (again,) = remote.after(FIRST_PAUSE)
    remote.says(wire.Response(again.command_id))
    assert answer(link).cause == cause.ACKNOWLEDGED


def test_a_link_is_explained_by_its_state_and_demand() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB"))
    explainer = Explainer(a.broker, STARTED_MS)
    assert explainer.link(facts(link), network.now).cause == cause.NO_DEMAND
    b.client().consumes(Q)
    network.settles()
    healthy = explainer.link(facts(link), network.now)
    assert healthy.cause == cause.HEALTHY
    assert "demand beyond it for queue://Q" in said(healthy)
    link.breaks()
    down = explainer.link(facts(link), network.now)
    assert down.cause == cause.LINK_DOWN
