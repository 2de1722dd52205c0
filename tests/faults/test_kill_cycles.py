"""kill -9 at random instants under mixed load, also while the broker starts; what was answered is there, and only that.

SPANWIRE_KILLS sets how often (10 unless told), SPANWIRE_KILL_SEED the instants. The
history of a run that fails is kept in ``out/soak``; so is every history of a long run. The instants depend on the
machine: a replay meets the same load with the same waits, not the same microsecond.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.faults.broker import FragileBroker
from tests.faults.load import MixedLoad, drain, planted_faults, verdict_of
from tests.support.histories import keep
from tests.support.total_queue import Ledger

KILLS: Final = int(os.environ.get("SPANWIRE_KILLS", "10"))
SEED: Final = int(os.environ.get("SPANWIRE_KILL_SEED", "1"))
ROUND: Final = 10  # kills between two counts
LONGEST_LOAD_S: Final = 0.7
LONGEST_START_S: Final = 0.5
REPLAY: Final = "SPANWIRE_KILLS={0} SPANWIRE_KILL_SEED={1} python -m pytest tests/faults/test_kill_cycles.py"


class Cycles:
    """One broker, killed again and again."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.broker: Final = FragileBroker(directory)
        self.ledger = Ledger()
        self.random: Final = Random(seed)
        self.kills = 0
        self.kills_of_starts = 0
        self.clean_stops = 0
        self.summaries: Final[list[str]] = []

    def one(self) -> None:
        """Load, kill, start; now and then the start is killed too, or a clean stop follows."""
        self._load(f"k{self.kills}")
        self.kills += 1
        if self.random.random() < 0.3:
            self._kill_while_starting()
        self.broker.start()
        if self.random.random() < 0.3:
            self._write_and_stop()

    def _load(self, name: str) -> None:
        load = MixedLoad(self.ledger, name)
        load.start(self.broker.openwire_port, self.broker.stomp_port)
        self._wait(LONGEST_LOAD_S)
        self.broker.kill()
        load.end()

    def _kill_while_starting(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.kills_of_starts += not self.broker.start_and_kill(self.random.random() * LONGEST_START_S)

    def _write_and_stop(self) -> None:
        """Crash, start, write, clean stop, start: the second start after a crash is where damage shows."""
        load = MixedLoad(self.ledger, f"w{self.kills}")
        load.start(self.broker.openwire_port, self.broker.stomp_port)
        self._wait(0.1)
        load.end()
        if self.broker.stop() != 0:
            raise AssertionError("the broker did not stop in order")
        self.clean_stops += 1
        self.broker.start()

    def _wait(self, longest: float) -> None:
        """The instant is what is tried, so a moment passes."""
        threading.Event().wait(self.random.random() * longest)

    def count(self) -> None:
        """Everything comes out, and the numbers are right; then a new page."""
        drain(self.ledger, self.broker.stomp_port, f"d{self.kills}")
        verdict = verdict_of(self.ledger)
        self.summaries.append(verdict.summary())
        if not verdict.ok:
            raise AssertionError(verdict.report())
        for fault, planted in planted_faults(self.ledger).items():
            if fault not in verdict_of(planted).faults:
                raise AssertionError(f"the count misses that a message is {fault}")
        self.ledger = Ledger()


@pytest.mark.timeout(120 + KILLS * 10)
def test_kill_9_at_random_instants_loses_nothing_and_invents_nothing(tmp_path: Path) -> None:
    cycles = Cycles(tmp_path / "broker", SEED)
    replay = REPLAY.format(KILLS, SEED)
    start = time.monotonic()
    try:
        with cycles.broker:
            while cycles.kills < KILLS:
                cycles.one()
                if cycles.kills % ROUND == 0 or cycles.kills == KILLS:
                    cycles.count()
    except Exception as error:
        path = keep("kills", SEED, str(error), replay, [*cycles.broker.log, *cycles.ledger.lines()])
        raise AssertionError(f"after {cycles.kills} kills: {error}\nreplay: {replay}\nhistory: {path}") from error
    verdict = (
        f"ok: {cycles.kills} kills, {cycles.kills_of_starts} of them again while starting, {cycles.clean_stops} clean"
        f" stops, {time.monotonic() - start:.0f} s"
    )
    print(verdict, *cycles.summaries, sep="\n")
    if KILLS > 20:
        keep("kills", SEED, verdict, replay, cycles.summaries)
    assert all("sent=0 " not in summary for summary in cycles.summaries)
