"""Makes states of routes that were cut off in their second batch: ``python -m tests.vectors.checkpoints.make FORMAT``.

Spark runs a route over two batches of five messages. Then the commit of the second batch is removed, as if the driver
had been killed before it. The staged messages of the batch, which are discarded behind a commit, are put back from the
links that a thread makes. The next start must deliver this batch again. The ids for duplicate detection of all ten
messages are the expectation.

The other route has three endpoints. The second one fails in the second batch, after the first one has committed it, so
the rows of the batch and the first batches of the ledgers are kept. The numbers that the route has drawn by lot are the
expectation: each later attempt must write the same ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.session import local_session
from spanwire.routes.model import Patience
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.testing.broker import Broker
from tests.support.queues import Sent, send, take_all

HERE: Final = Path(__file__).resolve().parent
ROUTE: Final = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: kept
    from: {uri: "shop:queue:KEPT", steps: [{to: "shop:queue:KEPT.OUT"}]}
"""


SEVERAL: Final = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: several
    from:
      uri: "shop:queue:SEVERAL"
      steps:
        - setHeader: {name: dice, sql: "rand()"}
        - to: "shop:queue:SEVERAL.ONE?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
        - to: "parquet:{{files}}"
        - to: "shop:queue:SEVERAL.TWO?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
"""


def several_route(url: str, files: str) -> RouteFile:
    """The route with several endpoints; it tries each batch once."""
    values = Placeholders({"url": url, "files": files}, {})
    file = read_routes(SEVERAL.encode(), "several.yaml", values)
    return replace(file, routes=[replace(route, patience=Patience(retries=0)) for route in file.routes])


def kept_route(url: str) -> RouteFile:
    """The route to which the state belongs."""
    return read_routes(ROUTE.encode(), "kept.yaml", Placeholders({"url": url}, {}))


def kept_messages(first: int) -> list[Sent]:
    """Five messages."""
    return [Sent(f"kept {number}", {"n": number, "price": number / 2}) for number in range(first, first + 5)]


def keep_links(staging: Path, kept: Path, end: threading.Event) -> None:
    """Link all staged files into another directory as they appear."""
    while not end.wait(0.005):
        for path in staging.glob("segment-*"):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.link(path, kept / path.name)


def make(name: str) -> None:
    """Write ``NAME.tar.xz`` and ``NAME.json``."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(directory=Path(folder) / "data") as broker,
        local_session("record", 2) as spark,
    ):
        state, kept, end = Path(folder) / "state", Path(folder) / "links", threading.Event()
        kept.mkdir()
        thread = threading.Thread(target=keep_links, args=(state / "kept/staging", kept, end))
        thread.start()
        for first in (0, 5):
            send(broker.url, "KEPT", kept_messages(first))
            assert run_routes(spark, kept_route(broker.url), state, AVAILABLE_NOW, {}, print, threading.Event())
        ids = {str(message.body): message.properties["_AMQ_DUPL_ID"] for message in take_all(broker.url, "KEPT.OUT")}
        end.set()
        thread.join()
        last = max(kept.glob("*.arrow"))
        for path in kept.glob(f"{last.stem}.*"):
            shutil.copy(path, state / "kept/staging")
        for path in (state / "kept/checkpoint/commits").glob("*1*"):
            path.unlink()
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
            archive.add(state / "kept", "kept")
    (HERE / f"{name}.json").write_text(json.dumps(ids, indent=1) + "\n", "utf-8")


def make_several(name: str) -> None:
    """Write ``NAME-several.tar.xz`` and ``NAME-several.json``."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(directory=Path(folder) / "data") as broker,
        local_session("record", 1) as spark,
    ):
        state, files = Path(folder) / "state", Path(folder) / "files"
        route = several_route(broker.url, str(files))
        for first, is_good in ((0, True), (5, False)):
            send(broker.url, "SEVERAL", kept_messages(first))
            assert run_routes(spark, route, state, AVAILABLE_NOW, {}, print, threading.Event()) is is_good
            dice = {str(one.body): one.properties["dice"] for one in take_all(broker.url, "SEVERAL.ONE")}
            if is_good:
                shutil.rmtree(files)
                files.write_text("a file where a directory is to be")
        with tarfile.open(HERE / f"{name}-several.tar.xz", "w:xz") as archive:
            archive.add(state / "several", "several")
    (HERE / f"{name}-several.json").write_text(json.dumps(dice, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    make_several(f"format-{sys.argv[1]}")
    make(f"format-{sys.argv[1]}")
