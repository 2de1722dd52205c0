"""Reasons of a message to stay in its location."""

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
from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.explanation.locations import (
    ForSubscriber,
    Gone,
    Location,
    Out,
    Parked,
    Pending,
    Reserved,
    Scheduled,
    Transacted,
    Withheld,
)
from spanwire.broker.explanation.queue_reasons import QueueReasons, release_advice
from spanwire.broker.explanation.verdicts import consumer_text, window_text
from spanwire.broker.routing import flow_control
from spanwire.broker.routing.dead_letters import CAUSE, ORIGINAL_REDELIVERY_COUNT
from spanwire.broker.routing.parked_sends import NEVER
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


class LocationReasons:
    """Explains the locations of one message at one broker and time."""

    def __init__(
        self,
        parts: BrokerAssembly,
        formats: MessageFormats,
        values: MessageEvaluationContext,
        links: list[LinkDescription],
        now: Time,
    ) -> None:
        self._parts: Final[BrokerAssembly] = parts
        self._formats: Final[MessageFormats] = formats
        self._links: Final[list[LinkDescription]] = links
        self._now: Final[Time] = now
        self._queues: Final[QueueReasons] = QueueReasons(parts, values, links, now)

    def explain(self, location: Location, subject: str) -> Explanation:
        """Return why the message does not move from ``location``."""
        if isinstance(location, Pending):
            return self._pending(location, subject)
        if isinstance(location, Out):
            return self._out(location, subject)
        if isinstance(location, ForSubscriber):
            return self._for_subscriber(location, subject)
        if isinstance(location, Parked):
            return self._parked(location, subject)
        if isinstance(location, Transacted):
            return self._transacted(location, subject)
        if isinstance(location, Scheduled):
            return self._scheduled(location, subject)
        if isinstance(location, Reserved):
            return self._reserved(location, subject)
        if isinstance(location, Withheld):
            return self._withheld(location, subject)
        assert isinstance(location, Gone)
        return explain_departure(location.departure, subject)

    def _pending(self, location: Pending, subject: str) -> Explanation:
        queue, where = location.queue, self._queues.title(location.queue)
        letter = self._dead_letter(location.reference.message, queue.name.name, subject, where)
        if letter is not None:
            return letter
        explanation = self._queues.explain(queue, location.reference, subject, location.ahead)
        if location.paged_out:
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
        of_origin = "" if origin is None else f" of {origin.qualified_name}"
        explanation = Explanation(subject, DEAD_LETTERED, f"it is a dead letter{of_origin} in {where}: {cause}")
        explanation.saw(f"dead letter, cause: {cause}", where, self._now.wall_ms)
        count = properties.get(ORIGINAL_REDELIVERY_COUNT)
        if count is not None:
            explanation.saw(f"redelivered {count[1]} times before", where, self._now.wall_ms)
        explanation.advise(
            f"mend the cause, then send it back: spanwire queue retry {quoted(queue)} --selector "
            + quoted(f"JMSMessageID = '{message.message_id}'")
        )
        return explanation

    def _out(self, location: Out, subject: str) -> Explanation:
        now, subscription = self._now, location.subscription
        reference = location.reference
        since = since_text(reference.dispatched_at, now)
        where = consumer_text(subscription)
        link = self._link_of(location.state)
        if link is not None:
            return self._on_a_link(location, link, subject, since)
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
        self._saw_connection(explanation, location.state)
        explanation.advise(
            f"let the client acknowledge or commit; look at it: spanwire why connection {location.state.connection_id}"
        )
        explanation.advise(
            f"if it hangs, end it, and the message returns to its queue: spanwire consumer end "
            f"{subscription.info.consumer_id}"
        )
        return explanation

    def _on_a_link(self, location: Out, link: LinkDescription, subject: str, since: str) -> Explanation:
        now = self._now
        message_id = str(location.reference.message.message_id)
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
            f"{counted(location.subscription.in_flight.count, 'message')} forwarded and unanswered",
            link.title,
            now.wall_ms,
        )
        explanation.advise(f"ask there: spanwire why message {message_id} at broker {link.remote}")
        explanation.advise(f"if the link hangs, stop and start it: spanwire link stop {quoted(link.name)}")
        return explanation

    def _link_of(self, state: ConnectionState) -> LinkDescription | None:
        return next((link for link in self._links if link.connection_id == state.connection_id), None)

    def _saw_connection(self, explanation: Explanation, state: ConnectionState) -> None:
        info = state.info
        client = f"client {info.client_id}, " if info.client_id else ""
        explanation.saw(
            f"{client}user {state.principal.name}, {info.protocol} from {info.remote_address}",
            f"connection {state.connection_id}",
            state.connected_ms,
        )

    def _for_subscriber(self, location: ForSubscriber, subject: str) -> Explanation:
        now, subscription = self._now, location.subscription
        where = consumer_text(subscription)
        topic = location.reference.destination.name.qualified_name
        text = window_text(subscription, now)
        explanation = Explanation(
            subject, WINDOW_FULL, f"it waits for {where} of {topic} behind {counted(location.ahead, 'message')}: {text}"
        )
        explanation.saw(text, where, now.wall_ms)
        self._saw_connection(explanation, location.state)
        explanation.advise("the subscriber must acknowledge faster, or take a larger prefetch")
        explanation.advise(f"if it hangs, end it: spanwire consumer end {subscription.info.consumer_id}")
        return explanation

    def _parked(self, location: Parked, subject: str) -> Explanation:
        now, parked = self._now, location.parked
        name = parked.destination.name.qualified_name
        since = since_text(parked.since, now)
        cause, why = self._obstacle(location)
        explanation = Explanation(subject, cause, f"its send to {name} waits for room{since}: {why}")
        explanation.saw(why, name, now.wall_ms)
        connection = f"connection {location.state.connection_id}"
        text = f"the send waits{since}, behind {counted(location.ahead, 'other')}"
        explanation.saw(text, connection, wall_of(parked.since, now))
        if parked.deadline < NEVER:
            deadline = clock_text(wall_of(parked.deadline, now))
            explanation.saw(f"refused at {deadline} if there is no room before", connection, now.wall_ms)
        explanation.advise(ROOM_ADVICE[cause].format(name=name))
        return explanation

    def _obstacle(self, location: Parked) -> tuple[str, str]:
        """Return why a send has no room: cause and words."""
        parked, flow = location.parked, self._parts.flow
        obstacle = flow.obstacle(parked.destination, parked.message)
        if obstacle == flow_control.ROOM and parked.destination.usage.is_above(RESUME_SHARE):
            obstacle = flow_control.MEMORY
        if obstacle == flow_control.BEHIND:
            return DISK_BEHIND, "the disk is behind with earlier messages"
        if obstacle in OBSTACLES:
            return OBSTACLES[obstacle], flow.limit_text(parked.destination, parked.message, obstacle)
        return TURN, f"{counted(location.ahead, 'send')} of its connection are before it"

    def _transacted(self, location: Transacted, subject: str) -> Explanation:
        now, transaction = self._now, location.transaction
        name = location.destination.qualified_name
        did = f"sent to {name}" if location.is_send else f"acknowledged from {name}"
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
        if location.state is not None:
            self._saw_connection(explanation, location.state)
            explanation.advise("let the client commit or roll back")
            connection = location.state.connection_id
            explanation.advise(f"if it hangs, close its connection, which rolls back: spanwire disconnect {connection}")
        return explanation

    def _scheduled(self, location: Scheduled, subject: str) -> Explanation:
        job, message = location.job, location.message
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

    def _reserved(self, location: Reserved, subject: str) -> Explanation:
        cursor, now = location.cursor, self._now
        who = cursor.user or "anonymous"
        where = f"number {location.number} of {cursor.shown}, run {cursor.run}"
        explanation = Explanation(subject, CURSOR, f"cursor {cursor.name} of user {who} holds it as {where}")
        held = counted(len(cursor.reserved), "message")
        explanation.saw(
            f"{held} reserved, from number {cursor.reserved.first} on", f"cursor {cursor.name}", now.wall_ms
        )
        explanation.advise(release_advice(cursor.name))
        return explanation

    def _withheld(self, location: Withheld, subject: str) -> Explanation:
        name = location.destination.name.qualified_name
        explanation = Explanation(subject, SYNC, f"it is being written to the disk, before {name} gets it")
        explanation.saw("handed to the store, not synced yet", name, self._now.wall_ms)
        explanation.advise("ask again; a disk that takes seconds for a sync is ill")
        return explanation
