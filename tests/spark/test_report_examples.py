"""The examples for Spark run: the script for spark-submit, and the cells of the notebook one after the other."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.broker_process import BrokerProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = EXAMPLES / "notebook/queues.ipynb"
MAX_OUTPUT = 1000  # characters that a cell keeps in the file


def test_the_submitted_script_drains_the_queue_and_adds_up(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url, queue = spanwire.openwire_uri(), f"DAILY.{uuid.uuid4().hex}"
    runpy.run_path(str(EXAMPLES / "spark/orders.py"))["send_orders"](url, 70, queue)
    job = runpy.run_path(str(EXAMPLES / "spark/daily_orders.py"))
    job["drain"](spark, url, queue, tmp_path)
    found = [tuple(row) for row in job["totals"](spark, tmp_path).collect()]
    amounts = [1.5 * (number % 7) for number in range(70)]
    assert found == [
        (region, len(amounts[place::3]), sum(amounts[place::3]))
        for place, region in enumerate(("north", "south", "west"))
    ]


def test_the_notebook_runs_and_shows_what_it_has_shown(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANWIRE_URL", spanwire.openwire_uri())
    monkeypatch.setenv("SPANWIRE_QUEUE", f"NOTEBOOK.{uuid.uuid4().hex}")
    cells = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    marks = [f"\nprint('=== cell {place} ===')\n" for place in range(len(cells))]
    script = tmp_path / "notebook.py"
    script.write_text("".join(mark + "".join(cell["source"]) for mark, cell in zip(marks, cells, strict=True)), "utf-8")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        runpy.run_path(str(script))
    outputs = [part.partition(" ===\n")[2] for part in shown.getvalue().split("=== cell ")[1:]]
    kept = ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in cells]
    assert [output.strip() for output in outputs] == [output.strip() for output in kept]
    assert max(len(output) for output in kept) <= MAX_OUTPUT
