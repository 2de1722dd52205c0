"""A real Celery worker runs the program of the page, and a task that a killed worker had begun goes to the next one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import BrokerProcess, spanwire_command

PAGE: Final = (Path(__file__).parents[2] / "docs/guides/client/celery.md").read_text("utf-8")
TIMEOUT_S: Final = 60.0


class Shop:
    """The program of the page in a directory, and what runs it."""

    def __init__(self, directory: Path, broker: BrokerProcess) -> None:
        (program,) = re.findall(r'```python title="shop.py"\n(.*?)```', PAGE, re.DOTALL)
        (directory / "shop.py").write_text(program, "utf-8")
        self._directory = directory
        path = os.pathsep.join(entry for entry in ("", *sys.path) if entry)
        self._environment = {
            **os.environ,
            "BROKER": f"spanwire://localhost:{broker.openwire_port}",
            "PYTHONPATH": path,
            "C_FORCE_ROOT": "1",
        }

    def sends(self, expression: str) -> str:
        command = [sys.executable, "-c", f"import shop; print(shop.{expression})"]
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def worker(self, name: str, *options: str, log: list[str] | None = None) -> Iterator[AnnouncingProcess]:
        command = [sys.executable, "-m", "celery", "--app", "shop", "worker", "--pool", "solo", "--hostname", name]
        process = AnnouncingProcess(
            [*command, *options], self._directory, [] if log is None else log, self._environment
        )
        try:
            yield process
        finally:
            process.end(signal.SIGKILL)


def says(worker: AnnouncingProcess, words: str) -> None:
    worker.wait_until(lambda line: words in line, TIMEOUT_S, f"did not say {words!r}")


@pytest.mark.long
def test_a_task_of_a_killed_worker_and_of_a_killed_broker_is_done_by_the_next_worker(tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        shop = Shop(tmp_path, broker)
        shop.sends("bill.delay('book')")
        shop.sends("bill.delay('lamp', 1.0)")
        with shop.worker("first@here") as first:
            says(first, "billed: book")
            says(first, "begun: lamp")
        with shop.worker("second@here") as second:
            says(second, "begun: lamp")
            says(second, "billed: lamp")
            assert "pong" in shop.sends("app.control.ping(timeout=5)")
            broker.kill()
            broker.start()
            shop.sends("bill.delay('pen')")
            says(second, "billed: pen")


@pytest.mark.long
def test_a_worker_that_stops_in_order_ends_its_task_and_no_other_one_repeats_it(tmp_path: Path) -> None:
    others: list[str] = []
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        shop = Shop(tmp_path, broker)
        with shop.worker("first@here", "--pool", "threads", "--concurrency", "1") as first:
            shop.sends("bill.delay('lamp', 8.0)")
            says(first, "begun: lamp")
            with shop.worker("second@here", log=others) as second:
                shop.sends("bill.delay('cup')")
                says(second, "billed: cup")
                assert first.end(signal.SIGTERM) == 0
                shop.sends("bill.delay('pen')")
                says(second, "billed: pen")
    assert not [line for line in others if "lamp" in line]
