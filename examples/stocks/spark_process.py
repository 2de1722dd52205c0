"""The Spark job as a child process: Spark brings a Java process and workers of its own, which end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from stage import Stage, Trader

JOB: Final = Path(__file__).resolve().parent / "spark_job.py"
END_SECONDS: Final = 60.0  # for the last batches and the end of Spark
LOG_LINES: Final = 5  # shown when it fails


class SparkProcess(Trader):
    """Runs ``spark_job.py`` on broker B. ``archived`` is what it has told so far."""

    def __init__(self, stage: Stage, directory: Path) -> None:
        super().__init__(stage, "Spark job")
        self.archived = 0
        self.restarts = 0
        self.directory: Final = directory
        self._log: Final = directory / "log.txt"
        self._process: subprocess.Popen[str] | None = None

    def trade(self) -> None:
        """Run the job and take in what it says, to its end."""
        self.directory.mkdir(parents=True)
        command = [sys.executable, str(JOB), self.stage.far.url, str(self.directory)]
        environment = dict(os.environ, TMPDIR=str(self.directory))
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, env=environment, text=True, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "archived":
                self.archived = int(rest)
            elif word == "restarted":
                self.restarts += 1
        if self._process.wait() != 0:
            told = [line for line in self._log.read_text().splitlines() if line[:1].strip()]  # no stack traces
            last = "\n  ".join(told[-LOG_LINES:])
            raise RuntimeError(f"ended with status {self._process.returncode}:\n  {last}")

    def finish(self) -> None:
        """Have it do what is left; returns when it has ended."""
        process = self._process
        if process is not None and process.stdin is not None and process.poll() is None:
            process.stdin.write("finish\n")
            process.stdin.close()
        self.join(END_SECONDS)
        if self.is_alive():
            raise SystemExit(f"demo: the Spark job has not ended within {END_SECONDS:.0f} s")

    def end(self) -> None:
        """End the job, and the processes it has started, if they still run."""
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
