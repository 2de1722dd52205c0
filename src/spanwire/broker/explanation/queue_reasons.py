"""Reasons why pending messages of queues and durable subscriptions are not dispatched."""

from __future__ import annotations

from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.explanation.explanation import (
    CURSOR,
    DISPATCHING,
    EXCLUSIVE,
    GROUP_OWNER,
    MAX_NAMED,
    NO_CONSUMER,
    NO_LOCAL,
    NOT_PULLING,
    NOT_READABLE,
    NOT_READING,
    NOT_STARTED,
    PATH,
    PAUSED,
    PURGING,
    REPLAY,
    RETURNING,
    SELECTOR,
    START_WAIT,
    TTL,
    WINDOW_FULL,
    Explanation,
    age_text,
    counted,
    quoted,
    since_text,
)
from spanwire.broker.explanation.links import (
    LinkDescription,
    add_conduit,
    add_links,
    advise_held,
    advise_link,
    advise_window,
)
from spanwire.broker.explanation.verdicts import Verdict, Verdicts, consumer_text, window_text
from spanwire.broker.queue import inspection as inspected
from spanwire.broker.queue.inspection import QueueInspection
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.environment import Time
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message

RELEASE: Final = "spanwire pipeline release"
MAX_JUDGED: Final = 1_000  # consumers judged one by one for one message; a selector takes some microseconds


