"""Dry runs: the present path of an imagined message through one broker.

The consumers stand in the order of dispatch, and `Verdicts` judges each consumer by the rules of dispatch, with the
real demand and window. A dry run counts, stores and dispatches no message.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.explanation.explanation import DISPATCHING, SELECTOR
from spanwire.broker.explanation.verdicts import Verdict, Verdicts, consumer_text
from spanwire.broker.queue.inspection import PAUSED, PURGING, RESERVED, RETURNING
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_OPENWIRE_10, Message
from spanwire.model.message_view import TEXT, MessageView, PropertyValue
from spanwire.model.routing import within

MAX_ANSWERS: Final = 50  # consumers told of one broker; a topic may have very many
NOBODY: Final = ProducerId("ID:dry-run", 1, 1)
SUSPENDED: Final = {
    PAUSED: "the queue is paused", RESERVED: "an exclusive cursor has all of its messages",
    PURGING: "the queue is being purged", RETURNING: "older messages come back first",
}  # fmt: skip


class Answer:
    """One consumer or link of a broker: would the message go there, and if not, why.

    ``target_id`` is the id of the broker at the other end of a link, "" for a consumer. A ``taken`` answer would get
    the message.
    """

    __slots__ = ("cause", "location", "priority", "taken", "target_id", "text")

    def __init__(self, subscription: Subscription, verdict: Verdict, taken: bool, text: str = "") -> None:
        network = subscription.network_filter
        self.location: Final[str] = consumer_text(subscription)
        self.target_id: Final[str] = "" if network is None else network.target_broker_id
        self.priority: Final[int] = subscription.info.priority
        self.cause: Final[str] = "" if taken else verdict.cause
        self.text: Final[str] = text or verdict.text
        self.taken: Final[bool] = taken

    def row(self) -> dict[str, object]:
        """Return the answer as plain values."""
        return {
            "location": self.location, "target_id": self.target_id, "priority": self.priority, "cause": self.cause,
            "text": self.text, "taken": self.taken,
        }  # fmt: skip


class ProbedHop:
    """Answers of one broker.

    ``held`` is the reason why the message would go to no consumer now; "" if the message goes on or is consumed.
    """

    def __init__(self) -> None:
        self.answers: Final[list[Answer]] = []
        self.untold = 0  # further consumers
        self.held = ""
        self.forwards: list[str] = []  # destinations to which a virtual destination forwards

    def add(self, answer: Answer) -> None:
        """Keep an answer if there is room; a ``taken`` answer always has room."""
        if answer.taken or len(self.answers) < MAX_ANSWERS:
            self.answers.append(answer)
        else:
            self.untold += 1

    @property
    def taken(self) -> list[Answer]:
        """The answers with ``taken``."""
        return [one for one in self.answers if one.taken]


class Probe:
    """Asks the destinations of one broker about imagined messages."""

    def __init__(self, parts: BrokerAssembly, formats: MessageFormats, format_id: int = FORMAT_OPENWIRE_10) -> None:
        self._parts: Final[BrokerAssembly] = parts
        self._formats: Final[MessageFormats] = formats
        self._format_id: Final[int] = format_id
        self._values: Final[MessageEvaluationContext] = MessageEvaluationContext(formats)

    def message(self, destination: Destination, properties: dict[str, PropertyValue], path: tuple[str, ...]) -> Message:
        """Return a message without a body, as if come through the brokers of ``path``; never sent."""
        view = MessageView(TEXT, destination, MessageId(NOBODY, 1))
        view.persistent = True
        view.body = b""
        view.properties = properties
        message = self._formats.format(self._format_id).encode_from_view(view)
        message.broker_path = path
        return message

    def ask(self, destination: Destination, message: Message, now: Time) -> ProbedHop:
        """Return the takers of ``message`` here at ``now``, and the reasons of the others."""
        hop = ProbedHop()
        found = self._parts.map.find(destination)
        if found is None or found.removed:
            hop.held = f"{destination.qualified_name} does not exist here"
            return hop
        if found.route is not None:
            hop.forwards = [rule.destination.qualified_name for rule in found.route.forwards]
            hop.forwards += [rule.pattern.qualified_name for rule in found.route.listeners]
            if not found.route.stays:
                return hop
        if isinstance(found, Queue):
            self._ask_queue(hop, found, message, now)
        elif isinstance(found, Topic):
            self._ask_topic(hop, found, message)
        return hop

    def _ask_queue(self, hop: ProbedHop, queue: Queue, message: Message, now: Time) -> None:
        inspection = queue.inspect()
        suspension = inspection.suspension(now.monotonic)
        if suspension:
            hop.held = SUSPENDED.get(suspension, "the queue waits for its first consumers")
        verdicts = Verdicts(queue, self._values, now)
        reference = MessageReference(queue, message, 0, 0, 0)
        in_turn = inspection.in_turn()
        first: Subscription | None = None
        for subscription in [*in_turn, *(one for one in queue.attached() if one not in in_turn)]:
            verdict = verdicts.of(subscription, reference)
            is_able = verdict.cause == DISPATCHING
            if is_able and first is None and not hop.held:
                first = subscription
                hop.add(Answer(subscription, verdict, True))
            elif is_able and first is not None:
                hop.add(Answer(subscription, verdict, False, _behind(subscription, first)))
            else:
                hop.add(Answer(subscription, verdict, False))
        if first is None and not hop.held:
            hop.held = "it waits: no consumer and no link can take it now" if hop.answers else "nobody consumes here"

    def _ask_topic(self, hop: ProbedHop, topic: Topic, message: Message) -> None:
        reference = MessageReference(topic, message, 0, 0, 0)
        for subscription in topic.attached():
            hop.add(self._of_topic(subscription, reference))
        for durable in topic.durables:
            wants = durable.wants(message)
            for subscription in durable.queue.attached():
                hop.add(self._of_topic(subscription, reference))
            if wants and durable.queue.consumer_count == 0:
                hop.held = "durable subscriptions without a subscriber keep it"
        if not hop.taken and not hop.held:
            hop.held = "nobody subscribes here who wants it"

    def _of_topic(self, subscription: Subscription, reference: MessageReference) -> Answer:
        """Judge a subscriber: a topic's message waits for each subscriber with demand."""
        network, message = subscription.network_filter, reference.message
        if network is not None and network.target_broker_id in message.broker_path:
            cause, text = "path", "the message has come through that broker, and does not return"
        elif network is not None and not within(len(message.broker_path), network.message_ttl):
            cause, text = "ttl", f"messageTTL of the link is {network.message_ttl}"
        elif subscription.selector is not None and not self._values.matches(subscription.selector, message, 0):
            cause, text = SELECTOR, f"its selector {subscription.selector.text} does not choose the message"
        else:
            return Answer(subscription, Verdict(subscription, DISPATCHING, "it wants the message"), True)
        return Answer(subscription, Verdict(subscription, cause, text), False)


def _behind(subscription: Subscription, first: Subscription) -> str:
    """Return why an able consumer does not get the message: another consumer comes before."""
    priority, better = subscription.info.priority, first.info.priority
    if priority < better:
        return f"its priority {priority} is less than {better}, so it is used when that window is full"
    return "it is able as well, and gets a later message in turn"
