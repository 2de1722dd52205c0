"""Duplex links, shares and static demand with real sockets: Spanwire to Classic, Classic to Spanwire, and our own.

Producers and consumers speak STOMP, so nothing of a broker's own client takes part in the count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.test_network_bridges import PATIENCE_S, Counter, send
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.peers import require

PAIRS = [("spanwire", "classic"), ("classic", "spanwire"), ("spanwire", "spanwire")]
FEW_PAIRS = [pytest.param(*PAIRS[0], marks=pytest.mark.long), *PAIRS[1:]]
CONNECTOR = """\
    <networkConnectors>
      <networkConnector name="link" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200&amp;maxReconnectDelay=1000"
        decreaseNetworkConsumerPriority="false" {more}>{inside}</networkConnector>
    </networkConnectors>
"""

Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers of either kind, with a network connector to another one where asked."""
    with ExitStack() as stack:

        def started(
            kind: str, name: str, to: BrokerProcess | None = None, more: str = "", inside: str = ""
        ) -> BrokerProcess:
            text = "" if to is None else CONNECTOR.format(port=to.openwire_port, more=more, inside=inside)
            if kind == "classic":
                require("activemq-broker")
                broker = classic_broker(tmp_path / name, name=name, inside=text)
            else:
                broker = BrokerProcess(spanwire_command(), tmp_path / name, name=name, inside=text)
            return stack.enter_context(broker)

        yield started


@pytest.mark.parametrize(("near", "far"), PAIRS)
def test_a_duplex_link_carries_messages_both_ways(start: Start, near: str, far: str) -> None:
    b = start(far, "brokerB")
    a = start(near, "brokerA", b, 'duplex="true"')
    at_b, at_a = Counter(b.stomp_port, "/queue/TO.B"), Counter(a.stomp_port, "/queue/TO.A")
    texts = [f"m{number}" for number in range(50)]
    send(a.stomp_port, "/queue/TO.B", texts)
    send(b.stomp_port, "/queue/TO.A", texts)
    at_b.waits_for(50)
    at_a.waits_for(50)
    assert [frame.body.decode() for frame in at_b.received] == texts
    assert [frame.body.decode() for frame in at_a.received] == texts
    for counter in (at_a, at_b):
        counter.ended.set()


@pytest.mark.parametrize(("near", "far"), FEW_PAIRS)
def test_a_duplex_link_comes_back_after_either_end_was_killed(start: Start, near: str, far: str) -> None:
    b = start(far, "brokerB")
    a = start(near, "brokerA", b, 'duplex="true"')
    first = Counter(a.stomp_port, "/queue/TO.A")
    send(b.stomp_port, "/queue/TO.A", ["before"])
    first.waits_for(1)
    a.kill()
    a.start()
    send(b.stomp_port, "/queue/TO.A", ["after"])
    first.waits_for(2)
    first.ended.set()


@pytest.mark.parametrize(("near", "far"), FEW_PAIRS)
def test_two_consumers_there_share_what_one_here_gets(start: Start, near: str, far: str) -> None:
    b = start(far, "brokerB")
    a = start(near, "brokerA", b)
    counters = [Counter(a.stomp_port, "/queue/SHARED")]
    counters += [Counter(b.stomp_port, "/queue/SHARED") for _ in range(2)]
    for counter in counters:
        assert counter.ready.wait(PATIENCE_S)
    probe = Counter(b.stomp_port, "/queue/PROBE")  # demand comes in order: after this one the others are known
    send(a.stomp_port, "/queue/PROBE", ["probe"])
    probe.waits_for(1)
    send(a.stomp_port, "/queue/SHARED", [f"m{number}" for number in range(12)])
    for counter, share in zip(counters, (6, 3, 3), strict=True):
        counter.waits_for(share)
    assert [len(counter.texts) for counter in counters] == [6, 3, 3]
    for counter in [*counters, probe]:
        counter.ended.set()


@pytest.mark.parametrize(("near", "far"), FEW_PAIRS)
def test_static_destinations_cross_without_a_consumer(start: Start, near: str, far: str) -> None:
    b = start(far, "brokerB")
    a = start(
        near,
        "brokerA",
        b,
        'staticBridge="true"',
        '<staticallyIncludedDestinations><queue physicalName="ALWAYS"/></staticallyIncludedDestinations>',
    )
    send(a.stomp_port, "/queue/ALWAYS", ["one", "two"])
    a_queue = Counter(b.stomp_port, "/queue/ALWAYS")
    a_queue.waits_for(2)
    a_queue.ended.set()
