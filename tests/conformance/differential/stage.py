"""A stage for dialogues between Java clients and a broker: every line of a scenario becomes a line of its transcript.

    def order_is_kept(jms: Stage) -> None:
        session = jms.connection().session()
        session.producer(jms.queue("Q")).sends("a", "b")
        session.consumer(jms.queue("Q")).receives(2)

What the client sees, message or exception, is written down and the scenario goes on; so the same scenario on two
brokers gives two transcripts that can be compared. Identities and points in time are left out of them.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from tests.support.java import JavaProcess

PATIENCE_MS: Final = 30_000  # for a message that comes; nobody waits that long for one that does not
SILENCE_MS: Final = 120  # how long to look for a message that should not come
# The silence that ends a drain lasts as long as so many answers of the broker take, on a slow machine accordingly.
ROUND_TRIPS_OF_SILENCE: Final = 20
# What a message has unless a transcript says otherwise.
USUAL: Final[dict[str, Any]] = {
    "kind": "text", "redelivered": False, "deliveries": 1, "persistent": True, "priority": 4, "expires": False,
    "timestamp": True, "correlation": None, "type": None, "reply_to": None, "group": None, "group_sequence": 0,
    "first_for_consumer": False, "user": None, "original": None, "transaction": False, "data": None, "about": None,
    "properties": {},
}  # fmt: skip
TMNOFLAGS: Final = 0
TMJOIN: Final = 0x00200000
TMENDRSCAN: Final = 0x00800000
TMSTARTRSCAN: Final = 0x01000000
TMSUSPEND: Final = 0x02000000
TMSUCCESS: Final = 0x04000000
TMRESUME: Final = 0x08000000
TMFAIL: Final = 0x20000000
_VARYING: Final = (
    (re.compile(r"ID:[\w.-]+?-\d+-\d{13}-\d+:\d+"), "ID:<conn>"),
    (re.compile(r"ID:[\w.-]+?-\d+-\d{13}-\d+"), "ID:<broker>"),
    (re.compile(r"(tcp|stomp)://[^\s?\"]+:\d+"), r"\1://HOST:PORT"),
    (re.compile(r"/127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"\b\d{13}\b"), "<millis>"),
    (re.compile(r'("scheduledJobId": "String )[^"]*'), r"\1<job>"),
    (re.compile(r'("usageCount": "[A-Z][a-z]+) [0-9]+'), r"\1 <bytes>"),
)

Counters = dict[str, int]


class Failed(Exception):
    """A request of a scenario was refused, and nothing further can be asked of what it was to make."""


class PlayedBroker(Protocol):
    """A broker on which scenarios are played."""

    @property
    def name(self) -> str:
        """Whose transcript this is."""
        ...

    def uri(self, options: str) -> str:
        """Its address for a Java client."""
        ...

    @property
    def stomp_port(self) -> int:
        """The port of its STOMP connector on this machine."""
        ...

    def counters(self, stage: Stage, queue: str) -> Counters:
        """What it counts of a destination, once nothing moves any more."""
        ...

    def restart(self, away_s: float) -> None:
        """Kill it as the machine would, and after so many seconds start it again on the same ports and data."""
        ...


class Stage:
    """One scenario on one broker. Writes everything down; compares nothing."""

    def __init__(self, java: JavaProcess, broker: PlayedBroker, scenario: str, patience_ms: int = PATIENCE_MS) -> None:
        self.scenario: Final = scenario
        self.patience_ms: Final = patience_ms
        self.transcript: Final[list[str]] = []
        self.broker: Final = broker
        self._java: Final = java
        self._names = 0

    def queue(self, name: str, options: str = "") -> str:
        """A queue of this scenario alone."""
        return f"queue://{self.scenario}.{name}{options}"

    def topic(self, name: str, options: str = "") -> str:
        """A topic of this scenario alone."""
        return f"topic://{self.scenario}.{name}{options}"

    def connection(self, options: str = "", **settings: Any) -> Connection:
        """A started connection, made with ``client_id``, ``user``, ``password``, ``xa`` or ``stopped``."""
        name = self.name("connection")
        self.step(
            f"{name} connects {options}".strip(),
            do="connect", uri=self.broker.uri(options), **{"as": name},
            clientId=settings.pop("client_id", None), **settings,
        )  # fmt: skip
        return Connection(self, name)

    def counts(self, destination: str) -> None:
        """Write down the counters of a destination."""
        self.settles()
        self.writes(f"counters of {destination}", self.broker.counters(self, destination))

    def settles(self) -> int:
        """Returns when the broker has answered every connection, and so taken all that was sent before; gives the
        milliseconds of silence after which nothing more is on its way.
        """
        started = time.monotonic()
        self.ask(do="flush")
        return 3 * SILENCE_MS + ROUND_TRIPS_OF_SILENCE * round((time.monotonic() - started) * 1_000)

    def passes(self, time_ms: int) -> None:
        """So much time passes."""
        threading.Event().wait(time_ms / 1_000)

    def restarts(self, away_ms: int = 0) -> None:
        """The broker is killed, and comes back after a time."""
        self.broker.restart(away_ms / 1_000)
        self.writes("the broker is killed and comes back", None)

    def tries(self, part: Callable[[], object]) -> None:
        """Play a part that may end at its first refusal."""
        try:
            part()
        except Failed:
            pass

    def name(self, kind: str) -> str:
        """A new name for something that the client is to keep."""
        self._names += 1
        return f"{kind} {self._names}"

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request to the client; its answer."""
        (answer,) = self._java.ask(json.dumps({key: value for key, value in request.items() if value is not None}))
        return answer

    def step(self, said: str, **request: Any) -> Any:
        """Ask and write down; raises `Failed` after a refusal."""
        answer = self.ask(**request)
        if "error" in answer:
            code = f" (code {answer['code']})" if "code" in answer else ""
            self.writes(said, f"{answer['error']}: {answer['text']}{code}", refused=True)
            raise Failed(said)
        self.writes(said, answer["result"])
        return answer["result"]

    def writes(self, said: str, outcome: Any, refused: bool = False) -> None:
        """One line of the transcript."""
        text = outcome if refused else json.dumps(outcome, ensure_ascii=False, sort_keys=True)
        line = f"{said} {'✗' if refused else '→'} {text}"
        for pattern, replacement in _VARYING:
            line = pattern.sub(replacement, line)
        self.transcript.append(line)

    def ends(self) -> None:
        """Close whatever the scenario left open."""
        self.ask(do="forget_all")


