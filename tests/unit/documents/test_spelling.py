"""The known word that somebody may have meant."""

from __future__ import annotations

from spanwire.documents.spelling import MAX_COMPARED, closest, suggestion

KNOWN = ("brokerName", "dataDirectory")


def test_the_nearest_word_is_found_whatever_its_case() -> None:
    assert closest("brokername", KNOWN) == "brokerName"
    assert closest("DATADIRECTORI", KNOWN) == "dataDirectory"


def test_an_unknown_word_is_answered_with_the_near_one_or_all_there_are() -> None:
    assert suggestion("brokername", KNOWN) == "; did you mean brokerName?"
    assert suggestion("rabbit", KNOWN) == "; there are brokerName, dataDirectory"
    assert suggestion("rabbit", KNOWN, ", ") == ", there are brokerName, dataDirectory"


def test_more_words_than_a_line_holds_are_not_listed() -> None:
    assert suggestion("rabbit", [f"word{number}" for number in range(100)]) == ""
    assert suggestion("rabbit", ()) == ""


def test_what_is_near_nothing_has_no_closest_word() -> None:
    assert closest("xyz", KNOWN) is None


def test_of_a_long_word_only_the_beginning_is_compared() -> None:
    assert closest("a" * MAX_COMPARED + "b" * 1_000_000, ["a" * MAX_COMPARED]) == "a" * MAX_COMPARED
