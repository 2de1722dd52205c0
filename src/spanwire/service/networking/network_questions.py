"""The questions about messages between brokers of a network: why, trace and route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.broker.network_ports import LateAnswer
from spanwire.management.questions.questions import Questions, TraceCommands
from spanwire.network.reports import route_rows, trace_rows
from spanwire.network.reports.known_brokers import Peer, Row
from spanwire.network.reports.message_questions import Ask, MessageQuestions, QuestionKind

AskBrokers = Callable[[Peer, str, str, Sequence[str], float, str], Awaitable[str]]
TRACE: Final = QuestionKind(trace_rows.FIELD, trace_rows.MAX_ROWS, trace_rows.merged, trace_rows.failed)


class BrokerQuestions:
    """Answers other brokers, each kind of question in another way."""

    def __init__(self, kinds: Mapping[str, MessageQuestions]) -> None:
        self._kinds: Final = kinds

    def answer_later(self, action: str, text: str, asked: str, seconds: int, question: str, answer: LateAnswer) -> bool:
        """Answer a question of another broker. Return False at the limit of open questions of a kind."""
        return self._kinds[action].answer_later(text, asked, seconds, question, answer)


def questions_of_brokers(
    broker: Broker,
    peers: Callable[[], Sequence[Peer]],
    wake: Callable[[], None],
    questions: Questions,
    traces: TraceCommands,
) -> dict[str, MessageQuestions]:
    """Return the kinds of questions by name.

    Args:
        broker: the answering broker.
        peers: returns the brokers of the running links opened by the broker.
        wake: ends a turn of the loop soon.
        questions: explains messages of the broker.
        traces: observes messages of the broker, and answers dry runs.
    """
    clock = broker.environment

    async def ask_trace(peer: Peer, text: str, asked: Sequence[str], seconds: float, question: str) -> list[Row]:
        asked_ms = clock.now().wall_ms
        answer = await _ask(peer, "trace", text, asked, seconds, question)
        return trace_rows.with_offsets(trace_rows.read_answer(answer), peer.name, asked_ms, clock.now().wall_ms)

    async def ask_route(peer: Peer, text: str, asked: Sequence[str], seconds: float, question: str) -> list[Row]:
        return route_rows.read_answer(await _ask(peer, "route", text, asked, seconds, question))

    route = QuestionKind(
        route_rows.FIELD, route_rows.MAX_ROWS, route_rows.merged, route_rows.failed,
        partial(route_rows.chosen, broker.name),
    )  # fmt: skip
    return {
        "why": MessageQuestions(broker.name, questions.explanations, peers, _ask_why, clock, wake),
        "trace": MessageQuestions(broker.name, traces.own, peers, ask_trace, clock, wake, TRACE),
        "route": MessageQuestions(broker.name, traces.own_route, peers, ask_route, clock, wake, route),
    }


async def _ask_why(peer: Peer, message_id: str, asked: Sequence[str], seconds: float, question: str) -> list[Row]:
    """Ask a broker about a message; the first question loads the client."""
    return await cast("Ask", registry.load(registry.MESSAGE_QUESTION))(peer, message_id, asked, seconds, question)


async def _ask(peer: Peer, action: str, text: str, asked: Sequence[str], seconds: float, question: str) -> str:
    """Ask a broker a question of another kind, and return the answer."""
    ask = cast("AskBrokers", registry.load(registry.BROKERS_QUESTION))
    return await ask(peer, action, text, asked, seconds, question)
