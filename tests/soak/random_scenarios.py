"""Random scenarios for JMS and STOMP clients, each by its seed: what `tests/soak/differential.py` plays on two brokers.

A scenario is a list of steps, each a word with what it is about. Whatever a step makes has a number, by which later
steps name it. So a scenario without one of its steps is a scenario, too: steps about what was not made do nothing.

Left out is what `docs/reference/deviations.md` lists as different, and what depends on the moment.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

Step = tuple[Any, ...]  # a word and what it is about, as JSON has it
Scenario = list[Step]

OWN: Final = "{s}"  # stands for the name of the scenario
ONE_OF: Final = "{k}"  # stands for the number of one of the composites
QUEUES: Final = ("queue://{s}.Q", "queue://{s}.R")
TOPIC: Final = "topic://{s}.T"
QUEUE_POLICIES: Final = (
    "PRIO", "STRICT", "EXCLUSIVE", "FEW", "OWNDLQ", "NODLQ", "TOPICDLQ", "PULLED", "CLOSED", "BROWSEDFEW", "TOLD",
    "KEEPVOLATILE", "BROWSED",
)  # fmt: skip
TOPIC_POLICIES: Final = (
    "LASTTWO", "IMAGE", "PENDING", "PULLED", "OWNDLQ", "EACHDLQ", "DURABLEFEW", "FEWOUT", "TOLD", "KEPTBYTES", "UNIQUE",
    "LOWFIRST", "NOLIMIT", "RANKED", "CLOSED",
)  # fmt: skip
TOGETHER: Final = {  # destinations of which one leads to the others
    "virtual topic": (
        "topic://VirtualTopic.{s}", "queue://Consumer.A.VirtualTopic.{s}", "queue://Consumer.B.VirtualTopic.{s}",
    ),
    "picky topic": ("topic://Picky.{s}", "queue://Group.A.Picky.{s}"),
    "composite queue": ("queue://CQ.{k}", "queue://CQA.{k}", "topic://CQT.{k}"),
    "forwarding queue": ("queue://FQ.{k}", "queue://FQA.{k}", "topic://FQT.{k}"),
    "composite topic": ("topic://CT.{k}", "queue://CTR.{k}", "topic://CTB.{k}"),
}  # fmt: skip
MODES: Final = ("auto", "auto", "client", "client", "dups_ok", "individual", "individual", *["transacted"] * 3)
SELECTORS: Final = (
    "n > 2", "colour = 'red'", "colour IS NULL OR colour <> 'blue'", "JMSPriority > 4", "n BETWEEN 1 AND 4",
    "JMSXGroupID IS NULL", "colour LIKE 'r%'", "n IN (1, 3, 5)", "NOT (colour = 'red')", "JMSType = 't'",
)  # fmt: skip
REDELIVERY: Final = (
    "jms.redeliveryPolicy.initialRedeliveryDelay=10&jms.redeliveryPolicy.redeliveryDelay=10"
    "&jms.redeliveryPolicy.maximumRedeliveries="
)
CLIENT_OPTIONS: Final = (
    "jms.dispatchAsync=false", "jms.alwaysSessionAsync=false", "jms.useCompression=true",
    "jms.watchTopicAdvisories=false", "jms.optimizeAcknowledge=true", "jms.alwaysSyncSend=true",
    "jms.useRetroactiveConsumer=true", "jms.transactedIndividualAck=true", "jms.sendAcksAsync=false",
    "jms.messagePrioritySupported=true", "jms.nonBlockingRedelivery=true",
)  # fmt: skip
WEIGHTS: Final = {  # how often a kind of step is tried, and how often in the first half of a scenario
    "session": (1.5, 1.5), "consumer": (3, 5), "subscriber": (1.5, 2), "send": (14, 14), "receive": (12, 9),
    "acknowledge": (4, 3), "commit": (3, 3), "rollback": (3, 2), "recover": (1.5, 1), "close_consumer": (1.5, 0.3),
    "close_session": (0.7, 0.1), "close_connection": (0.4, 0.05), "die": (0.5, 0.1), "browse": (1.5, 1),
    "counts": (2, 2), "unsubscribe": (0.6, 0.2), "listen": (0.7, 0.7), "stop": (0.3, 0.05), "start": (0.3, 0.3),
    "destroy": (0.2, 0.05), "connection": (0.2, 0.4),
}  # fmt: skip


def scenario_of(seed: int) -> Scenario:
    """The scenario of this ``seed``."""
    return _Writer(Random(seed)).write()


class _Writer:
    """One scenario while it is written."""

    def __init__(self, random: Random) -> None:
        self._random: Final = random
        self._steps: Final[Scenario] = []
        self._numbers = 0
        self._messages = 0
        self._connections: Final[list[int]] = []
        self._sessions: Final[dict[int, str]] = {}  # number -> mode
        self._consumers: Final[dict[int, str]] = {}  # number -> mode of the session
        self._subscriptions: Final[list[str]] = []
        self._places: Final = self._choose_places()
        self._is_selective: Final = self._happens(0.25)  # with selectors and message groups
        self._is_volatile: Final = self._happens(0.3)

    def write(self) -> Scenario:
        self._connection()
        if self._happens(0.5):
            self._connection()
        self._session()
        self._session()
        total = self._random.randint(10, 24)
        for at in range(total):
            weights = [pair[0 if at > total / 2 else 1] for pair in WEIGHTS.values()]
            (kind,) = self._random.choices(list(WEIGHTS), weights)
            write: Callable[[], None] = getattr(self, f"_{kind}")
            write()
        queues = self._queues
        return [
            *self._steps,
            *[("counts", queue) for queue in queues],
            ("end",),
            *[("left", queue) for queue in queues],
            ("dead letters",),
        ]

    @property
    def _queues(self) -> list[str]:
        return [place for place in self._places if place.startswith("queue")]

    @property
    def _topics(self) -> list[str]:
        return [place for place in self._places if place.startswith("topic")]

    def _choose_places(self) -> list[str]:
        places: list[str] = []
        for _ in range(self._random.choice((1, 2, 2, 3))):
            (kind,) = self._random.choices(
                ("queue", "topic", "queue policy", "topic policy", *TOGETHER), (5, 3, 4, 4, 2, 1, 0.4, 0.4, 0.4)
            )
            if kind == "queue":
                places.append(self._random.choice(QUEUES))
            elif kind == "topic":
                places.append(TOPIC)
            elif kind == "queue policy":
                places.append(f"queue://{self._random.choice(QUEUE_POLICIES)}.{OWN}")
            elif kind == "topic policy":
                places.append(f"topic://{self._random.choice(TOPIC_POLICIES)}.{OWN}")
            else:
                places += TOGETHER[kind]
        return list(dict.fromkeys(places))

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _connection(self) -> None:
        options = self._random.choice(("", "", "", "", "0", "1", "1", "1", "2", "7"))
        parts = [f"jms.prefetchPolicy.all={options}"] if options else []
        if self._happens(0.8):
            parts.append(REDELIVERY + self._random.choice(("0", "1", "1", "2", "6", "-1")))
        parts += [option for option in CLIENT_OPTIONS if self._happens(0.04)]
        number = self._number()
        self._connections.append(number)
        self._steps.append(("connection", number, "&".join(parts)))

    def _session(self) -> None:
        number, mode = self._number(), self._random.choice(MODES)
        self._sessions[number] = mode
        self._steps.append(("session", number, self._random.choice(self._connections), mode))

    def _any_session(self) -> int:
        return self._random.choice(list(self._sessions))

    def _source(self) -> str:
        place = self._random.choice(self._places)
        if place == TOPIC and self._happens(0.15):
            place = "topic://{s}.*"
        options = []
        if self._happens(0.15):
            options.append("consumer.priority=" + self._random.choice(("5", "9", "-3")))
        if place.startswith("queue") and self._happens(0.12):
            options.append("consumer.exclusive=true")
        if self._happens(0.2):
            options.append("consumer.prefetchSize=" + self._random.choice("0123"))
        if place.startswith("topic") and self._happens(0.15):
            options.append("consumer.retroactive=true")
        return place + ("?" + "&".join(options) if options else "")

    def _consumer(self) -> None:
        number, session = self._number(), self._any_session()
        self._consumers[number] = self._sessions[session]
        selector = self._random.choice(SELECTORS) if self._is_selective and self._happens(0.4) else None
        self._steps.append(("consumer", number, session, self._source(), selector, self._happens(0.06)))

    def _subscriber(self) -> None:
        if not self._topics:
            return
        number, session, name = self._number(), self._any_session(), self._random.choice(("s1", "s1", "s2"))
        self._consumers[number] = self._sessions[session]
        self._subscriptions.append(name)
        selector = self._random.choice(SELECTORS) if self._happens(0.15) else None
        topic = self._random.choice(self._topics)
        self._steps.append(("subscriber", number, session, topic, name, selector, self._happens(0.05)))

    def _send(self) -> None:
        place, session = self._random.choice(self._places), self._any_session()
        plain = [each for each in self._places if OWN in each and "Topic" not in each and "Picky" not in each]
        if place in plain and self._happens(0.06):
            place = ",".join(dict.fromkeys((place, self._random.choice(plain))))
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            self._messages += 1
            self._steps.append(("send", session, place, self._messages, self._headers()))

    def _headers(self) -> dict[str, Any]:
        properties: dict[str, Any] = {"n": ["int", self._messages], "scenario": OWN}
        headers: dict[str, Any] = {"properties": properties}
        if self._happens(0.5):
            properties["colour"] = self._random.choice(("red", "blue", "green"))
        if self._is_selective and self._happens(0.25):
            properties["JMSXGroupID"] = self._random.choice("gh")
            if self._happens(0.5):
                properties["JMSXGroupSeq"] = ["int", self._random.choice((2, 3))]
        if self._happens(0.1):
            properties["stock"] = self._random.choice("xy")
        if self._happens(0.2):
            headers["priority"] = self._random.choice((0, 9, 5, 7))
        for name, value in (("ttl", 600_000), ("type", "t"), ("correlation", "c")):
            if self._happens(0.1):
                headers[name] = value
        if self._happens(0.05):
            headers["replyTo"] = self._random.choice(self._places)
        if self._is_volatile:
            headers["volatile"] = True
        return headers

    def _receive(self) -> None:
        if self._consumers:
            self._steps.append(
                ("receive", self._random.choice(list(self._consumers)), self._random.choice((1, 1, 2, 3, 9)))
            )

    def _acknowledge(self) -> None:
        fit = [number for number, mode in self._consumers.items() if mode in ("client", "individual")]
        if fit:
            self._steps.append(("acknowledge", self._random.choice(fit), self._random.choice((-1, -1, -1, -2, 0))))

    def _of_sessions(self, word: str, is_transacted: bool) -> None:
        fit = [number for number, mode in self._sessions.items() if (mode == "transacted") == is_transacted]
        if fit:
            self._steps.append((word, self._random.choice(fit)))

    def _commit(self) -> None:
        self._of_sessions("commit", is_transacted=True)

    def _rollback(self) -> None:
        self._of_sessions("rollback", is_transacted=True)

    def _recover(self) -> None:
        self._of_sessions("recover", is_transacted=False)

    def _close_consumer(self) -> None:
        if self._consumers:
            self._steps.append(("close", self._random.choice(list(self._consumers))))

    def _close_session(self) -> None:
        self._steps.append(("close", self._any_session()))

    def _close_connection(self) -> None:
        self._steps.append(("close", self._random.choice(self._connections)))

    def _die(self) -> None:
        self._steps.append(("die", self._random.choice(self._connections)))

    def _stop(self) -> None:
        self._steps.append(("stop", self._random.choice(self._connections)))

    def _start(self) -> None:
        self._steps.append(("start", self._random.choice(self._connections)))

    def _browse(self) -> None:
        if self._queues:
            selector = self._random.choice(SELECTORS) if self._happens(0.3) else None
            self._steps.append(("browse", self._any_session(), self._random.choice(self._queues), selector))

    def _counts(self) -> None:
        if self._queues:
            self._steps.append(("counts", self._random.choice(self._queues)))

    def _unsubscribe(self) -> None:
        if self._subscriptions:
            self._steps.append(("unsubscribe", self._any_session(), self._random.choice(self._subscriptions)))

    def _listen(self) -> None:
        if self._consumers:
            self._steps.append(
                ("listen", self._random.choice(list(self._consumers)), self._random.choice((0, 0, 1, 2, 9)))
            )

    def _destroy(self) -> None:
        if "transacted" not in self._sessions.values():
            self._steps.append(("destroy", self._random.choice(self._connections), self._random.choice(self._places)))
