"""A broker process to be hurt: killed while it starts, stopped and continued, waited for when it ends by itself."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess, spanwire_command

END_S: Final = 60.0
SEGMENTS: Final = "1mb"  # small, so that a short load fills some


class FragileBroker(BrokerProcess):
    """See `BrokerProcess` for starting, stopping and killing. ``inside`` are elements before the store."""

    def __init__(self, directory: Path, inside: str = "") -> None:
        super().__init__(self._command_of, directory, inside=inside)
        self.runs_under: tuple[str, ...] = ()  # a command in front of the broker's own

    def _command_of(self, directory: Path) -> list[str]:
        configuration = directory / "activemq.xml"
        text = configuration.read_text("utf-8")
        configuration.write_text(text.replace("<kahaDB ", f'<kahaDB journalMaxFileLength="{SEGMENTS}" '), "utf-8")
        return [*self.runs_under, *spanwire_command()(directory)]

    def start_and_kill(self, after_s: float) -> bool:
        """Start, and kill after so many seconds; whether the start was faster. The broker is gone in any case."""
        killer = threading.Timer(after_s, self._kill_now)
        killer.start()
        try:
            self.start()
        except RuntimeError:
            return False
        finally:
            killer.join()
            self.kill()
        return True

    def _kill_now(self) -> None:
        process = self._process
        if process is not None:
            process.send(signal.SIGKILL)

    def ended(self) -> int:
        """The exit status of a broker that ends by itself; raises subprocess.TimeoutExpired."""
        assert self._process is not None
        status = self._process.ended(END_S)
        self._process = None
        return status

    def pause(self) -> None:
        """SIGSTOP."""
        assert self._process is not None
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send(signal.SIGCONT)
