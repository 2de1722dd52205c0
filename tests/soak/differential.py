"""Random scenarios, each on ActiveMQ Classic and on Spanwire: `python -m tests.soak.differential --first 1 --count 50`.

Clients must see the same on both, step by step: messages, counters, refusals. The first difference that stays ends the
run with 1. It is printed with its seed and the shortest scenario that shows it, and kept in ``out/soak``.

A seed is the whole of a scenario, but the moments at which brokers and clients act are not. So a difference counts when
it comes three times of three; the last line says how many did not.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from tests.conformance.differential.brokers import ATTRIBUTES, INSIDE, ClassicBroker, SpanwireBroker
from tests.conformance.differential.playing import unlike
from tests.soak.random_scenarios import scenario_of
from tests.soak.scenario_player import COMPOSITES, play
from tests.soak.vocabulary import LIFE_MS, Scenario, Step
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.histories import keep
from tests.support.java import JavaProcess, compile_java
from tests.support.peers import missing

JAVA: Final = Path(__file__).parents[1] / "conformance" / "differential" / "java"
TIMES: Final = 3  # that a difference must come
MAX_SHRINKING_PLAYS: Final = 150  # some minutes
COUNTERS_MS: Final = 400  # for counters of a destination that Classic may not have
TOLERATED: Final = (  # what no client can rely on, or what `docs/reference/deviations.md` lists
    (re.compile(r"(still has an active subscription): .*"), r"\1"),
    (re.compile(r"(Unexpected N?ACK received for message-id) \[[^]]*\]"), r"\1"),
    (re.compile(r', "transaction": true|"transaction": true, '), ""),
)
COUNTERS: Final = "counters of"
IN_FLIGHT: Final = re.compile(r'"inflightCount": \d+')
DELIVERIES: Final = re.compile(r'"deliveries": \d+')
CAUSE: Final = re.compile(r'"dlqDeliveryFailureCause": "[^"]*"(, )?')  # of a message refused with NACK
BETWEEN: Final = re.compile(r"(?<=\}), (?=\{)")  # the messages that a browser saw
FIRST: Final = '"first_for_consumer": true, '
COMPOSITE: Final = """\
          <compositeQueue name="CQ.{0}" forwardOnly="false">
            <forwardTo><queue physicalName="CQA.{0}"/><topic physicalName="CQT.{0}"/></forwardTo>
          </compositeQueue>
          <compositeQueue name="FQ.{0}">
            <forwardTo><queue physicalName="FQA.{0}"/><topic physicalName="FQT.{0}"/></forwardTo>
          </compositeQueue>
          <compositeTopic name="CT.{0}">
            <forwardTo>
              <filteredDestination selector="colour = 'red'" queue="CTR.{0}"/>
              <filteredDestination selector="colour = 'blue'" topic="CTB.{0}"/>
            </forwardTo>
          </compositeTopic>
