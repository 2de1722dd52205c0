from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.functions import load_functions
from spanwire.routes.model import CallFunction
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders


def calls(*names: str) -> list[CallFunction]:
    steps = ", ".join(f"{{transform: {{function: {name}}}}}" for name in names)
    text = f'- from: {{uri: "jms:A", steps: [{steps}, {{to: "json:/x"}}]}}'
    return read_routes(text.encode(), "r.yaml", Placeholders({}, {})).functions()


def test_two_functions_of_a_module_share_what_it_holds(tmp_path: Path) -> None:
    text = "seen = []\ndef one(text, properties):\n    seen.append(text)\n    return text\n"
    text += "def two(text, properties):\n    return ','.join(seen)\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    found = load_functions(calls("mine.one", "mine.two"), tmp_path)
    assert sorted(found) == [("mine", "one"), ("mine", "two")]
    assert found["mine", "one"]("a", {}) == "a"
    assert found["mine", "two"]("", {}) == "a"


@pytest.mark.parametrize("name", ["numbre", "LIMIT"])
def test_what_is_no_function_is_refused_with_those_that_there_are(name: str, tmp_path: Path) -> None:
    text = "LIMIT = 7\ndef number(text, properties):\n    return text\ndef _hidden():\n    pass\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"^r\.yaml:1: .* no function of mine '{name}'; .*number") as told:
        load_functions(calls(f"mine.{name}"), tmp_path)
    assert "_hidden" not in str(told.value)


def test_a_function_needs_a_directory_and_its_module(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="name its directory with --functions DIRECTORY"):
        load_functions(calls("mine.one"), None)
    with pytest.raises(ConfigurationError, match=r"there is no mine\.py in "):
        load_functions(calls("mine.one"), tmp_path)
    (tmp_path / "mine.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"mine\.py cannot be loaded: ZeroDivisionError"):
        load_functions(calls("mine.one"), tmp_path)


@pytest.mark.parametrize("name", ["", "mine.py"])
def test_functions_that_other_users_can_change_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def one(text, properties):\n    return text\n", encoding="utf-8")
    (tmp_path / name).chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:1: .* can be written by other users: chmod go-w "):
        load_functions(calls("mine.one"), tmp_path)
