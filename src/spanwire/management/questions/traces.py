"""``spanwire trace``: marks messages of a queue or topic, and reads the observations of all brokers.

`spanwire.broker.following` observes. Other brokers are asked over the links, like for questions why
(`spanwire.network.reports.message_questions`), and each broker applies the same mark.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.following.follower import LATE_S, Follower
from spanwire.broker.following.mark import MAX_IDS, MAX_MESSAGES, MAX_SECONDS, Mark, MarkSettings
from spanwire.broker.following.observations import FORWARDED, SENT_ON
from spanwire.management.questions.bridged_marks import MAX_BRIDGES, BridgedMarks
from spanwire.management.questions.pipeline_batches import note_batches
from spanwire.management.questions.questions import NetworkSource, View
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.transports.base import Clock

ACTION: Final = "trace"
DEFAULT_SECONDS: Final = 60
DEFAULT_MESSAGES: Final = 100
MAX_ONE_IN: Final = 1_000_000
MAX_ID: Final = 40  # characters of the id of a trace
MAX_ROWS: Final = 500  # observations of one answer, about 200 KB
MAX_KEPT_ROWS: Final = 20_000  # observations of one trace, of all brokers together; about 10 MB
MAX_BROKERS: Final = 500  # brokers of one trace, as in a question
OTHERS_S: Final = 2.0  # seconds that an answer to another broker waits for those beyond bridges, at begin and end
FIRST_S: Final = 3.0  # seconds that the start of a trace waits until the others have begun, too
LOOK_S: Final = 1.0  # seconds between two questions to the other brokers for one trace
INNER: Final = ("kind", "number", "teller")  # fields of an observation for brokers alone
ENDED: Final = "an operator has ended it"


class Trace:
    """One trace of this broker, with the observations of all brokers in the order of reading."""

    def __init__(self, settings: MarkSettings, until_ms: int, *, everywhere: bool) -> None:
        self.settings: Final = settings
        self.until_ms: Final = until_ms
        self.everywhere: Final = everywhere
        self.rows: Final[list[View]] = []
        self.brokers: Final[dict[str, View]] = {}
        self.after: Final[dict[str, int]] = {}  # the highest number read of each broker
        self.dropped = 0
        self.looked = -LOOK_S  # monotonic seconds of the last question to others
        self.asking: asyncio.Task[None] | None = None
        self.is_complete = False  # nothing more is to come

    def take(self, rows: Sequence[View]) -> None:
        """Keep the brokers' reports: new observations, and the state of each broker."""
        for row in rows:
            name = str(row["broker"])
            if name not in self.brokers and len(self.brokers) >= MAX_BROKERS:
                continue
            if row.get("kind") != "observation":
                self.brokers[name] = {key: value for key, value in row.items() if key != "kind"}
                continue
            number, teller = row["number"], str(row.get("teller") or name)
            assert isinstance(number, int)
            if number <= self.after.get(teller, 0):
                continue
            if teller not in self.after and len(self.after) >= MAX_BROKERS:
                self.dropped += 1
                continue
            self.brokers.setdefault(name, {"broker": name})
            self.after[teller] = number
            if len(self.rows) >= MAX_KEPT_ROWS:
                self.dropped += 1
            else:
                self.rows.append({key: value for key, value in row.items() if key not in INNER})