"""
Lines = list[list[str]]  # of each step
Play = Callable[[Scenario], tuple[Lines, Lines]]  # on Classic and on Spanwire


@dataclass(frozen=True)
class Difference:
    """The first step in which two brokers differ."""

    scenario: Scenario
    at: int
    classic: list[str]
    ours: list[str]

    def __str__(self) -> str:
        steps = [f"  {'> ' if at == self.at else '  '}{shown(step)}" for at, step in enumerate(self.scenario)]
        return "\n".join([*steps, "Classic (-) and Spanwire (+) differ:", *unlike(self.ours, self.classic)])


def shown(step: Step) -> str:
    """A step as one line."""
    return " ".join(each if isinstance(each, str) else json.dumps(each) for each in step)


def first_difference(scenario: Scenario, classic: Lines, ours: Lines) -> Difference | None:
    """The first difference that counts, None if there is none."""
    left, right = comparable(scenario, classic, ours), comparable(scenario, ours, classic)
    for at, (theirs, mine) in enumerate(zip(left, right, strict=True)):
        if theirs != mine:
            if is_order_free(scenario) and unordered(left) == unordered(right):
                return None
            return Difference(scenario, at, theirs, mine)
    return None


def comparable(scenario: Scenario, played: Lines, other: Lines) -> Lines:
    """What was played on one broker, without the lines and words that need not be as on the other.

    Counters are left out of a destination that one of them has not made yet, and while messages may have expired that
    nobody has come upon. Classic does not count a delivery that a client makes again by itself, and its windows grow by
    messages that were acknowledged one by one.
    """
    words = {step[0] for step in scenario}
    expires = any(step[0] == "send" and step[4].get("ttl") == LIFE_MS for step in scenario)
    repeats = not words.isdisjoint(("rollback", "recover")) or any(step[0] == "listen" and step[2] for step in scenario)
    takes_single = any(step[0] == "session" and step[3] == "individual" for step in scenario)
    found: Lines = []
    for step, lines, others in zip(scenario, played, other, strict=True):
        is_told = not any(line.startswith(COUNTERS) and line.endswith("{}") for line in (*lines, *others))
        kept = []
        for at, line in enumerate(lines):
            is_last = step[0] == "left" and at == len(lines) - 1  # everything was received before
            if line.startswith(COUNTERS) and not (is_told and (is_last or not expires)):
                continue
            for pattern, replacement in TOLERATED:
                line = pattern.sub(replacement, line)
            if takes_single:
                line = IN_FLIGHT.sub('"inflightCount": N', line)
            if repeats:
                line = DELIVERIES.sub('"deliveries": N', line)
            kept.append(CAUSE.sub("", line) if "stomp nack" in words else line)
        found.append(kept)
    return found


def is_order_free(scenario: Scenario) -> bool:
    """Return True if consumers compete or select: what they give back takes its old place with Spanwire alone."""
    consumers = [step for step in scenario if step[0] in ("consumer", "subscriber", "stomp subscribe")]
    return len(consumers) > 1 or any(step[0] == "consumer" and step[4] for step in consumers)


def unordered(lines: Lines) -> list[str]:
    """What was seen in any order, also by browsers."""
    return sorted(_sorted_inside(line.replace(FIRST, "")) for step in lines for line in step)


def _sorted_inside(line: str) -> str:
    said, browses, seen = line.partition(" → [")
    if not browses:
        return line
    return said + browses + " ".join(sorted(BETWEEN.split(seen.removesuffix("]"))))


class Comparison:
    """Plays scenarios and looks for differences that stay."""

    def __init__(self, play_both: Play) -> None:
        self._play: Final = play_both
        self.counts: Final[Counter[str]] = Counter(played=0, passing=0)

    def find(self, scenario: Scenario) -> Difference | None:
        """The difference of this scenario, shrunk, or None."""
        self.counts["played"] += 1
        if self._differs(scenario) is None:
            return None
        found = self._stays(scenario, TIMES - 1)
        if found is None:
            self.counts["passing"] += 1
            return None
        return self._shrunk(found)

    def _differs(self, scenario: Scenario) -> Difference | None:
        return first_difference(scenario, *self._play(scenario))

    def _stays(self, scenario: Scenario, times: int) -> Difference | None:
        found = None
        for _ in range(times):
            found = self._differs(scenario)
            if found is None:
                return None
        return found

    def _shrunk(self, found: Difference) -> Difference:
        """Leave out ever smaller parts, as long as a difference stays."""
        plays, size = 0, max(1, len(found.scenario) // 2)
        while True:
            at, before = 0, len(found.scenario)
            while at < len(found.scenario):
                if plays >= MAX_SHRINKING_PLAYS:
                    return found
                rest = found.scenario[:at] + found.scenario[at + size :]
                plays += 1
                shorter = self._stays(rest, TIMES) if rest else None
                if shorter is not None:
                    found = shorter
                else:
                    at += size
            if size == 1 and len(found.scenario) == before:
                return found
            size = max(1, size // 2)


@contextmanager
def both_brokers(directory: Path) -> Iterator[Play]:
    """Classic and Spanwire with one configuration, each with a Java client of its own."""
    end = "        </virtualDestinations>"
    inside = INSIDE.replace(end, "".join(map(COMPOSITE.format, range(COMPOSITES))) + end)
    data = directory / "spanwire" / "own"
    numbers = count(1)
    with ExitStack() as stack:
        classic = stack.enter_context(
            classic_broker(directory / "classic", name="differential", inside=inside, attributes=ATTRIBUTES)
        )
        ours = stack.enter_context(BrokerProcess(
            spanwire_command("--skip-unsupported", "--data-directory", str(data)), directory / "spanwire",
            name="differential", inside=inside, attributes=ATTRIBUTES,
        ))  # fmt: skip
        classes = compile_java(JAVA, directory / "classes")
        clients = [stack.enter_context(JavaProcess(classes, "Remote")) for _ in range(2)]
        threads = stack.enter_context(ThreadPoolExecutor(1))
        brokers = ClassicBroker(classic, COUNTERS_MS), SpanwireBroker(ours, data)

        def play_both(scenario: Scenario) -> tuple[Lines, Lines]:
            number = next(numbers)
            on_ours = threads.submit(play, clients[1], brokers[1], scenario, number)
            on_classic = play(clients[0], brokers[0], scenario, number)
            return on_classic, on_ours.result()

        yield play_both


def run(seeds: Sequence[int], play_both: Play) -> int:
    """Play the scenarios of all seeds up to the first difference; the exit status."""
    comparison = Comparison(play_both)
    for seed in seeds:
        found = comparison.find(scenario_of(seed))
        if found is not None:
            replay = f"python -m tests.soak.differential --first {seed} --count 1"
            verdict = f"seed {seed}: step {found.at + 1} of {len(found.scenario)} differs"
            keep("differential", seed, verdict, replay, map(json.dumps, found.scenario))
            sys.stdout.write(f"{found}\n{verdict}\n{replay}\n")
            return 1
    counts = comparison.counts
    sys.stdout.write(
        f"{counts['played']} scenarios from seed {seeds[0]} on, the same on Classic and Spanwire; "
        f"{counts['passing']} of them differed once and not again\n"
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Random scenarios, each on ActiveMQ Classic and on Spanwire.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=50, help="how many seeds")
    options = parser.parse_args()
    for peer in ("activemq-broker", "activemq-client"):
        if reason := missing(peer):
            sys.stdout.write(f"skipped: {reason}\n")
            return 0
    with tempfile.TemporaryDirectory() as directory, both_brokers(Path(directory)) as play_both:
        return run(range(options.first, options.first + options.count), play_both)


if __name__ == "__main__":
    sys.exit(main())
