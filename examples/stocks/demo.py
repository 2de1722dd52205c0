"""``make demo``: real prices over two linked brokers, to consumers and into Spark, with ``kill -9`` on the way.

Producers (STOMP, Python, Java where it is installed) send to broker A. Consumers of the three kinds and a Spark job are
connected to broker B, and A's network connector forwards what they ask for. Once a third has arrived the consumers hold
still; when a thousand messages are in flight B is killed, and started again on the same data. What the clients counted
decides: the last line is the ledger, and the exit status is 0 only if nothing was lost and every check holds.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import chart
import java_traders
from archive import archived_rows
from broker_process import BrokerProcess
from java_traders import JavaReceiver, JavaSender, JavaTrader
from ledger import Ledger
from prices import ARCHIVE, TRADES, books
from progress import Progress
from python_traders import PythonReceiver, PythonSender, left_in_archive, read_windows
from spark_process import SparkProcess
from stage import Stage, Trader
from stomp_traders import StompReceiver, StompSender
from windows import ReceivedWindows, expected_windows

DEFAULT_ROUNDS: Final = 36  # 560 prices a round: 20,160 trades
MIN_ROUNDS: Final = 4  # fewer are over before enough of them is in flight
MIN_IN_FLIGHT: Final = 1_000  # messages that consumers hold unacknowledged when the broker is killed
HOLD_AFTER: Final = 0.33  # share of the trades that arrive before the consumers hold still
READY_SECONDS: Final = 20.0
SETTLE_SECONDS: Final = 1.0  # without a further delivery before the books are closed
LOST_SECONDS: Final = 45.0  # the same while trades are missing; a batch of Spark takes some seconds


class Demonstration:
    """One run: the cast, the kill, the books."""

    def __init__(self, rounds: int, work: Path) -> None:
        kinds = {"MSFT": "stomp", "AMZN": "stomp", "AAPL": "python", "GOOG": "python", "IBM": "java"}
        absent = java_traders.missing()
        if absent is not None:
            print(f"without Java clients: no {absent} here; Python takes their part")
            kinds["IBM"] = "python"
        self._orders = books(rounds, kinds)
        self.ledger = Ledger(order for orders in self._orders.values() for order in orders)
        self.windows = ReceivedWindows()
        self.far = BrokerProcess("B", work / "b")
        self.near = BrokerProcess("A", work / "a", remote=self.far.address)
        self._stage = Stage(self.ledger, self.near.address, self.far.address)
        self.spark = SparkProcess(self._stage, work / "spark")
        class_path = java_traders.compile_trader(work) if absent is None else None
        self._senders = [self._sender(symbol, kind, class_path, work) for symbol, kind in kinds.items()]
        self._receivers: list[Trader] = [StompReceiver(self._stage), PythonReceiver(self._stage)]
        if class_path is not None:
            self._receivers.append(JavaReceiver(self._stage, class_path))
        self.progress = Progress(self.total, self._sample, self._check_clients)
        self.killed_at = self.restarted_at = 0.0
        self._on_link: object = 0

    def _sender(self, symbol: str, kind: str, class_path: str | None, work: Path) -> Trader:
        orders = self._orders[symbol]
        if kind == "stomp":
            return StompSender(self._stage, orders)
        if kind == "java" and class_path is not None:
            return JavaSender(self._stage, class_path, orders, work)
        return PythonSender(self._stage, orders)

    @property
    def total(self) -> int:
        """How many trades there are."""
        return len(self.ledger.trades)

    def run(self) -> None:
        """From the first broker to the last message."""
        self.progress.say("broker B starts, then A, which has a network connector to B")
        for broker in (self.far, self.near):
            broker.start()
            self.progress.until(broker.has_started, f"broker {broker.name} has started")
        self._wait_for_demand()
        self._send()
        self.progress.until(lambda: self.ledger.delivered_count >= self.total * HOLD_AFTER, "a third has arrived")
        self._kill_in_flight()
        self.progress.until(lambda: not self._is_sending(), "all sends are answered")
        self._wait_for_the_rest()
        self._close_books()

    def _wait_for_demand(self) -> None:
        """Consumers of B are seen at A as consumers of A: their demand comes over the link."""
        self.progress.say(f"{len(self._receivers)} consumers and the Spark job subscribe on B")
        for client in [*self._receivers, self.spark]:
            client.start()

        def is_visible() -> bool:
            everybody = self.far.queue(TRADES)["consumers"] >= len(self._receivers)
            return everybody and all(self.near.queue(name)["consumers"] > 0 for name in (TRADES, ARCHIVE))

        self.progress.until(is_visible, "their demand is visible on A")
        link = self.near.link()
        self.progress.say(
            f"demand is visible on A: link {link['state']}, {link['demand']} queues wanted by {link['remote']}"
        )

    def _send(self) -> None:
        """One producer begins; Spark's first batch takes some seconds, and the others follow when it is archived."""
        self.progress.say(
            f"the first of {len(self._senders)} producers begins; together they send {self.total} trades to A"
        )
        self.progress.sends_begin()
        self._senders[0].start()
        self.progress.until(lambda: self.spark.archived > 0, "the archive has begun")
        self.progress.say("the archive has begun; the other producers follow")
        for sender in self._senders[1:]:
            sender.start()

    def _kill_in_flight(self) -> None:
        self._tell("hold")
        self._stage.hold.set()
        self.progress.until(self._is_mid_flight, "a thousand messages are in flight")
        held, on_link = self._in_flight(), self._on_link
        self.far.kill()
        self.killed_at = self.progress.elapsed
        self.progress.say(f"kill -9 of B: its consumers hold {held} messages, {on_link} are on the link from A")
        self.far.start()
        self.progress.until(self.far.has_started, "B is back")
        self.restarted_at = self.progress.elapsed
        self.progress.say(f"B is back on the same data after {self.restarted_at - self.killed_at:.2f} s")
        self._stage.hold.clear()
        self._tell("release")

    def _is_mid_flight(self) -> bool:
        """Consumers hold many, and more are on their way, unless a slow machine has let the senders end before."""
        self._on_link = self.near.link()["in_flight"]
        return self._in_flight() >= MIN_IN_FLIGHT and (self._on_link != 0 or not self._is_sending())

    def _has_arrived(self) -> bool:
        return self.ledger.delivered_count >= self.total and self.spark.archived >= self.total

    def _wait_for_the_rest(self) -> None:
        """Until everything is there and no duplicate follows, or nothing has come for so long that it must be lost."""
        counted, since = (-1, -1), time.monotonic()

        def is_over() -> bool:
            nonlocal counted, since
            counts = (sum(self.ledger.deliveries.values()), self.spark.archived)
            if counts != counted:
                counted, since = counts, time.monotonic()
            return time.monotonic() - since >= (SETTLE_SECONDS if self._has_arrived() else LOST_SECONDS)

        self.progress.until(is_over, "everything has arrived")
        arrived = "every trade is delivered and archived" if self._has_arrived() else "trades are missing"
        self.progress.say(f"{arrived}; consumers and Spark finish")

    def _close_books(self) -> None:
        self._stage.finished.set()
        self._tell("finish")
        for receiver in self._receivers:
            receiver.join(READY_SECONDS)
        self.spark.finish()
        self._check_clients()
        self.ledger.book_archive(archived_rows(self.spark.directory / "archive"))
        self.ledger.book_left(left_in_archive(self.near.address) + left_in_archive(self.far.address))
        self.windows = asyncio.run(read_windows(self.far.address))
        for broker in (self.near, self.far):
            if broker.stop() != 0:
                raise SystemExit(f"demo: broker {broker.name} did not end in order")

    def verdict(self) -> int:
        """Print the books; the exit status."""
        ledger, windows = self.ledger, self.windows
        expected = expected_windows(ledger.trades.values())
        print(f"\n{ledger.table()}\n")
        taken = ", ".join(f"{consumer} {count}" for consumer, count in sorted(ledger.taken.items()))
        print(f"taken by consumers: {taken}")
        print(
            f"sends repeated: {sum(ledger.repeated.values())}; Spark queries restarted: {self.spark.restarts}; "
            f"archived from a second delivery: {len(ledger.archived_again)}"
        )
        print(
            f"left in {ARCHIVE} by the selector: {len(ledger.left)} of {len(ledger.others)} orders that are no trades"
        )
        print(
            f"windows: {len(windows.windows)} of {len(expected)} from {windows.messages} messages; "
            f"they count {windows.trades} trades"
        )
        problems = ledger.problems() + windows.problems(expected)
        for problem in problems:
            print(f"PROBLEM {problem}")
        return 1 if problems else 0

    def end(self) -> None:
        """End every process that still runs."""
        self._stage.finished.set()
        self.spark.end()
        for trader in self._senders + self._receivers:
            if isinstance(trader, JavaTrader):
                trader.end()
        self.near.stop()
        self.far.stop()

    def _is_sending(self) -> bool:
        return any(sender.is_alive() for sender in self._senders)

    def _in_flight(self) -> int:
        return sum(receiver.in_flight for receiver in self._receivers)

    def _tell(self, word: str) -> None:
        for receiver in self._receivers:
            if isinstance(receiver, JavaReceiver):
                receiver.tell(word)

    def _check_clients(self) -> None:
        failures = [client.failure for client in [*self._senders, *self._receivers, self.spark] if client.failure]
        if failures:
            raise SystemExit("demo: clients failed:\n  " + "\n  ".join(failures))

    def _sample(self, seconds: float) -> chart.Sample:
        ledger = self.ledger
        return chart.Sample(seconds, len(ledger.sent), ledger.delivered_count, self.spark.archived, self._in_flight())


def _interrupted(number: int, frame: object) -> None:
    raise SystemExit("demo: interrupted")


def main() -> int:
    """Run it once."""
    parser = argparse.ArgumentParser(description="real prices over two brokers, one of which is killed, and into Spark")
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help="how often the price series is replayed")
    parser.add_argument("--chart", type=Path, default=Path("out/demo.png"), help="where the chart goes")
    options = parser.parse_args()
    if options.rounds < MIN_ROUNDS:
        parser.error(f"--rounds must be {MIN_ROUNDS} or more, not {options.rounds}")
    logging.basicConfig(format="  Python client: %(message)s")
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGINT, _interrupted)
    work = Path(tempfile.mkdtemp(prefix="spanwire-demo-"))
    demonstration = Demonstration(options.rounds, work)
    try:
        demonstration.run()
        status = demonstration.verdict()
        options.chart.parent.mkdir(parents=True, exist_ok=True)
        drawn = chart.draw(
            demonstration.progress.samples, demonstration.killed_at, demonstration.restarted_at, options.chart
        )
        print(f"chart: {options.chart if drawn else 'not drawn, matplotlib is missing'}")
        print(demonstration.ledger.last_line())
        return status
    finally:
        demonstration.end()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
