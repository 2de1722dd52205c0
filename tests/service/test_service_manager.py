"""``spanwire start`` under a service manager, which is a socket of the test."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.started import TIMEOUT_S, Started, spanwire
from tests.service.test_standby import Waiting
from tests.support.ports import free_port

WATCHDOG_S = 1


class Manager:
    """The lines that a broker sends, in order."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path = str(path)
        self.socket.bind(self.path)
        self.socket.settimeout(TIMEOUT_S)
        self._lines: list[str] = []

    def hears(self, words: str) -> list[str]:
        """The lines up to one that begins with ``words``, which is the last of the answer."""
        lines: list[str] = []
        while True:
            if not self._lines:
                self._lines = self.socket.recv(4096).decode().split("\n")
            lines.append(self._lines.pop(0))
            if lines[-1].startswith(words):
                return lines


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", manager.path)
    monkeypatch.setenv("WATCHDOG_USEC", str(WATCHDOG_S * 1_000_000))
    yield manager
    manager.socket.close()


def test_a_broker_tells_its_start_reload_restart_and_stop(tmp_path: Path, manager: Manager) -> None:
    with Started(tmp_path / "a") as broker:
        assert "STOPPING=1" not in manager.hears("READY=1")
        assert manager.hears("STATUS=broker tested: ")[-1] == "STATUS=broker tested: 0 connections"
        with broker.stomp():
            assert manager.hears("STATUS=")[-1] == "STATUS=broker tested: 1 connection"
        manager.hears("WATCHDOG=1")
        manager.hears("WATCHDOG=1")

        assert spanwire("reload", str(broker.configuration)).returncode == 0
        manager.hears("RELOADING=1")
        assert manager.hears("READY=1")[0].startswith("MONOTONIC_USEC=")
        broker.signal(signal.SIGHUP)
        manager.hears("RELOADING=1")
        manager.hears("READY=1")

        assert spanwire("restart", str(broker.configuration)).returncode == 0
        manager.hears("RELOADING=1")
        again = manager.hears("READY=1")
        assert "STOPPING=1" not in again
        manager.hears(f"WATCHDOG_USEC={WATCHDOG_S * 1_000_000}")
        manager.hears("WATCHDOG=1")

        broker.signal(signal.SIGTERM)
        manager.hears("STOPPING=1")
        assert broker.ended() == 0


def test_a_standby_is_ready_and_says_what_it_waits_for(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET")
    with Started(tmp_path / "a") as master:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.path)
        with Waiting(tmp_path / "b", master) as standby:
            manager.hears("READY=1")
            line = manager.hears("STATUS=broker tested: standby")[-1]
            assert line == f"STATUS=broker tested: standby: waits for the lock of {master.data}"
            assert master.stop() == 0
            standby.takes_over()
            manager.hears("READY=1")
            manager.hears(f"WATCHDOG_USEC={WATCHDOG_S * 1_000_000}")
            manager.hears("STATUS=broker tested: 0 connections")
            assert standby.stop() == 0


def test_a_loop_that_hangs_gives_no_sign_of_life(tmp_path: Path, manager: Manager) -> None:
    with Started(tmp_path / "a") as broker:
        manager.hears("WATCHDOG=1")
        broker.signal(signal.SIGSTOP)
        manager.socket.settimeout(WATCHDOG_S)
        with pytest.raises(TimeoutError):
            for _ in range(3):  # two may have been on their way
                manager.hears("WATCHDOG=1")
        manager.socket.settimeout(TIMEOUT_S)
        broker.signal(signal.SIGCONT)
        manager.hears("WATCHDOG=1")


def test_the_commands_of_the_printed_unit_start_reload_and_stop_a_broker(tmp_path: Path, manager: Manager) -> None:
    file = tmp_path / "a b.xml"
    connector = f'<transportConnector uri="stomp://127.0.0.1:{free_port()}"/>'
    file.write_text(f"<broker><transportConnectors>{connector}</transportConnectors></broker>", "utf-8")
    printed = spanwire("service", "--print", "--configuration", str(file), "--data-directory", str(tmp_path / "50% $x"))
    words = {
        name: [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(value)]  # as systemd reads them
        for name, value in re.findall(r"(?m)^(Exec\w+)=(.*)$", printed.stdout)
    }
    with subprocess.Popen(words["ExecStart"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            manager.hears("READY=1")
            reloaded = subprocess.run(words["ExecReload"], capture_output=True, text=True, check=False)
            assert (reloaded.returncode, reloaded.stdout) == (0, "nothing has changed\n")
            file.write_text("<broker unknown='1'/>", "utf-8")
            refused = subprocess.run(words["ExecReload"], capture_output=True, text=True, check=False)
            assert refused.returncode == 1
            assert "unknown attribute" in refused.stderr
            process.send_signal(signal.SIGTERM)
            manager.hears("STOPPING=1")
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
    assert (tmp_path / "50% $x" / "journal").is_dir()


def test_children_of_a_broker_do_not_have_the_socket(tmp_path: Path, manager: Manager) -> None:
    with Started(tmp_path / "a", inside='<web port="0"/>') as broker:
        children: list[str] = []
        while not children:  # until the test's own time is over
            manager.hears("WATCHDOG=1")
            children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text("ascii").split()
        for child in children:
            names = {line.split(b"=")[0] for line in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")}
            assert not names & {b"NOTIFY_SOCKET", b"WATCHDOG_USEC"}
