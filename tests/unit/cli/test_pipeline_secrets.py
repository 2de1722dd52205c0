"""A password stands wherever an address may stand, right or wrong; no plan and no error shows it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.pipeline.routes.supervisor import failure_text
from tests.support.canary import CANARY

BROKER = f"tcp://u:{CANARY}@h:1"
ADDRESSES = [
    BROKER,
    f"//u:{CANARY}@h",
    f"u:{CANARY}@h",
    f"jms:{BROKER}",
    f"jms:queue:{BROKER}",
    f"jms:topic://{BROKER}",
    f"jms:queue:A?brokerURL={BROKER}",
    f"jms:queue:A?brokerURL={BROKER}&maxRowsPerBatch=0",
    f"jms:queue:A?brokerURL=failover:(tcp://a:1,{BROKER})?randomize=false",
    f"jms:queue:A?brokerURL={BROKER}?jms.password={CANARY}&numPartitions=x",
    f"jms:queue:A?password={CANARY}",
    f"jms:queue:A?password=RAW(a&{CANARY}&b)",
    f"jms:queue:A?password=a&{CANARY}",
    f"jms:queue:A?password=a&{CANARY}&subscription=x",
    f"jms:topic:A?password={CANARY}&cursor=a'b",
    f"shop:queue:A?password={CANARY}",
    f"vm://b?jms.password={CANARY}",
    f"peer://g/b?jms.password=a&{CANARY}",
    f"parquet:s3a://k:{CANARY}@bucket/x",
    f"jdbc:postgresql://u:{CANARY}@h/b",
    f"jdbc:oracle:thin:u/{CANARY}@//h:1521/b",
    f"format:kafka?kafka.sasl.jaas.config={CANARY}",
]
PLAIN = '{to: "json:/x"}'
FILES = [
    '- from: {{uri: "{address}", steps: [{plain}]}}',
    '- from: {{uri: "jms:queue:A", steps: [{{to: "{address}"}}]}}',
    '- from: {{uri: "jms:queue:A", steps: [{{to: {{uri: "{address}", parameters: {{dbtable: t}}}}}}]}}',
    '- from: {{uri: "jms:queue:A", steps: [{{join: {{table: "{address}", "on": a, columns: {{a: b}}}}}}, {plain}]}}',
    '- route: {{deadLetter: "{address}", from: {{uri: "jms:queue:A", steps: [{plain}]}}}}',
    '- jmsBridge: {{source: "{address}", target: "jms:queue:B", targetPassword: "' + CANARY + '"}}',
    '- brokers: {{shop: {{url: "{address}"}}}}\n- from: {{uri: "shop:queue:A", steps: [{plain}]}}',
    '- brokers: {{shop: "{address}"}}\n- from: {{uri: "shop:queue:A", steps: [{plain}]}}',
    '- beans: [{{name: shop, type: a.ActiveMQComponent, properties: {{brokerURL: "{address}"}}}}]\n'
    '- from: {{uri: "shop:queue:A", steps: [{plain}]}}',
    '- from: {{uri: "jms:queue:A", id: "{address}", steps: [{plain}]}}',
    '- from: {{uri: "jms:queue:A", "{address}": 1, steps: [{plain}]}}',
    '- "{address}": 1',
    '- from: "{address}"',
    '- "{address}"',
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("file", range(len(FILES)))
def test_no_plan_and_no_error_of_a_route_file_shows_a_password(
    file: int, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "routes.yaml"
    path.write_text(FILES[file].format(address=address, plain=PLAIN))
    main(["pipeline", "run", str(path), "--dry-run"])
    shown = "".join(capsys.readouterr())
    assert shown and CANARY not in shown


@pytest.mark.parametrize("word", [BROKER, f"={BROKER}", f"shop={BROKER}", f"shop=vm://b?jms.password={CANARY}"])
@pytest.mark.parametrize("option", ["--broker", "-D"])
def test_no_option_of_a_route_file_shows_a_password(
    option: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "routes.yaml"
    path.write_text(f'- from: {{uri: "{"shop:queue:A" if option == "--broker" else "{{shop}}"}", steps: [{PLAIN}]}}')
    for words in ([option, word], [word]):
        with contextlib.suppress(SystemExit):
            main(["pipeline", "run", str(path), "--dry-run", *words])
        shown = "".join(capsys.readouterr())
        assert shown and CANARY not in shown


@pytest.mark.parametrize("command", [["cursors"], ["sinks", "--json"], ["release", "x"], ["redrive", "--dry-run"]])
@pytest.mark.parametrize(
    "url",
    [
        f"u:{CANARY}@h:1",
        f"htp://u:{CANARY}@h:1",
        f"tcp://u:{CANARY}@h:x",
        f"tcp://127.0.0.1:1?jms.pasword={CANARY}",
        f"tcp://127.0.0.1:1?{CANARY}",
    ],
)
def test_no_address_of_a_command_is_shown_with_its_password(
    url: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", *command, "--url", url]) == 1
    shown = "".join(capsys.readouterr())
    assert shown and CANARY not in shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            f"[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:postgresql://h/b?password={CANARY} on the operation: connect",
            "[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:postgresql://h/b*** on the operation: connect",
        ),
        (f"[PATH_NOT_FOUND] Path does not exist: s3a://k:{CANARY}@b/x.", None),
        (f"spanwire: no broker at tcp://u:{CANARY}@h:1", None),
        ("spanwire: no broker at tcp://h:1", "no broker at tcp://h:1"),
    ],
)
def test_what_a_route_tells_of_a_failure_has_no_password(line: str, shown: str | None) -> None:
    found = failure_text(RuntimeError(line))
    assert CANARY not in found
    assert shown is None or found == shown
