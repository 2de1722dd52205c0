"""The Java client of the demonstration as a child process, where a JDK and ActiveMQ's client jars are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from prices import Trade
from stage import Stage, Trader

HERE = Path(__file__).resolve().parent
JARS = Path("/usr/share/java")
CLIENT_JARS = (
    "activemq-client.jar",
    "geronimo-jms_1.1_spec.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "hawtbuf.jar",
    "slf4j-api.jar",
    "slf4j-nop.jar",
)


def missing() -> str | None:
    """What Java clients would need and this machine lacks; None when they can run."""
    absent = [program for program in ("java", "javac") if shutil.which(program) is None]
    absent += [name for name in CLIENT_JARS if not (JARS / name).exists()]
    return ", ".join(absent) if absent else None


def compile_trader(directory: Path) -> str:
    """Compile ``Trader.java``; gives the class path to run it with."""
    class_path = ":".join(str(JARS / name) for name in CLIENT_JARS)
    subprocess.run(["javac", "-cp", class_path, "-d", str(directory), str(HERE / "Trader.java")], check=True)
    return f"{class_path}:{directory}"


class JavaTrader(Trader):
    """One Java process and the lines it prints."""

    def __init__(self, stage: Stage, name: str, class_path: str, arguments: list[str]) -> None:
        super().__init__(stage, name)
        self._command = ["java", "-Xmx256m", "-cp", class_path, "Trader", *arguments]
        self._process: subprocess.Popen[str] | None = None

    def trade(self) -> None:
        """Run the process and take in what it says, to its end."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            self.heard(word, rest)
        self.in_flight = 0
        if self._process.wait() != 0:
            raise RuntimeError(f"ended with status {self._process.returncode}")

    def heard(self, word: str, rest: str) -> None:
        """One line of the process."""

    def tell(self, word: str) -> None:
        """Say a line to the process."""
        process = self._process
        if process is not None and process.stdin is not None and process.poll() is None:
            process.stdin.write(word + "\n")
            process.stdin.flush()


class JavaSender(JavaTrader):
    """Sends trades with JMS: persistent, each send returns once the broker has answered."""

    def __init__(self, stage: Stage, class_path: str, trades: list[Trade], rounds: int) -> None:
        symbol = trades[0].symbol
        url = f"tcp://127.0.0.1:{stage.openwire_port}"
        arguments = ["send", url, symbol, str(HERE / "stocks.csv"), str(rounds)]
        super().__init__(stage, f"Java sender of {symbol}", class_path, arguments)
        self._trades = trades

    def heard(self, word: str, rest: str) -> None:
        """``sending N``, ``resending N`` or ``answered N``."""
        trade = self._trades[int(rest)]
        if word == "answered":
            self.unanswered = 0
            self.stage.ledger.send_answered(trade.key)
            return
        self.unanswered = 1
        self.stage.ledger.published(trade.symbol)
        if word == "resending":
            self.stage.ledger.send_repeated(trade.key)


class JavaReceiver(JavaTrader):
    """Takes the trades of one queue with JMS under client acknowledgement."""

    def __init__(self, stage: Stage, class_path: str, queue: str) -> None:
        url = f"tcp://127.0.0.1:{stage.openwire_port}"
        super().__init__(stage, f"Java receiver of {queue}", class_path, ["receive", url, queue])

    def heard(self, word: str, rest: str) -> None:
        """``held N`` or ``delivered KEY<tab>REDELIVERED<tab>PRICE``."""
        if word == "held":
            self.in_flight = int(rest)
            return
        key, redelivered, price = rest.split("\t")
        self.stage.ledger.delivered(key, price, redelivered == "true")
