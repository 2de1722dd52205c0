"""Hundreds of kills on a Spark cluster, between Spanwire and ActiveMQ Classic: ``python -m tests.soak.spark_kills``.

    python -m tests.soak.spark_kills --kills 100 --seed 1 [--mode control] [--fresh]

Each round moves messages through one query on a standalone cluster (a master and two workers) with ten kills. The modes
are the two ways of a sink that commits once and only once; the rounds of a mode take turns between pairs of brokers and
ways of reading. A STOMP program without our code sends and counts every message. Every pair of a point and a victim
comes in a shuffled order before one comes again, so the kills are spread evenly; `tests.support.spark_faults` says what
the points are. In each round that reads from a staging directory the disk of that directory is full at one point,
alone or while a broker is killed, and in each second of these rounds its syncs are slow. The last round of each call is
played by a sink that does not commit once, and must be found out.

What has been done stands in out/soak/spark-kills.json, and a later call on the same commit goes on there; each round
leaves its history in out/soak. Ends with 1 when anything was lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.histories import DIRECTORY, commit, keep
from tests.support.linked_brokers import LINKED, linked_brokers
from tests.support.peers import missing
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_kills import (
    CONTROL_SINK,
    CURSOR,
    LEDGER_SINK,
    NAIVE_SINK,
    STAGING,
    WITHOUT_IDS,
    KilledSpark,
    Outcome,
)

KILLS_EACH: Final = 10
ROUND_TIMEOUT_S: Final = 3000.0
SPANWIRE: Final = "spanwire"
SLOW: Final = "spanwire with slow syncs"
CLASSIC: Final = "classic"
NETWORK: Final = "three linked Spanwires"
# mode -> from, to, how it is read
ROUNDS: Final = {
    "control": ((SPANWIRE, SPANWIRE, CURSOR), (CLASSIC, SLOW, STAGING), (NETWORK, SPANWIRE, CURSOR)),
    "ledger": ((SLOW, CLASSIC, CURSOR), (CLASSIC, CLASSIC, STAGING), (SPANWIRE, SPANWIRE, STAGING)),
}
SINKS: Final = {"control": CONTROL_SINK, "ledger": LEDGER_SINK}
IN_TASKS: Final = ("read", "write", "staged")
ANYWHERE: Final = ("self", "jvm", "driver", "in", "out", "in+out", "out+jvm")  # two names: both at once
ONLY_IN_TASKS: Final = ("executor", "worker", "out+executor")
FULL_DISK: Final = ("receiving:disk", "receiving:in+disk", "receiving:out+disk")
# A disk whose syncs take as long as those of a loaded rotating one.
SLOW_SYNCS: Final = """\
import os, sys, time
from spanwire.cli.main import main

sync, write = os.fdatasync, os.pwritev

def slow_sync(descriptor):
    time.sleep(0.05)
    sync(descriptor)

def slow_write(*arguments):
    time.sleep(0.05)  # it syncs as well
    return write(*arguments)