class _Kept:
    """Something that the client keeps under a name."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage: Final = stage
        self.name: Final = name

    def does(self, what: str, **request: Any) -> Any:
        """A request about it, refused or not; None when it is refused."""
        words = " ".join(str(value) for key, value in request.items() if value is not None and key != "as")
        try:
            return self.stage.step(f"{self.name}: {what} {words}".rstrip(), do=what, on=self.name, **request)
        except Failed:
            return None

    def closes(self) -> None:
        """Close it."""
        self.does("close")


class Connection(_Kept):
    """A JMS connection."""

    def session(self, mode: str = "auto") -> Session:
        """A session: auto, client, dups_ok, individual, transacted or xa."""
        name = self.stage.name("session")
        self.stage.step(
            f"{name} ({mode}) of {self.name}", do="session", connection=self.name, mode=mode, **{"as": name}
        )
        return Session(self.stage, name, self)

    def starts(self) -> None:
        """Deliver messages from now on."""
        self.does("start")

    def stops(self) -> None:
        """Deliver nothing for a while."""
        self.does("stop")

    def dies(self) -> None:
        """Go without a word."""
        self.does("die")

    def destroys(self, destination: str) -> None:
        """Remove a destination."""
        self.does("destroy", to=destination)

    def deletes(self, temporary: Temporary) -> None:
        """Delete a temporary destination that this connection may not own."""
        self.does("delete", to=temporary.name)

    def survives(self) -> None:
        """Whether the connection can still be used."""
        self.does("survives")

    def heard(self, count: int = 1) -> None:
        """What its exception listener was told; ``count`` 0: nothing within the time of silence."""
        timeout = self.stage.patience_ms if count else SILENCE_MS
        self.does("heard", count=count or 1, timeout=timeout)

    def raw(self, what: str, /, **request: Any) -> None:
        """A command that no well-behaved client sends."""
        words = " ".join(f"{key}={value}" for key, value in request.items())
        try:
            self.stage.step(f"{self.name}: raw {what} {words}", do=f"raw_{what}", connection=self.name, **request)
        except Failed:
            pass


class Session(_Kept):
    """A JMS session. What it makes raises `Failed` if that is refused; all else is written down and goes on."""

    def __init__(self, stage: Stage, name: str, connection: Connection) -> None:
        super().__init__(stage, name)
        self.connection: Final = connection

    def producer(self, destination: str | Temporary | None = None) -> Producer:
        """A producer, without a destination of its own if none is given."""
        name, to = self.stage.name("producer"), _address(destination)
        self.stage.step(f"{name} to {to}", do="producer", session=self.name, to=to, **{"as": name})
        return Producer(self.stage, name, self)

    def consumer(self, source: str | Temporary, selector: str | None = None, no_local: bool = False) -> Consumer:
        """A consumer."""
        name, to = self.stage.name("consumer"), _address(source)
        self.stage.step(
            f"{name} of {to}" + (f" with {selector}" if selector is not None else ""),
            do="consumer", session=self.name, to=to, selector=selector, noLocal=no_local, **{"as": name},
        )  # fmt: skip
        return Consumer(self.stage, name)

    def subscriber(
        self, topic: str | Temporary, subscription: str, selector: str | None = None, no_local: bool = False
    ) -> Consumer:
        """A durable subscriber."""
        name, to = self.stage.name("subscriber"), _address(topic)
        self.stage.step(
            f"{name} of {to} as {subscription}" + (f" with {selector}" if selector is not None else ""),
            do="subscriber", session=self.name, to=to, name=subscription, selector=selector, noLocal=no_local,
            **{"as": name},
        )  # fmt: skip
        return Consumer(self.stage, name)

    def temporary(self, topic: bool = False) -> Temporary:
        """A temporary queue or topic."""
        name = self.stage.name("temporary topic" if topic else "temporary queue")
        self.stage.step(name, do="temporary", session=self.name, topic=topic, **{"as": name})
        return Temporary(self.stage, name)

    def tries_consumer(self, source: str | Temporary, selector: str | None = None) -> None:
        """A consumer that may be refused."""
        self.stage.tries(lambda: self.consumer(source, selector))

    def tries_producer(self, destination: str | Temporary) -> None:
        """A producer that may be refused."""
        self.stage.tries(lambda: self.producer(destination))

    def tries_subscriber(self, topic: str | Temporary, subscription: str, selector: str | None = None) -> None:
        """A durable subscriber that may be refused."""
        self.stage.tries(lambda: self.subscriber(topic, subscription, selector))

    def browses(self, queue: str | Temporary, selector: str | None = None) -> None:
        """What a browser sees."""
        said = f"{self.name} browses {_address(queue)}" + (f" with {selector}" if selector is not None else "")
        answer = self.stage.ask(do="browse", session=self.name, to=_address(queue), selector=selector)
        if "error" in answer:
            self.stage.writes(said, f"{answer['error']}: {answer['text']}", refused=True)
        else:
            self.stage.writes(said, [_unusual(message) for message in answer["result"]])

    def commits(self) -> None:
        """Commit."""
        self.does("commit")

    def rolls_back(self) -> None:
        """Roll back."""
        self.does("rollback")

    def recovers(self) -> None:
        """Recover."""
        self.does("recover")

    def unsubscribes(self, subscription: str) -> None:
        """End a durable subscription."""
        self.does("unsubscribe", name=subscription)

    def begins(self, xid: str | None, flags: int = TMNOFLAGS) -> None:
        """Start or resume work in an XA branch."""
        self.does("xa_start", xid=self._xid(xid), flags=flags)

    def leaves(self, xid: str, flags: int = TMSUCCESS) -> None:
        """End or suspend work in an XA branch."""
        self.does("xa_end", xid=self._xid(xid), flags=flags)

    def prepares(self, xid: str) -> None:
        """Ask for the vote."""
        self.does("xa_prepare", xid=self._xid(xid))

    def commits_branch(self, xid: str, one_phase: bool = False) -> None:
        """Commit a branch."""
        self.does("xa_commit", xid=self._xid(xid), onePhase=one_phase)

    def rolls_branch_back(self, xid: str) -> None:
        """Roll a branch back."""
        self.does("xa_rollback", xid=self._xid(xid))

    def forgets(self, xid: str) -> None:
        """Forget a branch."""
        self.does("xa_forget", xid=self._xid(xid))

    def recovers_branches(self, flags: int = TMSTARTRSCAN | TMENDRSCAN) -> None:
        """The prepared branches of this scenario."""
        said = f"{self.name}: xa_recover {flags}"
        answer = self.stage.ask(do="xa_recover", on=self.name, flags=flags)
        if "error" in answer:
            self.stage.writes(said, f"{answer['error']}: {answer['text']}", refused=True)
        else:
            mine = self.stage.scenario + "."
            self.stage.writes(said, sorted(xid for xid in answer["result"] if xid.startswith(mine)))

    def _xid(self, name: str | None) -> str | None:
        return None if name is None else f"{self.stage.scenario}.{name}"


class Producer(_Kept):
    """A JMS producer."""

    def __init__(self, stage: Stage, name: str, session: Session) -> None:
        super().__init__(stage, name)
        self._session: Final = session

    def sends(self, *bodies: Any, kind: str = "text", quiet: bool = False, **headers: Any) -> None:
        """One message a body, with ``properties``, ``priority``, ``ttl``, ``volatile``, ``correlation``, ``type``,
        ``replyTo``, ``to``.
        """
        for key in ("to", "replyTo"):
            if isinstance(headers.get(key), Temporary):
                headers[key] = headers[key].name
        for body in bodies or (None,):
            request = {"do": "send", "session": self._session.name, "producer": self.name, "kind": kind, "body": body}
            shown = body if len(str(body)) < 40 else f"{len(str(body))} characters"
            said = f"{self.name} sends {shown}" + (f" {headers}" if headers and not quiet else "")
            self.stage.tries(lambda request=request, said=said: self.stage.step(said, **request, **headers))  # type: ignore[misc]


class Consumer(_Kept):
    """A JMS consumer."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.last: Message | None = None

    def receives(self, count: int = 1, silence: bool = False) -> list[Message]:
        """So many messages, each with all that is unusual about it; with ``silence`` none may follow."""
        kept: list[Message] = []
        for _ in range(count):
            message = self._receive(self.stage.patience_ms)
            if message is None:
                break
            kept.append(message)
        if silence:
            self._receive(SILENCE_MS)
        return kept

    def receives_nothing(self) -> None:
        """No message within the time of silence."""
        self._receive(SILENCE_MS)

    def receives_at_once(self) -> None:
        """What `receiveNoWait` gives."""
        self._receive(-1)

    def drains(self) -> None:
        """All that there is, in order, as one line of bodies."""
        bodies: list[str] = []
        while True:
            silence_ms = self.stage.settles()
            answer = self.stage.ask(
                do="receive", consumer=self.name, timeout=silence_ms, **{"as": self.stage.name("message")}
            )
            if "error" in answer or answer["result"] is None:
                break
            bodies.append(answer["result"]["body"])
        self.stage.writes(f"{self.name} drains", bodies)

    def skips(self) -> None:
        """Take all that there is and write nothing down: it depends on what was played before."""
        answer = self.stage.ask(do="receive", consumer=self.name, timeout=self.stage.settles())
        while answer.get("result") is not None:
            answer = self.stage.ask(do="receive", consumer=self.name, timeout=self.stage.settles())

    def acknowledges(self) -> None:
        """Acknowledge the last message and, with it, what its mode says."""
        assert self.last is not None
        self.last.acknowledges()

    def listens(self, fail: int = 0) -> Listener:
        """A listener that fails on the first ``fail`` deliveries."""
        name = self.stage.name("listener")
        self.stage.step(f"{name} of {self.name} fails {fail} times", do="listen", consumer=self.name, fail=fail,
                        **{"as": name})  # fmt: skip
        return Listener(self.stage, name)

    def listens_too(self, listener: Listener | None, by: str) -> Listener:
        """A listener that shares what it sees with ``listener``, if there is one already; each says who saw it."""
        name = self.stage.name("listener") if listener is None else listener.name
        self.stage.step(f"{name} of {self.name}", do="listen", consumer=self.name, by=by, **{"as": name})
        return Listener(self.stage, name)

    def _receive(self, timeout_ms: int) -> Message | None:
        name = self.stage.name("message")
        answer = self.stage.ask(do="receive", consumer=self.name, timeout=timeout_ms, **{"as": name})
        said = f"{self.name} receives"
        if "error" in answer:
            self.stage.writes(said, f"{answer['error']}: {answer['text']}", refused=True)
            return None
        self.stage.writes(said, _unusual(answer["result"]))
        if answer["result"] is None:
            return None
        self.last = Message(self.stage, name)
        return self.last


