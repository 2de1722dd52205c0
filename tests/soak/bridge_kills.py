"""Hundreds of kills at all steps of bridges, on real brokers: ``python -m tests.soak.bridge_kills``.

    python -m tests.soak.bridge_kills --kills 100 --seed 1 [--mode ONCE_AND_ONLY_ONCE] [--fresh]

Each round moves messages through one bridge with ten kills of bridge, source and target, each before or after a step
of a batch; rounds take turns between the pairs of brokers. A STOMP client without our code counts every message at the
target. AT_MOST_ONCE may lose a batch with each kill and doubles nothing, DUPLICATES_OK may double one and loses
nothing, ONCE_AND_ONLY_ONCE does neither. ActiveMQ Classic itself may hide messages after a kill: its index is then
built anew from its journal, and messages that it has at the source after all are not lost. What has been done stands in
out/soak/bridge-kills.json, and a later call goes on there. Ends with 1 when a round has broken its promise.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.support.bridge_rounds import BATCH, CLASSIC, COUNT, SELF, SOURCE, SPANWIRE, TARGET, Kill, Round, started
from tests.support.histories import DIRECTORY, commit, keep
from tests.support.peers import missing

KILLS_EACH: Final = 10
LATEST: Final = 4  # the action of a kill is one of the first so many of its kind
SAME: Final = "the same"
PAIRS: Final = ((SPANWIRE, SPANWIRE), (SPANWIRE, CLASSIC), (CLASSIC, SPANWIRE), (SPANWIRE, SAME), (CLASSIC, CLASSIC))
STEPS: Final = {
    "AT_MOST_ONCE": ("Receive", "Acknowledge", "Send"),
    "DUPLICATES_OK": ("Receive", "Send", "Acknowledge", "Store", "Acknowledged"),
    "ONCE_AND_ONLY_ONCE": ("Recover", "Receive", "Send", "Prepare", "Decide", "Commit"),
}
WITHIN: Final = ("Receive", "Send", "Commit")  # of ONCE_AND_ONLY_ONCE within one broker
PROGRESS: Final = DIRECTORY / "bridge-kills.json"


@dataclass
class Progress:
    """What has been done in one mode."""

    rounds: int = 0
    kills: int = 0
    lost: int = 0
    doubled: int = 0
    hidden: int = 0  # at a source of ActiveMQ Classic, whose index does not know them
    broken: int = 0  # rounds
    points: dict[str, int] = field(default_factory=dict)  # kills by victim and point


def chosen(mode: str, is_within: bool, dice: random.Random) -> Kill:
    """Choose a victim, an action of the mode and its moment."""
    action = dice.choice(WITHIN if is_within and mode == "ONCE_AND_ONLY_ONCE" else STEPS[mode])
    moment = dice.choice(("before", "after"))
    number = 1 if action == "Recover" else dice.randint(1, LATEST)
    return Kill(dice.choice((SELF, SOURCE, TARGET)), action, moment, number)


def play(mode: str, number: int, seed: int, progress: Progress) -> bool:
    """One round. Returns False if it has broken the promise of its mode."""
    kinds = [pair for pair in PAIRS if CLASSIC not in pair or missing("activemq-broker") is None]
    source_kind, target_kind = kinds[number % len(kinds)]
    folder = Path(tempfile.mkdtemp(prefix="bridge-kills-"))
    began = time.monotonic()
    with ExitStack() as stack:
        source = stack.enter_context(started(source_kind, folder / "source"))
        target = source if target_kind == SAME else stack.enter_context(started(target_kind, folder / "target"))
        played, dice = Round(mode, source, target, folder), random.Random(f"{seed}/{mode}/{number}")
        while len(played.kills) < KILLS_EACH:
            played.kill(chosen(mode, source is target, dice))
        texts = played.finish()
        hidden = played.hidden() if len(texts) < COUNT and source_kind == CLASSIC else Counter()
    kills = len(played.kills)
    whole = texts + hidden
    lost, doubled = COUNT - len(whole), whole.total() - len(whole)
    is_kept = lost <= (BATCH * kills if mode == "AT_MOST_ONCE" else 0)
    is_kept = is_kept and doubled <= (BATCH * kills if mode == "DUPLICATES_OK" else 0)
    progress.rounds = number + 1
    progress.kills += kills
    progress.lost += lost
    progress.doubled += doubled
    progress.hidden += hidden.total()
    progress.broken += not is_kept
    for point in played.kills:
        progress.points[point] = progress.points.get(point, 0) + 1
    verdict = f"{mode}, {source_kind} to {target_kind}: {kills} kills, {COUNT} sent, {lost} lost, {doubled} doubled"
    verdict += f", {hidden.total()} hidden by the source" if hidden else ""
    replay = f"python -m tests.soak.bridge_kills --mode {mode} --seed {seed} --first {number} --kills 1"
    history = [json.dumps({"kill": kill}) for kill in played.kills]
    history += [json.dumps({"received": text, "times": times}) for text, times in sorted(texts.items())]
    history.append(json.dumps({"log": "" if is_kept else played.log}))
    path = keep(f"bridge-kills-{mode}-{number}", seed, verdict, replay, history)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{'ok' if is_kept else 'FAILED'} round {number}, {verdict}, {seconds:.0f} s; {path}\n")
    sys.stdout.flush()
    if is_kept:
        shutil.rmtree(folder, ignore_errors=True)
    return is_kept


def read_progress(is_fresh: bool, seed: int) -> dict[str, Progress]:
    """What an earlier call has done with the same seed and commit."""
    try:
        kept = json.loads(PROGRESS.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    if is_fresh or kept.get("seed") != seed or kept.get("commit") != commit():
        return {mode: Progress() for mode in STEPS}
    return {mode: Progress(**kept["modes"][mode]) for mode in STEPS}


def main(arguments: list[str]) -> int:
    """Play rounds until each mode has its kills."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.bridge_kills")
    parser.add_argument("--kills", type=int, default=100, help="in each mode, with those of earlier calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=tuple(STEPS), action="append")
    parser.add_argument("--first", type=int, help="the round to begin with, to play one again")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier calls have done")
    given = parser.parse_args(arguments)
    modes = given.mode or list(STEPS)
    done = read_progress(given.fresh or given.first is not None, given.seed)
    if given.first is not None:
        for mode in modes:
            done[mode].rounds = given.first
    while waiting := [mode for mode in modes if done[mode].kills < given.kills]:
        mode = min(waiting, key=lambda one: done[one].kills)
        _ = play(mode, done[mode].rounds, given.seed, done[mode])
        if given.first is None:
            kept = {"seed": given.seed, "commit": commit(), "modes": {one: asdict(done[one]) for one in STEPS}}
            PROGRESS.write_text(json.dumps(kept, indent=1), "utf-8")
    for mode in modes:
        one = done[mode]
        sys.stdout.write(
            f"{mode}: {one.kills} kills in {one.rounds} rounds at {len(one.points)} points, {one.lost} lost, "
            f"{one.doubled} doubled, {one.hidden} hidden by ActiveMQ Classic, {one.broken} rounds with a fault\n"
        )
    return 1 if any(done[mode].broken for mode in modes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