os.fdatasync, os.pwritev = slow_sync, slow_write
sys.exit(main())
"""
MAX_STALLED: Final = 20  # rounds in a row whose brokers or cluster did not start; a busy machine may be too slow
PROGRESS: Final = DIRECTORY / "spark-kills.json"


@dataclass
class Progress:
    """What has been done in one mode."""

    rounds: int = 0
    kills: int = 0
    sent: int = 0
    lost: int = 0
    doubled: int = 0
    faulty: int = 0  # rounds
    seconds: float = 0.0
    points: dict[str, int] = field(default_factory=dict)


def broker(kind: str, directory: Path) -> BrokerProcess:
    """One that is not yet started."""
    if kind == CLASSIC:
        return classic_broker(directory)
    if kind == SLOW:
        return BrokerProcess(
            lambda place: [sys.executable, "-c", SLOW_SYNCS, "start", f"xbean:{place / 'activemq.xml'}"], directory
        )
    return BrokerProcess(spanwire_command(), directory)


def all_points(mode: str, source: dict[str, str]) -> list[str]:
    """Each point of this source and this sink with each victim that it has."""
    steps = ["received", "acknowledged"] if source is STAGING else ["reserved"]
    steps += [*IN_TASKS, "commit", "committed", *(["decided"] if mode == "ledger" else [])]
    found = [*FULL_DISK] if source is STAGING else []
    found += [f"{step}:{who}" for step in steps for who in ANYWHERE]
    found += [f"{step}:{who}" for step in IN_TASKS for who in ONLY_IN_TASKS]
    return [*found, "staged:zombie", "commit:zombie"]


def chosen_points(mode: str, number: int, seed: int) -> list[str]:
    """The points of a round: ten kills, and one full disk where there is a staging directory.

    Every ``number`` of a kind of round goes on where the one before it has ended.
    """
    kinds = ROUNDS[mode]
    kind, turn = number % len(kinds), number // len(kinds)
    source = kinds[kind][2]
    points = [point for point in all_points(mode, source) if point not in FULL_DISK]
    random.Random(f"{seed}/{mode}/{kind}").shuffle(points)
    chosen = [points[(turn * KILLS_EACH + index) % len(points)] for index in range(KILLS_EACH)]
    # A zombie waits for a later commit, so something must be left behind it.
    chosen.sort(key=lambda point: point.endswith(":zombie"))
    while chosen[-1].endswith(":zombie"):
        chosen.insert(0, chosen.pop())
    if source is STAGING:
        chosen.insert(random.Random(f"{seed}/{mode}/{number}").randrange(KILLS_EACH), FULL_DISK[turn % len(FULL_DISK)])
    return chosen


def play(mode: str, number: int, seed: int, is_naive: bool, folder: Path) -> Outcome:
    """One round."""
    source_kind, target_kind, source = ROUNDS[mode][number % len(ROUNDS[mode])]
    points = chosen_points(mode, number, seed)
    sink = SINKS[mode]
    with ExitStack() as stack:
        if is_naive:
            points, sink, source_kind, source = ["staged:executor", "staged:self"], NAIVE_SINK, SPANWIRE, STAGING
            target = BrokerProcess(spanwire_command(), folder / "out", inside=WITHOUT_IDS)
        else:
            target = broker(target_kind, folder / "out")
        if source_kind == NETWORK:
            brokers = {name: stack.enter_context(one) for name, one in linked_brokers(folder).items()}
            one = random.Random(f"{seed}/{number}").choice(LINKED)
            points = [point.replace(":in", f":{one}") for point in points]
        else:
            brokers = {"in": stack.enter_context(broker(source_kind, folder / "in"))}
        brokers["out"] = stack.enter_context(target)
        (folder / "cluster").mkdir()
        cluster = stack.enter_context(SparkCluster(folder / "cluster"))
        is_slow = source is STAGING and number % 2 == 1
        return KilledSpark(folder / "round", brokers, points, source, sink, ROUND_TIMEOUT_S, cluster, is_slow).run()


def played(mode: str, number: int, seed: int, progress: Progress, is_naive: bool = False) -> bool:
    """Play a round and note it. Returns False if its mode has broken its promise, or a naive sink was not found out."""
    folder = Path(tempfile.mkdtemp(prefix="spark-kills-"))
    began = time.monotonic()
    outcome = play(mode, number, seed, is_naive, folder)
    seconds = time.monotonic() - began
    is_good = outcome.is_complete and (bool(outcome.doubled) if is_naive else outcome.is_exact)
    if not is_naive:
        progress.rounds = number + 1
        progress.kills += sum(not point.endswith(":disk") for point in outcome.points[: outcome.reached])
        progress.sent += outcome.sent
        progress.lost += len(outcome.lost)
        progress.doubled += len(outcome.doubled)
        progress.faulty += not is_good
        progress.seconds += seconds
        for point in outcome.points[: outcome.reached]:
            progress.points[point] = progress.points.get(point, 0) + 1
    pair = "naive sink" if is_naive else " to ".join(ROUNDS[mode][number % len(ROUNDS[mode])][:2])
    verdict = (
        f"{mode}, {pair}: {outcome.reached} of {len(outcome.points)} kills in {outcome.starts} starts, "
        f"{outcome.full_disks} full disks met, {outcome.sent} sent, {sum(outcome.received.values())} received, "
        f"{len(outcome.lost)} lost, {len(outcome.doubled)} doubled"
    )
    replay = f"python -m tests.soak.spark_kills --mode {mode} --seed {seed} --first {number} --kills 1"
    history = [json.dumps({"point": point}) for point in outcome.points]
    history += [json.dumps({"failure": line}) for line in outcome.failures]
    history += [json.dumps({"received": n, "times": times}) for n, times in sorted(outcome.received.items())]
    history.append(json.dumps({"log": "" if is_good else outcome.log}))
    path = keep(f"spark-kills-{mode}-{'naive' if is_naive else number}", seed, verdict, replay, history)
    sys.stdout.write(f"{'ok' if is_good else 'FAILED'} round {number}, {verdict}, {seconds:.0f} s; {path}\n")
    sys.stdout.flush()
    if is_good:
        shutil.rmtree(folder, ignore_errors=True)
    return is_good


def read_progress(is_fresh: bool, seed: int) -> dict[str, Progress]:
    """What an earlier call has done with the same seed and commit."""
    try:
        kept = json.loads(PROGRESS.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    if is_fresh or kept.get("seed") != seed or kept.get("commit") != commit():
        return {mode: Progress() for mode in ROUNDS}
    return {mode: Progress(**kept["modes"][mode]) for mode in ROUNDS}


def main(arguments: list[str]) -> int:
    """Play rounds until each mode has its kills."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.spark_kills")
    parser.add_argument("--kills", type=int, default=100, help="in each mode, with those of earlier calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=tuple(ROUNDS), action="append")
    parser.add_argument("--first", type=int, help="the round to begin with, to play one again")
    parser.add_argument("--rounds", type=int, help="end after so many, to go on later")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier calls have done")
    given = parser.parse_args(arguments)
    reason = missing("activemq-broker")
    if reason is not None:
        sys.stdout.write(f"{reason}\n")
        return 1
    modes = given.mode or list(ROUNDS)
    done = read_progress(given.fresh or given.first is not None, given.seed)
    if given.first is not None:
        for mode in modes:
            done[mode].rounds = given.first
    left = given.rounds
    stalled = 0
    while (waiting := [mode for mode in modes if done[mode].kills < given.kills]) and left != 0:
        mode = min(waiting, key=lambda one: done[one].kills)
        try:
            _ = played(mode, done[mode].rounds, given.seed, done[mode])
        except RuntimeError as error:
            stalled += 1
            sys.stdout.write(f"{mode}, round {done[mode].rounds} is played again: {str(error).splitlines()[0]}\n")
            sys.stdout.flush()
            if stalled == MAX_STALLED:
                raise
            continue
        stalled = 0
        left = None if left is None else left - 1
        if given.first is None:
            kept = {"seed": given.seed, "commit": commit(), "modes": {one: asdict(done[one]) for one in ROUNDS}}
            PROGRESS.write_text(json.dumps(kept, indent=1), "utf-8")
    is_found_out = bool(waiting) or played(modes[0], 0, given.seed, Progress(), is_naive=True)
    for mode in modes:
        one = done[mode]
        possible = {point for _, _, source in ROUNDS[mode] for point in all_points(mode, source)}
        sys.stdout.write(
            f"{mode}: {one.kills} kills in {one.rounds} rounds at {len(one.points)} of {len(possible)} points, "
            f"{one.sent} sent, {one.lost} lost, {one.doubled} doubled, {one.faulty} rounds with a fault, "
            f"{one.seconds / 60:.0f} minutes\n"
        )
    return 0 if is_found_out and not any(done[mode].faulty for mode in modes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