class Message(_Kept):
    """A received message."""

    def acknowledges(self) -> None:
        """Acknowledge it."""
        self.does("acknowledge")


class Listener(_Kept):
    """What a message listener saw."""

    def sees(self, count: int = 1, silence: bool = False) -> None:
        """The next deliveries."""
        for _ in range(count):
            self._next(self.stage.patience_ms)
        if silence:
            self._next(SILENCE_MS)

    def sees_rest(self, timeout_ms: int) -> None:
        """All further deliveries, until none comes for so long."""
        while (answer := self.stage.ask(do="heard", on=self.name, timeout=timeout_ms)).get("result") is not None:
            self.stage.writes(f"{self.name} sees", _unusual(answer["result"]))

    def _next(self, timeout_ms: int) -> None:
        answer = self.stage.ask(do="heard", on=self.name, timeout=timeout_ms)
        self.stage.writes(f"{self.name} sees", _unusual(answer.get("result")))


class Temporary(_Kept):
    """A temporary destination."""

    def deletes(self) -> None:
        """Its owner deletes it."""
        self.stage.tries(lambda: self.stage.step(f"{self.name}: deleted", do="delete_own", on=self.name))


def _address(destination: str | Temporary | None) -> str | None:
    return destination.name if isinstance(destination, Temporary) else destination


def _unusual(message: Any) -> Any:
    """A received message without what is as in any other."""
    if not isinstance(message, dict):
        return message
    unusual = {key: value for key, value in message.items() if key not in USUAL or value != USUAL[key]}
    if isinstance(message.get("about"), dict):
        unusual["about"] = _unusual(message["about"])
    return unusual


SLOW: Final[set[str]] = set()  # module.function


def slow(scenario: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Marks a scenario that takes more than a second, because a time passes or a broker starts again in it: it is
    `long`, and left to `make test-all`.
    """
    SLOW.add(f"{scenario.__module__.rpartition('.')[2]}.{scenario.__name__}")
    return scenario
