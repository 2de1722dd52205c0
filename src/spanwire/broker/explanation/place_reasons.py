"""Why a message does not move from the place where it was found."""

from __future__ import annotations

from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.memory_usage import RESUME_SHARE
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.explanation.departure_reasons import explain_departure
from spanwire.broker.explanation.explanation import (
    CURSOR,
    DEAD_LETTERED,
    DISK_BEHIND,
    FORWARDING,
    IN_DOUBT,
    NO_DISK,
    NO_MEMORY,
    NO_STORE,
    REFUSED,
    SCHEDULED,
    SYNC,
    TRANSACTION,
    TURN,
    UNACKNOWLEDGED,
    WINDOW_FULL,
    Explanation,
    clock_text,
    counted,
    quoted,
    since_text,
    wall_of,
)
from spanwire.broker.explanation.links import LinkFacts
from spanwire.broker.explanation.places import (
    ForSubscriber,
    Gone,
    Out,
    Parked,
    Pending,
    Place,
    Reserved,
    Scheduled,
    Transacted,
    Withheld,
)
from spanwire.broker.explanation.queue_reasons import QueueReasons, release_advice
from spanwire.broker.explanation.verdicts import consumer_text, window_text
from spanwire.broker.routing import flow_control
from spanwire.broker.routing.dead_letters import CAUSE, ORIGINAL_REDELIVERY_COUNT
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

OBSTACLES: Final = {
    flow_control.MEMORY: NO_MEMORY,
    flow_control.TOO_LARGE: NO_MEMORY,
    flow_control.STORE: NO_STORE,
    flow_control.DISK: NO_DISK,
}
ROOM_ADVICE: Final = {
    NO_DISK: "make room on the disk of the store",
    NO_STORE: "consume or purge stored messages, or raise storeUsage",
    NO_MEMORY: "consume from {name} or other destinations, or raise memoryLimit of its policy or memoryUsage",
    DISK_BEHIND: "wait; a disk that stays behind is too slow for what is sent",
    TURN: "wait; the sends of a connection go on in their order",
}
MAX_CAUSE: Final = 300  # characters of a cause in a dead letter that are shown


