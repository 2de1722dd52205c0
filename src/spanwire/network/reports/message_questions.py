"""Questions about messages, such as why a message does not move, passed on from broker to broker.

Questions go over the links. Each broker gives its own answer and asks the brokers of its own links, with their logins.
A question carries the names of the brokers already asked, and so ends in a network with loops. A question also carries
an id: a broker reached over several paths searches and asks others once, and adds no rows on the other paths.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spanwire.broker.network_ports import LateAnswer
from spanwire.model.errors import SpanwireError
from spanwire.network.reports.known_brokers import Peer
from spanwire.transports.base import Clock

logger = logging.getLogger(__name__)

Row = dict[str, object]
Explain = Callable[[str], Awaitable[list[Row]]]
Ask = Callable[[Peer, str, Sequence[str], float, str], Awaitable[list[Row]]]
ASK_S: Final = 20.0  # seconds for all brokers together
HOP_S: Final = 3.0  # seconds that a broker keeps for its own answer; so a question passes six brokers at most
MAX_AT_ONCE: Final = 8  # brokers asked at the same time
MAX_ASKED: Final = 500  # names of brokers in a question
MAX_PEERS: Final = 100  # brokers of links that one broker asks
MAX_ANSWERING: Final = 16  # questions of other brokers that are answered at the same time
MAX_REMEMBERED: Final = 1_000  # ids of questions remembered for `ASK_S`; the oldest makes room
ID_BYTES: Final = 16  # random bytes of an id
MAX_ROWS: Final = 200  # explanations in one answer
MAX_LINES: Final = 60  # pieces of evidence, and of advice, of one explanation
MAX_TEXT: Final = 1_000  # characters of a sentence, a piece of evidence or advice
MAX_ANSWER: Final = 1024 * 1024  # characters of an answer that is read
TEXTS: Final = ("broker", "subject", "cause", "sentence")
UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class QuestionKind:
    """Form of the answers to one kind of question.

    Attributes:
        field: the name of the rows in an answer.
        most: rows of one answer.
        merged: returns the rows of several brokers as one answer.
        failed: returns the row of a broker without an answer; the last argument is the reason.
        chosen: returns which brokers are asked.
    """

    field: str
    most: int
    merged: Callable[[Sequence[Row]], list[Row]]
    failed: Callable[[str, str, str], Row]
    chosen: Callable[[str, Sequence[Peer]], Sequence[Peer]] = lambda _, peers: peers


class MessageQuestions:
    """Answers questions of one kind for this broker and the brokers behind."""

    def __init__(
        self,
        name: str,
        explain: Explain,
        peers: Callable[[], Sequence[Peer]],
        ask: Ask,
        clock: Clock,
        wake: Callable[[], None],
        kind: QuestionKind | None = None,
    ) -> None:
        """Take the sources.

        Args:
            name: the name of this broker.
            explain: returns this broker's own answer to a question, such as its explanations of a message id.
            peers: returns the brokers of the running links opened here.
            ask: asks one such broker; raises `SpanwireError`.
            clock: has the time of an answer.
            wake: ends a turn of the loop soon, so that an answer goes out.
            kind: the kind of the questions; without it questions why.
        """
        self._kind: Final = WHY if kind is None else kind
        self._clock: Final = clock
        self._wake: Final = wake
        self._name: Final = name
        self._explain: Final = explain
        self._peers: Final = peers
        self._ask: Final = ask
        self._answering: Final[set[asyncio.Task[None]]] = set()
        self._remembered: Final[dict[str, float]] = {}  # monotonic seconds of the first time, by id, oldest first

    async def explain(
        self, message_id: str, asked: Sequence[str] = (), seconds: float = ASK_S, question: str = ""
    ) -> list[Row]:
        """Return the explanations of this broker, then the explanations of brokers behind.

        Brokers with knowledge of the message come before brokers without.

        Args:
            message_id: the id.
            asked: names of the brokers already asked.
            seconds: the time for all brokers together.
            question: the id of the question; a new one without.

        Returns:
            The explanations; none if the question has been here before.
        """
        question = question or secrets.token_hex(ID_BYTES)
        if self._is_repeated(question):
            return []
        left = seconds - HOP_S
        possible = self._kind.chosen(message_id, self._peers())
        peers = {peer.name: peer for peer in possible if peer.name not in asked and peer.name != self._name}
        chosen = list(peers.values())[:MAX_PEERS]
        if left <= 0 or not chosen or len(asked) + len(chosen) > MAX_ASKED:
            return await self._own(message_id)
        names = list(dict.fromkeys([*asked, self._name, *peers]))
        gate = asyncio.Semaphore(MAX_AT_ONCE)

        async def answer(peer: Peer) -> list[Row]:
            async with gate:
                return await self._answer_of(peer, message_id, names, left, question)

        answers = await asyncio.gather(self._own(message_id), *(answer(peer) for peer in chosen))
        return self._kind.merged([row for rows in answers for row in rows])

    async def _own(self, message_id: str) -> list[Row]:
        """Return this broker's own explanations; a refusal is an explanation, as others may know the message."""
        try:
            return await self._explain(message_id)
        except SpanwireError as error:
            return [self._kind.failed(self._name, message_id, str(error))]

    def _is_repeated(self, question: str) -> bool:
        """Remember a question. Return True if remembered already."""
        now = self._clock.now().monotonic
        remembered = self._remembered
        while remembered and (first := next(iter(remembered))) and remembered[first] + ASK_S <= now:
            del remembered[first]
        if question in remembered:
            return True
        if len(remembered) >= MAX_REMEMBERED:
            del remembered[next(iter(remembered))]
        remembered[question] = now
        return False

    async def _answer_of(
        self, peer: Peer, message_id: str, asked: Sequence[str], seconds: float, question: str
    ) -> list[Row]:
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(peer, message_id, asked, seconds, question)
        except TimeoutError:
            return [self._silent(peer, message_id, f"does not answer within {seconds:g} s")]
        except (SpanwireError, OSError) as error:
            return [self._silent(peer, message_id, f"cannot be asked: {error}")]

    def _silent(self, peer: Peer, message_id: str, reason: str) -> Row:
        """Return the row of a broker without an answer."""
        return self._kind.failed(peer.name, message_id, f"broker {peer.name} {reason}")

    def answer_later(self, message_id: str, asked: str, seconds: int, question: str, answer: LateAnswer) -> bool:
        """Answer the question of another broker. Return False if too many are being answered."""
        if len(self._answering) >= MAX_ANSWERING:
            return False
        names = [name for name in asked.split("\n") if name][:MAX_ASKED]
        task = asyncio.get_running_loop().create_task(self._answer(message_id, names, seconds, question, answer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return True

    async def _answer(
        self, message_id: str, asked: Sequence[str], seconds: int, question: str, answer: LateAnswer
    ) -> None:
        try:
            rows = await self.explain(message_id, asked, min(float(seconds), ASK_S), question)
        except Exception:
            logger.exception("the question about message %r failed", message_id[:200])
            rows = [self._kind.failed(self._name, message_id, "failed; its log says why")]
        answer.give(json.dumps({self._kind.field: rows[: self._kind.most]}), self._clock.now())
        self._wake()

    def stop(self) -> None:
        """Answer no more questions; may be called twice."""
        for task in self._answering:
            task.cancel()


def merged(rows: Sequence[Row]) -> list[Row]:
    """Return rows without repetitions, rows of brokers without knowledge of the message last."""
    seen: dict[str, Row] = {}
    for row in rows:
        seen.setdefault(json.dumps([row["broker"], row["cause"], row["sentence"]]), row)
    unique = list(seen.values())
    first = unique[:1]  # of the broker that was asked
    others = sorted(unique[1:], key=lambda row: row["cause"] == UNKNOWN)
    return [*first, *others][:MAX_ROWS]


def _row(broker: str, message_id: str, sentence: str) -> Row:
    return {
        "broker": broker[:MAX_TEXT],
        "subject": f"message {message_id}"[:MAX_TEXT],
        "cause": UNKNOWN,
        "sentence": sentence[:MAX_TEXT],
        "evidence": [],
        "advice": [],
    }


WHY: Final = QuestionKind("explanations", MAX_ROWS, merged, _row)


def read_explanations(text: str) -> list[Row]:
    """Return the explanations of an answer, without parts of another form.

    An answer holds claims of another broker.
    """
    if len(text) > MAX_ANSWER:
        return []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = content.get("explanations") if isinstance(content, dict) else None
    if not isinstance(found, list):
        return []
    return [_explanation(one) for one in found[:MAX_ROWS] if isinstance(one, dict)]


def _explanation(content: Mapping[str, object]) -> Row:
    evidence, advice = content.get("evidence"), content.get("advice")
    pieces = evidence[:MAX_LINES] if isinstance(evidence, list) else []
    lines = advice[:MAX_LINES] if isinstance(advice, list) else []
    return {
        **{name: _text(content, name) for name in TEXTS},
        "evidence": [_evidence(one) for one in pieces if isinstance(one, dict)],
        "advice": [one[:MAX_TEXT] for one in lines if isinstance(one, str)],
    }


def _evidence(content: Mapping[str, object]) -> Row:
    time_ms = content.get("time_ms")
    is_time = isinstance(time_ms, int) and not isinstance(time_ms, bool) and 0 <= time_ms < 1 << 53
    return {
        **{name: _text(content, name) for name in ("text", "broker", "object")},
        "time_ms": time_ms if is_time else 0,
    }


def _text(content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""
