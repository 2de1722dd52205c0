"""What of a line, or of an address, is hidden from people, and what is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from spanwire.routes.masking import HIDDEN, MAX_LINE, mask, without_secrets
from tests.support.canary import CANARY


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"jdbc:derby:/x; user=u; password={CANARY}", "jdbc:derby:/x***"),
        (f"jdbc:sqlserver://h;user=sa;password=my {CANARY};x=1", "jdbc:sqlserver://h***"),
        (f"jdbc:oracle:thin:u/my {CANARY}@h on the operation: x", "jdbc:oracle:*** on the operation: x"),
        (f"'jdbc:derby:/x; password={CANARY}' is none", "'jdbc:derby:/x***' is none"),
        (f"jdbc:aws-wrapper:oracle:thin:scott/{CANARY}@h", "jdbc:aws-wrapper:***"),
        (f"no broker at tcp://u:my {CANARY}@h:1", "no broker at tcp://***@h:1"),
        (f"'tcp://u:my {CANARY}@h:1' is none", "'tcp://***@h:1' is none"),
        (f"jms:topic://tcp://u:{CANARY}@h:1", "jms:topic://***@h:1"),
        (f"queue://u:{CANARY}@h", "queue://***@h"),
        (f"file://u:{CANARY}@h/x", "file://***@h/x"),
        (f"tcp://h?ssl.keyStorePassword={CANARY}&a=1", "tcp://h?ssl.keyStorePassword=***&a=1"),
        (f"http://h?access_token={CANARY}", "http://h?access_token=***"),
        (f"http://h?accessKeyId={CANARY}", "http://h?accessKeyId=***"),
        (f"http://h?apikey={CANARY}", "http://h?apikey=***"),
    ],
)
def test_a_secret_of_an_address_is_hidden(line: str, shown: str) -> None:
    assert mask(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "the state in /x belongs to the source 'queue://A@EU', not 'queue://B@US'",
        "queue://ORDERS@EU does not exist; topic://X@Y is full",
        "queue://A,topic://B@X is full",
        "queue://ORDERS cannot be read from tcp://broker:61616 by a@b",
        "Path does not exist: file:///data/mail@corp/author=3/key=5",
        "Path does not exist: hdfs://nn:8020/lake/keyspace=3/key=5/x",
        "no broker at tcp://h:1?author=3&monkey=4",
        "SQL: split(text, '//')[1] = 'a@b'",
    ],
)
def test_what_is_no_secret_is_shown(line: str) -> None:
    assert mask(line) == line


def test_the_queue_is_shown_beside_an_address_with_a_user() -> None:
    line = f"queue://ORDERS cannot be read from tcp://u:{CANARY}@h:1: not authorized"
    assert mask(line) == f"queue://ORDERS cannot be read from tcp://{HIDDEN}@h:1: not authorized"


@pytest.mark.parametrize(
    "address", ["parquet:/data/mail@corp/x", "json:/lake/author=3/token=4", "file:/a@b/x", "parquet:s3a://b/monkey=1/x"]
)
def test_a_path_is_shown(address: str) -> None:
    assert without_secrets(address) == address


def test_behind_a_path_parameters_are_hidden_as_elsewhere() -> None:
    assert without_secrets(f"parquet:/a@b/x?password={CANARY}") == "parquet:/a@b/x?password=***"


def test_of_a_line_without_end_only_the_beginning_is_looked_through() -> None:
    assert mask("a" * MAX_LINE + f" tcp://u:{CANARY}@h") == "a" * MAX_LINE


SOURCES: Final = Path(__file__).resolve().parents[4] / "src"
IMPORT: Final = "from spanwire.routes.masking import without_secrets"
TEXTS: Final = ("'tcp://h?' + 'a' * {n}", "'/' * {n}", "'a=&' * {n}", "'//' * {n} + '@'", "'tcp://h?x=' + 'a(' * {n}")


def instructions_of(tmp_path: Path, length: int) -> int:
    """Return the instructions that a process takes to look through addresses of this length, its start included."""
    counts = tmp_path / str(length)
    calls = [f"without_secrets({text.format(n=length)})" for text in TEXTS]
    program = "\n".join([f"import sys; sys.path.insert(0, {str(SOURCES)!r})", IMPORT, *calls])
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={counts}",
        sys.executable,
        "-E",
        "-S",
        "-c",
        program,
    ]
    subprocess.run(command, check=True, capture_output=True)
    found = re.search(r"^(?:summary|totals): (\d+)", counts.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.long
def test_an_address_is_looked_through_in_linear_time(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind, which counts instructions (apt package valgrind)")
    start = instructions_of(tmp_path, 0)
    short, long = (instructions_of(tmp_path, length) - start for length in (5_000, 10_000))
    assert long < 2.5 * short
