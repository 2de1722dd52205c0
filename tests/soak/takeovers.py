"""Two brokers take one store from each other under load, again and again: `python -m tests.soak.takeovers`.

The master is killed, stopped for a while (SIGSTOP), or its disk is full and then it is killed or stopped. The standby
takes over; a stopped master goes on, finds that it was replaced and ends. Clients of both protocols send, consume and
commit meanwhile. Every ten take-overs everything is taken out and counted: nothing acknowledged is lost, what comes
twice says so, and never were there two masters. The counts are tried with planted faults each time.

A run that is interrupted goes on where it was with the same ``--seed``: the number of take-overs is kept in
``out/soak``. A full disk needs root, for a small file system.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.broker import FragileBroker
from tests.faults.load import Drainer, MixedLoad, drain, planted_faults, until, verdict_of
from tests.soak.masters import Answer, faults, reigns, with_a_second_master
from tests.support.histories import DIRECTORY, keep
from tests.support.ports import free_port
from tests.support.stomp_socket import StompSocket
from tests.support.total_queue import Ledger, check

LEASE_MS: Final = 3000  # with 1000 a standby takes a master that waits for a processor for one that hangs
RENEWAL_MS: Final = 500
DISK_BYTES: Final = 48 * 1024 * 1024
FULL_S: Final = 1.0  # with a full disk before the master is hurt
LONGEST_LOAD_S: Final = 0.8
ROUND: Final = 10  # take-overs between two counts
PROBES: Final = "FAULTS.PROBES"
LOCKER: Final = (
    f'lockKeepAlivePeriod="{RENEWAL_MS}"><locker><lease-database-locker leaseHolderId="{{0}}"'
    f' lockAcquireSleepInterval="{LEASE_MS}"/></locker></kahaDB>'
)
KILL, STOP, FULL_KILL, FULL_STOP = "kill", "stop", "full and kill", "full and stop"


class Relay:
    """Passes connections on to a port of a broker until `cut`, as a client lets go of a broker that is silent."""

    def __init__(self, target: int) -> None:
        self.port: Final = free_port()
        self._target: Final = target
        self._listener: Final = socket.create_server(("127.0.0.1", self.port))
        self._sockets: Final[list[socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close everything."""
        self._listener.close()
        for one in list(self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                self._sockets.append(far)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Machine(FragileBroker):
    """One of both brokers; its data directory is a link to the shared one."""

    def __init__(self, directory: Path, name: str, shared: Path) -> None:
        super().__init__(directory)
        self.holder: Final = name
        self._starter: threading.Thread | None = None
        self._failure: BaseException | None = None
        directory.mkdir()
        (directory / "data").symlink_to(shared)

    def _command_of(self, directory: Path) -> list[str]:
        command = super()._command_of(directory)
        configuration = directory / "activemq.xml"
        text = configuration.read_text("utf-8").replace('/kahadb"/>', f'/kahadb" {LOCKER.format(self.holder)}')
        configuration.write_text(text, "utf-8")
        return command

    def wait(self) -> None:
        """Start as a standby, on a thread."""
        said = len(self.log)
        self._failure = None
        self._starter = threading.Thread(target=self._start)
        self._starter.start()
        until(lambda: any("standby: waits" in line for line in self.log[said:]) or self._is_over(), "a standby")
        assert not self._is_over(), self._failure

    def takes_over(self) -> None:
        """Until the standby is master."""
        assert self._starter is not None
        self._starter.join()
        if self._failure is not None:
            raise AssertionError(f"{self.holder} does not take over: {self._failure}") from self._failure

    def _is_over(self) -> bool:
        return self._starter is not None and not self._starter.is_alive()

    def _start(self) -> None:
        try:
            self.start()
        except BaseException as error:
            self._failure = error


class Prober(threading.Thread):
    """Sends one message after the other to a broker, without a relay, and notes when each was asked and answered."""

    def __init__(self, machine: Machine, name: str, ledger: Ledger, answers: list[Answer]) -> None:
        super().__init__(daemon=True)
        self._machine: Final = machine
        self._prefix: Final = name
        self._ledger: Final = ledger
        self._answers: Final = answers
        self._socket: Final = StompSocket(machine.stomp_port)
        self._socket.connect("1.2")
        self._asked: Final[dict[str, float]] = {}
        self._leaving = threading.Event()

    def ask(self) -> None:
        """Send a message; also to a broker that is stopped, whose socket takes it."""
        number = len(self._asked)
        text = f"{self._prefix}-{number}"
        self._ledger.attempted(PROBES, self._prefix, number, text)
        self._asked[text] = time.time()
        frame = f"SEND\ndestination:/queue/{PROBES}\npersistent:true\nreceipt:{text}\n\n{text}\0"
        with suppress(OSError):
            self._socket.type(frame)

    def leave(self) -> None:
        """Send nothing more by itself."""
        self._leaving.set()

    def run(self) -> None:
        with suppress(OSError, TimeoutError):
            while True:
                if not self._leaving.is_set():
                    self.ask()
                frame = self._socket.receive()
                if frame is None or frame.command != "RECEIPT":
                    return
                text = frame.headers["receipt-id"]
                self._ledger.granted(text)
                self._answers.append(Answer(self._machine.holder, self._asked[text], time.time(), text))
                self._leaving.wait(0.005)


class TakeOvers:
    """Two machines, one store, and the books."""

    def __init__(self, directory: Path, seed: int, done: int, full: bool) -> None:
        self.random: Final = Random(f"{seed} {done}")
        self.done = done
        self.counts: dict[str, int] = {}
        self.noticed = 0  # full disks that the master has met
        self.summaries: Final[list[str]] = []
        self.ledger = Ledger()
        self.probes = Ledger()
        self.answers: Final[list[Answer]] = []
        self.shared: Final = directory / "shared"
        self._ways: Final = (KILL, STOP, FULL_KILL, FULL_STOP) if full else (KILL, STOP)
        self.machines: Final = [Machine(directory / name, name, self.shared) for name in ("a", "b")]
        self.machines[0].start()
        self.machines[1].wait()

    def one(self) -> None:
        """One take-over."""
        master, standby = self.machines
        way = self._ways[self.done % len(self._ways)]
        is_full = way in (FULL_KILL, FULL_STOP)
        relays = [Relay(master.openwire_port), Relay(master.stomp_port)]
        load = MixedLoad(self.ledger, f"t{self.done}", transacts=not is_full)
        load.start(relays[0].port, relays[1].port)
        prober = Prober(master, f"p{self.done}", self.probes, self.answers)
        prober.start()
        threading.Event().wait(self.random.random() * LONGEST_LOAD_S)
        if is_full:
            said = len(master.log)
            self._fill()
            threading.Event().wait(FULL_S)
            self.noticed += any("the disk is full" in line for line in master.log[said:])
        if way in (KILL, FULL_KILL):
            master.kill()
        else:
            master.pause()
        standby.takes_over()
        if is_full:
            (self.shared / "ballast").unlink()
        for relay in relays:
            relay.cut()
        if way in (STOP, FULL_STOP):
            prober.leave()
            prober.ask()  # asked when the other one is master: the old one must not answer
            self._probe(standby)
            master.resume()
            status = master.ended()
            if status != 1:
                raise AssertionError(f"the old master ended with {status}")
            until(lambda: any("has taken over the store" in line for line in master.log[-20:]), "the line of its end")
        prober.join()
        load.end()
        self.counts[way] = self.counts.get(way, 0) + 1
        self.done += 1
        self.machines.reverse()
        master.wait()

    def _probe(self, machine: Machine) -> None:
        """A few answers of the new master while the old one is stopped."""
        prober = Prober(machine, f"n{self.done}", self.probes, self.answers)
        prober.start()
        threading.Event().wait(0.05)
        prober.leave()
        threading.Event().wait(0.05)

    def _fill(self) -> None:
        """Leave no room on the disk."""
        with suppress(OSError), (self.shared / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(65536))

    def count(self) -> None:
        """Take everything out and compare; then a new page."""
        port = self.machines[0].stomp_port
        drain(self.ledger, port, f"d{self.done}")
        Drainer(self.probes, f"d{self.done}.probes", port, PROBES).run()
        verdict, probed = verdict_of(self.ledger), check(self.probes, ordered=())
        self.summaries.append(verdict.summary())
        masters = reigns({machine.holder: machine.log for machine in self.machines})
        doubles = faults(masters, self.answers)
        for found in (verdict, probed):
            if not found.ok:
                raise AssertionError(found.report())
        if doubles:
            raise AssertionError("two masters: " + "; ".join(doubles[:5]))
        if not faults(masters, with_a_second_master(masters, self.answers)):
            raise AssertionError("the count misses a second master")
        for fault, planted in planted_faults(self.ledger).items():
            if fault not in verdict_of(planted).faults:
                raise AssertionError(f"the count misses that a message is {fault}")
        self.ledger, self.probes = Ledger(), Ledger()
        self.answers.clear()

    def end(self) -> None:
        """End both brokers."""
        for machine in self.machines:
            machine.kill()


def mounted(directory: Path, stack: ExitStack) -> bool:
    """Put a small file system at a directory; False where that is not allowed."""
    directory.mkdir(mode=0o700)
    options = f"size={DISK_BYTES},mode=700"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], capture_output=True, check=False
    )
    if done.returncode == 0:
        stack.callback(subprocess.run, ["umount", "-l", str(directory)], check=False)
    return done.returncode == 0


