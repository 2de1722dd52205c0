"""Runs ``spanwire pipeline report`` on a session of its own, and writes the files of the report.

DIRECTORY/report.html      everything on one page that needs no other file DIRECTORY/report.json      the report for
programs DIRECTORY/KEY.png          the charts, if matplotlib is installed DIRECTORY/ids/…parquet     all flagged ids,
if there are any
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.report.model import Report
from spanwire.pipeline.report.page import page
from spanwire.pipeline.report.png import HAS_MATPLOTLIB, write_charts
from spanwire.pipeline.report.report_builder import BuiltReport, build
from spanwire.pipeline.report.sources import Inputs
from spanwire.pipeline.report.terminal import json_of
from spanwire.pipeline.routes.route_runner import session_on

PAGE: Final = "report.html"
JSON: Final = "report.json"
IDS: Final = "ids"
TITLE: Final = "Message flow"


def report(master: str, inputs: Inputs, directory: Path | None, stuck_after_s: int) -> Report:
    """Make a report, and its files if a directory is given.

    Raises:
        ConfigurationError: an input is no archive, or a file cannot be written.
    """
    inputs.check()  # report errors before the slow start of Spark
    if directory is not None:
        _make_directory(directory)
    with session_on(master, "spanwire pipeline report") as spark:
        built = build(spark, inputs, stuck_after_s)
        if directory is not None:
            write(built, directory)
        return built.report


def write(built: BuiltReport, directory: Path) -> None:
    """Write the files.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    report_made = built.report
    try:
        if report_made.charts and not HAS_MATPLOTLIB:
            report_made.notes.append(
                f"Charts as PNG files need matplotlib; run: {install_command('report')} (the page has the charts)"
            )
        write_charts(report_made.charts, directory)
        (directory / JSON).write_text(json.dumps(json_of(report_made), indent=1) + "\n", encoding="utf-8")
        (directory / PAGE).write_text(page(report_made, TITLE), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--out {directory}: {error.strerror}") from None
    if any(table.key == "ids" for table in report_made.tables):
        built.flagged.write.mode("overwrite").parquet(str(directory / IDS))


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {directory}: {error.strerror}") from None
