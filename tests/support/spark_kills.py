"""Messages through a Spark that is killed again and again, counted at both ends by a program that is no part of it.

The sender and the receiver speak STOMP and share no code with Spanwire. Each message carries its number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_faults import FOLDER, SLOW_SYNCS, full_disks
from tests.support.spark_once_victim import SMALL_RECORD_BATCHES
from tests.support.stomp_socket import StompSocket

ROOT: Final = Path(__file__).resolve().parents[2]
BATCH: Final = 60
MAX_STARTS: Final = 20
TIMEOUT_S: Final = 600.0
ZOMBIE_END_S: Final = 90.0  # the lock of a ledger is waited for as long as a minute
PAUSE_S: Final = 0.1
ONCE: Final = "ONCE_AND_ONLY_ONCE"
STAGING: Final = {"stagingDirectory": "{folder}/staging"}
CURSOR: Final = {"cursor": "{name}"}
CONTROL_SINK: Final = {"qualityOfServiceMode": ONCE, "exactlyOnceBy": "control"}
LEDGER_SINK: Final = {"qualityOfServiceMode": ONCE, "exactlyOnceBy": "ledger"}
NAIVE_SINK: Final[dict[str, str]] = {}
# Elements of a target that takes what a naive sink sends again: other brokers know no ids of messages.
WITHOUT_IDS: Final = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue=">" idCacheSize="0"/></policyEntries></policyMap>'
    "</destinationPolicy>"
)


@dataclass
class Outcome:
    """What came through, and what happened on the way."""

    sent: int
    received: Counter[int]
    points: list[str]
    reached: int
    starts: int
    zombies: int
    has_ended: bool
    full_disks: int = 0  # for which a segment has failed
    failures: list[str] = field(default_factory=list)
    log: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every point was reached, no full disk went by unnoticed, and the query came to its end."""
        filled = sum(point.endswith("disk") for point in self.points)
        return self.reached == len(self.points) and self.full_disks == filled and self.has_ended

    @property
    def is_exact(self) -> bool:
        """Whether every message came through once, and nothing else."""
        return self.received == Counter(range(self.sent))

    def told(self) -> str:
        """What to look at."""
        return (
            f"{self.reached} of {self.points} in {self.starts} starts, {self.full_disks} full disks; "
            f"lost {self.lost[:20]}, doubled {self.doubled[:20]}; failures {self.failures}; log {self.log}"
        )

    @property
    def lost(self) -> list[int]:
        return [number for number in range(self.sent) if not self.received[number]]

    @property
    def doubled(self) -> list[int]:
        return [number for number, count in self.received.items() if count > 1]


def send(port: int, queue: str, numbers: Iterable[int]) -> None:
    """Persistent messages with these numbers in the property n, acknowledged by the broker as one."""
    with StompSocket(port) as stomp:
        stomp.connect("1.2")
        stomp.type("BEGIN\ntransaction:t\n\n\0")
        for number in numbers:
            head = f"SEND\ndestination:/queue/{queue}\ntransaction:t\npersistent:true\nn:{number}\n"
            stomp.type(f"{head}\ntext {number}\0")
        stomp.type("COMMIT\ntransaction:t\nreceipt:r\n\n\0")
        answer = stomp.receive()
        assert answer is not None and answer.command == "RECEIPT", answer


