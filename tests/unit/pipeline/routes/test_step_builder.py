"""What a function of a route gives: a text, nothing, or the reason why its row goes to the dead letters."""

from __future__ import annotations

import pytest

from spanwire.pipeline.routes.step_builder import answer_of


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("b", ("b", None)),
        ("", ("", None)),
        (None, (None, None)),
        (7, (None, "it gave a int, not a text")),
        (b"b", (None, "it gave a bytes, not a text")),
    ],
)
def test_a_function_gives_a_text_or_nothing(answer: object, expected: tuple[str | None, str | None]) -> None:
    def function(text: str | None, properties: dict[str, object]) -> str | None:
        assert (text, properties) == ("a", {"n": 1})
        return answer  # type: ignore[return-value]

    assert answer_of(function, "a", {"n": 1}) == expected


def test_a_function_that_fails_is_told_with_the_kind_of_its_failure() -> None:
    def function(text: str | None, properties: dict[str, object]) -> str | None:
        raise ValueError("no number")

    text, error = answer_of(function, "a", {})
    assert text is None and error is not None and "ValueError" in error and "no number" in error
