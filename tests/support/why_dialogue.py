"""Asks a broker of a dialogue why: the search runs to its end, and its reads are answered from the test's store."""

from __future__ import annotations

from spanwire.broker.explanation.explainer import Explainer
from spanwire.broker.explanation.explanation import Explanation
from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import subscription_key
from spanwire.model.destination import parse_destination
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import START_MS, Peer, Stage

MAX_STEPS = 10_000


def id_of(peer: Peer, number: int = 1) -> str:
    """The id of the ``number``-th message of a peer's producer."""
    return f"{peer.connection_id}:1:1:{number}"


def whys(stage: Stage, message_id: str, *links: LinkDescription, queue: str | None = None) -> list[Explanation]:
    """All answers about a message."""
    explainer = Explainer(stage.broker, START_MS)
    search = explainer.search(message_id, None if queue is None else parse_destination(queue))
    for _ in range(MAX_STEPS):
        if not search.step():
            break
    while (read := search.next_read()) is not None:
        search.take(read, stage.store.read(read.destination, read.sequences))
    return explainer.message(message_id, search, list(links), stage.now)


def why(stage: Stage, message_id: str, *links: LinkDescription) -> Explanation:
    """The only answer about a message; each has evidence and, if there is a cause, advice."""
    answers = whys(stage, message_id, *links)
    assert len(answers) == 1, [one.sentence for one in answers]
    assert answers[0].evidence
    assert answers[0].advice
    return answers[0]


def why_queue(stage: Stage, name: str, *links: LinkDescription) -> Explanation:
    found = stage.broker.find_destination(parse_destination(name))
    assert found is not None
    oldest: Message | None = None
    sequence = 0
    if isinstance(found, Queue):
        for sequence, oldest in found.oldest(1):
            if oldest is None:
                oldest = stage.store.read(found.name, [sequence])[0]
    return Explainer(stage.broker, START_MS).destination(found, oldest, sequence, list(links), stage.now)


def why_subscription(stage: Stage, client_id: str, name: str) -> Explanation:
    found = stage.broker.assembly.map.durables[subscription_key(client_id, name)]
    return Explainer(stage.broker, START_MS).subscription(found, None, 0, [], stage.now)


def why_connection(stage: Stage, peer: Peer) -> Explanation:
    return Explainer(stage.broker, START_MS).connection(peer.state, [], stage.now)


def said(explanation: Explanation) -> str:
    """Everything an explanation says, in one text."""
    evidence = [f"{one.seen_at}: {one.text}" for one in explanation.evidence]
    return "\n".join([explanation.sentence, *evidence, *explanation.advice])
