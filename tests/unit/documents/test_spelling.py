"""The known word that somebody may have meant."""

from __future__ import annotations

from spanwire.documents.spelling import ANY, MAX_COMPARED, closest

KNOWN = ("brokerName", "dataDirectory")


def test_the_nearest_word_is_found_whatever_its_case() -> None:
    assert closest("brokername", KNOWN) == "brokerName"
    assert closest("DATADIRECTORI", KNOWN) == "dataDirectory"


def test_what_is_near_nothing_has_no_closest_word_unless_any_will_do() -> None:
    assert closest("xyz", KNOWN) is None
    assert closest("xyz", KNOWN, ANY) in KNOWN
    assert closest("xyz", (), ANY) is None


def test_of_a_long_word_only_the_beginning_is_compared() -> None:
    assert closest("a" * MAX_COMPARED + "b" * 1_000_000, ["a" * MAX_COMPARED]) == "a" * MAX_COMPARED
