"""The linter of the language finds each planted fault, and passes what is written as the style guide asks."""

from __future__ import annotations

import pytest

from tools.lint_prose import MAX_FIRST_LINE, MAX_WORDS, WORDS, check_docstrings, check_page, pronouns
from tools.prose import Docstring

PAGE = "docs/README.md"
GOOD = "The broker stores the message. Then it answers the producer, and `simply` is a name."


def test_a_page_in_order_has_no_fault() -> None:
    assert list(check_page(PAGE, f"# Simply a heading\n\n{GOOD}\n\n```python\nprint('please')\n```\n")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The broker " + "really " * MAX_WORDS + "waits.", "divide the sentence"),
        ("It is recommended to set a name.", "begin with the subject"),
        ("Set a name. Note that a name is unique.", "begin with the subject"),
        ("There is a way to set a name.", "begin with the subject"),
        ("In this section a name is set.", "begin with the subject"),
        ("As mentioned above, names are unique.", "begin with the subject"),
        ("Simply set a name.", "'Simply': leave it out"),
        ("A robust and powerful broker.", "'robust': write a figure"),
        ("Restart in order to read the file.", "'in order to': write to"),
        ("Some brokers, e.g. Spanwire.", "'e.g.': write for example"),
        ("The broker is able to start.", "'is able to': write can"),
    ],
)
def test_a_planted_fault_of_a_page_is_found(text: str, fault: str) -> None:
    faults = list(check_page(PAGE, f"# A page\n\n{GOOD} {text}\n"))
    assert any(fault in line for line in faults), faults
    assert all(line.startswith(PAGE) for line in faults)


def test_long_sentences_on_average_are_found_in_docs_only() -> None:
    text = " ".join(f"Sentence {'word ' * 18}ends." for _ in range(12))
    assert any("words in a sentence" in fault for fault in check_page(PAGE, text))
    assert list(check_page("CONTRIBUTING.md", text)) == []


def test_a_page_of_pronouns_is_found() -> None:
    text = " ".join("It gives them this when they ask for that." for _ in range(30))
    assert any("pronouns in 100 words" in fault for fault in check_page(PAGE, text))
    assert list(pronouns("a", ["It gives them this."], 13)) == []  # too short to say anything


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x" * MAX_FIRST_LINE + "y.", "characters in the first line"),
        ("Return the name", "has no end"),
        ("Return the name.\n\nIt utilizes a table.", "'utilizes': write use"),
    ],
)
def test_a_planted_fault_of_a_docstring_is_found(text: str, fault: str) -> None:
    (line,) = check_docstrings([Docstring("src/spanwire/a.py", 7, "name", text)])
    assert line.startswith("src/spanwire/a.py:7: name: ")
    assert fault in line


@pytest.mark.parametrize("text", ["Return the name.", "Return one of:\n\n- a\n- b", "Return ``simply``, a name."])
def test_a_docstring_in_order_has_no_fault(text: str) -> None:
    assert list(check_docstrings([Docstring("src/spanwire/a.py", 7, "name", text)])) == []


def test_each_word_of_the_list_is_found_whatever_its_case() -> None:
    missed = [word for word in WORDS if not list(check_page(PAGE, f"The broker {word.upper()} waits.\n"))]
    assert missed == []
