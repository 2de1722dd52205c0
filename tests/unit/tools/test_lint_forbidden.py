"""The project's own lint, shown with planted faults that it sees each of them, and nothing where nothing is."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools.lint_forbidden import (
    MAX_GENERATED_LINES,
    MAX_MODULE_LINES,
    ROOT,
    SINGLE_MODULES,
    check_project,
    check_source,
    check_tree,
    single_modules,
)

MODULE = "src/spanwire/broker/queue/queue.py"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "import marshal",
        "import shelve",
        "import cloudpickle",
        "value = eval(text)",
        "function = eval",
        "import builtins\nbuiltins.eval(text)",
        "exec(text)",
        "module = __import__(name)",
        "import importlib\nimportlib.import_module(name)",
        "import importlib as i\ni.import_module(name)",
        "from importlib import import_module",
        "import yaml\nyaml.load(text)",
        "from yaml import load",
        "from yaml import load as read",
        "import subprocess\nsubprocess.run(text, shell=True)",
        "import subprocess\nsubprocess.Popen(text, shell=wanted)",
        "import os\nos.system(text)",
        "from abc import ABC",
        "def f():\n    try:\n        g()\n    except A as e:\n        h(e)\n    except B as e:\n        i(e)",
        "import abc\n\nclass Port(metaclass=abc.ABCMeta): ...",
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept (ValueError, BaseException):\n    ...",
        "try:\n    f()\nexcept:\n    pass",
        "# TO" + "DO: the rest",
        "raise NotImplemented" + "Error",
    ],
)
def test_a_planted_fault_is_found_in_the_package(text: str) -> None:
    assert len(check_source(MODULE, text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import json\njson.loads(text)",
        "import yaml\nyaml.safe_load(text)",
        "evaluate(text)",
        "expression.eval(message)",
        "import subprocess\nsubprocess.run([program], shell=False)",
        "try:\n    f()\nexcept Exception:\n    close()",
        "try:\n    f()\nexcept OSError:\n    pass",
        "from abc import abstractmethod",
        "def f():\n    try:\n        g()\n    except A as a:\n        h(a)\n    except B as b:\n        i(b)",
        "# the fields named to and do",
    ],
)
def test_what_only_looks_like_a_fault_is_left_alone(text: str) -> None:
    assert check_source(MODULE, text) == []


@pytest.mark.parametrize(
    ("module", "faults"),
    [("stores/driver/disk.py", 1), ("transports/loop/pump.py", 1), ("pipeline/columns/text.py", 1), ("cli/main.py", 0)],
)
def test_exceptions_of_two_types_have_two_names_in_each_package_that_is_compiled(module: str, faults: int) -> None:
    text = "def f():\n    try:\n        g()\n    except A as e:\n        h(e)\n    except B as e:\n        i(e)"
    assert len(check_source(f"src/spanwire/{module}", text)) == faults


def test_the_line_of_a_fault_is_named() -> None:
    assert check_source(MODULE, "x = 1\n\nexec(x)") == [f"{MODULE}:3: exec: it runs or builds what the data says"]


@pytest.mark.parametrize(
    "text", ['"""What waits."""', '"""Whether a frame waits."""', '"""Holds frames."""\n# -- waiting ----\n']
)
def test_a_riddle_and_a_separator_of_chapters_are_found(text: str) -> None:
    assert len(check_source("src/spanwire/documents/table.py", text)) == 1


@pytest.mark.parametrize(
    "text", ['"""Return whether frames wait."""', '"""Whatchamacallit."""', "# a - b\n# --flag names the file"]
)
def test_what_only_looks_like_a_riddle_or_a_separator_is_left_alone(text: str) -> None:
    assert check_source("src/spanwire/documents/table.py", text) == []


def test_only_the_registry_imports_by_name() -> None:
    text = "import importlib\nimportlib.import_module(name)"
    assert check_source("src/spanwire/registry.py", text) == []
    assert len(check_source("src/spanwire/cli/main.py", text)) == 1


def test_a_module_has_five_hundred_lines_at_most() -> None:
    assert MAX_MODULE_LINES == 500
    assert check_source(MODULE, "x = 1\n" * MAX_MODULE_LINES) == []
    assert len(check_source(MODULE, "x = 1\n" * (MAX_MODULE_LINES + 1))) == 1


def test_the_list_of_single_modules_names_those_that_are() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert sorted(SINGLE_MODULES) == sorted(set(single_modules(tomllib.load(file))))


@pytest.mark.parametrize(
    "contract",
    [
        {"source_modules": ["spanwire.broker.broker"]},
        {"source_modules": ["spanwire.model"], "forbidden_modules": ["socket", "spanwire.broker.broker"]},
        {"modules": ["spanwire.broker.broker"]},
    ],
)
def test_a_single_module_in_an_import_contract_is_found(contract: dict[str, list[str]]) -> None:
    faults = check_project(project(["/src/spanwire/model/**/*.py"], [contract]))
    assert [fault.split(" stands")[0] for fault in faults] == ["pyproject.toml: src/spanwire/broker/broker.py"]


def test_a_single_module_in_the_list_of_compiled_packages_is_found() -> None:
    faults = check_project(project(["/src/spanwire/broker/broker.py", "/src/spanwire/model/**/*.py"], []))
    assert [fault.split(" stands")[0] for fault in faults] == ["pyproject.toml: src/spanwire/broker/broker.py"]


def test_packages_in_the_lists_of_the_project_are_no_fault() -> None:
    contracts = [{"source_modules": ["spanwire.broker"]}, {"layers": ["spanwire.cli"]}]
    assert check_project(project(["/src/spanwire/_build.py", "/src/spanwire/network/*.py"], contracts)) == []


def project(compiled: list[str], contracts: list[dict[str, list[str]]]) -> dict[str, Any]:
    hooks = {"custom": {"include": compiled}}
    return {
        "tool": {
            "hatch": {"build": {"targets": {"wheel": {"hooks": hooks}}}},
            "importlinter": {"contracts": contracts},
        }
    }


def test_a_test_may_not_be_marked_as_skipped_or_failing() -> None:
    marks = ["skip", "skipif(True)", "xfail(reason='later')"]
    for mark in marks:
        text = f"import pytest\n\n@pytest.mark.{mark}\ndef test_f(): ...\n"
        assert len(check_source("tests/unit/test_f.py", text)) == 1
    assert check_source("tests/unit/test_f.py", "import pytest\n\n@pytest.mark.timeout(1)\ndef test_f(): ...\n") == []


VERDICTS = "from collections.abc import Callable\n\n\ndef eventually(what: Callable[[], bool]) -> bool: ...\n"
IN_TESTS = "tests/unit/test_f.py"


@pytest.mark.parametrize(
    "statement",
    [
        "eventually(lambda: True)",
        "await eventually(lambda: True)",
        "answer == 1",
        "not answer",
        "answer and other",
        "all(answers)",
        "isinstance(answer, str)",
        "peer.is_answered(1)",
    ],
)
def test_a_verdict_in_a_test_that_nobody_looks_at_is_found(statement: str) -> None:
    method = "class Peer:\n    def is_answered(self, token: int) -> bool: ...\n"
    lines = f"async def test_f() -> None:\n    {statement}\n"
    assert len(check_source(IN_TESTS, VERDICTS + method + lines)) == 1
    assert check_source("src/spanwire/cli/main.py", VERDICTS + method + lines) == []


@pytest.mark.parametrize(
    "condition",
    [
        "True",
        "1",
        "'text'",
        "(answer, 'is there')",
        "[answer]",
        "{'answer': answer}",
        "answer or 'text'",
        "(answer == 1 for answer in answers)",
        "lambda: answer",
        "answer == answer",
        "peer.answer is peer.answer",
        "answer <= answer",
    ],
)
def test_an_assertion_that_holds_whatever_happens_is_found(condition: str) -> None:
    (fault,) = check_source(IN_TESTS, f"def test_f() -> None:\n    assert {condition}\n")
    assert fault.startswith(f"{IN_TESTS}:2: ") and fault.endswith(": it holds whatever happens")


@pytest.mark.parametrize(
    "condition",
    [
        "False",
        "()",
        "[*answers]",
        "{**answers}",
        "answer and 'text'",
        "all(answer == 1 for answer in answers)",
        "answer == other == answer",
        "answer != answer",
        "random() == random()",
        "cache.parse('a') is cache.parse('a')",
    ],
)
def test_an_assertion_that_can_fail_is_no_fault(condition: str) -> None:
    assert check_source(IN_TESTS, f"def test_f() -> None:\n    assert {condition}\n") == []


@pytest.mark.parametrize(
    ("handler", "is_found"),
    [
        ("except: pass", True),
        ("except Exception: seen = 1", True),
        ("except (OSError, AssertionError): pass", True),
        ("except BaseException as error: other(1)", True),
        ("except OSError: pass", False),
        ("except Exception: raise", False),
        ("except AssertionError: assert other", False),
        ("except Exception as error: errors.append(error)", False),
    ],
)
def test_an_assertion_whose_failure_is_caught_is_found(handler: str, is_found: bool) -> None:
    text = f"def test_f() -> None:\n    try:\n        assert answer\n    {handler}\n"
    assert (check_source(IN_TESTS, text) != []) is is_found
    assert check_source(IN_TESTS, text.replace("assert answer", "act()")) == []


@pytest.mark.parametrize(
    ("kinds", "is_found"), [("Exception", True), ("OSError, AssertionError", True), ("OSError", False)]
)
def test_an_assertion_whose_failure_is_suppressed_is_found(kinds: str, is_found: bool) -> None:
    text = "from contextlib import suppress\n\ndef test_f() -> None:\n"
    text += f"    with suppress({kinds}):\n        assert answer\n"
    what = f"{IN_TESTS}:5: an assertion whose failure is caught and dropped"
    assert check_source(IN_TESTS, text) == ([what] if is_found else [])


@pytest.mark.parametrize(
    ("path", "text", "is_found"),
    [
        (IN_TESTS, "def test_f() -> None: ...", False),
        (IN_TESTS, "class TestAll:\n    def test_f(self) -> None: ...", False),
        (IN_TESTS, "class All:\n    def test_f(self) -> None: ...", True),
        (IN_TESTS, "def helps() -> None:\n    def test_f() -> None: ...", True),
        (IN_TESTS, "if COMPILED:\n    pass\nelse:\n    def test_f() -> None: ...", False),
        ("tests/unit/scenarios.py", "async def test_f() -> None: ...", True),
        ("tests/conformance/stores.py", "class All:\n    def test_f(self) -> None: ...", False),
        ("src/spanwire/cli/main.py", "def test_f() -> None: ...", False),
    ],
)
def test_a_test_that_is_not_collected_is_found(path: str, text: str, is_found: bool) -> None:
    faults = check_source(path, text + "\n")
    assert (faults != []) is is_found
    assert all(fault.endswith("test_f: pytest does not collect it") for fault in faults)


@pytest.mark.parametrize(
    "statement",
    [
        "assert eventually(lambda: True)",
        "_ = eventually(lambda: True)",
        "while eventually(lambda: True): ...",
        "with pytest.raises(OSError): eventually(lambda: True)",
        "prepare(answer)",
        "stage.has_room(5)",
        "stage.take(5)",
    ],
)
def test_a_verdict_that_is_looked_at_or_of_no_interest_is_none(statement: str) -> None:
    methods = (
        "class Stage:\n    def has_room(self, count: int) -> None: ...\n    def take(self, count: int) -> bool: ...\n"
        "class Room:\n    def has_room(self, count: int) -> bool: ...\n"
    )
    prepare = "def prepare(answer: int) -> None: ...\n"
    text = f"import pytest\n{VERDICTS}{methods}{prepare}def test_f() -> None:\n    {statement}\n"
    assert check_source(IN_TESTS, text) == []


def test_a_verdict_of_another_module_is_found(tmp_path: Path) -> None:
    for path, text in (
        ("tests/support/waiting.py", VERDICTS),
        ("tests/unit/test_one.py", "from tests.support.waiting import eventually as soon\n\nsoon(lambda: True)\n"),
        ("tests/unit/test_two.py", "from tests.support import waiting\n\nwaiting.eventually(lambda: True)\n"),
        ("tests/unit/test_three.py", "from tests.support.other import eventually\n\neventually(lambda: True)\n"),
    ):
        module = tmp_path / path
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(text, encoding="utf-8")
    what = "nobody looks at what tests.support.waiting.eventually returns: assert it, or write _ = …"
    assert check_tree(tmp_path) == [f"tests/unit/test_one.py:3: {what}", f"tests/unit/test_two.py:3: {what}"]


def test_generated_modules_have_a_budget_of_their_own(tmp_path: Path) -> None:
    module = tmp_path / "src/spanwire/protocols/openwire/codec/_marshallers.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n" * MAX_GENERATED_LINES, encoding="utf-8")
    assert check_tree(tmp_path) == []
    module.write_text("x = 1\n" * (MAX_GENERATED_LINES + 1), encoding="utf-8")
    assert check_tree(tmp_path) == [f"src: {MAX_GENERATED_LINES + 1} generated lines ({MAX_GENERATED_LINES} at most)"]
