"""The lint of retired words, shown with planted names that it sees each of them, and only those."""

from __future__ import annotations

import ast

import pytest

from tools.lint_forbidden import check_source
from tools.retired_words import RETIRED, Retired, retired_in, words_of

CLEAN = "src/spanwire/selector/parser.py"


@pytest.mark.parametrize(
    "text",
    [
        "class MessageOutlet: ...",
        "def outlet_of(connection): ...",
        "async def outlet(): ...",
        "def write(data, outlet): ...",
        "def write(data, *, outlet=None): ...",
        "outlet = 1",
        "outlets = []",
        "for outlet in outputs: ...",
        "MAX_OUTLET: int = 1",
        "class A:\n    def __init__(self):\n        self._outlet = 1",
        "import queue as outlet",
    ],
)
def test_a_planted_name_with_a_retired_word_is_found(text: str) -> None:
    assert len(list(retired_in(CLEAN, ast.parse(text)))) == 1
    assert len(check_source(CLEAN, text)) == 1


@pytest.mark.parametrize(
    "text", ["lets = 1", "withholding = 1", "x = 'outlet'", "print(outlet)", "# outlet", "x.outlet()"]
)
def test_a_name_of_other_words_is_no_fault(text: str) -> None:
    assert list(retired_in(CLEAN, ast.parse(text))) == []


def test_the_fault_names_the_word_the_place_and_the_replacement() -> None:
    assert check_source(CLEAN, "x = 1\nouter_outlet = 2") == [
        f"{CLEAN}:2: outer_outlet: the word 'outlet' is retired; write connection output (tools/retired_words.py)"
    ]


def test_a_module_is_not_named_by_a_retired_word() -> None:
    assert len(check_source("src/spanwire/selector/outlet.py", "")) == 1


def test_a_rule_is_for_its_packages_alone() -> None:
    java = ast.parse("java_home = 1")
    assert list(retired_in("src/spanwire/pipeline/spark/java.py", java)) == []
    assert list(retired_in("tests/unit/test_home.py", java)) == []
    assert len(list(retired_in("src/spanwire/stores/journal/journal.py", java))) == 1


def test_a_package_that_still_has_a_word_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RETIRED, "outlet", Retired("output", still_in=("selector", "model/message.py")))
    outlet = ast.parse("outlet = 1")
    assert list(retired_in(CLEAN, outlet)) == []
    assert list(retired_in("src/spanwire/model/message.py", outlet)) == []
    assert len(list(retired_in("src/spanwire/model/message_view.py", outlet))) == 1


def test_words_are_parts_of_names() -> None:
    assert words_of("_told_to_pull") == ["told", "to", "pull"]
    assert words_of("NOTSafeToldQueue2") == ["not", "safe", "told", "queue"]
    assert words_of("uphold") == ["uphold"]
