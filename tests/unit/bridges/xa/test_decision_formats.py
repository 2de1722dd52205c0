"""Decision logs of every released format are read, and those of a newer Spanwire refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from zlib import crc32

import pytest

from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.log_file import FILE, LogFile
from spanwire.bridges.xa.records import FORMAT, Decision, Done, header_line, read_lines, record_line
from spanwire.model.errors import StoreError
from tests.vectors.decisions.make import CARRIED_OUT, COUNT, CUT_OFF, decision, heuristic

LOGS = Path(__file__).resolve().parents[3] / "vectors/decisions"
FORMATS = range(1, FORMAT + 1)


def restored(number: int, folder: Path) -> LogFile:
    """The log of a format, in a directory of its own."""
    shutil.copy(LOGS / f"format-{number}.octets", folder / FILE)
    return LogFile(folder)


def test_there_is_a_log_of_each_format() -> None:
    assert sorted(path.name for path in LOGS.glob("*.octets")) == [f"format-{number}.octets" for number in FORMATS]


@pytest.mark.parametrize("number", FORMATS)
def test_a_log_of_each_format_is_read_and_written_anew_without_loss(number: int, tmp_path: Path) -> None:
    expected = json.loads((LOGS / f"format-{number}.json").read_text("utf-8"))
    for _ in range(2):  # the second time in the present format
        file = restored(number, tmp_path) if not (tmp_path / FILE).exists() else LogFile(tmp_path)
        log = DecisionLog(file, file.path)
        pending = {
            one.transaction: [one.bridge, one.source, one.target, one.messages, one.at_ms]
            for bridge in {"orders", "Lager-Süd"}
            for one in log.pending(bridge)
        }
        log.close()
        assert (log.log_id, pending) == (expected["log"], expected["pending"])
        heuristics = [record for record in read_lines(file.path.read_bytes(), "log")[1] if "problem" in str(record)]
        (lost,) = heuristics
        assert not isinstance(lost, Decision)
        fields = [getattr(lost, name) for name in ("transaction", "bridge", "side", "problem", "at_ms")]
        assert [getattr(field, "value", field) for field in fields] == expected["heuristic"]


@pytest.mark.parametrize("number", FORMATS)
def test_what_a_crash_cut_off_counts_for_nobody(number: int) -> None:
    octets = (LOGS / f"format-{number}.octets").read_bytes()
    assert not octets.endswith(b"\n")
    expected = json.loads((LOGS / f"format-{number}.json").read_text("utf-8"))
    decided = [record for record in read_lines(octets, "log")[1] if isinstance(record, Decision)]
    assert len(decided) == expected["decided"]


def test_the_log_of_today_has_the_bytes_of_its_format() -> None:
    octets = (LOGS / f"format-{FORMAT}.octets").read_bytes()
    log_id = json.loads((LOGS / f"format-{FORMAT}.json").read_text("utf-8"))["log"]
    decisions = [decision(number, log_id) for number in range(COUNT)]
    done = [Done(one.transaction) for one in decisions[:CARRIED_OUT]]
    lines = [record_line([one]) for one in decisions]
    last = record_line([*done, heuristic(decisions[-1])]) + record_line([decision(COUNT, log_id)])
    assert header_line(log_id) + b"".join(lines) + last[:-CUT_OFF] == octets


def test_a_log_of_a_newer_spanwire_is_refused_in_one_line_and_left_alone(tmp_path: Path) -> None:
    text = json.dumps([{"format": FORMAT + 1, "log": "00"}]).encode()
    octets = b"%08x %s\n" % (crc32(text), text)
    (tmp_path / FILE).write_bytes(octets)
    file = LogFile(tmp_path)
    with pytest.raises(StoreError) as refused:
        DecisionLog(file, file.path)
    assert str(refused.value) == f"{file.path}: has the format {FORMAT + 1} of a newer Spanwire; use the newer one"
    assert (tmp_path / FILE).read_bytes() == octets
