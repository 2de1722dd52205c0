"""The measure of pages: a sentence has the words that a reader reads."""

from __future__ import annotations

import pytest

from tools.prose import MAX_FIRST_LINE, Docstring, sentences, words_in

PAGE = """\
# A heading of five words

The broker stores it.
It then answers: The send is safe. See
[the store](../operations/store/index.md).

| a table | has no sentences. None |
|---|---|

```console
$ make lint. Make test.
```

- One item
  of a list. Another sentence
- `memoryLimit` is a name
1. A first step.
"""


def test_a_page_has_the_sentences_of_its_prose() -> None:
    assert sentences(PAGE) == [
        "The broker stores it.",
        "It then answers:",
        "The send is safe.",
        "See [the store](../operations/store/index.md).",
        "One item of a list.",
        "Another sentence",
        "`memoryLimit` is a name",
        "A first step.",
    ]


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("The broker stores it.", 4),
        ("`a b c` waits", 2),
        ("See [the store](../operations/index.md).", 3),
        ("5.4 × 12", 0),
    ],
)
def test_a_name_is_one_word_and_the_target_of_a_link_none(sentence: str, count: int) -> None:
    assert words_in(sentence) == count


@pytest.mark.parametrize(("length", "is_long"), [(MAX_FIRST_LINE, False), (MAX_FIRST_LINE + 1, True)])
def test_only_the_first_line_of_a_docstring_is_measured(length: int, is_long: bool) -> None:
    text = "x" * length + "\n\n" + "y" * 119
    assert Docstring("a.py", 1, "f", text).has_long_first_line is is_long
