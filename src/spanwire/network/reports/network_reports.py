"""Gathers the link reports of the brokers of a network, while an operator watches."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import SpanwireError
from spanwire.network.reports.known_brokers import (
    MAX_DESTINATIONS,
    MAX_LINKS,
    MAX_TEXT,
    RUNNING,
    SILENT,
    SPANWIRE,
    KnownBrokers,
    Peer,
    Row,
    read_rows,
    silent,
)
from spanwire.transports.base import Clock

WATCH_S: Final = 60  # seconds for which a broker asks others after a look at the map; ten brokers in a row hear of it
LOOK_S: Final = 2.0  # seconds between two rounds of questions
FIRST_S: Final = 2.0  # seconds that the first look at a map waits for answers
QUESTION_S: Final = 5.0  # seconds for one question with its login; the watch of the next broker is shorter by them
MAX_AT_ONCE: Final = 8  # brokers asked at the same time
MAX_PEERS: Final = 200  # brokers asked in one round
LEAST_RATE_S: Final = 1.0  # seconds over which a rate is measured at least
SILENCE_S: Final = 600.0  # seconds until a broker without the statistics plug-in is asked again

logger = logging.getLogger(__name__)
Ask = Callable[[Peer, int, str], Awaitable[list[Row]]]
Invite = Callable[[int, Collection[str]], None]


class ReportingBroker(Protocol):
    """The part of the broker used here (``broker/broker.py``)."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def broker_id(self) -> str:
        """The broker's id."""
        ...

    def find_destination(self, destination: Destination) -> BrokerDestination | None:
        """Return the queue or topic of a name."""
        ...


