"""Random scenarios for JMS and STOMP clients, each by its seed: what `tests/soak/differential.py` plays on two brokers.

A scenario is a list of steps, each a word with what it is about. Whatever a step makes has a number, by which later
steps name it. So a scenario without one of its steps is a scenario, too: steps about what was not made do nothing.

Left out is what `docs/reference/deviations.md` lists as different, and what depends on the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Final

from tests.soak.vocabulary import (
    AGAIN,
    AGAIN_MS,
    CLIENT_OPTIONS,
    EXPIRED_MS,
    LIFE_MS,
    MODES,
    OWN,
    QUEUE_POLICIES,
    QUEUES,
    REDELIVERY,
    SELECTORS,
    STOMP_MODES,
    STOMP_VERSIONS,
    STOMP_WEIGHTS,
    TOGETHER,
    TOPIC,
    TOPIC_POLICIES,
    WEIGHTS,
    Scenario,
)

FAILS: Final = ("rollback", "recover", "listen")  # after these, messages may have failed
STOMP_HEADERS: Final = {
    "priority": ("0", "9", "7"), "colour": ("red", "blue"), "n": ("1", "3", "7"),
    "correlation-id": ("c",), "type": ("t",), "expires": ("0",), "JMSXGroupID": ("g",),
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
        self._temporaries: Final[list[int]] = []
        self._places: Final = self._choose_places()
        self._is_selective: Final = self._happens(0.25)  # with selectors and message groups
        self._is_volatile: Final = self._happens(0.3)
        self._has_stomp: Final = self._happens(0.25)
        self._weights: Final = WEIGHTS | (STOMP_WEIGHTS if self._has_stomp else {})
        self._stomps: Final[list[int]] = []
        self._subscribed: Final[list[tuple[int, int]]] = []  # a STOMP client and the number of its subscription

    def write(self) -> Scenario:
        self._connection()
        if self._happens(0.5):
            self._connection()
        self._session()
        self._session()
        if self._has_stomp:
            self._stomp()
            self._stomp_subscribe()
        writers = self._writers()
        total = self._random.randint(10, 24)
        tried = 0
        while tried < total:
            weights = [pair[0 if tried > total / 2 else 1] for pair in self._weights.values()]
            (kind,) = self._random.choices(list(self._weights), weights)
            before = len(self._steps)
            writers[kind]()
            tried += len(self._steps) > before  # there may be nothing yet that the step could be about
            if kind in FAILS and any(place == AGAIN or place.startswith("temp-queue") for place in self._places):
                self._steps.append(("pass", AGAIN_MS))
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

    def _writers(self) -> dict[str, Callable[[], None]]:
        """What writes each kind of step."""
        special = {name: getattr(self, f"_{name}") for name in self._weights if hasattr(self, f"_{name}")}
        return special | {
            "commit": partial(self._of_session, "commit", is_transacted=True),
            "rollback": partial(self._of_session, "rollback", is_transacted=True),
            "recover": partial(self._of_session, "recover", is_transacted=False),
            "close_consumer": partial(self._of_one, "close", self._consumers),
            "close_session": partial(self._of_one, "close", self._sessions),
            "close_connection": partial(self._of_one, "close", self._connections),
            "die": partial(self._of_one, "die", self._connections),
            "stop": partial(self._of_one, "stop", self._connections),
            "start": partial(self._of_one, "start", self._connections),
            "delete": partial(self._of_one, "delete", self._temporaries),
            "stomp_begin": partial(self._of_one, "stomp begin", self._stomps),
            "stomp_commit": partial(self._of_one, "stomp commit", self._stomps),
            "stomp_abort": partial(self._of_one, "stomp abort", self._stomps),
            "stomp_disconnect": partial(self._of_one, "stomp disconnect", self._stomps),
            "stomp_breaks": partial(self._of_one, "stomp breaks", self._stomps),
            "stomp_ack": partial(self._of_received, "stomp ack"),
            "stomp_nack": partial(self._of_received, "stomp nack"),
        }

    def _of_one(self, word: str, numbers: Iterable[int]) -> None:
        if chosen := list(numbers):
            self._steps.append((word, self._random.choice(chosen)))

    def _of_session(self, word: str, is_transacted: bool) -> None:
        self._of_one(word, [each for each, mode in self._sessions.items() if (mode == "transacted") == is_transacted])

    def _of_received(self, word: str) -> None:
        if self._stomps:
            self._steps.append((word, self._random.choice(self._stomps), self._random.choice((-1, -1, -1, -2, 0))))

    def _choose_places(self) -> list[str]:
        places: list[str] = []
        for _ in range(self._random.choice((1, 2, 2, 3))):
            (kind,) = self._random.choices(
                ("queue", "topic", "queue policy", "topic policy", "again", *TOGETHER),
                (5, 3, 4, 4, 0.7, 2, 1, 0.4, 0.4, 0.4),
            )
            if kind == "queue":
                places.append(self._random.choice(QUEUES))
            elif kind == "topic":
                places.append(TOPIC)
            elif kind == "queue policy":
                places.append(f"queue://{self._random.choice(QUEUE_POLICIES)}.{OWN}")
            elif kind == "topic policy":
                places.append(f"topic://{self._random.choice(TOPIC_POLICIES)}.{OWN}")
            elif kind == "again":
                places.append(AGAIN)
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
        if place in plain and not self._has_stomp and self._happens(0.06):
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

    def _browse(self) -> None:
        # Classic never ends a browser of one message at a time where windows have no extension.
        queues = [place for place in self._places if "queue://" in place and "CLOSED" not in place]
        if queues:
            selector = self._random.choice(SELECTORS) if self._happens(0.3) else None
            self._steps.append(("browse", self._any_session(), self._random.choice(queues), selector))

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
            place = self._random.choice([place for place in self._places if not place.startswith("temp-")])
            self._steps.append(("destroy", self._random.choice(self._connections), place))

    def _expire(self) -> None:
        copied = {place for places in TOGETHER.values() for place in places}  # Classic has a dead letter of one copy
        fit = [place for place in self._queues if place not in copied]  # a temporary one may end before that is noticed
        if not fit:
            return
        place = self._random.choice(fit)
        for _ in range(self._random.choice((1, 1, 2))):
            self._messages += 1
            headers = self._headers() | {"ttl": LIFE_MS}
            self._steps.append(("send", self._any_session(), place, self._messages, headers))
        self._steps.append(("pass", EXPIRED_MS))

    def _temporary(self) -> None:
        number = self._number()
        is_topic = self._happens(0.4)
        self._temporaries.append(number)
        self._places.append(f"temp-{'topic' if is_topic else 'queue'}://{number}")
        self._steps.append(("temporary", number, self._any_session(), is_topic))

    def _stomp(self) -> None:
        number = self._number()
        self._stomps.append(number)
        self._steps.append(("stomp connect", number, self._random.choice(STOMP_VERSIONS)))

    def _stomp_place(self) -> str:
        return self._random.choice([place for place in self._places if not place.startswith("temp-")])

    def _stomp_subscribe(self) -> None:
        if not self._stomps:
            return
        number, client = self._number(), self._random.choice(self._stomps)
        self._subscribed.append((client, number))
        headers = {"ack": self._random.choice(STOMP_MODES)}
        if self._happens(0.4):
            headers["activemq.prefetchSize"] = self._random.choice("123")
        if self._is_selective and self._happens(0.4):
            headers["selector"] = self._random.choice(SELECTORS)
        self._steps.append(("stomp subscribe", client, number, self._stomp_place(), headers))

    def _stomp_unsubscribe(self) -> None:
        if self._subscribed:
            self._steps.append(("stomp unsubscribe", *self._random.choice(self._subscribed)))

    def _stomp_send(self) -> None:
        if not self._stomps:
            return
        self._messages += 1
        headers: dict[str, str] = {"scenario": OWN} | ({} if self._is_volatile else {"persistent": "true"})
        for name, values in STOMP_HEADERS.items():
            if self._happens(0.3):
                headers[name] = self._random.choice(values)
        client = self._random.choice(self._stomps)
        self._steps.append(("stomp send", client, self._stomp_place(), self._messages, headers))

    def _stomp_receive(self) -> None:
        if self._stomps:
            self._steps.append(("stomp receive", self._random.choice(self._stomps), self._random.choice((1, 2, 9))))
