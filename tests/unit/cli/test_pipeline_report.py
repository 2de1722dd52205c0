from __future__ import annotations

import re
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.pipeline.report.model import MAX_SHOWN_IDS

PAGE = Path(__file__).resolve().parents[3] / "docs/guides/report.md"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 1, "name an archive at least"),
        (["nowhere"], 1, "there is no directory nowhere"),
        (["s3://bucket/archive"], 1, "s3://bucket/archive is on shared storage, where no report reads; name a copy on"),
        (["--advisories", "nowhere"], 1, "there is no directory nowhere"),
        (["a", "--stuck-after", "soon"], 2, "'soon' is no whole number"),
        (["a", "--advisory", "b"], 2, "unknown option --advisory, did you mean --advisories?"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        found = main(["pipeline", "report", *words])
    except SystemExit as end:
        found = int(str(end.code))
    shown = capsys.readouterr()
    assert (found, shown.out) == (status, "") and told in shown.err and shown.err.count("\n") == 1


def test_what_is_no_archive_is_told_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "report", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "is no archive; there is no destination=… in it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_page_has_the_options_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "report", "--help"])
    helped = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", capsys.readouterr().out)) - {"--help"}
    section = PAGE.read_text("utf-8").split("| option |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(--[a-z-]+)", section)) == {one for one in helped if one != "--stuck"}
    assert f"the first {MAX_SHOWN_IDS:,}" in PAGE.read_text("utf-8")


def test_the_command_is_among_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "--help"])
    assert re.search(r"^  report +rates, ", capsys.readouterr().out, re.MULTILINE)