class NetworkReports:
    """The report of this broker, and the known reports of others."""

    def __init__(
        self,
        broker: ReportingBroker,
        links: Callable[[], Sequence[Mapping[str, object]]],
        peers: Callable[[], Sequence[Peer]],
        clock: Clock,
        ask: Ask,
        ledger: Callable[[], Sequence[Mapping[str, object]]] = tuple,
        guests: Callable[[], Sequence[str]] = tuple,
        invite: Invite = lambda seconds, known: None,
    ) -> None:
        """Take the sources.

        ``links`` returns the views of all links, ``peers`` the addresses of the running links opened here, ``ledger``
        the messages across the links to and from each broker, ``guests`` the names of brokers with a link of their own
        to this broker. Guests cannot be asked, as this broker has no login there. ``invite`` asks the guests with a
        duplex link for reports of their own, for so many seconds, but for the brokers of the given names.
        """
        self._invite: Final = invite
        self._invited: Final[dict[str, float]] = {}  # names of brokers that want reports of this one, until a time
        self._guests: Final = guests
        self._ledger: Final = ledger
        self._broker: Final = broker
        self._links: Final = links
        self._peers: Final = peers
        self._clock: Final = clock
        self._ask: Final = ask
        self._known: Final = KnownBrokers(broker.name)
        self._rates: Final = Rates()
        self._mute: Final[dict[str, float]] = {}  # addresses of brokers without the plug-in, until a time
        self._troubled: Final[set[str]] = set()  # addresses with an unforeseen error in the log
        self._watched_until = 0.0
        self._task: asyncio.Task[None] | None = None
        self._has_looked = asyncio.Event()

    def report(self, seconds: int, may_read: Callable[[str], bool] | None = None) -> str:
        """Return the report as JSON, and ask other brokers for so many seconds more.

        Args:
            seconds: for so long other brokers are asked, `WATCH_S` at most.
            may_read: returns True for a destination to report; None for all.
        """
        self._watch(float(min(seconds, WATCH_S)))
        rows = self._rows()
        return json.dumps({"brokers": rows if may_read is None else readable(rows, may_read)})

    def take(self, content: bytes, teller: str) -> None:
        """Take the report of an invited broker, a client at ``teller``; nothing while nobody watches."""
        if content and self._now() < self._watched_until:
            self._known.add(read_rows(content.decode("utf-8", "replace")), self._now(), teller.rpartition(":")[0])

    def invite(self, name: str, seconds: int) -> None:
        """Report to a linked broker for so many seconds, and ask other brokers meanwhile."""
        if name in self._invited or len(self._invited) < MAX_PEERS:
            seconds = min(seconds, WATCH_S)
            self._invited[name] = self._now() + seconds
            self._watch(seconds)

    async def network(self, arguments: Mapping[str, object]) -> Row:
        """Return the rows of all known brokers, this one first; the first look waits for answers."""
        self._watch(WATCH_S)
        try:
            await asyncio.wait_for(self._has_looked.wait(), FIRST_S)
        except TimeoutError:
            logger.debug("no broker has answered within %g s", FIRST_S)
        return {"brokers": self._rows()}

    def stop(self) -> None:
        """Ask no more brokers; may be called twice."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _now(self) -> float:
        return self._clock.now().monotonic

    def _watch(self, seconds: float) -> None:
        self._watched_until = max(self._watched_until, self._now() + seconds)
        if seconds > 0 and self._task is None:
            self._has_looked.clear()
            self._task = asyncio.get_running_loop().create_task(self._look_until_nobody_watches())

    async def _look_until_nobody_watches(self) -> None:
        try:
            while self._watched_until > self._now():
                await self._look()
                self._has_looked.set()
                await asyncio.sleep(LOOK_S)
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    async def _look(self) -> None:
        now = self._now()
        for uri in [uri for uri, until in self._mute.items() if until <= now]:
            del self._mute[uri]
        peers = list({peer.uri: peer for peer in self._peers()}.values())
        for peer in peers:
            if peer.uri in self._mute:
                self._known.add([silent(peer, SILENT)], now, peer.name)
        for name in [name for name, until in self._invited.items() if until <= now]:
            del self._invited[name]
        seconds = self._watch_of_others()
        if seconds > 0:
            self._invite(seconds, {peer.name for peer in peers})
        gate = asyncio.Semaphore(MAX_AT_ONCE)

        async def asked(peer: Peer) -> None:
            async with gate:
                rows = await self._answer(peer)
            if rows == [silent(peer, SILENT)]:  # of this broker, and not of one that it tells of
                self._mute[peer.uri] = self._now() + SILENCE_S
            self._known.add(rows, self._now(), peer.name)

        due = [peer for peer in peers if peer.uri not in self._mute][:MAX_PEERS]
        ends = await asyncio.gather(*(asked(peer) for peer in due), return_exceptions=True)
        for peer, end in zip(due, ends, strict=True):
            if isinstance(end, BaseException):
                self._on_trouble(peer, end)

    def _on_trouble(self, peer: Peer, error: BaseException) -> None:
        """Show an unforeseen error of one broker, and log the error once.

        Questions to other brokers go on.
        """
        self._known.add([silent(peer, f"cannot be asked: {error}")], self._now(), peer.name)
        if peer.uri not in self._troubled and len(self._troubled) < MAX_PEERS:
            self._troubled.add(peer.uri)
            logger.warning("broker %r cannot be asked for its links: %r", peer.name, error)

    async def _answer(self, peer: Peer) -> list[Row]:
        """Return the rows of a broker, or the reason of the silence."""
        # A hub gets no rows back that it has told: with many guests their reports would be as long as all together.
        report = json.dumps({"brokers": self._rows(peer.name)}) if peer.name in self._invited else ""
        try:
            async with asyncio.timeout(QUESTION_S):
                return await self._ask(peer, self._watch_of_others(), report)
        except TimeoutError:
            return [silent(peer, f"does not answer within {QUESTION_S:g} s")]
        except (SpanwireError, OSError) as error:
            return [silent(peer, f"cannot be asked: {error}")]

    def _watch_of_others(self) -> int:
        """Return the seconds for which other brokers are to report.

        They are counted down from the moment of the question, by more than an answer takes. So of two brokers that ask
        each other none is watched for longer than the one that was looked at.
        """
        return max(0, int(self._watched_until - self._now() - QUESTION_S))

    def _rows(self, without: str = "") -> list[Row]:
        """Return the row of this broker, and those of others but for the rows of one teller."""
        now = self._now()
        links = [self._link(view, now) for view in list(self._links())[:MAX_LINKS]]
        known = {link["remote"] for link in links if link["state"] == RUNNING}
        guests = [name[:MAX_TEXT] for name in self._guests() if name not in known]
        links += [
            {"name": "", "remote": name, "state": RUNNING, "incoming": True, "destinations": []} for name in guests
        ]
        own: Row = {
            "name": self._broker.name,
            "id": self._broker.broker_id,
            "kind": SPANWIRE,
            "silence": "",
            "age_s": 0.0,
            "links": links[:MAX_LINKS],
            "ledger": [dict(row) for row in list(self._ledger())[:MAX_LINKS]],
        }
        return [own, *self._known.rows(now, without)]

    def _link(self, view: Mapping[str, object], now: float) -> Row:
        names = view.get("destinations")
        destinations = [str(name) for name in names] if isinstance(names, (list, tuple)) else []
        key = f"{view.get('name')} {view.get('uri')}"
        kept = (
            "name", "uri", "remote", "state", "reason", "demand", "in_flight", "enqueued", "dequeued", "received",
            "failed", "reconnects", "since_s", "duplex", "accepted",
        )  # fmt: skip
        return {
            **{name: view.get(name) for name in kept},
            "waiting": sum(self._waiting(name) for name in destinations),
            "rate": self._rates.rate(f"{key} sent", view.get("dequeued"), now),
            "received_rate": self._rates.rate(f"{key} received", view.get("received"), now),
            "destinations": [name[:MAX_TEXT] for name in destinations[:MAX_DESTINATIONS]],
        }

    def _waiting(self, name: str) -> int:
        """Return the number of messages of a queue waiting here for a link with demand."""
        destination = parse_destination(name, QUEUE)
        if not destination.is_queue or destination.is_pattern or destination.is_composite:
            return 0
        found = self._broker.find_destination(destination)
        return 0 if found is None else found.waiting()


def readable(rows: Sequence[Row], may_read: Callable[[str], bool]) -> list[Row]:
    """Return rows without unreadable destinations; each name is looked up once."""
    known: dict[str, bool] = {}

    def is_readable(name: str) -> bool:
        if name not in known:
            known[name] = may_read(name)
        return known[name]

    def without(link: Row) -> Row:
        names = link["destinations"]
        assert isinstance(names, list)
        return {**link, "destinations": [name for name in names if is_readable(name)]}

    found: list[Row] = []
    for row in rows:
        links = row["links"]
        assert isinstance(links, list)
        found.append({**row, "links": [without(link) for link in links]})
    return found


class Rates:
    """Rates of counters, each measured between two looks at a distance of `LEAST_RATE_S`."""

    def __init__(self) -> None:
        self._measured: Final[dict[str, tuple[float, int, float]]] = {}  # time, count and rate

    def rate(self, key: str, count: object, now: float) -> float:
        """Return the messages in a second since the look before; 0 at the first look."""
        if not isinstance(count, int):
            return 0.0
        at, before, rate = self._measured.get(key, (now, count, 0.0))
        if now - at >= LEAST_RATE_S:
            rate = round(max(0, count - before) / (now - at), 1)
        elif key in self._measured:
            return rate
        if key not in self._measured and len(self._measured) >= 2 * MAX_LINKS:
            self._measured.clear()  # links of connectors that were removed
        self._measured[key] = (now, count, rate)
        return rate