def receive(port: int, queue: str) -> Counter[int]:
    """Everything in a queue; a last message behind all others tells where it ends."""
    found: Counter[int] = Counter()
    with StompSocket(port) as stomp:
        stomp.connect("1.2")
        stomp.type(f"SEND\ndestination:/queue/{queue}\npersistent:true\nn:-1\nreceipt:r\n\nlast\0")
        answer = stomp.receive()
        assert answer is not None and answer.command == "RECEIPT", answer
        stomp.type(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:auto\n\n\0")
        while True:
            frame = stomp.receive()
            assert frame is not None and frame.command == "MESSAGE", frame
            number = int(frame.headers["n"])
            if number < 0:
                return found
            found[number] += 1


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class KilledSpark:
    """One query from a broker to another, and the list of points at which something is killed."""

    def __init__(
        self,
        folder: Path,
        brokers: dict[str, BrokerProcess],
        points: Sequence[str],
        source: dict[str, str],
        sink: dict[str, str],
        timeout_s: float = TIMEOUT_S,
        cluster: SparkCluster | None = None,
        has_slow_staging: bool = False,
    ) -> None:
        """``brokers``: those called ``in`` and ``out``, running; they may be one. ``in2`` and so on are read, too.
        ``cluster``: else on ``local[2]``. ``has_slow_staging``: whether syncs of staged segments take long.
        """
        self._timeout_s: Final = timeout_s
        self._cluster: Final = cluster
        self._folder: Final = folder
        self._brokers: Final = brokers
        self._points: Final = list(points)
        self._count: Final = BATCH * (len(points) // 2 + 3)
        self._starts = 0
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{folder.parent.name}.{folder.name}"
        common = {"in": f"{name}.IN", "out": f"{name}.OUT"}
        self._queues: Final = common
        self._inputs: Final = [broker for side, broker in brokers.items() if side.startswith("in")]
        read_from = {"url": brokers["in"].openwire_uri()}
        if len(self._inputs) > 1:
            read_from = {"brokers": ",".join(broker.openwire_uri() for broker in self._inputs)}
        plan = {
            "source": {
                **read_from, "destination": common["in"], "maxRowsPerBatch": str(BATCH),
                **{word: value.format(folder=folder, name=name) for word, value in source.items()},
            },
            "sink": {"url": brokers["out"].openwire_uri(), "destination": common["out"], **sink},
            "master": None if cluster is None else cluster.url,
        }  # fmt: skip
        (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        (folder / "points.json").write_text(json.dumps(self._points), "utf-8")
        if has_slow_staging:
            (folder / SLOW_SYNCS).touch()

    def run(self) -> Outcome:
        """Send, run until all points were reached and everything is through, count."""
        for index, broker in enumerate(self._inputs):
            send(broker.stomp_port, self._queues["in"], range(index, self._count, len(self._inputs)))
        self._note_brokers()
        deadline = time.monotonic() + self._timeout_s
        code: int | None = None
        while code != 0 and self._starts < MAX_STARTS and time.monotonic() < deadline:
            self._starts += 1
            code = self._spark(deadline)
        self._outlast_zombies()
        received = receive(self._brokers["out"].stomp_port, self._queues["out"])
        failures = self._folder / "failures"
        return Outcome(
            sent=self._count,
            received=received,
            points=self._points,
            reached=len(list(self._folder.glob("hit-*"))),
            starts=self._starts,
            zombies=len(list(self._folder.glob("zombie-*"))),
            has_ended=code == 0,
            full_disks=full_disks(self._folder),
            failures=failures.read_text("utf-8").splitlines() if failures.exists() else [],
            log=(self._folder / "log").read_text("utf-8", errors="replace")[-4000:],
        )

    def _spark(self, deadline: float) -> int | None:
        """One life of the program, and of the brokers meanwhile; its exit status, None when it was killed or hung."""
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spark_once_victim", str(self._folder)],
                cwd=ROOT, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    self._raise_the_dead()
                    if not self._has_jvm():
                        break
                    time.sleep(PAUSE_S)
                return process.poll()
            finally:
                self._end(process)

    def _environment(self) -> dict[str, str]:
        own = {FOLDER: str(self._folder)}
        if self._cluster is None:
            return {**os.environ, **own}
        executors = {"PYTHONPATH": str(ROOT), **own}  # they import the data source that stops them
        settings = {f"spark.executorEnv.{name}": value for name, value in executors.items()}
        return {**self._cluster.driver_environment({**SMALL_RECORD_BATCHES, **settings}), **own}

    def _outlast_zombies(self) -> None:
        """What processes that went on late have done is counted, too."""
        pids = [int(path.name.removeprefix("zombie-")) for path in self._folder.glob("zombie-*")]
        deadline = time.monotonic() + ZOMBIE_END_S
        while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)

    def _has_jvm(self) -> bool:
        """False once the JVM that has told its id is gone, though the program that started it may hang on."""
        path = self._folder / "jvm.pid"
        return not path.exists() or is_alive(int(path.read_text("utf-8")))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Program and JVM; workers that sleep through it are what this is about."""
        path = self._folder / "jvm.pid"
        jvm = int(path.read_text("utf-8")) if path.exists() else 0
        path.unlink(missing_ok=True)
        process.kill()
        process.wait()
        if jvm and is_alive(jvm):
            os.kill(jvm, signal.SIGKILL)

    def _raise_the_dead(self) -> None:
        if self._cluster is not None:
            self._cluster.restore()
        for broker in set(self._brokers.values()):
            if not is_alive(broker.pid):
                broker.kill()
                broker.start()
                self._note_brokers()

    def _note_brokers(self) -> None:
        for side, broker in self._brokers.items():
            (self._folder / f"{side}.pid").write_text(str(broker.pid), "utf-8")
