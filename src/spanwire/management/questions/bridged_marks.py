"""Follows the messages of a mark at the brokers to which bridges and routes of this broker send them.

A bridge sends a message under a new id, which it knows after the send. So the broker there marks what comes to the
target from the start of the trace, and of its observations those of the ids that the bridge has reported are kept, as
observations of the mark here. The broker is asked over the management channel with the address and login of the
bridge, and answers a login that may act as a bridge there. Nothing is asked of a broker that is no Spanwire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast, runtime_checkable

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.broker.following.mark import MAX_MESSAGES, MAX_SECONDS, Mark
from spanwire.model.destination import Destination
from spanwire.model.errors import SpanwireError
from spanwire.network.reports import trace_rows
from spanwire.network.reports.known_brokers import Peer
from spanwire.network.reports.message_questions import HOP_S
from spanwire.transports.base import Clock

Row = dict[str, object]
AskBroker = Callable[[Peer, str, str, Sequence[str], float, str], Awaitable[str]]
ACTION: Final = "trace"
MAX_BRIDGES: Final = 3  # bridges one behind the other that a trace follows; each adds an answer's time
MAX_TARGETS: Final = 20  # targets of one mark
OTHERS: Final = "other targets of bridges"  # named like a broker in the answer, where some are not followed
MAX_BROKERS: Final = 500  # brokers that the broker of one target tells of, as in one trace
MAX_SENDERS: Final = 3  # senders of bridges that are marked apart at a busy target; a reconnected bridge is another one
MAX_SENDER: Final = 300  # characters of the id of a sender
MAX_PENDING: Final = 5_000  # observations of one target that wait for the report of the bridge, half a second as a rule
ESCAPE: Final = "!"  # in patterns of LIKE
ASK_S: Final = 5.0  # seconds for one answer with its login
LOOK_S: Final = 1.0  # seconds between two questions to one broker


@dataclass(frozen=True, slots=True)
class BridgeTarget:
    """A target of a bridge or route at a broker over OpenWire.

    ``silence`` is the reason why the broker cannot be asked, "" without one.
    """

    destination: Destination
    peer: Peer
    silence: str = ""


@runtime_checkable
class BridgeTargets(Protocol):
    """Knows the bridges of this broker (``service/children/bridge_process.py``)."""

    def targets(self, source: Destination) -> list[BridgeTarget]:
        """Return the targets of the bridges that take messages from a destination of this broker."""
        ...


class TargetMark:
    """The mark at one target, and the answers of its broker."""

    def __init__(self, target: BridgeTarget, mark_id: str, *, everywhere: bool, sender: str = "") -> None:
        """``everywhere`` also asks the brokers of the links of that broker.

        ``sender`` begins the ids of the only messages; without it all are marked.
        """
        self.sender: Final = sender
        self.senders: Final[dict[str, None]] = {}  # marked apart, as this mark is full
        self.is_full = False
        self.noted: set[str] = set()  # ids of messages of which a step was kept
        self.first: TargetMark | None = None  # the full mark, of which this one marks a sender apart
        self.target: Final = target
        self.mark_id: Final = mark_id
        self.everywhere: Final = everywhere
        self.after: Final[dict[str, int]] = {}  # the highest number read of each broker
        self.pending: list[Row] = []
        self.states: dict[object, Row] = {}
        self.dropped = 0
        self.looked = -LOOK_S
        self.asking: asyncio.Task[None] | None = None

    def take(self, rows: Sequence[Row]) -> None:
        """Keep an answer: new observations until their ids are known, and the states of brokers."""
        for row in rows:
            if row["kind"] != trace_rows.OBSERVATION:
                if row["broker"] in self.states or len(self.states) < MAX_BROKERS:
                    self.states[row["broker"]] = row
                continue
            teller, number = str(row.get("teller") or row["broker"]), row["number"]
            assert isinstance(number, int)
            if number <= self.after.get(teller, 0):
                continue
            if teller not in self.after and len(self.after) >= MAX_BROKERS:
                self.dropped += 1
                continue
            self.after[teller] = number
            if len(self.pending) >= MAX_PENDING:
                self.dropped += 1
            else:
                self.pending.append(row)

    def note_excess(self, broker: str) -> None:
        """Say that more messages came to the target than its broker marks."""
        state = self.states.get(broker)
        marked = 0 if state is None else state["marked"]
        if state is not None and isinstance(marked, int) and marked >= MAX_MESSAGES and not state["silence"]:
            self.is_full = True
            name = self.target.destination.qualified_name
            text = f"only the first {marked} messages of all senders to {name} were followed"
            later = ", and those of the bridge since then" if self.senders else ""
            self.states[broker] = {**state, "silence": text + later}


def _pattern(text: str) -> str:
    """Return the pattern of LIKE for a text itself."""
    for special in (ESCAPE, "_", "%"):
        text = text.replace(special, ESCAPE + special)
    return text.replace("'", "''")


class BridgedMarks:
    """The marks at the targets of bridges, for the marks of one broker."""

    def __init__(self, broker: Broker, clock: Clock, ask: AskBroker | None = None) -> None:
        """``ask`` asks one broker; without it the client does, which the first question loads."""
        self._broker: Final = broker
        self._clock: Final = clock
        self._ask_broker: Final = ask
        self._marks: Final[dict[Mark, list[TargetMark]]] = {}
        self._left_out: Final[dict[Mark, Row]] = {}  # why targets are not followed, if there are such

    def begin(self, mark: Mark, bridges: int, *, everywhere: bool) -> None:
        """Find the targets for the messages of a mark; over ``bridges`` more bridges, none with 0.

        The answer names what is not followed: the targets of a pattern, and those beyond `MAX_TARGETS`.
        """
        source = self._broker.assembly.context.step_source
        if mark in self._marks or bridges <= 0 or not isinstance(source, BridgeTargets):
            return
        found: dict[tuple[str, str], BridgeTarget] = {}
        for wanted in list(mark.wanted.values()):
            for target in [] if wanted.is_pattern else source.targets(wanted):
                found.setdefault((target.peer.uri, target.destination.qualified_name), target)
        self._marks[mark] = [
            TargetMark(target, f"{mark.settings.mark_id}.{number}", everywhere=everywhere)
            for number, target in enumerate(list(found.values())[:MAX_TARGETS], 1)
        ]
        if len(found) > MAX_TARGETS:
            reason = f"only {MAX_TARGETS} of {len(found)} targets of bridges are followed; trace fewer destinations"
        elif any(wanted.is_pattern for wanted in mark.wanted.values()):
            reason = "a trace of a pattern ends at the bridges; trace one destination to follow its bridges"
        else:
            return
        self._left_out[mark] = trace_rows.failed(OTHERS, "", reason)

    def forget(self, active: Sequence[Mark]) -> None:
        """Forget all marks but for the ``active`` ones."""
        for mark in [one for one in self._marks if one not in active]:
            self._left_out.pop(mark, None)
            for target in self._marks.pop(mark):
                if target.asking is not None:
                    target.asking.cancel()

    def look(self, mark: Mark, bridges: int) -> list[asyncio.Task[None]]:
        """Ask the brokers that were not asked within `LOOK_S`; return all questions on their way."""
        now = self._clock.now()
        tasks: list[asyncio.Task[None]] = []
        for one in self._marks.get(mark, ()):
            if one.asking is None and now.monotonic - one.looked >= LOOK_S:
                one.looked = now.monotonic
                one.asking = asyncio.get_running_loop().create_task(self._ask(one, mark, bridges))
            if one.asking is not None:
                tasks.append(one.asking)
        return tasks

    def collect(self, mark: Mark) -> list[Row]:
        """Move the observations of bridged messages into the mark; return the states of the brokers."""
        states: list[Row] = [self._left_out[mark]] if mark in self._left_out else []
        for one in list(self._marks.get(mark, ())):
            if one.is_full and not one.sender:
                self._mark_senders(mark, one)
            waiting, one.pending = one.pending, []
            for row in waiting:
                if one.first is not None and str(row["message_id"]) in one.first.noted:
                    continue  # it was among the first messages, whose mark tells its steps
                if not self._note(mark, row):
                    one.pending.append(row)
                elif one.first is None:
                    one.noted.add(str(row["message_id"]))
            reported = {} if one.first is None else one.first.states  # says that the mark is full
            states += [state for name, state in one.states.items() if name not in reported]
            mark.observations.dropped += one.dropped
            one.dropped = 0
        return states

    def _mark_senders(self, mark: Mark, full: TargetMark) -> None:
        """Mark the messages of the bridge apart, because others have filled the mark. The bridge has told their ids."""
        marks = self._marks[mark]
        for message_id in mark.copies:
            sender = message_id.rpartition(":")[0] + ":"
            if len(full.senders) < MAX_SENDERS and 1 < len(sender) <= MAX_SENDER and sender not in full.senders:
                full.senders[sender] = None
                mark_id = f"{mark.settings.mark_id}.{len(marks) + 1}"
                apart = TargetMark(full.target, mark_id, everywhere=full.everywhere, sender=sender)
                apart.first = full
                marks.append(apart)

    def _note(self, mark: Mark, row: Row) -> bool:
        """Add an observation to the mark; False for one of a message that is not known to have crossed."""
        known = mark.copies.get(str(row["message_id"]))
        if known is None:
            return False
        hops, deliveries, time_ms = row["hops"], row["deliveries"], row["time_ms"]
        assert isinstance(hops, int)
        assert isinstance(deliveries, int)
        assert isinstance(time_ms, int)
        mark.observations.add(
            str(row["step"]), str(row["message_id"]), str(row["destination"]), str(row["location"]),
            str(row["detail"]), known.hops + 1 + hops, deliveries, time_ms, str(row["broker"]),
        )  # fmt: skip
        return True

    async def _ask(self, one: TargetMark, mark: Mark, bridges: int) -> None:
        peer, target = one.target.peer, one.target
        asked_ms = self._clock.now().wall_ms
        try:
            if target.silence:
                reason = target.silence
            else:
                async with asyncio.timeout(ASK_S):
                    answer = await self._answer(one, mark, bridges)
                rows = trace_rows.read_answer(answer)
                teller = str(rows[0]["broker"]) if rows else ""
                one.take(trace_rows.with_offsets(rows, teller, asked_ms, self._clock.now().wall_ms))
                one.note_excess(teller)
                return
        except TimeoutError:
            reason = f"does not answer within {ASK_S:g} s"
        except (SpanwireError, OSError) as error:
            reason = f"cannot be asked: {error}"
        finally:
            one.asking = None
        one.states[peer.name] = trace_rows.failed(peer.name, "", f"broker {peer.name} {reason}")

    async def _answer(self, one: TargetMark, mark: Mark, bridges: int) -> str:
        now = self._clock.now()
        left_s = 1 if mark.ended else max(1, int(mark.until - now.monotonic))
        settings: Row = {
            "id": one.mark_id, "destination": one.target.destination.qualified_name,
            "seconds": min(left_s, MAX_SECONDS), "messages": MAX_MESSAGES,
        }  # fmt: skip
        if one.sender:
            settings["selector"] = f"JMSMessageID LIKE '{_pattern(one.sender)}%' ESCAPE '{ESCAPE}'"
        question = {"mark": settings, "after": one.after, "over": bool(mark.ended)}
        question |= {"bridges": bridges - 1, "alone": not one.everywhere}
        ask = self._ask_broker or cast("AskBroker", registry.load(registry.BROKERS_QUESTION))
        seconds = ASK_S if one.everywhere else HOP_S  # within which a broker asks no others
        return await ask(one.target.peer, ACTION, json.dumps(question), (), seconds, "")
