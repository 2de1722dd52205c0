"""The table of attacks and the names of tests are compared in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import generate_attacks_reference
from tools.generate_attacks_reference import ATTACKS, Attack, differences, named_tests, page


def test_every_attack_has_its_number_and_a_reason_why_it_cannot_be_tested() -> None:
    assert list(ATTACKS) == [f"s{number}" for number in range(1, 48)]
    assert list(differences(named_tests(), ATTACKS)) == []


def test_names_of_tests_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_attacks_reference, "TESTS", tmp_path)
    (tmp_path / "test_a.py").write_text("def test_s7_x() -> None: ...\nasync def test_s8_y() -> None: ...\n")
    (tmp_path / "test_b.py").write_text(
        "class TestX:\n    def test_s7_z(self) -> None: ...\n\ndef test_seven() -> None: ...\n"
    )
    assert named_tests() == {"s7": ["test_a.py", "test_b.py"], "s8": ["test_a.py"]}


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({"s1": ["a.py"], "s9": ["b.py"]}, "tests/b.py: tests of s9"),
        ({}, "s1: no test has a name"),
        ({"s1": ["a.py"], "s2": ["b.py"]}, "s2: tests/b.py has tests of it"),
    ],
)
def test_a_planted_difference_is_found(found: dict[str, list[str]], fault: str) -> None:
    attacks = {"s1": Attack("a", "b"), "s2": Attack("c", "", "connectors for MQTT")}
    (line,) = differences(found, attacks)
    assert line.startswith(fault)


def test_an_attack_without_a_surface_names_what_brings_it() -> None:
    text = page({"s1": ["a.py"]}, {"s1": Attack("a", "b"), "s2": Attack("c", "d", "logins by LDAP")})
    assert text.splitlines()[-2:] == ["| S1 | a | b | `tests/a.py` |", "| S2 | c |  | with logins by LDAP |"]