class PlaceReasons:
    """Explains the places of one message at one broker and time."""

    def __init__(
        self,
        parts: BrokerAssembly,
        formats: MessageFormats,
        values: MessageEvaluationContext,
        links: list[LinkFacts],
        now: Time,
    ) -> None:
        self._parts: Final[BrokerAssembly] = parts
        self._formats: Final[MessageFormats] = formats
        self._links: Final[list[LinkFacts]] = links
        self._now: Final[Time] = now
        self._queues: Final[QueueReasons] = QueueReasons(parts, values, links, now)

    def explain(self, place: Place, subject: str) -> Explanation:
        """Return why the message does not move from ``place``."""
        if isinstance(place, Pending):
            return self._pending(place, subject)
        if isinstance(place, Out):
            return self._out(place, subject)
        if isinstance(place, ForSubscriber):
            return self._for_subscriber(place, subject)
        if isinstance(place, Parked):
            return self._parked(place, subject)
        if isinstance(place, Transacted):
            return self._transacted(place, subject)
        if isinstance(place, Scheduled):
            return self._scheduled(place, subject)
        if isinstance(place, Reserved):
            return self._reserved(place, subject)
        if isinstance(place, Withheld):
            return self._withheld(place, subject)
        assert isinstance(place, Gone)
        return explain_departure(place.departure, subject)

    def _pending(self, place: Pending, subject: str) -> Explanation:
        queue, where = place.queue, self._queues.title(place.queue)
        letter = self._dead_letter(place.reference.message, queue.name.name, subject, where)
        if letter is not None:
            return letter
        explanation = self._queues.explain(queue, place.reference, subject, place.ahead)
        if place.paged_out:
            explanation.saw("its body is in the store alone; it is read when its turn comes", where, self._now.wall_ms)
        return explanation

    def _dead_letter(self, message: Message, queue: str, subject: str, where: str) -> Explanation | None:
        """Return the explanation of a dead letter, None for another message."""
        try:
            properties = self._formats.properties(message)
            view = self._formats.view(message) if CAUSE in properties else None
        except (JmsError, ProtocolError):
            return None
        if view is None:
            return None
        cause = str(properties[CAUSE][1])[:MAX_CAUSE]
        origin = view.original_destination
        home = "" if origin is None else f" of {origin.qualified_name}"
        explanation = Explanation(subject, DEAD_LETTERED, f"it is a dead letter{home} in {where}: {cause}")
        explanation.saw(f"dead letter, cause: {cause}", where, self._now.wall_ms)
        count = properties.get(ORIGINAL_REDELIVERY_COUNT)
        if count is not None:
            explanation.saw(f"redelivered {count[1]} times before", where, self._now.wall_ms)
        explanation.advise(
            f"mend the cause, then send it back: spanwire queue retry {quoted(queue)} --selector "
            + quoted(f"JMSMessageID = '{message.message_id}'")
        )
        return explanation

    def _out(self, place: Out, subject: str) -> Explanation:
        now, subscription = self._now, place.subscription
        reference = place.reference
        since = since_text(reference.dispatched_at, now)
        where = consumer_text(subscription)
        link = self._link_of(place.state)
        if link is not None:
            return self._on_a_link(place, link, subject, since)
        explanation = Explanation(
            subject, UNACKNOWLEDGED, f"{where} has it{since} and does not acknowledge it"
        )  # fmt: skip
        out = subscription.in_flight.count
        explanation.saw(
            f"dispatched from {reference.destination.name.qualified_name}, delivery {reference.redelivery_count + 1}; "
            f"{counted(out, 'message')} unacknowledged there",
            where,
            now.wall_ms if not reference.dispatched_at else wall_of(reference.dispatched_at, now),
        )
        self._saw_connection(explanation, place.state)
        explanation.advise(
            f"let the client acknowledge or commit; look at it: spanwire why connection {place.state.connection_id}"
        )
        explanation.advise(
            f"if it hangs, end it, and the message returns to its queue: spanwire consumer end "
            f"{subscription.info.consumer_id}"
        )
        return explanation

    def _on_a_link(self, place: Out, link: LinkFacts, subject: str, since: str) -> Explanation:
        now = self._now
        message_id = str(place.reference.message.message_id)
        refusal = next((words for refused, words in link.refusals if refused == message_id), "")
        if refusal:
            explanation = Explanation(
                subject, REFUSED, f"broker {link.remote} refuses it over {link.title}, and it is tried again: {refusal}"
            )
            explanation.saw(f"refused: {refusal}", link.title, now.wall_ms)
            explanation.advise(
                f"mend the cause at {link.remote}; after some attempts the message becomes a dead letter here"
            )
            return explanation
        explanation = Explanation(
            subject, FORWARDING, f"{link.title} has forwarded it{since} and waits for the answer of {link.remote}"
        )
        explanation.saw(
            f"{counted(place.subscription.in_flight.count, 'message')} forwarded and unanswered",
            link.title,
            now.wall_ms,
        )
        explanation.advise(f"ask there: spanwire why message {message_id} at broker {link.remote}")
        explanation.advise(f"if the link hangs, stop and start it: spanwire link stop {quoted(link.name)}")
        return explanation

    def _link_of(self, state: ConnectionState) -> LinkFacts | None:
        return next((link for link in self._links if link.connection_id == state.connection_id), None)

    def _saw_connection(self, explanation: Explanation, state: ConnectionState) -> None:
        info = state.info
        client = f"client {info.client_id}, " if info.client_id else ""
        explanation.saw(
            f"{client}user {state.principal.name}, {info.protocol} from {info.remote_address}",
            f"connection {state.connection_id}",
            state.connected_ms,
        )

    def _for_subscriber(self, place: ForSubscriber, subject: str) -> Explanation:
        now, subscription = self._now, place.subscription
        where = consumer_text(subscription)
        topic = place.reference.destination.name.qualified_name
        text = window_text(subscription, now)
        explanation = Explanation(
            subject, WINDOW_FULL, f"it waits for {where} of {topic} behind {counted(place.ahead, 'message')}: {text}"
        )
        explanation.saw(text, where, now.wall_ms)
        self._saw_connection(explanation, place.state)
        explanation.advise("the subscriber must acknowledge faster, or take a larger prefetch")
        explanation.advise(f"if it hangs, end it: spanwire consumer end {subscription.info.consumer_id}")
        return explanation

    def _parked(self, place: Parked, subject: str) -> Explanation:
        now, parked = self._now, place.parked
        name = parked.destination.name.qualified_name
        since = since_text(parked.since, now)
        cause, why = self._obstacle(place)
        explanation = Explanation(subject, cause, f"its send to {name} waits for room{since}: {why}")
        explanation.saw(why, name, now.wall_ms)
        connection = f"connection {place.state.connection_id}"
        text = f"the send waits{since}, behind {counted(place.ahead, 'other')}"
        explanation.saw(text, connection, wall_of(parked.since, now))
        if parked.deadline < flow_control.NEVER:
            deadline = clock_text(wall_of(parked.deadline, now))
            explanation.saw(f"refused at {deadline} if there is no room before", connection, now.wall_ms)
        explanation.advise(ROOM_ADVICE[cause].format(name=name))
        return explanation

    def _obstacle(self, place: Parked) -> tuple[str, str]:
        """Return why a send has no room: cause and words."""
        parked, flow = place.parked, self._parts.flow
        obstacle = flow.obstacle(parked.destination, parked.message)
        if obstacle == flow_control.ROOM and parked.destination.usage.is_above(RESUME_SHARE):
            obstacle = flow_control.MEMORY
        if obstacle == flow_control.BEHIND:
            return DISK_BEHIND, "the disk is behind with earlier messages"
        if obstacle in OBSTACLES:
            return OBSTACLES[obstacle], flow.limit_text(parked.destination, parked.message, obstacle)
        return TURN, f"{counted(place.ahead, 'send')} of its connection are before it"

    def _transacted(self, place: Transacted, subject: str) -> Explanation:
        now, transaction = self._now, place.transaction
        name = place.destination.qualified_name
        did = f"sent to {name}" if place.is_send else f"acknowledged from {name}"
        since = since_text(transaction.began_at, now) or " from before the start of the broker"
        if isinstance(transaction, Branch) and transaction.prepared:
            explanation = Explanation(
                subject, IN_DOUBT,
                f"it was {did} in XA branch {transaction.name}, which is prepared{since} and in doubt",
            )  # fmt: skip
            explanation.saw(f"prepared, begun by user {transaction.user}", f"branch {transaction.name}", now.wall_ms)
            explanation.advise("let its transaction manager recover; else decide for it:")
            explanation.advise(f"spanwire transaction commit {quoted(transaction.name)}, or rollback")
            return explanation
        explanation = Explanation(
            subject, TRANSACTION, f"it was {did} in transaction {transaction.name}, which is open{since}"
        )
        explanation.saw(
            f"{counted(len(transaction.sends), 'send')} and {counted(len(transaction.acks), 'acknowledgement')}",
            f"transaction {transaction.name}",
            wall_of(transaction.began_at, now) if transaction.began_at else now.wall_ms,
        )
        if place.state is not None:
            self._saw_connection(explanation, place.state)
            explanation.advise("let the client commit or roll back")
            explanation.advise(
                f"if it hangs, close its connection, which rolls back: spanwire disconnect {place.state.connection_id}"
            )
        return explanation

    def _scheduled(self, place: Scheduled, subject: str) -> Explanation:
        job, message = place.job, place.message
        assert message is not None
        when = clock_text(job.due_ms)
        target = message.destination if job.redelivery is None else job.redelivery.destination
        kind = "redelivered" if job.redelivery is not None else "delivered"
        explanation = Explanation(
            subject, SCHEDULED, f"it is scheduled: it will be {kind} to {target.qualified_name} at {when}"
        )
        details = [f"next delivery at {when}"]
        if job.cron:
            details.append(f"cron entry {job.cron}")
        if job.repeat:
            details.append("repeated without end" if job.repeat < 0 else f"repeated {job.repeat} times more")
        if job.redelivery is not None:
            details.append(f"redelivery {job.redelivery.count} after a failure")
        explanation.saw(", ".join(details), f"job {job.job_id}", self._now.wall_ms)
        explanation.advise(f"wait, or remove it: spanwire job remove {quoted(job.job_id)}")
        return explanation

    def _reserved(self, place: Reserved, subject: str) -> Explanation:
        cursor, now = place.cursor, self._now
        who = cursor.user or "anonymous"
        explanation = Explanation(
            subject, CURSOR,
            f"cursor {cursor.name} of user {who} holds it as number {place.number} of {cursor.shown}, run {cursor.run}",
        )  # fmt: skip
        held = counted(len(cursor.reserved), "message")
        explanation.saw(
            f"{held} reserved, from number {cursor.reserved.first} on", f"cursor {cursor.name}", now.wall_ms
        )
        explanation.advise(release_advice(cursor.name))
        return explanation

    def _withheld(self, place: Withheld, subject: str) -> Explanation:
        name = place.destination.name.qualified_name
        explanation = Explanation(subject, SYNC, f"it is being written to the disk, before {name} gets it")
        explanation.saw("handed to the store, not synced yet", name, self._now.wall_ms)
        explanation.advise("ask again; a disk that takes seconds for a sync is ill")
        return explanation
