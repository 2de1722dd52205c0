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
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from spanwire import client
from tests.support.announcing_process import AnnouncingProcess
from tests.support.bridge_victim import AT_POINT
from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.histories import DIRECTORY, commit, keep
from tests.support.peers import missing
from tests.support.stomp_socket import StompSocket

KILLS_EACH: Final = 10
COUNT: Final = 400  # messages of a round
BATCH: Final = 5  # small, so that every kill meets work
LATEST: Final = 4  # the action of a kill is one of the first so many of its kind
WAIT_S: Final = 120.0
QUIET_S: Final = 2.0  # seconds without a message, after which a queue is empty that has given all
MISSING_S: Final = 20.0  # the same of a queue that has not: a busy machine lets a broker wait
SPANWIRE: Final = "spanwire"
CLASSIC: Final = "classic"
SAME: Final = "the same"
PAIRS: Final = ((SPANWIRE, SPANWIRE), (SPANWIRE, CLASSIC), (CLASSIC, SPANWIRE), (SPANWIRE, SAME), (CLASSIC, CLASSIC))
SELF: Final = "bridge"
STEPS: Final = {
    "AT_MOST_ONCE": ("Receive", "Acknowledge", "Send"),
    "DUPLICATES_OK": ("Receive", "Send", "Acknowledge", "Store", "Acknowledged"),
    "ONCE_AND_ONLY_ONCE": ("Recover", "Receive", "Send", "Prepare", "Decide", "Commit"),
}
WITHIN: Final = ("Receive", "Send", "Commit")  # of ONCE_AND_ONLY_ONCE within one broker
FILE: Final = """\
[bridges.kills]
sourceConnectionFactory = "{source}"
sourceDestination = "queue://KILLS.SOURCE"
targetConnectionFactory = "{target}"
targetDestination = "queue://KILLS.TARGET"
qualityOfServiceMode = "{mode}"
maxBatchSize = {batch}
failureRetryInterval = 100
"""
INDEX: Final = ("db.data", "db.redo")  # of KahaDB, which builds it anew from its journal
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


class Round:
    """One bridge between two brokers under ten kills."""

    def __init__(self, mode: str, brokers: dict[str, BrokerProcess], folder: Path, dice: random.Random) -> None:
        self._mode: Final = mode
        self._brokers: Final = brokers
        self._folder: Final = folder
        self._dice: Final = dice
        self.log: Final[list[str]] = []
        self.kills: Final[list[str]] = []

    def run(self) -> Counter[bytes]:
        """Return the texts at the target, each with its count."""
        source, target = self._brokers["source"], self._brokers["target"]
        text = FILE.format(source=source.openwire_uri(), target=target.openwire_uri(), mode=self._mode, batch=BATCH)
        (self._folder / "bridge.toml").write_text(text, "utf-8")
        with client.connect(source.openwire_uri()) as connection, connection.session("transacted") as session:
            producer = session.create_producer("queue://KILLS.SOURCE")
            for number in range(COUNT):
                producer.send(str(number))
            session.commit()
        while len(self.kills) < KILLS_EACH:
            self._kill()
        last = AnnouncingProcess([*COMMAND, "bridge", "run", "bridge.toml", "--until-empty"], self._folder, self.log)
        last.wait_until(lambda line: "bridge kills: stopped, received" in line, WAIT_S, "did not end")
        return counted(target.stomp_port)

    def _kill(self) -> None:
        within = self._mode == "ONCE_AND_ONLY_ONCE" and self._brokers["source"] is self._brokers["target"]
        action = self._dice.choice(WITHIN if within else STEPS[self._mode])
        moment = self._dice.choice(("before", "after"))
        number = 1 if action == "Recover" else self._dice.randint(1, LATEST)
        point = f"{action}:{moment}:{number}"
        command = [sys.executable, "-m", "tests.support.bridge_victim", str(self._folder / "bridge.toml"), point]
        process = AnnouncingProcess(command, Path(__file__).resolve().parents[2], self.log)
        process.wait_until(lambda line: AT_POINT in line, WAIT_S, f"did not come to {point}")
        victim = self._dice.choice((SELF, "source", "target"))
        if victim != SELF:
            broker = self._brokers[victim]
            broker.kill()
            broker.start()
            process.send(signal.SIGCONT)
            process.wait_until(lambda line: "bridge kills: running" in line, WAIT_S, f"did not run after {point}")
            self.kills.append(f"{victim} {action} {moment}")
            process.end(signal.SIGKILL)
            self.kills.append(f"{SELF} at any step")
        else:
            process.end(signal.SIGKILL)
            self.kills.append(f"{SELF} {action} {moment}")


def counted(port: int, queue: str = "KILLS.TARGET") -> Counter[bytes]:
    """Take all messages of a queue."""
    texts: Counter[bytes] = Counter()
    with StompSocket(port) as stomp:
        stomp.connect("1.2")
        stomp.type(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:auto\n\n\0")
        while True:
            try:
                frame = stomp.receive(QUIET_S if len(texts) >= COUNT else MISSING_S)
            except TimeoutError:
                return texts
            assert frame is not None and frame.command == "MESSAGE", frame
            texts[frame.body] += 1


def hidden_at(source: BrokerProcess, directory: Path) -> Counter[bytes]:
    """Take the messages that ActiveMQ Classic has in its journal and does not deliver.

    After a kill its count of a queue may be too small, and then it keeps the last messages back for ever. Its journal
    has no acknowledgement of them, and with an index from the journal it delivers them. What it delivers before was
    left behind by the bridge, so that does not count here.
    """
    _ = counted(source.stomp_port, "KILLS.SOURCE")
    source.kill()
    for name in INDEX:
        (directory / "data" / "kahadb" / name).unlink(missing_ok=True)
    source.start()
    return counted(source.stomp_port, "KILLS.SOURCE")


def play(mode: str, number: int, seed: int, progress: Progress) -> bool:
    """One round. Returns False if it has broken the promise of its mode."""
    kinds = [pair for pair in PAIRS if CLASSIC not in pair or missing("activemq-broker") is None]
    source_kind, target_kind = kinds[number % len(kinds)]
    folder = Path(tempfile.mkdtemp(prefix="bridge-kills-"))
    began = time.monotonic()
    with ExitStack() as stack:
        source = stack.enter_context(started(source_kind, folder / "source"))
        target = source if target_kind == SAME else stack.enter_context(started(target_kind, folder / "target"))
        played = Round(mode, {"source": source, "target": target}, folder, random.Random(f"{seed}/{mode}/{number}"))
        texts = played.run()
        hidden: Counter[bytes] = Counter()
        if len(texts) < COUNT and source_kind == CLASSIC:
            hidden = hidden_at(source, folder / "source")
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
    history += [json.dumps({"received": text.decode(), "times": times}) for text, times in sorted(texts.items())]
    history.append(json.dumps({"log": "" if is_kept else played.log}))
    path = keep(f"bridge-kills-{mode}-{number}", seed, verdict, replay, history)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{'ok' if is_kept else 'FAILED'} round {number}, {verdict}, {seconds:.0f} s; {path}\n")
    sys.stdout.flush()
    if is_kept:
        shutil.rmtree(folder, ignore_errors=True)
    return is_kept


def started(kind: str, directory: Path) -> BrokerProcess:
    return classic_broker(directory) if kind == CLASSIC else BrokerProcess(spanwire_command(), directory)


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
