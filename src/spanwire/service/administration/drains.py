"""Drains of a broker: tasks that send waiting messages to another broker, over a separate link.

The order is kept in the store, so a drain goes on when the broker starts again. A password is not kept: such a drain
fails at the start, and says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from spanwire.broker.broker import Broker
from spanwire.broker.moves.kept_orders import MAX_ORDERS
from spanwire.broker.queue.queue import Queue
from spanwire.broker.security.audit_log import of_user, printable
from spanwire.management.handles import OPERATOR, Operator
from spanwire.management.tasks import CANCELLED, DONE, FAILED, RUNNING, View
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError, SpanwireError, StoreError
from spanwire.service.administration.connector_definitions import without_secrets
from spanwire.service.administration.disk_wait import is_on_disk

PREFIX: Final = "D"  # of the ids of drains among those of other tasks
LINK: Final = "DRAIN"  # the network connector of the drain D1 is called DRAIN-1
MAX_RUNNING: Final = 10  # drains at the same time: each has a link
MAX_PATTERNS: Final = 100  # names and patterns of queues in one order
KEPT_MS: Final = 24 * 3_600 * 1_000  # milliseconds after its end in which a drain is shown
POLL_S: Final = 0.5  # seconds between two looks at the queues
CLOSE_POLL_S: Final = 0.02  # the same, of a drain that must stop in time because messages are to stay
NEAR: Final = 1_000  # messages before its end from which such a drain looks more often
NEAR_POLL_S: Final = 0.001  # seconds between these looks; a link sends some five messages meanwhile, one at a time
LOOK_SHARE: Final = 4  # times as long as a look takes is the least time between two: thousands of queues take long
STALL_S: Final = 30.0  # seconds without a message after which the rest will not go; a link connects meanwhile
LOOKS: Final = 1_000  # queues looked at in one turn
PRECISION: Final = 50  # a drain with messages to stay sends at most this part of the others at a time
MAX_WINDOW: Final = 1_000  # messages on their way over the link of such a drain
MAX_NAMED: Final = 10  # queues named that are not empty
SECRETS: Final = ("password", "passphrase", "secret", "token")  # in names of attributes whose values are not kept

audit = logging.getLogger("spanwire.audit")
logger = logging.getLogger(__name__)


class Connectors(Protocol):
    """The part of the network connectors used here (`spanwire.service.networking.network_connectors`)."""

    async def add_connector(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Add and start a network connector. Raises `ConfigurationError`."""
        ...

    async def drain_links(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Stop network connectors when nothing is on its way over them. Raises `ConfigurationError`."""
        ...

    async def remove_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """End and forget network connectors. Raises `ConfigurationError`."""
        ...

    def views(self) -> list[dict[str, object]]:
        """Return a view of each link."""
        ...


class Drain:
    """One order and how far it is; times are milliseconds since 1970.

    ``patterns`` name the queues, ``keep`` messages stay in them. ``sent`` counts since the start or continuation,
    ``left`` the waiting messages.
    """

    def __init__(
        self, number: int, uri: str, patterns: list[str], settings: dict[str, object], keep: int, user: str, begun: int
    ) -> None:
        self.number: Final = number
        self.uri: Final = uri
        self.patterns: Final = patterns
        self.queues: Final[list[Destination]] = [parse_destination(pattern, QUEUE) for pattern in patterns]
        self.settings: Final = settings
        self.keep: Final = keep
        self.user: Final = user
        self.started_ms: Final = begun
        self.has_secret = False
        self.state = RUNNING
        self.error = ""
        self.ended_ms = 0
        self.began = 0.0  # monotonic seconds of the start or continuation
        self.sent = 0
        self.left = 0
        self.waits_for = ""
        self.is_cancelled = False
        self.task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """The id for operators, such as ``D7``."""
        return f"{PREFIX}{self.number}"

    @property
    def link(self) -> str:
        """The name of its network connector."""
        return f"{LINK}-{self.number}"

    def encoded(self) -> bytes:
        """Return order and state without secrets."""
        kept = {name: value for name, value in self.settings.items() if not _is_secret(name)}
        uri, left_out = without_secrets(self.uri)
        fields = {
            "uri": uri, "patterns": self.patterns, "settings": kept, "keep": self.keep, "user": self.user,
            "started": self.started_ms,
            "secret": self.has_secret or len(left_out) > 0 or len(kept) < len(self.settings),
            "state": self.state, "error": self.error, "ended": self.ended_ms, "sent": self.sent, "left": self.left,
        }  # fmt: skip
        return json.dumps(fields, separators=(",", ":")).encode("ascii")


def decoded(number: int, value: bytes) -> Drain:
    """Return the drain of a record.

    Raises:
        StoreError: the record is unreadable.
    """
    try:
        fields = json.loads(value)
        drain = Drain(
            number, str(fields["uri"]), [str(one) for one in fields["patterns"]], dict(fields["settings"]),
            int(fields["keep"]), str(fields["user"]), int(fields["started"]),
        )  # fmt: skip
        drain.has_secret = bool(fields["secret"])
        drain.state, drain.error, drain.ended_ms = str(fields["state"]), str(fields["error"]), int(fields["ended"])
        drain.sent, drain.left = int(fields["sent"]), int(fields["left"])
    except (ValueError, KeyError, TypeError, RecursionError, SpanwireError) as error:
        raise StoreError(f"the store has the record of a drain that this version cannot read: {error}") from error
    return drain


class Drains:
    """The drains of one broker."""

    def __init__(self, connectors: Connectors, broker: Broker, wake: Callable[[], None]) -> None:
        """``wake`` ends a turn of the broker soon."""
        self._connectors: Final = connectors
        self._broker: Final = broker
        self._wake: Final = wake
        self._kept: Final = broker.assembly.drains
        self._drains: Final[dict[int, Drain]] = {}
        self._last = 0

    async def go_on(self) -> None:
        """Go on with the drains of the last run that had not ended.

        Raises:
            StoreError: the record of a drain is unreadable.
        """
        for number, value in sorted(self._kept.values.items()):
            self._last = max(self._last, number)
            self._drains[number] = decoded(number, value)
        for drain in list(self._drains.values()):
            if drain.state != RUNNING:
                continue
            if drain.has_secret:
                self._end(drain, FAILED, "its password is not kept over a start of the broker: begin the drain again")
                continue
            try:
                await self._begin(drain)
            except ConfigurationError as error:
                self._end(drain, FAILED, str(error))

    async def start(self, arguments: Mapping[str, object]) -> View:
        """Begin to send what waits in ``queues`` to the broker at ``uri``, until ``keep`` messages are left.

        ``settings`` are attributes of the ``<networkConnector>`` of the drain.

        Raises:
            ConfigurationError: an argument is refused, or too many drains are running.
        """
        uri, keep, given = arguments.get("uri"), arguments.get("keep", 0), arguments.get("settings", {})
        if not isinstance(uri, str) or not uri:
            raise ConfigurationError("uri is the address of the other broker, such as tcp://host:61616")
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
            raise ConfigurationError("keep is a number of messages, 0 or more")
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise ConfigurationError("settings is an object of texts: attributes of <networkConnector>")
        operator = arguments.get(OPERATOR)
        user = operator.user if isinstance(operator, Operator) else ""
        now = self._broker.environment.now()
        self._make_room(now.wall_ms)
        self._last += 1
        drain = Drain(
            self._last, uri, queue_patterns(arguments.get("queues", [">"])), dict(given), keep, user, now.wall_ms
        )
        await self._begin(drain)
        self._drains[drain.number] = drain
        self._keep(drain)
        await is_on_disk(self._broker)  # so that the answer holds
        return {"task": drain.id}

    async def _begin(self, drain: Drain) -> None:
        """Open the link, and look after it from now on. Raises `ConfigurationError`."""
        drain.left = await self._pending(drain)
        settings = {
            **drain.settings,
            "staticallyIncludedDestinations": [f"queue://{pattern}" for pattern in drain.patterns],
            "staticBridge": "true",
        }
        if drain.keep:
            window = max(1, min(MAX_WINDOW, (drain.left - drain.keep) // PRECISION))
            settings = {"prefetchSize": str(window), **settings}
        await self._connectors.add_connector({"uri": f"static:({drain.uri})", "name": drain.link, "settings": settings})
        drain.began, drain.sent = self._broker.environment.now().monotonic, 0
        drain.task = asyncio.get_running_loop().create_task(self._run(drain))

    async def _run(self, drain: Drain) -> None:
        """Wait for the end, close the link, and record the end. A stop of the broker leaves the drain running."""
        state, error = FAILED, ""
        try:
            error = await self._watched(drain)
            state = FAILED if error else CANCELLED if drain.is_cancelled else DONE
        except Exception:
            logger.exception("the drain %s failed", drain.id)
            error = "the broker's log says why"
        link = {"connectors": [drain.link]}
        if state != DONE or drain.keep:  # a message on its way would be both at the other broker and in its queue
            try:
                await self._connectors.drain_links(link)
            except ConfigurationError as fault:
                error = error or str(fault)
            if state != FAILED:  # perhaps because a look failed
                await self._look(drain)  # what was on its way has arrived
        try:
            await self._connectors.remove_connectors(link)
        except ConfigurationError:  # somebody has removed it
            state, error = (state, error) if state != DONE else (FAILED, f"somebody has removed its link {drain.link}")
        self._end(drain, state, error)

    async def _watched(self, drain: Drain) -> str:
        """Wait until the queues are as empty as they shall be; return "", or why the rest does not go."""
        last, since = -1, self._broker.environment.now().monotonic
        while not drain.is_cancelled:
            looked = asyncio.get_running_loop().time()
            await self._look(drain)
            if drain.left <= drain.keep:
                return ""
            now = self._broker.environment.now().monotonic
            if drain.left != last:
                last, since = drain.left, now
            elif now - since > STALL_S:
                return self._stalled(drain)
            await asyncio.sleep(_pause(drain, asyncio.get_running_loop().time() - looked))
        return ""

    async def _look(self, drain: Drain) -> None:
        """See how many messages are left, and what the link has sent and waits for."""
        drain.left = await self._pending(drain)
        link = next((view for view in self._connectors.views() if view["name"] == drain.link), {})
        enqueued = link.get("enqueued")
        drain.sent = max(drain.sent, enqueued) if isinstance(enqueued, int) else drain.sent
        drain.waits_for = str(link.get("reason") or "")

    def _stalled(self, drain: Drain) -> str:
        names = [
            f"{queue.name.qualified_name} ({queue.waiting() + queue.in_flight})"
            for queue in self._broker.assembly.map.queues.values()
            if queue.waiting() + queue.in_flight > 0 and any(one.matches(queue.name) for one in drain.queues)
        ]
        why = f"the link says: {drain.waits_for}" if drain.waits_for else "spanwire why QUEUE says why"
        return f"for {STALL_S:.0f} s no message has gone; left are {', '.join(names[:MAX_NAMED])}; {why}"

    async def _pending(self, drain: Drain) -> int:
        """Return the messages in the queues of a drain, those on their way among them."""
        count = 0
        for index, queue in enumerate(list(self._broker.assembly.map.queues.values())):
            if any(one.matches(queue.name) for one in drain.queues):
                count += _messages(queue)
            if index % LOOKS == LOOKS - 1:
                await asyncio.sleep(0)
        return count

    def _end(self, drain: Drain, state: str, error: str) -> None:
        drain.state, drain.error, drain.waits_for = state, error, ""
        drain.ended_ms = self._broker.environment.now().wall_ms
        self._keep(drain)
        audit.info("task %s%s: drain %s, %d messages left", drain.id, of_user(drain.user), state, drain.left)

    def _keep(self, drain: Drain) -> None:
        self._kept.put(drain.number, drain.encoded())
        self._wake()

    def _make_room(self, wall_ms: int) -> None:
        ended = [drain for drain in self._drains.values() if drain.state != RUNNING]
        if len(self._drains) - len(ended) >= MAX_RUNNING:
            raise ConfigurationError(f"{MAX_RUNNING} drains are running: wait for one, or cancel one")
        for drain in ended:
            if drain.ended_ms + KEPT_MS <= wall_ms or len(self._drains) >= MAX_ORDERS:
                del self._drains[drain.number]
                self._kept.discard(drain.number)

    def stop(self) -> None:
        """Stop to look after the drains; they go on at the next start of the broker."""
        for drain in self._drains.values():
            if drain.task is not None:
                drain.task.cancel()

    def views(self) -> Iterator[View]:
        """Yield the drains, the oldest first."""
        for drain in list(self._drains.values()):
            yield self._view(drain)

    def _view(self, drain: Drain) -> View:
        is_running = drain.state == RUNNING
        elapsed = self._broker.environment.now().monotonic - drain.began
        is_known = is_running and drain.sent > 0 and elapsed > 0
        more = max(0, drain.left - drain.keep)
        return {
            "id": drain.id,
            "operation": "drain",
            "sources": ", ".join(drain.patterns[:MAX_NAMED]),
            "target": without_secrets(drain.uri)[0],
            "user_name": printable(drain.user),
            "state": drain.state,
            "waits_for": drain.waits_for or None,
            "processed": drain.sent,
            "left": drain.left,
            "looked": None,
            "total": None,
            "seconds_left": int(more * elapsed / drain.sent) if is_known else None,
            "rate": None,
            "undoable": 0,
            "undoes": None,
            "undone_by": None,
            "started_ms": drain.started_ms,
            "ended_ms": drain.ended_ms or None,
            "result": None if is_running else [{"sent": drain.sent, "left": drain.left}],
            "error": drain.error or None,
        }

    async def cancel(self, arguments: Mapping[str, object]) -> View:
        """End a drain; what it has sent stays at the other broker. Raises `ConfigurationError`."""
        drain = self._found(arguments)
        if drain.state != RUNNING:
            raise ConfigurationError(f"the task {drain.id} is {drain.state}")
        drain.is_cancelled = True
        return self._view(drain)

    async def resume(self, arguments: Mapping[str, object]) -> View:
        """Go on with a cancelled or failed drain. Raises `ConfigurationError`."""
        drain = self._found(arguments)
        if drain.state not in (CANCELLED, FAILED):
            raise ConfigurationError(f"the task {drain.id} is {drain.state}: only a cancelled or failed one is resumed")
        if drain.has_secret:
            raise ConfigurationError(f"the password of the task {drain.id} is not kept: begin the drain again")
        await self._begin(drain)
        drain.state, drain.error, drain.ended_ms, drain.is_cancelled = RUNNING, "", 0, False
        self._keep(drain)
        return {"task": drain.id}

    async def undo(self, arguments: Mapping[str, object]) -> View:
        """Refuse: what another broker has is brought back from there. Raises `ConfigurationError`."""
        drain = self._found(arguments)
        raise ConfigurationError(
            f"the task {drain.id} has no undo: the messages are at the other broker; drain that one to bring them back"
        )

    def _found(self, arguments: Mapping[str, object]) -> Drain:
        task_id = str(arguments.get("id"))
        drain = self._drains.get(int(task_id[1:])) if task_id[1:].isdecimal() and len(task_id) < 19 else None
        if drain is None:
            raise ConfigurationError(f"there is no task {task_id[:40]}")
        return drain


def _pause(drain: Drain, took: float) -> float:
    """Return the seconds until the next look at the queues of a drain, whose last look ``took`` so many."""
    if not drain.keep:
        return POLL_S
    if drain.left - drain.keep > NEAR:
        return CLOSE_POLL_S
    return min(CLOSE_POLL_S, max(NEAR_POLL_S, took * LOOK_SHARE))


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRETS)


def _messages(queue: Queue) -> int:
    return queue.waiting() + queue.in_flight


def queue_patterns(names: object) -> list[str]:
    """Return the names of queues, or patterns of them.

    Raises:
        ConfigurationError: a name is that of a topic, of several queues, or of none.
    """
    if not isinstance(names, list) or not 0 < len(names) <= MAX_PATTERNS:
        raise ConfigurationError(f"queues is a list of 1 to {MAX_PATTERNS} names or patterns of queues")
    patterns: list[str] = []
    for name in names:
        destination = parse_destination(str(name), QUEUE)
        if not destination.is_queue or destination.is_temporary or destination.is_composite:
            raise ConfigurationError(f"{str(name)[:100]} is not the name of one queue, or a pattern of queues")
        patterns.append(destination.name)
    return patterns