class QueueReasons:
    """Explains pending messages of the queues of one broker at one time."""

    def __init__(
        self, parts: BrokerAssembly, values: MessageEvaluationContext, links: list[LinkDescription], now: Time
    ) -> None:
        self._parts: Final[BrokerAssembly] = parts
        self._values: Final[MessageEvaluationContext] = values
        self._links: Final[list[LinkDescription]] = links
        self._now: Final[Time] = now

    def explain(self, queue: Queue, reference: MessageReference | None, subject: str, ahead: int) -> Explanation:
        """Return why the message of ``reference`` waits; with None why the queue does not dispatch."""
        where = self.title(queue)
        explanation = self._suspension(queue, subject, where)
        if explanation is None:
            if queue.consumer_count == 0:
                explanation = self._without_consumer(queue, reference, subject, where)
            elif reference is None:
                explanation = self._of_windows(queue, subject, where)
            else:
                explanation = self._of_consumers(queue, reference, subject, where)
        if reference is not None:
            self._describe(explanation, reference, where, ahead)
        return explanation

    def title(self, queue: Queue) -> str:
        """Return the name of a queue for people: of a durable subscription, client id and name."""
        if queue.name.kind == SUBSCRIPTION:
            durable = self._parts.map.durables.get(queue.name.name)
            if durable is not None:
                return f"subscription {durable.terms.name} of client {durable.terms.client_id}"
        return queue.name.qualified_name

    def _suspension(self, queue: Queue, subject: str, where: str) -> Explanation | None:
        """Return why the queue as a whole does not dispatch."""
        inspection = queue.inspect()
        reason = inspection.suspension(self._now.monotonic)
        if reason == inspected.PAUSED:
            return self._paused(queue, inspection, subject, where)
        if reason == inspected.RESERVED:
            return self._reserved(queue, subject, where)
        if reason == inspected.STARTING:
            return self._starting(queue, inspection, subject, where)
        now_ms = self._now.wall_ms
        if reason == inspected.RETURNING:
            explanation = Explanation(subject, RETURNING, f"{where} waits for older messages that return to it")
            explanation.saw("messages of a former consumer come back in slices", where, now_ms)
            explanation.advise("wait: dispatch goes on behind them")
            return explanation
        if reason == inspected.PURGING:
            explanation = Explanation(subject, PURGING, f"{where} is being purged, and dispatches nothing meanwhile")
            explanation.saw(f"{counted(queue.waiting(), 'message')} still here", where, now_ms)
            explanation.advise("wait for the end of the purge; messages that came after its start stay")
            return explanation
        return None

    def _paused(self, queue: Queue, inspection: QueueInspection, subject: str, where: str) -> Explanation:
        since = since_text(inspection.paused_at, self._now)
        explanation = Explanation(subject, PAUSED, f"{where} is paused{since}: it dispatches nothing")
        explanation.saw(f"paused by an operator{since}", where, self._now.wall_ms)
        explanation.advise(f"spanwire queue resume {quoted(queue.name.name)}")
        return explanation

    def _reserved(self, queue: Queue, subject: str, where: str) -> Explanation:
        explanation = Explanation(
            subject, CURSOR, f"an exclusive cursor has {where}: its consumers get no messages"
        )  # fmt: skip
        for cursor in self._parts.cursors.table.all():
            if cursor.destination == queue.name and cursor.exclusive:
                held = counted(len(cursor.reserved), "message")
                text = f"exclusive, of user {cursor.user or 'anonymous'}, {held} reserved"
                explanation.saw(text, f"cursor {cursor.name}", self._now.wall_ms)
                explanation.advise(release_advice(cursor.name))
        return explanation

    def _starting(self, queue: Queue, inspection: QueueInspection, subject: str, where: str) -> Explanation:
        policy = queue.policy.queue
        least = policy.consumers_before_dispatch_starts
        left = age_text(inspection.starts_at - self._now.monotonic + 0.999)
        enough = f", or with {counted(least, 'consumer')}" if least > 0 else ""
        explanation = Explanation(
            subject, START_WAIT, f"{where} waits for its first consumers: it dispatches in {left}{enough}"
        )
        explanation.saw(
            f"{counted(queue.consumer_count, 'consumer')} attached; consumersBeforeDispatchStarts is {least} "
            f"and timeBeforeDispatchStarts {policy.time_before_dispatch_starts_ms} ms",
            where,
            self._now.wall_ms,
        )
        explanation.advise("wait, start more consumers, or lower timeBeforeDispatchStarts of the policy")
        return explanation

    def _without_consumer(
        self, queue: Queue, reference: MessageReference | None, subject: str, where: str
    ) -> Explanation:
        now = self._now
        durable = self._parts.map.durables.get(queue.name.name) if queue.name.kind == SUBSCRIPTION else None
        if durable is not None:
            since = since_text(durable.offline_since, now)
            explanation = Explanation(
                subject, NO_CONSUMER, f"{where} has no subscriber{since}, and keeps its messages for it"
            )
            explanation.saw(f"inactive{since}", where, now.wall_ms)
            explanation.advise(
                f"connect client {durable.terms.client_id} and subscribe as {durable.terms.name}, or remove it: "
                f"spanwire subscription remove {quoted(durable.terms.client_id)} {quoted(durable.terms.name)}"
            )
            return explanation
        explanation = Explanation(subject, NO_CONSUMER, f"{where} has no consumer")
        explanation.saw("0 consumers, none of them a bridge", where, now.wall_ms)
        explanation.advise(f"start a consumer of {where}")
        message = None if reference is None else reference.message
        if self._links:
            cause = add_links(explanation, self._links, queue.name, message, now)
            if cause:
                explanation.cause = cause
                explanation.sentence = f"{where} has no consumer, and no link takes its messages ({cause})"
            else:
                explanation.sentence = f"{where} has no consumer here"
        return explanation

    def _of_windows(self, queue: Queue, subject: str, where: str) -> Explanation:
        """Explain a queue without looking at one message: by the room of its consumers."""
        verdicts = Verdicts(queue, self._values, self._now)
        judged = [verdicts.room(one) for one in queue.attached()[:MAX_JUDGED]]
        return self._judged(queue, judged, subject, where)

    def _of_consumers(self, queue: Queue, reference: MessageReference, subject: str, where: str) -> Explanation:
        verdicts = Verdicts(queue, self._values, self._now)
        judged = [verdicts.of(one, reference) for one in queue.attached()[:MAX_JUDGED]]
        explanation = self._judged(queue, judged, subject, where)
        if explanation.cause == SELECTOR:
            add_conduit(explanation, reference.message, queue.name, self._now)
        consumers = [one for one in judged if not one.subscription.info.network_subscription]
        if not consumers and self._links:  # bridges alone: other links have their own reasons
            bridges = {one.subscription.info.consumer_id.connection_id for one in judged}
            others = [link for link in self._links if link.connection_id not in bridges]
            add_links(explanation, others, queue.name, reference.message, self._now)
        return explanation

    def _judged(self, queue: Queue, judged: list[Verdict], subject: str, where: str) -> Explanation:
        nearest = min(judged, key=_rank)
        near = [one for one in judged if one.cause == nearest.cause]
        consumers = counted(queue.consumer_count, "consumer")
        sentence = f"{where} has {consumers}, none can take it now: {_summary(judged)}"
        cause = nearest.cause
        if cause == DISPATCHING:
            sentence = f"{where} is dispatching: {consumer_text(nearest.subscription)} has room"
        explanation = Explanation(subject, cause, sentence)
        owner = near[0].subscription
        if cause == WINDOW_FULL and len(judged) > len(near):
            for other in (EXCLUSIVE, GROUP_OWNER):  # the one that gets it has no room, others may not have it
                if any(one.cause == other for one in judged):
                    explanation.cause = other
                    what = "the exclusive consumer" if other == EXCLUSIVE else "the owner of its message group"
                    explanation.sentence = f"{consumer_text(owner)} is {what}, and {window_text(owner, self._now)}"
        for verdict in sorted(judged, key=_rank)[:MAX_NAMED]:
            explanation.saw(verdict.text, consumer_text(verdict.subscription), self._now.wall_ms)
        if len(judged) > MAX_NAMED:
            explanation.saw(f"{len(judged) - MAX_NAMED} more: {_summary(judged)}", where, self._now.wall_ms)
        for verdict in near[:MAX_NAMED]:
            self._advise(explanation, queue, verdict)
        return explanation

    def _advise(self, explanation: Explanation, queue: Queue, verdict: Verdict) -> None:
        cause, info = verdict.cause, verdict.subscription.info
        who = f"consumer {info.consumer_id}"
        name = queue.name.qualified_name
        link = self._link_of(info)
        if cause in (TTL, PATH):
            if link is not None:
                advise_link(explanation, link, cause, queue.name)
            explanation.advise(f"start a consumer of {name} at this broker")
        elif link is not None and cause in (WINDOW_FULL, NOT_READING):
            advise_window(explanation, link, queue.name)
        elif link is not None and cause == NOT_PULLING:
            advise_held(explanation, link, info.prefetch_size)
        elif cause in (WINDOW_FULL, NOT_READING):
            explanation.advise(
                f"see what {who} does: it must acknowledge; spanwire why connection {info.consumer_id.connection_id}"
            )
            explanation.advise(
                f"if it hangs, end it, so that others get its messages: spanwire consumer end {info.consumer_id}"
            )
        elif cause in ADVICE:
            explanation.advise(ADVICE[cause].format(who=who, name=name))

    def _link_of(self, info: ConsumerInfo) -> LinkDescription | None:
        """Return the link whose bridge has the consumer; None for the consumer of a client."""
        if not info.network_subscription:
            return None
        return next((one for one in self._links if one.connection_id == info.consumer_id.connection_id), None)

    def _describe(self, explanation: Explanation, reference: MessageReference, where: str, ahead: int) -> None:
        """Add headers and state of the message."""
        message, now = reference.message, self._now
        kind = "persistent" if message.persistent else "not persistent"
        explanation.saw(
            f"pending behind {counted(ahead, 'message')}; {kind}, priority {message.priority}", where, now.wall_ms
        )
        if message.timestamp_ms > 0:
            age = age_text((now.wall_ms - message.timestamp_ms) / 1000)
            explanation.saw(f"sent {age} ago by producer {message.producer_id}", where, message.timestamp_ms)
        if reference.redelivery_count > 0:
            explanation.saw(
                f"delivered {counted(reference.redelivery_count, 'time')} before, without an acknowledgement",
                where,
                now.wall_ms,
            )
        if message.expiration_ms > 0:
            left = age_text((message.expiration_ms - now.wall_ms) / 1000)
            explanation.saw(f"expires in {left}", where, now.wall_ms)
        if message.broker_path:
            explanation.saw(_path_text(message), where, now.wall_ms)


