"""The Java client of the demonstration as a child process, where a JDK and ActiveMQ's client jars are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from prices import TRADES, Trade
from stage import MESSAGES_PER_SECOND, Stage, Trader

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
    subprocess.run(
        ["javac", "-J-XX:-UsePerfData", "-cp", class_path, "-d", str(directory), str(HERE / "Trader.java")], check=True
    )
    return f"{class_path}:{directory}"


class JavaTrader(Trader):
    """One Java process and the lines it prints."""

    def __init__(self, stage: Stage, name: str, class_path: str, arguments: list[str]) -> None:
        super().__init__(stage, name)
        self._command = [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-cp",
            class_path,
            "Trader",
            *arguments,
        ]
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

    def end(self) -> None:
        """End the process if it still runs."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def tell(self, word: str) -> None:
        """Say a line to the process."""
        process = self._process
        if process is not None and process.stdin is not None and process.poll() is None:
            process.stdin.write(word + "\n")
            process.stdin.flush()


class JavaSender(JavaTrader):
    """Sends with JMS: persistent, each send returns once the broker has answered."""

    def __init__(self, stage: Stage, class_path: str, orders: list[Trade], directory: Path) -> None:
        script = directory / f"{orders[0].producer}.tsv"
        script.write_text("".join(_line(order) for order in orders), encoding="utf-8")
        arguments = ["send", stage.near.url, str(script), str(MESSAGES_PER_SECOND)]
        super().__init__(stage, f"Java sender {orders[0].producer}", class_path, arguments)

    def heard(self, word: str, rest: str) -> None:
        """``answered KEY`` or ``resending KEY``."""
        if word == "answered":
            self.stage.ledger.send_answered(rest)
        else:
            self.stage.ledger.send_repeated(rest)


class JavaReceiver(JavaTrader):
    """Takes trades with JMS under client acknowledgement."""

    def __init__(self, stage: Stage, class_path: str) -> None:
        super().__init__(stage, "Java receiver", class_path, ["receive", stage.far.url, TRADES])

    def heard(self, word: str, rest: str) -> None:
        """``held N`` or ``delivered KEY<tab>REDELIVERED<tab>PRICE``."""
        if word == "held":
            self.in_flight = int(rest)
            return
        key, redelivered, price = rest.split("\t")
        self.stage.ledger.delivered("Java", key, price, redelivered == "true")


def _line(order: Trade) -> str:
    fields = [",".join(order.queues), order.key, order.symbol, order.date, order.price, str(order.volume)]
    return "\t".join(fields) + "\n"
