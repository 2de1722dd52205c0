"""One bridge between two real brokers, and kills of it and of them at chosen steps of a batch.

A STOMP client without our code counts every message at the target.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire import client
from tests.support.announcing_process import AnnouncingProcess
from tests.support.bridge_victim import AT_POINT
from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.stomp_socket import StompSocket

COUNT: Final = 400  # messages of a round
BATCH: Final = 5  # small, so that every kill meets work
WAIT_S: Final = 120.0
SPANWIRE: Final = "spanwire"
CLASSIC: Final = "classic"
SELF: Final = "bridge"
SOURCE: Final = "source"
TARGET: Final = "target"
LAST: Final = "the last message"
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


@dataclass(frozen=True)
class Kill:
    """Who is killed, and before or after which action of a batch."""

    victim: str
    action: str
    moment: str
    number: int

    @property
    def point(self) -> str:
        """The place as `tests.support.bridge_victim` wants it."""
        return f"{self.action}:{self.moment}:{self.number}"


class Round:
    """One bridge between two brokers that run, which may be the same one."""

    def __init__(self, mode: str, source: BrokerProcess, target: BrokerProcess, folder: Path) -> None:
        """Fill the source."""
        self._brokers: Final = {SOURCE: source, TARGET: target}
        self._folder: Final = folder
        self.log: Final[list[str]] = []
        self.kills: Final[list[str]] = []
        text = FILE.format(source=source.openwire_uri(), target=target.openwire_uri(), mode=mode, batch=BATCH)
        (folder / "bridge.toml").write_text(text, "utf-8")
        with client.connect(source.openwire_uri()) as connection, connection.session("transacted") as session:
            producer = session.create_producer("queue://KILLS.SOURCE")
            for number in range(COUNT):
                producer.send(str(number))
            session.commit()

    def kill(self, kill: Kill) -> None:
        """Run the bridge until the point, and kill the victim there; a broker comes back, and then the bridge dies."""
        command = [sys.executable, "-m", "tests.support.bridge_victim", str(self._folder / "bridge.toml"), kill.point]
        process = AnnouncingProcess(command, Path(__file__).resolve().parents[2], self.log)
        process.wait_until(lambda line: AT_POINT in line, WAIT_S, f"did not come to {kill.point}")
        process.await_stop()
        self.kills.append(f"{kill.victim} {kill.action} {kill.moment}")
        if kill.victim != SELF:
            broker = self._brokers[kill.victim]
            broker.kill()
            broker.start()
            process.send(signal.SIGCONT)
            process.wait_until(lambda line: "bridge kills: running" in line, WAIT_S, f"did not run after {kill.point}")
            self.kills.append(f"{SELF} at any step")
        process.end(signal.SIGKILL)

    def finish(self) -> Counter[str]:
        """Let the bridge empty its source, which it does not find empty. Returns the target's texts with their counts.

        The bridge may take a busy broker's silence for an empty source, so it runs until it gets nothing.
        """
        assert self._emptied() > 0, "nothing was left after the kills"
        while self._emptied() > 0:
            pass
        return Counter(taken(self._brokers[TARGET].stomp_port, "KILLS.TARGET"))

    def _emptied(self) -> int:
        command = [*COMMAND, "bridge", "run", "bridge.toml", "--until-empty"]
        process = AnnouncingProcess(command, self._folder, self.log)
        process.wait_until(lambda line: "bridge kills: stopped, received" in line, WAIT_S, "did not end")
        assert process.ended(WAIT_S) == 0, self.log
        words = next(line for line in reversed(self.log) if "bridge kills: stopped, received" in line)
        return int(words.partition("received ")[2].partition(",")[0])

    def hidden(self) -> Counter[str]:
        """Take the messages that ActiveMQ Classic has in its journal and does not deliver.

        After a kill its count of a queue may be too small, and then it keeps the last messages back for ever. Its
        journal has no acknowledgement of them, and with an index from the journal it delivers them. What it delivers
        before was left behind by the bridge, so that does not count here.
        """
        source = self._brokers[SOURCE]
        _ = taken(source.stomp_port, "KILLS.SOURCE")
        source.kill()
        for name in INDEX:
            (source.directory / "data" / "kahadb" / name).unlink(missing_ok=True)
        source.start()
        return Counter(taken(source.stomp_port, "KILLS.SOURCE"))


def taken(port: int, queue: str) -> list[str]:
    """Take the texts of all messages of a queue: until one arrives that is sent to its end now."""
    texts: list[str] = []
    with StompSocket(port) as stomp:
        stomp.connect("1.2")
        stomp.type(f"SEND\ndestination:/queue/{queue}\npersistent:true\nreceipt:last\n\n{LAST}\0")
        sent = stomp.receive(WAIT_S)
        assert sent is not None and sent.command == "RECEIPT", sent
        stomp.type(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:auto\n\n\0")
        while (frame := stomp.receive(WAIT_S)) is not None and frame.body != LAST.encode():
            assert frame.command == "MESSAGE", frame
            texts.append(frame.body.decode())
        assert frame is not None, "the broker has closed the connection"
        stomp.type("DISCONNECT\nreceipt:end\n\n\0")
        stomp.receive(WAIT_S)
    return texts


def started(kind: str, directory: Path) -> BrokerProcess:
    """Return a broker of a kind that is not started yet."""
    return classic_broker(directory) if kind == CLASSIC else BrokerProcess(spanwire_command(), directory)