def main() -> int:
    """Run until so many take-overs are done."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.takeovers", description=__doc__)
    parser.add_argument("--takeovers", type=int, default=200, help="how many in all, with those of earlier runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many; a later run goes on")
    options = parser.parse_args()
    state = DIRECTORY / f"takeovers-{options.seed}.json"
    done = json.loads(state.read_text())["done"] if state.exists() else 0
    end = time.monotonic() + options.seconds
    replay = f"python -m tests.soak.takeovers --seed {options.seed} --takeovers {options.takeovers}"
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        is_small = os.geteuid() == 0 and mounted(Path(directory) / "shared", stack)
        if not is_small:
            print("without root no disk becomes full here: kills and stops only")
            (Path(directory) / "shared").mkdir(mode=0o700, exist_ok=True)
        run = TakeOvers(Path(directory), options.seed, done, is_small)
        stack.callback(run.end)
        try:
            while run.done < options.takeovers and time.monotonic() < end:
                run.one()
                if run.done % ROUND == 0 or run.done == options.takeovers:
                    run.count()
                    state.parent.mkdir(parents=True, exist_ok=True)
                    state.write_text(json.dumps({"done": run.done}))
                    print(
                        f"{run.done} take-overs, {run.counts}, {run.noticed} full disks met, {run.summaries[-1]}",
                        flush=True,
                    )
        except Exception as error:
            lines = [*(f"{one.holder}: {line}" for one in run.machines for line in one.log), *run.ledger.lines()]
            history = keep("takeovers", options.seed, str(error), replay, lines)
            print(f"after {run.done} take-overs: {error}\nhistory: {history}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
