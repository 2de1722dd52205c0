"""How long one turn of the loop takes: a second connection asks again and again while a deep queue is worked on.

    python -m tests.soak.turns --count 1000000

One STOMP client fills a queue; another subscribes to a topic nobody uses and waits for the receipt, over and over: each
answer waits for the turn that is under way. Phases: nothing else to do; a consumer whose selector matches nothing; a
browser whose selector matches nothing; a purge. Prints one line of JSON for each phase: how many answers, their p50,
p99 and the longest in milliseconds, and how many took longer than 5. Status 1 when the p99 of a phase does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from tests.service.started import Started
from tests.soak.deep_queue import QUEUE, Line, fill
from tests.support.broker_process import COMMAND

LIMIT_MS: Final = 5.0  # that no slice of a job may hold the loop
PAUSE: Final = 0.001  # seconds between an answer and the next question
NOBODY: Final = "kind = 'nobody'"


class Asking(threading.Thread):
    """A client that asks and measures how long each answer takes, in milliseconds."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._line: Final = Line(port)
        self._over: Final = threading.Event()
        self.answers: Final[list[float]] = []

    def run(self) -> None:
        number = 0
        before = b""
        while not self._over.wait(PAUSE):
            number += 1
            question = b"SUBSCRIBE\nid:%d\ndestination:/topic/ASKED\nreceipt:%d\n\n\0" % (number, number)
            start = time.perf_counter()
            self._line.write(before + question)
            answer = self._line.frames()
            self.answers.append((time.perf_counter() - start) * 1000)
            assert answer[0].startswith(b"RECEIPT"), answer
            before = b"UNSUBSCRIBE\nid:%d\n\n\0" % number

    def stop(self) -> list[float]:
        """All answers, the fastest first."""
        self._over.set()
        self.join()
        self._line.close()
        return sorted(self.answers)


def phase(name: str, port: int, work: Callable[[], object]) -> dict[str, object]:
    """The answers while ``work`` is done."""
    asking = Asking(port)
    asking.start()
    start = time.monotonic()
    done = work()
    seconds = time.monotonic() - start
    answers = asking.stop()
    return {
        "phase": name,
        "seconds": round(seconds, 1),
        "messages": done,
        "answers": len(answers),
        "p50_ms": round(answers[len(answers) // 2], 2),
        "p99_ms": round(answers[len(answers) * 99 // 100], 2),
        "longest_ms": [round(answer, 1) for answer in answers[-3:]],
        f"over_{LIMIT_MS:g}_ms": sum(answer > LIMIT_MS for answer in answers),
    }


def idle(seconds: float) -> int:
    """Nothing happens."""
    time.sleep(seconds)
    return 0


def select(port: int, seconds: float) -> int:
    """A consumer looks through the queue for a message that is not there."""
    line = Line(port)
    head = f"SUBSCRIBE\nid:s\ndestination:/queue/{QUEUE}\nack:client-individual\nselector:{NOBODY}\n\n\0"
    line.write(head.encode())
    time.sleep(seconds)
    line.close()
    return 0


def browse(port: int, seconds: float) -> int:
    """A browser does."""
    line = Line(port)
    head = f"SUBSCRIBE\nid:s\ndestination:/queue/{QUEUE}\nbrowser:true\nack:auto\nselector:{NOBODY}\n\n\0"
    line.write(head.encode())
    time.sleep(seconds)
    line.close()
    return 0


def purge(data: Path, settle_seconds: float) -> int:
    """An operator empties the queue; afterwards the store tidies up."""
    asked = subprocess.run(
        [*COMMAND, "purge", QUEUE, "--data-directory", str(data)], capture_output=True, text=True, check=True
    )
    time.sleep(settle_seconds)
    return int(asked.stdout.split(":")[-1].split()[0])


def run(count: int, size: int, seconds: float, directory: Path) -> list[dict[str, object]]:
    """All phases."""
    with Started(directory) as broker:
        port = broker.ports["stomp"]
        fill(port, count, size)
        found = [
            phase("idle", port, lambda: idle(seconds)),
            phase("selector", port, lambda: select(port, seconds)),
            phase("browser", port, lambda: browse(port, seconds)),
            phase("purge", port, lambda: purge(broker.data, seconds / 2)),
        ]
        broker.stop()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask a broker for small things while it works on a deep queue.")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase")
    parser.add_argument("--directory", type=Path, help="where the store goes; a temporary directory unless told")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        found = run(options.count, options.size, options.seconds, Path(directory))
    sys.stdout.write(f"{version_text()}, {options.count} messages\n")
    for row in found:
        sys.stdout.write(json.dumps(row) + "\n")
    return int(any(isinstance(row["p99_ms"], float) and row["p99_ms"] > LIMIT_MS for row in found))


if __name__ == "__main__":
    sys.exit(main())