ADVICE: Final = {
    DISPATCHING: "ask again: it is offered to its consumers some messages at a time",
    SELECTOR: "start a consumer whose selector chooses the message, or move it: spanwire queue move {name} TARGET "
    "--selector \"JMSMessageID = 'ID'\"",
    NOT_STARTED: "{who} must start: call start() of its connection",
    NOT_PULLING: "{who} has prefetch 0: it gets a message with each receive()",
    GROUP_OWNER: "end the owner of the group, so that the group gets another consumer",
    EXCLUSIVE: "end the exclusive consumer, so that another one takes over",
    NO_LOCAL: "consume with another connection than the producer's, or without noLocal",
    NOT_READABLE: "give the user of {who} the right to read the topic, and let it subscribe again",
    REPLAY: "wait, or end the consumers here that want it",
}


def release_advice(cursor: str) -> str:
    """Return the remedy for the reservation of a cursor."""
    return f"let the program that reads by cursor {cursor} go on, or give its messages back: {RELEASE} {quoted(cursor)}"


def _rank(verdict: Verdict) -> int:
    return verdict.rank


def _summary(judged: list[Verdict]) -> str:
    counts: dict[str, int] = {}
    for verdict in sorted(judged, key=_rank):
        counts[verdict.cause] = counts.get(verdict.cause, 0) + 1
    return ", ".join([f"{count} {cause}" for cause, count in counts.items()])


def _path_text(message: Message) -> str:
    return f"came through the brokers {', '.join(message.broker_path)}"
