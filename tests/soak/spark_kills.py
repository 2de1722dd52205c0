"""Hundreds of kills at random points between Spanwire and ActiveMQ Classic: `python -m tests.soak.spark_kills`.

    python -m tests.soak.spark_kills --kills 200 --seed 1

Each round moves messages through one Spark query with ten kills; rounds take turns between the pairs of brokers, the
sources and the sinks. Counts every message at both ends; each round leaves its history in out/soak. Ends with 1 when
anything was lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.histories import keep
from tests.support.linked_brokers import LINKED, linked_brokers
from tests.support.peers import missing
from tests.support.spark_kills import CONTROL_SINK, CURSOR, LEDGER_SINK, STAGING, KilledSpark, Outcome

KILLS_EACH: Final = 10
ROUND_TIMEOUT_S: Final = 3000.0
SPANWIRE: Final = "spanwire"
CLASSIC: Final = "classic"
NETWORK: Final = "three linked Spanwires"
# from, to, how it is read, how it is written
ROUNDS: Final = (
    (SPANWIRE, SPANWIRE, CURSOR, CONTROL_SINK),
    (CLASSIC, SPANWIRE, STAGING, CONTROL_SINK),
    (SPANWIRE, CLASSIC, CURSOR, LEDGER_SINK),
    (CLASSIC, CLASSIC, STAGING, LEDGER_SINK),
    (SPANWIRE, SPANWIRE, STAGING, LEDGER_SINK),
    (NETWORK, SPANWIRE, CURSOR, CONTROL_SINK),
)
WHO: Final = ("self", "self", "jvm", "driver", "in", "out")


def broker(kind: str, directory: Path) -> BrokerProcess:
    return classic_broker(directory) if kind == CLASSIC else BrokerProcess(spanwire_command(), directory)


def chosen_points(source: dict[str, str], sink: dict[str, str], dice: random.Random) -> list[str]:
    """Ten points that the source and the sink have, one of them a zombie."""
    of_source = ["received", "acknowledged"] if source is STAGING else ["reserved"]
    of_sink = ["commit", "committed"] + (["decided"] if sink is LEDGER_SINK else [])
    where = [*of_source, "read", "write", "staged", *of_sink]
    points = [f"{dice.choice(where)}:{dice.choice(WHO)}" for _ in range(KILLS_EACH - 1)]
    points.insert(dice.randrange(KILLS_EACH - 1), f"{dice.choice(['staged', 'commit'])}:zombie")
    return points


def play(number: int, seed: int, folder: Path) -> Outcome:
    """One round."""
    source_kind, target_kind, source, sink = ROUNDS[number % len(ROUNDS)]
    dice = random.Random(f"{seed}/{number}")
    points = chosen_points(source, sink, dice)
    with ExitStack() as stack:
        if source_kind == NETWORK:
            brokers = {name: stack.enter_context(one) for name, one in linked_brokers(folder).items()}
            points = [point.replace(":in", f":{dice.choice(LINKED)}") for point in points]
        else:
            brokers = {"in": stack.enter_context(broker(source_kind, folder / "in"))}
        brokers["out"] = stack.enter_context(broker(target_kind, folder / "out"))
        return KilledSpark(folder / f"round{number}", brokers, points, source, sink, ROUND_TIMEOUT_S).run()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.spark_kills")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the round to begin with, to play one again")
    given = parser.parse_args(arguments)
    reason = missing("activemq-broker")
    if reason is not None:
        sys.stdout.write(f"{reason}\n")
        return 1
    kills = failed = 0
    number = given.first
    while kills < given.kills:
        folder = Path(tempfile.mkdtemp(prefix="spark-kills-"))
        outcome = play(number, given.seed, folder)
        is_good = outcome.is_complete and outcome.is_exact
        kills += max(outcome.reached, 1)
        failed += not is_good
        pair = " to ".join(ROUNDS[number % len(ROUNDS)][:2])
        verdict = (
            f"{pair}: {outcome.reached} kills in {outcome.starts} starts, {outcome.sent} sent, "
            f"{sum(outcome.received.values())} received, {len(outcome.lost)} lost, {len(outcome.doubled)} doubled"
        )
        replay = f"python -m tests.soak.spark_kills --seed {given.seed} --first {number} --kills 1"
        history = [json.dumps({"point": point}) for point in outcome.points]
        history += [json.dumps({"failure": line}) for line in outcome.failures]
        history += [json.dumps({"received": n, "times": times}) for n, times in sorted(outcome.received.items())]
        history.append(json.dumps({"log": "" if is_good else outcome.log}))
        path = keep(f"spark-kills-{number}", given.seed, verdict, replay, history)
        sys.stdout.write(f"{'ok' if is_good else 'FAILED'} round {number}, {verdict}; {path}\n")
        sys.stdout.flush()
        if is_good:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
    sys.stdout.write(f"{kills} kills, {failed} rounds with a fault\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