class Traces:
    """Starts, reads and ends traces of one broker."""

    def __init__(self, broker: Broker, clock: Clock, wake: Callable[[], None], network: NetworkSource | None) -> None:
        """Take the broker; ``wake`` ends a turn of the loop soon, so that a mark ends in time."""
        self._broker: Final = broker
        self._clock: Final = clock
        self._wake: Final = wake
        self._network: Final = network
        self._follower: Final = Follower(broker.assembly, broker.formats)
        self._bridged: Final = BridgedMarks(broker, clock)
        self._traces: Final[dict[str, Trace]] = {}

    async def start(self, arguments: Mapping[str, object]) -> View:
        """Mark messages of ``destination`` and return the id of the trace.

        ``selector``, ``ids`` and ``one_in`` choose the messages, ``seconds`` and ``messages`` bound the trace. With
        ``network`` all brokers mark messages.

        Raises:
            ConfigurationError: an argument is invalid, or too many traces are active
        """
        now = self._clock.now()
        settings = mark_settings({**arguments, "id": f"t-{secrets.token_hex(4)}"})
        mark = self._follower.begin(settings, now)
        self._bridged.forget(self._follower.all())
        self._wake()
        for old in [name for name in self._traces if self._follower.find(name) is None]:
            del self._traces[old]
        everywhere = arguments.get("network") in (True, "true") and self._network is not None
        trace = Trace(settings, now.wall_ms + settings.seconds * 1000, everywhere=everywhere)
        trace.is_complete = not everywhere and self._broker.assembly.context.step_source is None
        self._traces[settings.mark_id] = trace
        self._bridged.begin(mark, MAX_BRIDGES, everywhere=everywhere)
        tasks = self._bridged.look(mark, MAX_BRIDGES)
        self._look(trace)
        tasks += [] if trace.asking is None else [trace.asking]
        if tasks:
            await asyncio.wait(tasks, timeout=FIRST_S)
            self._look(trace)
        return self._view(trace, len(trace.rows))

    async def end(self, arguments: Mapping[str, object]) -> View:
        """End the trace ``trace`` at all brokers; the observations stay readable for a while.

        Raises:
            ConfigurationError: there is no such trace
        """
        trace = self._find(arguments)
        self._look(trace)
        self._end(trace.settings.mark_id)
        self._look(trace)
        return self._view(trace, len(trace.rows))

    async def observations(self, arguments: Mapping[str, object]) -> View:
        """Return the observations of the trace ``trace``, from the row ``after`` on.

        Returns:
            the trace, ``observations``, ``brokers`` with the offsets of the clocks, and ``next``, the ``after`` of
            the next call

        Raises:
            ConfigurationError: there is no such trace
        """
        if not arguments.get("trace"):
            return {"broker": self._broker.name, "traces": [self._view(one, None) for one in self._traces.values()]}
        trace = self._find(arguments)
        after = arguments.get("after", 0)
        if not isinstance(after, (int, str)) or not str(after).isdecimal() or len(str(after)) > len(str(MAX_KEPT_ROWS)):
            raise ConfigurationError(f"after is a whole number up to {MAX_KEPT_ROWS}")
        self._look(trace)
        return self._view(trace, int(after))

    async def own(self, text: str) -> list[View]:
        """Return the broker's observations for another broker's mark, active from the first question on.

        Args:
            text: the mark and the highest numbers that the other broker has, as JSON.

        Raises:
            ConfigurationError: the text has another form, or too many marks are active.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError("the question is no JSON") from error
        asked = content.get("mark") if isinstance(content, dict) else None
        if not isinstance(asked, dict):
            raise ConfigurationError("the question has no mark")
        settings = mark_settings(asked)
        after = content.get("after")
        number = after.get(self._broker.name) if isinstance(after, dict) else 0
        bridges = content.get("bridges")
        bridges = min(bridges, MAX_BRIDGES) if isinstance(bridges, int) else 0
        is_new = self._follower.find(settings.mark_id) is None
        if content.get("over") is True:
            self._end(settings.mark_id)
        elif is_new:
            begun = self._follower.begin(settings, self._clock.now())
            self._bridged.forget(self._follower.all())
            self._bridged.begin(begun, bridges, everywhere=content.get("alone") is not True)
            self._wake()
        mark = self._follower.find(settings.mark_id)
        if mark is None:
            return []
        tasks = self._bridged.look(mark, bridges)
        if tasks and (is_new or mark.ended):
            await asyncio.wait(tasks, timeout=OTHERS_S)
        return self._rows(mark, number if isinstance(number, int) else 0)

    def _end(self, mark_id: str) -> None:
        self._broker.assembly.context.begin_request(self._clock.now())
        self._follower.end(mark_id, ENDED)
        self._wake()

    def _rows(self, mark: Mark, after: int) -> list[View]:
        """Return the state of the broker, and the observations after a number."""
        now = self._clock.now()
        names = self._names()
        state: View = {
            "kind": "broker", "broker": self._broker.name, "id": self._broker.broker_id, "silence": "",
            "time_ms": now.wall_ms, "offset_ms": 0, "uncertain_ms": 0, "marked": len(mark.marked),
            "dropped": mark.observations.dropped, "ended": mark.ended,
        }  # fmt: skip
        note_batches(mark, self._broker.assembly)
        states = self._bridged.collect(mark)
        rows: list[View] = []
        for one in mark.observations.after(after, MAX_ROWS):
            row = {"kind": "observation", **one.row(self._broker.name)}
            if one.step in (SENT_ON, FORWARDED) and one.location:
                row["location"] = f"broker {names.get(one.location, one.location)}"
            rows.append(row)
        return [state, *(one for one in states if one["broker"] != self._broker.name), *rows]

    def _names(self) -> dict[str, str]:
        """Return the names of the brokers at the other ends of links by id."""
        links = () if self._network is None else self._network.link_descriptions()
        return {link.remote_id: link.remote for link in links if link.remote_id and link.remote}

    def _look(self, trace: Trace) -> None:
        """Read on at the own broker, and begin to ask the others unless the last question was a moment ago."""
        mark = self._follower.find(trace.settings.mark_id)
        if mark is not None:
            trace.take(self._rows(mark, trace.after.get(self._broker.name, 0)))
        now = self._clock.now().monotonic
        if trace.asking is None and not trace.is_complete and now - trace.looked >= LOOK_S:
            trace.looked = now
            trace.asking = asyncio.get_running_loop().create_task(self._look_elsewhere(trace, mark))

    async def _look_elsewhere(self, trace: Trace, mark: Mark | None) -> None:
        """Ask the other brokers; for the last time when all have had the time for their last steps."""
        is_over = mark is None or bool(mark.ended)
        is_last = mark is None or (is_over and self._clock.now().monotonic - mark.ended_at >= LATE_S)
        try:
            tasks = [] if mark is None else self._bridged.look(mark, MAX_BRIDGES)
            if self._network is not None and trace.everywhere:
                trace.take(await self._network.ask_everywhere(ACTION, self._question(trace, is_over=is_over)))
            if tasks and is_over:
                await asyncio.wait(tasks)
            if mark is not None:
                trace.take(self._rows(mark, trace.after.get(self._broker.name, 0)))
            trace.is_complete = is_last
        finally:
            trace.asking = None

    def _question(self, trace: Trace, *, is_over: bool) -> str:
        settings = trace.settings
        left_s = max(1, (trace.until_ms - self._clock.now().wall_ms) // 1000)
        mark = {
            "id": settings.mark_id, "destination": settings.destination.qualified_name,
            "selector": settings.selector_text, "ids": sorted(settings.ids), "one_in": settings.one_in,
            "seconds": min(left_s, MAX_SECONDS), "messages": settings.messages,
        }  # fmt: skip
        return json.dumps({"mark": mark, "after": trace.after, "over": is_over, "bridges": MAX_BRIDGES})

    def _find(self, arguments: Mapping[str, object]) -> Trace:
        name = arguments.get("trace")
        trace = self._traces.get(name) if isinstance(name, str) else None
        if trace is None:
            raise ConfigurationError(
                f"there is no trace {str(name)[:MAX_ID]} at this broker; those that ended a while ago are forgotten"
            )
        return trace

    def _view(self, trace: Trace, after: int | None) -> View:
        """Return the trace, with the rows from ``after`` on; without rows for None."""
        mark = self._follower.find(trace.settings.mark_id)
        view: View = {
            "trace": trace.settings.mark_id,
            "broker": self._broker.name,
            "destination": trace.settings.destination.qualified_name,
            "selector": trace.settings.selector_text or "",
            "network": trace.everywhere,
            "complete": trace.is_complete,
            "ended": ENDED if mark is None else mark.ended,
            "left_s": max(0, -((self._clock.now().wall_ms - trace.until_ms) // 1000)),  # rounded up
            "marked": 0 if mark is None else len(mark.marked),
            "dropped": trace.dropped + (0 if mark is None else mark.observations.dropped),
        }
        if after is None:
            return view
        rows = trace.rows[after : after + MAX_ROWS]
        brokers = [trace.brokers[name] for name in sorted(trace.brokers)]
        return {**view, "next": after + len(rows), "observations": rows, "brokers": brokers}


def mark_settings(arguments: Mapping[str, object]) -> MarkSettings:
    """Return the mark of checked arguments. Raises `ConfigurationError`."""
    mark_id, selector, ids = arguments.get("id"), arguments.get("selector"), arguments.get("ids")
    if not isinstance(mark_id, str) or not 0 < len(mark_id) <= MAX_ID:
        raise ConfigurationError(f"the id of a trace is a text of 1 to {MAX_ID} characters")
    if selector is not None and not isinstance(selector, str):
        raise ConfigurationError("selector is a text")
    if ids is None:
        ids = []
    if not isinstance(ids, list) or len(ids) > MAX_IDS or not all(isinstance(one, str) for one in ids):
        raise ConfigurationError(f"ids is a list of at most {MAX_IDS} message ids")
    try:
        return MarkSettings(
            mark_id, traced_destination(arguments.get("destination")), selector or None, tuple(ids),
            _number(arguments, "one_in", 1, MAX_ONE_IN),
            _number(arguments, "seconds", DEFAULT_SECONDS, MAX_SECONDS),
            _number(arguments, "messages", DEFAULT_MESSAGES, MAX_MESSAGES),
        )  # fmt: skip
    except JmsError as error:
        raise ConfigurationError(str(error)) from error


def traced_destination(name: object) -> Destination:
    """Return the single queue or topic of a name; a name without a prefix means a queue."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError("destination is the name of a queue, or topic://NAME")
    try:
        parsed = parse_destination(name, QUEUE)
    except JmsError as error:
        raise ConfigurationError(str(error)) from error
    if parsed.is_pattern or parsed.is_composite:
        raise ConfigurationError(f"a trace follows the messages of one queue or topic; {name[:80]} names several")
    if parsed.is_advisory:
        raise ConfigurationError("advisories cannot be traced")
    return parsed


def _number(arguments: Mapping[str, object], name: str, default: int, most: int) -> int:
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise ConfigurationError(f"{name} is a whole number from 1 to {most}")
    return value
