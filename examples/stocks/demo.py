"""``make demo``: real prices through one broker that is killed with ``kill -9`` on the way.

Senders (STOMP, OpenWire from Python, Java where it is installed) send a price series, replayed in rounds, persistently
to five queues, and to five topics beside. Receivers take the queues' messages. Once a third has arrived they hold
still; when a thousand messages are in flight and sends are unanswered, the broker is killed and started again. What the
clients counted decides: the last line is the ledger, and the exit status is 0 only if nothing was lost and every
duplicate carries the redelivered flag.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import chart
import java_traders
from ledger import Ledger
from openwire_traders import OpenWireReceiver, OpenWireSender
from prices import trades
from stage import Stage, Trader
from stomp_traders import PriceListener, StompReceiver, StompSender

HERE = Path(__file__).resolve().parent
DEFAULT_ROUNDS = 40  # 560 prices a round: 22,400 messages
MIN_MESSAGES = 20_000
MIN_IN_FLIGHT = 1_000  # messages that receivers hold unacknowledged when the broker is killed
HOLD_AFTER = 0.33  # share of the messages that arrive before the receivers hold still
HOLD_SECONDS = 0.3  # so that a send without an answer is younger than the last acknowledgement
DEADLINE_SECONDS = 120.0  # for the whole run; it takes a fraction of that
SETTLE_SECONDS = 1.0  # without a further delivery before the books are closed
READY_SECONDS = 20.0
SAMPLE_SECONDS = 0.05


class BrokerProcess:
    """The broker under demonstration."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ports = (_free_port(), _free_port())
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it says that it has started."""
        environment = dict(os.environ, OPENWIRE_PORT=str(self.ports[0]), STOMP_PORT=str(self.ports[1]))
        environment["ACTIVEMQ_DATA"] = str(self._directory)  # what ${activemq.data} stands for
        command = [sys.executable, "-m", "spanwire", "start", f"xbean:{HERE / 'activemq.xml'}"]
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(f"  broker: {line.rstrip()}")
            if line.startswith("Spanwire (broker") and line.rstrip().endswith("started"):
                return
        raise SystemExit("demo: the broker did not start")

    def kill(self) -> None:
        """What a power switch does to a process."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """End it in order; gives its exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait(READY_SECONDS)


