"""Statistics by message: names, types and counters of the answers (ActiveMQ, "StatisticsPlugin").

Those about subscriptions Classic reads from its JMX, which it runs without here.
"""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.differential.stage import PATIENCE_MS, Consumer, Stage

PREFIX: Final = "queue://ActiveMQ.Statistics."
LIST_END: Final = "ActiveMQ.Statistics.Destination.List.End.With.Null"
COUNTERS: Final = (
    "destinationName", "size", "enqueueCount", "dequeueCount", "dispatchCount", "inflightCount", "expiredCount",
    "consumerCount", "producerCount",
)  # fmt: skip


def _bare(destination: str) -> str:
    return destination.partition("://")[2]


class _Asker:
    """A client that asks, and writes down what is answered."""

    def __init__(self, jms: Stage) -> None:
        self._jms: Final = jms
        self._session: Final = jms.connection().session()
        self._answers: Final = self._session.temporary()
        self._consumer: Final[Consumer] = self._session.consumer(self._answers)

    def asks(self, destination: str, **properties: object) -> None:
        self._session.producer(destination).sends(
            None, kind="plain", replyTo=self._answers, correlation="c1", properties=properties
        )

    def hears(self) -> dict[str, Any]:
        """The body of the next answer; writes down its headers, and the names and types in it."""
        found = self._jms.ask(do="receive", consumer=self._consumer.name, timeout=PATIENCE_MS)["result"]
        if found is None:
            self._jms.writes("answer", None)
            return {}
        body: dict[str, Any] = found["body"]
        self._jms.writes("headers", {name: found[name] for name in ("kind", "persistent", "type", "correlation")})
        self._jms.writes("names and types", {name: str(body[name]).partition(" ")[0] for name in sorted(body)})
        return body

    def hears_of(self, names: tuple[str, ...]) -> None:
        """The same with the values of these names."""
        body = self.hears()
        self._jms.writes("values", {name: body.get(name) for name in names})

    def ends(self) -> None:
        self._consumer.receives_nothing()


def a_queue_is_described(jms: Stage) -> None:
    asker = _Asker(jms)
    session = jms.connection().session()
    consumer = session.consumer(jms.queue("Q"))
    session.producer(jms.queue("Q")).sends("a", "b", "c")
    consumer.receives(2)
    jms.counts(jms.queue("Q"))
    asker.asks(f"{PREFIX}Destination{_bare(jms.queue('Q'))}")
    asker.hears_of(COUNTERS)
    asker.ends()


def a_topic_is_described(jms: Stage) -> None:
    asker = _Asker(jms)
    session = jms.connection().session()
    consumer = session.consumer(jms.topic("T"))
    session.producer(jms.topic("T")).sends("a")
    consumer.receives(1)
    asker.asks(f"topic://ActiveMQ.Statistics.Destination{_bare(jms.topic('T'))}")
    asker.hears_of(("destinationName", "enqueueCount", "consumerCount", "producerCount"))
    asker.ends()


def all_matches_are_described_and_an_empty_map_ends_the_list(jms: Stage) -> None:
    asker = _Asker(jms)
    session = jms.connection().session()
    session.producer(jms.queue("Q.A")).sends("a")
    session.producer(jms.queue("Q.B")).sends("b", "c")
    asker.asks(f"{PREFIX}Destination.{_bare(jms.queue('Q'))}.>", **{LIST_END: True})
    sizes = sorted(str(asker.hears().get("size")) for _ in range(2))
    jms.writes("sizes", sizes)
    asker.hears()
    asker.ends()


def nothing_is_described_by_an_empty_map_alone(jms: Stage) -> None:
    asker = _Asker(jms)
    asker.asks(f"{PREFIX}Destination{_bare(jms.queue('NONE'))}{LIST_END}")
    asker.hears()
    asker.ends()


def the_broker_is_described(jms: Stage) -> None:
    asker = _Asker(jms)
    asker.asks(f"{PREFIX}Broker")
    asker.hears_of(("brokerName",))
    asker.ends()


def a_request_without_a_place_to_answer_is_a_message(jms: Stage) -> None:
    session = jms.connection().session()
    session.producer(f"{PREFIX}Broker").sends("a")
    session.consumer(f"{PREFIX}Broker").receives(1)
