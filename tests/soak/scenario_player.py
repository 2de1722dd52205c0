"""Play a scenario of `tests/soak/random_scenarios.py` on one broker: what its clients see, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tests.conformance.differential.stage import (
    Connection,
    Consumer,
    Failed,
    Listener,
    Message,
    PlayedBroker,
    Producer,
    Session,
    Stage,
    Temporary,
)
from tests.soak.stomp_player import StompClients
from tests.soak.vocabulary import ONE_OF, OWN, Scenario, Step
from tests.support.java import JavaProcess

NOTHING_MS: Final = 250  # after which no message is expected any more
HEARD_MS: Final = 60  # the same for a listener, after each step
# A pause after each step and each message. Both brokers dispatch and take acknowledgements after they have answered.
SETTLED_S: Final = 0.015
GONE_S: Final = 0.1  # after a connection that goes without a word, and for a new listener
COMPOSITES: Final = 200  # of each kind; a later scenario uses the first one again, once it was emptied
DEAD_LETTERS: Final = (
    ("queue://ActiveMQ.DLQ", "scenario = '{s}'"), ("queue://DLQ.OWNDLQ.{s}", None),
    ("queue://KEPT.DLQ", "scenario = '{s}'"),
)  # fmt: skip


def play(java: JavaProcess, broker: PlayedBroker, scenario: Scenario, number: int) -> list[list[str]]:
    """The lines of the transcript that each step has added. ``number`` gives the scenario its destinations."""
    player = _Player(Stage(java, broker, f"r{number}", NOTHING_MS), number)
    played: list[list[str]] = []
    try:
        for step in scenario:
            played.append(player.play(step))
    except RuntimeError as error:  # the client has no answer; another one takes its place
        played.append([str(error)])
    player.ends()
    return played + [[] for _ in scenario[len(played) :]]


def named(value: Any, scenario: str, number: int) -> Any:
    """The value with the name of the scenario in place of what stands for it."""
    if isinstance(value, str):
        return value.replace(OWN, scenario).replace(ONE_OF, str(number % COMPOSITES))
    if isinstance(value, dict):
        return {key: named(each, scenario, number) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [named(each, scenario, number) for each in value]
    return value


class _Player:
    """The clients of one scenario. Methods have the words of the steps as names."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage: Final = stage
        self._number: Final = number
        self._made: Final[dict[int, Any]] = {}
        self._producers: Final[dict[tuple[int, str], Producer]] = {}
        self._received: Final[dict[int, list[Message]]] = {}
        self._listeners: Final[dict[int, Listener]] = {}
        self._stomp: Final = StompClients(stage, stage.broker.stomp_port)
        self._connection_of: Final[dict[int, int]] = {}  # of sessions and consumers
        self._stopped: Final[set[int]] = set()
        self._last: Session | None = None

    def play(self, step: Step) -> list[str]:
        """Play one step; the lines that it adds to the transcript."""
        before = len(self.stage.transcript)
        word, *about = named(step, self.stage.scenario, self._number)
        name = word.replace(" ", "_")
        if name.startswith("stomp_"):
            act: Callable[..., None] = getattr(self._stomp, name.removeprefix("stomp_"))
        else:
            act = getattr(self, f"_{name}")
        try:
            act(*about)
        except Failed:
            pass  # the refusal is in the transcript
        if word != "counts":
            self._settles()
        for listener in self._listeners.values():
            listener.sees_rest(HEARD_MS)
        return self.stage.transcript[before:]

    def ends(self) -> None:
        """Close what is still open."""
        self._stomp.close_all()
        self.stage.ends()

    def _settles(self) -> None:
        self.stage.ask(do="flush")
        time.sleep(SETTLED_S)

    def _connection(self, number: int, options: str) -> None:
        self._made[number] = self.stage.connection(options, client_id=f"{self.stage.scenario}.{number}")

    def _session(self, number: int, connection: int, mode: str) -> None:
        if connection in self._made:
            self._made[number] = self._made[connection].session(mode)
            self._connection_of[number] = connection

    def _temporary(self, number: int, session: int, is_topic: bool) -> None:
        if session in self._made:
            self._made[number] = self._made[session].temporary(is_topic)

    def _delete(self, temporary: int) -> None:
        if temporary in self._made:
            self._made[temporary].deletes()

    def _place(self, place: str) -> str | Temporary | None:
        """The destination; None for a temporary one that was not made."""
        kind, _, number = place.partition("://")
        if not kind.startswith("temp-"):
            return place
        made: Temporary | None = self._made.get(int(number.partition("?")[0]))
        return made

    def _consumer(self, number: int, session: int, source: str, selector: str | None, no_local: bool) -> None:
        place = self._place(source)
        if session in self._made and place is not None:
            self._made[number] = self._made[session].consumer(place, selector, no_local)
            self._connection_of[number] = self._connection_of[session]

    def _subscriber(
        self, number: int, session: int, topic: str, name: str, selector: str | None, no_local: bool
    ) -> None:
        if session in self._made:
            self._made[number] = self._made[session].subscriber(topic, name, selector, no_local)
            self._connection_of[number] = self._connection_of[session]

    def _send(self, session: int, place: str, message: int, headers: dict[str, Any]) -> None:
        to = self._place(place)
        if session not in self._made or to is None:
            return
        if "replyTo" in headers:
            headers["replyTo"] = self._place(headers["replyTo"])
        if (session, place) not in self._producers:
            self._producers[session, place] = self._made[session].producer(to)
        self._producers[session, place].sends(f"m{message}", quiet=True, **headers)

    def _receive(self, consumer: int, count: int) -> None:
        if consumer not in self._made or consumer in self._listeners:
            return
        if self._connection_of[consumer] in self._stopped:
            return  # the Java client would wait for ever for what it has asked the broker for
        for _ in range(count):
            if not (messages := self._made[consumer].receives()):
                break
            self._received.setdefault(consumer, []).extend(messages)
            self._settles()

    def _acknowledge(self, consumer: int, which: int) -> None:
        messages = self._received.get(consumer, [])
        if messages and len(messages) >= -which:
            messages[which].acknowledges()

    def _does(self, number: int, what: str) -> None:
        if number in self._made:
            self._made[number].does(what)

    def _commit(self, session: int) -> None:
        self._does(session, "commit")

    def _rollback(self, session: int) -> None:
        self._does(session, "rollback")

    def _recover(self, session: int) -> None:
        self._does(session, "recover")

    def _close(self, number: int) -> None:
        self._does(number, "close")

    def _stop(self, connection: int) -> None:
        self._does(connection, "stop")
        self._stopped.add(connection)

    def _start(self, connection: int) -> None:
        self._does(connection, "start")
        self._stopped.discard(connection)

    def _die(self, connection: int) -> None:
        self._does(connection, "die")
        time.sleep(GONE_S)

    def _browse(self, session: int, queue: str, selector: str | None) -> None:
        place = self._place(queue)
        if place is not None and session in self._made and self._connection_of[session] not in self._stopped:
            self._made[session].browses(place, selector)

    def _counts(self, queue: str) -> None:
        self.stage.counts(queue)

    def _unsubscribe(self, session: int, name: str) -> None:
        if session in self._made:
            self._made[session].unsubscribes(name)

    def _listen(self, consumer: int, failures: int) -> None:
        if consumer in self._made:
            self._listeners[consumer] = self._made[consumer].listens(failures)
            time.sleep(GONE_S)

    def _destroy(self, connection: int, place: str) -> None:
        if connection in self._made:
            self._made[connection].destroys(place)

    def _end(self) -> None:
        """Every connection is closed, in silence: some are so already."""
        for made in self._made.values():
            if isinstance(made, Connection):
                self.stage.ask(do="close", on=made.name)
        self._listeners.clear()
        self._stomp.close_all()

    def _pass(self, time_ms: int) -> None:
        self.stage.passes(time_ms)

    def _session_at_the_end(self) -> Session:
        if self._last is None:
            self._last = self.stage.connection().session()
        return self._last

    def _left(self, queue: str) -> None:
        """What is left of a queue: counted, browsed, received, counted."""
        session = self._session_at_the_end()
        self.stage.counts(queue)
        session.browses(queue)
        self._empties(session.consumer(queue))
        self.stage.counts(queue)

    def _dead_letters(self) -> None:
        session = self._session_at_the_end()
        for queue, selector in named(DEAD_LETTERS, self.stage.scenario, self._number):
            self._empties(session.consumer(queue, selector))

    def _empties(self, consumer: Consumer) -> None:
        while consumer.receives():
            pass
        consumer.closes()
