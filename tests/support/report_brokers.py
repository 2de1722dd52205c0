"""What two running brokers, one linked to the other, tell while messages go over both: archives of their advisories."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from spanwire.client import blocking
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.report_archives import Archive

QUEUE = "REAL"
SENT, TAKEN = 12, 10
LIMIT_S = 60.0
POLICY = f"""    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue="{QUEUE}" advisoryForDelivery="true" advisoryForConsumed="true" advisoryForDispatched="true"/>
    </policyEntries></policyMap></destinationPolicy>
"""
LINK = '    <networkConnectors><networkConnector uri="static:({})"/></networkConnectors>\n'


class Listener:
    """All advisories of one broker."""

    def __init__(self, url: str) -> None:
        self.archive = Archive()
        self._connection = blocking.connect(url)
        self._consumer = self._connection.session().create_consumer("topic://ActiveMQ.Advisory.>")

    def hear(self) -> None:
        while (message := self._consumer.receive(timeout=0.1)) is not None:
            self.archive.put(decode_message(message.raw, message.version))

    def count(self, topic: str) -> int:
        """Advisories on that topic below ``ActiveMQ.Advisory.``."""
        name = f"ActiveMQ.Advisory.{topic}"
        return sum(
            one.destination is not None and one.destination.physical_name == name for one in self.archive.messages
        )

    def has_bridge_consumer(self) -> bool:
        told = [one.data_structure for one in self.archive.messages]
        return any(isinstance(one, wire.ConsumerInfo) and one.network_subscription for one in told)

    def close(self) -> None:
        self._connection.close()


def told_by_brokers(root: Path) -> tuple[str, str]:
    """Twelve messages are sent to broker real-a and go to real-b, where ten are taken and two wait."""
    with BrokerProcess(spanwire_command(), root / "b", name="real-b", inside=POLICY) as last:
        link = LINK.format(last.openwire_uri())
        with BrokerProcess(spanwire_command(), root / "a", name="real-a", inside=POLICY + link) as first:
            at_a, at_b = Listener(first.openwire_uri()), Listener(last.openwire_uri())
            try:
                _converse(first.openwire_uri(), last.openwire_uri(), at_a, at_b)
            finally:
                at_a.close()
                at_b.close()
    return at_a.archive.write(root / "told-a"), at_b.archive.write(root / "told-b")


def _converse(a: str, b: str, at_a: Listener, at_b: Listener) -> None:
    with blocking.connect(b, client_id="real-receiver") as receiving, receiving.session(acknowledge="auto") as session:
        consumer = session.create_consumer(f"queue://{QUEUE}")
        _wait(at_a, at_b, at_a.has_bridge_consumer)
        with blocking.connect(a, client_id="real-sender") as sending, sending.session() as other:
            producer = other.create_producer(f"queue://{QUEUE}")
            for number in range(SENT):
                producer.send(f"text {number}")
            for _ in range(TAKEN):
                assert consumer.receive(timeout=LIMIT_S) is not None
            _wait(
                at_a,
                at_b,
                lambda: (
                    at_a.count(f"MessageConsumed.Queue.{QUEUE}") == SENT
                    and at_b.count(f"MessageDelivered.Queue.{QUEUE}") == SENT
                    and at_b.count(f"MessageConsumed.Queue.{QUEUE}") == TAKEN
                ),
            )


def _wait(at_a: Listener, at_b: Listener, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, sorted(
            {
                str(one.destination.physical_name)
                for one in [*at_a.archive.messages, *at_b.archive.messages]
                if one.destination
            }
        )
        at_a.hear()
        at_b.hear()
