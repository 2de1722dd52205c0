"""The commands of the page about clusters, run as they stand there on a cluster that they start.

Ports, directories and the broker are replaced. Of `pip`, which would fetch packages, the files are copied instead.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import signal
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import BrokerProcess
from tests.support.patience import SPARK_S
from tests.support.ports import free_port
from tests.support.queues import Sent, numbered, send, take_all
from tests.support.spark_cluster import DAEMONS, SETTINGS, java_variables

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/guides/spark/cluster.md").read_text("utf-8")
BLOCKS: Final[dict[str, str]] = dict(re.findall(r'```\w+ title="([\w.]+)"\n(.*?)```', PAGE, re.DOTALL))
PROGRAMS: Final = Path(pyspark.__file__).parent / "bin"
PACKAGES: Final = Path(pyspark.__file__).parent.parent  # of the extra `spark`
TIMEOUT_S: Final = 600.0
COUNT: Final = 1500  # rows: more than one partition

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * TIMEOUT_S)]


def places(*names: str) -> list[Path]:
    """Where packages and modules of this interpreter are."""
    found = [importlib.util.find_spec(name) for name in names]
    return [
        Path(one.submodule_search_locations[0] if one.submodule_search_locations else one.origin or "")
        for one in found
        if one is not None
    ]


class Page:
    """A directory in which its commands are run, and what they need there."""

    def __init__(self, folder: Path, broker: str) -> None:
        self.folder: Final = folder
        self.data: Final = folder / "data"
        port = free_port()
        self._replaced: Final = {
            ":7077": f":{port}",
            "--port 7077": f"--port {port}",
            "tcp://127.0.0.1:61616": broker,
            "/data/": f"{self.data}/",
            "/usr/bin/python3": str(self.make_plain_python(folder / "plain")),
        }
        self.environment: Final = {
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{PROGRAMS}:/usr/bin:/bin",
            "SPANWIRE_URL": broker,
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **DAEMONS,
            **java_variables(),
        }
        settings = "".join(f"{name} {value}\n" for name, value in SETTINGS.items())
        (folder / "spark-defaults.conf").write_text(settings, "utf-8")

    @staticmethod
    def make_plain_python(folder: Path) -> Path:
        """An interpreter with what Spanwire needs, without Spanwire."""
        venv.create(folder, symlinks=True)
        packages = next(folder.glob("lib/python3*/site-packages"))
        for place in places("librt", "mypy_extensions"):
            (packages / place.name).symlink_to(place)
        (packages / "spark.pth").write_text(f"{PACKAGES}\n", "utf-8")
        return folder / "bin/python"

    def lines(self, title: str) -> str:
        """The lines of a block."""
        text = BLOCKS[title]
        for before, after in self._replaced.items():
            text = text.replace(before, after)
        return text

    def run(self, title: str, before: str = "", after: str = "") -> str:
        """What the commands of a block print, with other words in place of some."""
        text = self.lines(title)
        assert before in text
        if before:
            text = text.replace(before, after)
        done = subprocess.run(
            ["bash", "-euxc", text],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def says(sign: str) -> Callable[[str], bool]:
    return lambda line: sign in line


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, spanwire: BrokerProcess) -> Iterator[Page]:
    page = Page(tmp_path_factory.mktemp("page"), spanwire.openwire_uri())
    (page.folder / "orders.yaml").write_text(page.lines("orders.yaml"), "utf-8")
    shutil.copytree(ROOT / "examples/spark", page.folder / "examples/spark")
    signs = ("I have been elected leader", "Successfully registered with master")
    log: list[str] = []
    running: list[AnnouncingProcess] = []
    try:
        for command, sign in zip(page.lines("processes").splitlines(), signs, strict=True):
            place = page.folder / f"process-{len(running)}"
            place.mkdir()
            environment = {**page.environment, "SPARK_WORKER_DIR": str(place / "work")}
            running.append(AnnouncingProcess(shlex.split(command), place, log, environment))
            running[-1].wait_until(says(sign), SPARK_S)
        yield page
    finally:
        while running:
            running.pop().end(signal.SIGTERM)


def orders(page: Page) -> int:
    """How many are in the files of `daily_orders.py`, each once."""
    folder = page.data / "daily/orders"
    ids = pq.read_table(folder, columns=["id"])["id"].to_pylist() if folder.exists() else []
    assert len(set(ids)) == len(ids)
    return len(ids)


def send_orders(url: str, count: int) -> None:
    send(url, "ORDERS", [Sent(f"order {n}", {"region": "north", "amount": 1.5}) for n in range(count)])


def test_commands_run_with_the_same_installation_everywhere(page: Page) -> None:
    url = page.environment["SPANWIRE_URL"]
    send(url, "ORDERS", numbered(COUNT))
    page.run("installed")
    assert Counter(message.properties["n"] for message in take_all(url, "BILLS.AGAIN")) == Counter(range(COUNT))
    assert take_all(url, "BILLS") == take_all(url, "ORDERS") == []


def test_a_program_is_submitted_with_a_packed_environment(page: Page) -> None:
    compiled = [name for name in sys.modules if name.endswith("__mypyc")]  # beside the packages whose code they have
    names = ["spanwire", "pyspark_spanwire", "librt", "mypy_extensions", "pyarrow", *compiled]
    copied = shlex.join(map(str, places(*names)))
    page.run(
        "pack",
        "environment/bin/python -m pip install . pyarrow",
        f"cp -r {copied} environment/lib/python*/site-packages",
    )
    check_submission(page, "packed")
    assert list(page.folder.glob("process-1/*/app-*/*/environment/bin/python"))


def test_a_program_is_submitted_with_a_zip(page: Page) -> None:
    wheel = page.folder / "spanwire-0.1.0-py3-none-any.whl"
    archive = f"(cd {ROOT}/src && python -m zipfile -c {wheel} spanwire pyspark_spanwire)"
    page.run("zip", "python -m pip wheel --no-deps .", archive)
    check_submission(page, "zipped")


def check_submission(page: Page, title: str) -> None:
    """The program takes each order once, and shows sums."""
    send_orders(page.environment["SPANWIRE_URL"], COUNT)
    before = orders(page)
    assert "north" in page.run(title)
    assert orders(page) == before + COUNT