class Demonstration:
    """One run: the cast, the kill, the books."""

    def __init__(self, rounds: int, work: Path) -> None:
        self._trades = trades(rounds)
        self.ledger = Ledger(self._trades)
        self.broker = BrokerProcess(work / "data")
        self._stage = Stage(self.ledger, *self.broker.ports)
        self._started = time.monotonic()
        self.samples: list[chart.Sample] = []
        self.killed_at = 0.0
        self.restarted_at = 0.0
        self._senders: list[Trader] = []
        self._receivers: list[Trader] = []
        self._cast(rounds, work)

    def _cast(self, rounds: int, work: Path) -> None:
        stage, books = self._stage, self._trades
        queue = {symbol: entries[0].queue for symbol, entries in books.items()}
        self._senders = [StompSender(stage, books["MSFT"]), StompSender(stage, books["AMZN"])]
        self._senders += [OpenWireSender(stage, books["AAPL"]), OpenWireSender(stage, books["GOOG"])]
        self._receivers = [StompReceiver(stage, queue["AMZN"]), StompReceiver(stage, queue["AAPL"])]
        self._receivers += [OpenWireReceiver(stage, queue["GOOG"])]
        absent = java_traders.missing()
        if absent is None:
            class_path = java_traders.compile_trader(work)
            self._senders.append(java_traders.JavaSender(stage, class_path, books["IBM"], rounds))
            self._receivers.append(StompReceiver(stage, queue["IBM"]))
            self._receivers.append(java_traders.JavaReceiver(stage, class_path, queue["MSFT"]))
        else:
            print(f"  without Java clients: no {absent} here; Python takes their parts")
            self._senders.append(OpenWireSender(stage, books["IBM"]))
            self._receivers += [StompReceiver(stage, queue["IBM"]), OpenWireReceiver(stage, queue["MSFT"])]
        self._receivers.append(PriceListener(stage))

    @property
    def total(self) -> int:
        """How many messages the senders send."""
        return len(self.ledger.trades)

    def run(self) -> None:
        """From the first message to the last."""
        self.broker.start()
        self._started = time.monotonic()
        for trader in self._receivers + self._senders:
            trader.start()
        self._until(lambda: self.ledger.delivered_count >= self.total * HOLD_AFTER, "a third has arrived")
        self._kill_in_flight()
        self._until(lambda: not any(sender.is_alive() for sender in self._senders), "all sends are answered")
        self._until(self._has_settled, "everything has arrived")
        self._say(" done")
        self._finish()

    def _kill_in_flight(self) -> None:
        self._tell("hold")
        self._stage.hold.set()
        held_since = time.monotonic()
        self._until(
            lambda: (
                time.monotonic() - held_since >= HOLD_SECONDS
                and self._in_flight() >= MIN_IN_FLIGHT
                and self._unanswered() > 0
            ),
            "a thousand messages are in flight",
        )
        in_flight, unanswered = self._in_flight(), self._unanswered()
        self.broker.kill()
        self.killed_at = time.monotonic() - self._started
        self._say(f" kill -9 with {in_flight} messages in flight and {unanswered} sends unanswered")
        # What receivers hold died with their connections: they drop it before they may acknowledge again.
        self._until(lambda: self._in_flight() == 0, "every receiver has noticed")
        self._stage.hold.clear()
        self._tell("release")
        self.broker.start()
        self.restarted_at = time.monotonic() - self._started
        self._say(f" restarted after {self.restarted_at - self.killed_at:.2f} s")

    def _in_flight(self) -> int:
        return sum(receiver.in_flight for receiver in self._receivers)

    def _unanswered(self) -> int:
        return sum(sender.unanswered for sender in self._senders)

    def _tell(self, word: str) -> None:
        for receiver in self._receivers:
            if isinstance(receiver, java_traders.JavaReceiver):
                receiver.tell(word)

    def _has_settled(self) -> bool:
        if self.ledger.delivered_count < self.total:
            return False
        before = sum(self.ledger.deliveries.values())
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(SAMPLE_SECONDS)
            if sum(self.ledger.deliveries.values()) != before:
                return False
        return True

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        said = time.monotonic()
        while not condition():
            now = time.monotonic()
            elapsed = now - self._started
            self._sample()
            if now - said >= 1.0:
                said = now
                self._say("")
            if elapsed > DEADLINE_SECONDS:
                raise SystemExit(f"demo: gave up after {DEADLINE_SECONDS:.0f} s waiting until {what}{self._failures()}")
            time.sleep(SAMPLE_SECONDS)

    def _sample(self) -> None:
        elapsed = time.monotonic() - self._started
        self.samples.append((elapsed, len(self.ledger.answered), self.ledger.delivered_count, self._in_flight()))

    def _say(self, what: str) -> None:
        self._sample()
        print(
            f"{time.monotonic() - self._started:6.2f} s  answered {len(self.ledger.answered):6}  "
            f"delivered {self.ledger.delivered_count:6} of {self.total}{what and ' ' + what}",
            flush=True,
        )

    def _failures(self) -> str:
        failures = [trader.failure for trader in self._senders + self._receivers if trader.failure]
        return "".join(f"\n  {failure}" for failure in failures)

    def _finish(self) -> None:
        self._stage.finished.set()
        self._tell("finish")
        for receiver in self._receivers:
            receiver.join(READY_SECONDS)
        failures = self._failures()
        if failures:
            raise SystemExit(f"demo: clients failed:{failures}")
        status = self.broker.stop()
        if status != 0:
            raise SystemExit(f"demo: the broker ended with status {status}")

    def verdict(self) -> int:
        """Print the books; the exit status."""
        ledger = self.ledger
        print(f"\n{ledger.queue_table()}\n\n{ledger.topic_table()}\n")
        print(f"sends repeated after the kill: {sum(ledger.resent.values())}")
        problems = [f"lost: {key}" for key in ledger.lost()[:5]]
        problems += [f"duplicated without redelivered flag: {key}" for key in ledger.unflagged()[:5]]
        problems += [f"changed on the way: {text}" for text in ledger.wrong[:5]]
        if len(ledger.answered) < max(MIN_MESSAGES, self.total):
            problems.append(f"only {len(ledger.answered)} of {self.total} sends were answered")
        for problem in problems:
            print(problem)
        return 1 if problems else 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Run it once."""
    parser = argparse.ArgumentParser(description="real prices through one broker that is killed on the way")
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help="how often the price series is replayed")
    parser.add_argument("--chart", type=Path, default=Path("out/demo.png"), help="where the chart goes")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="spanwire-demo-"))
    demonstration = Demonstration(options.rounds, work)
    try:
        demonstration.run()
        status = demonstration.verdict()
        options.chart.parent.mkdir(parents=True, exist_ok=True)
        drawn = chart.draw(demonstration.samples, demonstration.killed_at, demonstration.restarted_at, options.chart)
        print(f"chart: {options.chart if drawn else 'not drawn, matplotlib is missing'}")
        print(demonstration.ledger.last_line())
        return status
    finally:
        demonstration.broker.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
