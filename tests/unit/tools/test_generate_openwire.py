"""The OpenWire structures are what the field table gives."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import generate_openwire

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/generate_openwire.py"
MAX_GENERATED_LINES = 8000  # of the whole project


def test_the_module_is_up_to_date() -> None:
    answer = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, "")


def test_a_changed_table_gives_another_module() -> None:
    table = json.loads(generate_openwire.TABLE.read_text(encoding="utf-8"))
    text = generate_openwire.Generator(table).module()
    changed = copy.deepcopy(table)
    pull = next(row for row in changed["dataStructures"] if row["name"] == "MessagePull")
    pull["fields"].append({"name": "newField", "type": "int", "since": 12, "cached": False})
    pull["layoutFromVersion"]["12"] = [field["name"] for field in pull["fields"]]
    other = generate_openwire.Generator(changed).module()
    assert "if r.version >= 12:\n            self.new_field = r.read_int()" in other
    assert text != other


def test_fields_that_change_places_between_versions_are_refused() -> None:
    table = json.loads(generate_openwire.TABLE.read_text(encoding="utf-8"))
    row = next(row for row in table["dataStructures"] if row["name"] == "ConsumerId")
    row["layoutFromVersion"]["5"] = list(reversed(row["layoutFromVersion"]["1"]))
    with pytest.raises(SystemExit, match="no single field order"):
        generate_openwire.Generator(table)


def test_the_generated_lines_stay_few() -> None:
    assert len(generate_openwire.TARGET.read_text(encoding="utf-8").splitlines()) < MAX_GENERATED_LINES / 2


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("brokerURL", "broker_url"),
        ("groupID", "group_id"),
        ("receivedByDFBridge", "received_by_df_bridge"),
        ("jmsxGroupFirstForConsumer", "jmsx_group_first_for_consumer"),
        ("messageTTL", "message_ttl"),
        ("ActiveMQTempTopic", "active_mq_temp_topic"),
    ],
)
def test_names_are_python_names(java: str, python: str) -> None:
    assert generate_openwire.snake(java) == python
