"""Reasons why queues, topics, durable subscriptions, connections and links bring no messages on."""

from __future__ import annotations

from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.explanation.explanation import (
    EMPTY,
    HEALTHY,
    LINK_DOWN,
    MAX_NAMED,
    NO_DEMAND,
    NO_MEMORY,
    NO_SUBSCRIBER,
    NOT_PULLING,
    NOT_READING,
    NOT_STARTED,
    REFUSED,
    TRANSACTION,
    UNACKNOWLEDGED,
    WINDOW_FULL,
    Explanation,
    age_text,
    counted,
    quoted,
    since_text,
    wall_of,
)
from spanwire.broker.explanation.links import RUNNING, LinkDescription, add_links, advise_window
from spanwire.broker.explanation.queue_reasons import QueueReasons
from spanwire.broker.explanation.verdicts import consumer_text, window_text
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.topic import Topic
from spanwire.model.environment import Time
from spanwire.model.message import Message

LONG_S: Final = (
    30.0  # seconds without an acknowledgement after which a consumer is named, ActiveMQ's maxTimeSinceLastAck
)
PULL_ADVICE: Final = (
    "a client gets a message with each receive(); a bridge of another broker asks for none: set prefetchSize of its "
    "network connector to 1 or more"
)


class ObjectReasons:
    """Explains the objects of one broker at one time."""

    def __init__(
        self, parts: BrokerAssembly, values: MessageEvaluationContext, links: list[LinkDescription], now: Time
    ) -> None:
        self._parts: Final[BrokerAssembly] = parts
        self._links: Final[list[LinkDescription]] = links
        self._now: Final[Time] = now
        self._queues: Final[QueueReasons] = QueueReasons(parts, values, links, now)

    def queue(self, queue: Queue, oldest: Message | None, sequence: int, subject: str) -> Explanation:
        """Return why the oldest message of a queue waits; ``oldest`` None without a readable message."""
        now, where = self._now, self._queues.title(queue)
        waiting = queue.waiting()
        if waiting == 0:
            return self._none_waits(queue, subject, where)
        reference = None
        if oldest is not None:
            reference = self._reference(queue, oldest, sequence)
        explanation = self._queues.explain(queue, reference, subject, 0)
        explanation.saw(
            f"{counted(waiting, 'message')} pending, {queue.in_flight} in flight, {queue.enqueued} received and "
            f"{queue.dequeued} acknowledged since the start",
            where,
            now.wall_ms,
        )
        if oldest is not None:
            explanation.saw(f"the oldest pending message is {oldest.message_id}", where, now.wall_ms)
        return explanation

    def _reference(self, queue: Queue, message: Message, sequence: int) -> MessageReference:
        return queue.from_disk(message, sequence)

    def _none_waits(self, queue: Queue, subject: str, where: str) -> Explanation:
        now = self._now
        out = queue.out(1)
        if not out:
            explanation = Explanation(subject, EMPTY, f"{where} has no messages")
            text = f"0 pending, 0 in flight, {queue.enqueued} received since the start, {queue.producers} producers now"
            explanation.saw(text, where, now.wall_ms)
            if queue.in_flight > 0:
                explanation.cause = TRANSACTION
                explanation.sentence = (
                    f"{where} has {counted(queue.in_flight, 'message')} in transactions or at cursors"
                )
                explanation.advise("spanwire transaction list, and spanwire pipeline cursors, list who has them")
            else:
                explanation.advise("check that producers send to this name, and to this broker")
            return explanation
        oldest = min([reference.dispatched_at for reference in queue.out(queue.in_flight)])
        since = since_text(oldest, now)
        explanation = Explanation(
            subject, UNACKNOWLEDGED,
            f"{where} has dispatched all messages; {queue.in_flight} are unacknowledged, the oldest{since}",
        )  # fmt: skip
        for subscription in queue.attached()[:MAX_NAMED]:
            self._saw_consumer(explanation, subscription)
        return explanation

    def _saw_consumer(self, explanation: Explanation, subscription: Subscription) -> None:
        out = subscription.in_flight.all_out()
        if not out:
            return
        now, first = self._now, out[0].dispatched_at
        text = f"{counted(len(out), 'message')} unacknowledged, the oldest{since_text(first, now)}"
        explanation.saw(text, consumer_text(subscription), wall_of(first, now) if first else now.wall_ms)
        if first and now.monotonic - first >= LONG_S:
            explanation.advise(f"if it hangs, end it: spanwire consumer end {subscription.info.consumer_id}")

    def topic(self, topic: Topic, subject: str) -> Explanation:
        """Return why messages of a topic do not arrive."""
        now, name = self._now, topic.name.qualified_name
        consumers, durables = topic.attached(), topic.durables
        if not consumers and not durables:
            explanation = Explanation(
                subject, NO_SUBSCRIBER, f"{name} has no subscriber: messages to it are sent nowhere"
            )
            explanation.saw(f"{topic.enqueued} received since the start", name, now.wall_ms)
            explanation.advise(f"subscribe to {name}, with a durable subscription if messages may not be lost")
            add_links(explanation, self._links, topic.name, None, now)
            return explanation
        slow = [one for one in consumers if len(one.pending) > 0]
        cause = WINDOW_FULL if slow else HEALTHY
        sentence = f"{name} gives each message to {counted(len(consumers) + len(durables), 'subscriber')}"
        if slow:
            sentence += f"; {len(slow)} are slow, and messages wait for them"
        explanation = Explanation(subject, cause, sentence)
        for one in slow[:MAX_NAMED]:
            text = f"{counted(len(one.pending), 'message')} wait for it; {window_text(one, now)}"
            explanation.saw(text, consumer_text(one), now.wall_ms)
            explanation.advise(f"if it hangs, end it: spanwire consumer end {one.info.consumer_id}")
        for durable in durables[:MAX_NAMED]:
            state = "active" if durable.active else f"without a subscriber{since_text(durable.offline_since, now)}"
            title = f"subscription {durable.terms.name} of client {durable.terms.client_id}"
            explanation.saw(f"{state}, {counted(durable.queue.waiting(), 'message')} pending", title, now.wall_ms)
        if not explanation.evidence:
            explanation.saw(f"{counted(len(consumers), 'consumer')}, none of them slow", name, now.wall_ms)
        return explanation

    def subscription(
        self, durable: DurableSubscription, oldest: Message | None, sequence: int, subject: str
    ) -> Explanation:
        """Return why messages of a durable subscription do not arrive."""
        explanation = self.queue(durable.queue, oldest, sequence, subject)
        terms, now = durable.terms, self._now
        title = f"subscription {terms.name} of client {terms.client_id}"
        selector = f", selector {terms.selector}" if terms.selector else ""
        explanation.saw(f"to {terms.topic.qualified_name}{selector}", title, now.wall_ms)
        if not durable.topics:
            explanation.saw("no topic feeds it now", title, now.wall_ms)
        return explanation

    def connection(self, state: ConnectionState, subject: str) -> Explanation:
        """Return why a connection does not send or receive."""
        now = self._now
        where = f"connection {state.connection_id}"
        transactions = [*state.transactions.values(), *state.branches.values()]
        cause, sentence, advice = self._of_requests(state, where)
        if cause == HEALTHY:
            cause, sentence, advice = self._of_consumers(state, where)
        explanation = Explanation(subject, cause, sentence)
        info = state.info
        client = f"client {info.client_id}, " if info.client_id else ""
        text = f"{client}user {state.principal.name}, {info.protocol} from {info.remote_address}"
        explanation.saw(text, where, state.connected_ms)
        for consumer in state.receivers()[:MAX_NAMED]:
            self._saw_consumer(explanation, consumer)
        for transaction in transactions[:MAX_NAMED]:
            work = f"{counted(len(transaction.sends), 'send')}, {counted(len(transaction.acks), 'acknowledgement')}"
            when = wall_of(transaction.began_at, now) if transaction.began_at else now.wall_ms
            explanation.saw(work, f"transaction {transaction.name}", when)
        if advice:
            explanation.advise(advice)
        if cause not in (HEALTHY, NO_MEMORY):
            explanation.advise(f"if it hangs, close it: spanwire disconnect {state.connection_id}")
        return explanation

    def _of_requests(self, state: ConnectionState, where: str) -> tuple[str, str, str]:
        """Return cause, sentence and advice for output and sends of a connection that wait."""
        if not state.output.writable:
            return (
                NOT_READING,
                f"{where} does not read: {state.output.unsent_bytes} bytes wait for it",
                "the client hangs, or its network is broken: look at its threads",
            )
        if state.parked:
            first = state.parked[0]
            name, since = first.destination.name.qualified_name, since_text(first.since, self._now)
            sentence = f"{counted(len(state.parked), 'send')} of {where} wait for room in {name}{since}"
            return NO_MEMORY, sentence, f"spanwire why message {first.message.message_id}"
        return HEALTHY, "", ""

    def _of_consumers(self, state: ConnectionState, where: str) -> tuple[str, str, str]:
        """Return cause, sentence and advice for consumers and transactions of a connection."""
        now, consumers = self._now, state.receivers()
        if any(not one.started for one in consumers):
            sentence = f"{where} has consumers that are not started"
            return NOT_STARTED, sentence, "the client must call start() of its connection"
        waiting = sum([len(one.pending) for one in consumers if one.pulls and one.pulled == 0])
        if waiting > 0:
            text = counted(waiting, "message")
            return NOT_PULLING, f"{where} has consumers with prefetch 0, and asks for none of {text}", PULL_ADVICE
        began = [one.began_at for one in (*state.transactions.values(), *state.branches.values()) if one.began_at]
        if began:
            sentence = f"{where} has an open transaction{since_text(min(began), now)}"
            return TRANSACTION, sentence, "the client must commit or roll back"
        out = [one.dispatched_at for consumer in consumers for one in consumer.in_flight.all_out()[:1]]
        if out:
            sentence = f"{where} has messages unacknowledged, the oldest{since_text(min(out), now)}"
            return UNACKNOWLEDGED, sentence, "the client must acknowledge"
        return HEALTHY, f"nothing holds {where} up", ""

    def _full_windows(self, link: LinkDescription) -> list[Subscription]:
        """Return the consumers of a link's bridge that have no room until the remote broker answers."""
        state = self._parts.connections.find(link.connection_id)
        consumers = [] if state is None else list(state.consumers.values())
        return [one for one in consumers if one.in_flight.all_out() and not one.can_take()]

    def link(self, link: LinkDescription, subject: str) -> Explanation:
        """Return why messages do not cross a link."""
        now, title = self._now, link.title
        age = age_text(link.since_s)
        if link.state != RUNNING:
            why = f": {link.reason}" if link.reason else ""
            explanation = Explanation(subject, LINK_DOWN, f"{title} is {link.state} for {age}{why}")
            explanation.advise("look at the reason: the address, the login, or the remote broker itself")
            explanation.advise(f"a stopped link is started by spanwire link start {quoted(link.name)}")
        elif link.refusals:
            message_id, words = link.refusals[0]
            explanation = Explanation(
                subject, REFUSED, f"broker {link.remote} refuses {counted(len(link.refusals), 'message')}: {words}"
            )
            explanation.saw(f"refused message {message_id}", title, now.wall_ms)
            explanation.advise(f"mend the cause at {link.remote}")
        elif not link.destinations:
            explanation = Explanation(subject, NO_DEMAND, f"{title} runs, and no consumer beyond it wants anything")
            explanation.advise("start consumers there; advisorySupport must be on at the remote broker")
            explanation.advise(
                f"if there are consumers, the user of network connector {link.name} lacks the right to read "
                f"ActiveMQ.Advisory.> at {link.remote}"
            )
        elif full := self._full_windows(link):
            first = full[0]
            out = counted(sum(one.dispatched_count for one in full), "message")
            since = since_text(first.in_flight.all_out()[0].dispatched_at, now)
            explanation = Explanation(subject, WINDOW_FULL, f"broker {link.remote} has not answered {out}{since}")
            for held in full[:MAX_NAMED]:
                text = f"{held.info.destination.qualified_name}: {window_text(held, now)}"
                explanation.saw(text, consumer_text(held), now.wall_ms)
                advise_window(explanation, link, held.info.destination)
        else:
            explanation = Explanation(subject, HEALTHY, f"{title} runs for {age}")
        explanation.saw(f"{link.state} for {age}, address {link.uri}", title, now.wall_ms - round(link.since_s * 1000))
        names = ", ".join([one.qualified_name for one in link.destinations[:MAX_NAMED]])
        explanation.saw(f"demand beyond it for {names or 'nothing'}", title, now.wall_ms)
        conduit = "conduit" if link.conduit else "one subscription for each consumer"
        explanation.saw(f"messageTTL {link.message_ttl}, {conduit}", title, now.wall_ms)
        for one in link.excluded[:MAX_NAMED]:
            explanation.saw(f"excludes {one.qualified_name}", title, now.wall_ms)
        return explanation
