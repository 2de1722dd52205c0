"""A program moves messages with cursor and sink while its broker is killed: `python -m tests.soak.exactly_once`.

The program writes its checkpoint as Spark does, and ends now and then between any two steps; a sender sends on, and the
broker ends by SIGKILL, `--kills` times. Counts at the end: every message must have come once, in order.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from random import Random

from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import JmsError
from spanwire.pipeline.link.control_answers import Part
from spanwire.pipeline.link.control_client import Control
from tests.support.broker_process import BrokerProcess, spanwire_command

PER_KILL = 400  # messages that are sent for each kill
PATIENCE_S = 300.0


class Ended(Exception):
    """The program dies here."""


class Mover:
    """The program, in many runs, and its checkpoint."""

    def __init__(self, url: str, total: int, random: Random) -> None:
        self.url = url
        self.total = total
        self.random = random
        self.ranges: list[tuple[int, int]] = []
        self.done = 0
        self.attempts = 0
        self.ends: Counter[str] = Counter()

    def live(self) -> None:
        """Run after run, until everything is moved."""
        while not self.ranges or self.ranges[-1][1] < self.total or self.done < len(self.ranges):
            try:
                with blocking.connect(self.url) as connection:
                    self._run(Control(connection, answer_seconds=PATIENCE_S))
            except (Ended, JmsError) as error:
                self.ends[f"{type(error).__name__}: {str(error)[:60]}"] += 1

    def _run(self, control: Control) -> None:
        run = uuid.uuid4().hex
        epoch = control.open_cursor("mover", "IN", run).epoch
        sink_epoch = control.begin("mover", run).epoch
        while True:
            if self.done < len(self.ranges):
                self._move(control, epoch, sink_epoch)
            start = self.ranges[-1][1] if self.ranges else 0
            held = control.reserve("mover", epoch, self.random.randrange(50, 300), acknowledge=start)
            if held.start != start:
                raise AssertionError(f"the cursor is at {held.start}, the checkpoint at {start}")
            if start == self.total:
                return
            if held.end == start:
                time.sleep(0.02)
                continue
            self.ranges.append((start, held.end))

    def _move(self, control: Control, epoch: int, sink_epoch: int) -> None:
        start, end = self.ranges[self.done]
        middle = self.random.randrange(start, end + 1)
        parts: list[Part] = []
        for partition, (first, last) in enumerate(((start, middle), (middle, end))):
            rows = [
                Outgoing(message.body, None, "OUT") for _, message in control.read_range("mover", epoch, first, last)
            ]
            self._dies("after a read")
            self.attempts += 1
            parts.append(control.stage("mover", sink_epoch, self.done, partition, self.attempts, rows))
        self._dies("before the commit")
        control.commit("mover", sink_epoch, self.done, parts)
        self._dies("after the commit")
        self.done += 1

    def _dies(self, where: str) -> None:
        if self.random.random() < 0.02:
            raise Ended(where)


def send(url: str, total: int) -> None:
    """All messages, each answered before the next."""
    with blocking.connect(url) as connection, connection.session() as session:
        producer = session.create_producer("IN")
        for number in range(total):
            producer.send(f"m{number:07}")


def received(url: str) -> list[object]:
    """What came."""
    found: list[object] = []
    with blocking.connect(url) as connection, connection.session() as session:
        consumer = session.create_consumer("OUT")
        while (message := consumer.receive(timeout=10.0)) is not None:
            found.append(message.body)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = Random(options.seed)
    total = PER_KILL * options.kills
    with BrokerProcess(spanwire_command(), Path(tempfile.mkdtemp())) as broker:
        url = f"failover:({broker.openwire_uri()})?initialReconnectDelay=100&maxReconnectDelay=500"
        mover = Mover(url, total, random)
        threads = [threading.Thread(target=send, args=(url, total)), threading.Thread(target=mover.live)]
        for thread in threads:
            thread.start()
        for _ in range(options.kills):
            time.sleep(random.uniform(0.5, 3.0))
            broker.kill()
            broker.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        came = received(url)
    missing = total - len(set(came))
    doubled = len(came) - len(set(came))
    ordered = came == sorted(came, key=str)
    print(f"{options.kills} kills of the broker, {mover.done} batches, runs that ended: {dict(mover.ends)}")
    print(
        f"sent {total}, came {len(came)}, missing {missing}, doubled {doubled}, {'in' if ordered else 'not in'} order"
    )
    return 0 if missing == 0 and doubled == 0 and ordered else 1


if __name__ == "__main__":
    sys.exit(main())
