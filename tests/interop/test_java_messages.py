"""The Java client's messages of every type arrive as they were sent: each encoding, each version, and between versions.

Versions before 9 come with ActiveMQ's own library for old wire formats. Classic in the same role shows what the client
itself makes of its messages.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.interop.conftest import OnBoth
from tests.support.java import Observation

VERSIONS = range(1, 13)
MESSAGES = 22  # of the Java side's list; blob messages since version 3 are one more
FLAGS = ("true", "false")
# Older and newer layouts of a message, one step and the whole way apart; sender first.
PAIRS = [(1, 12), (12, 1), (2, 3), (3, 2), (2, 12), (9, 10), (10, 9), (12, 5), (5, 12), (1, 2), (11, 1)]


@pytest.mark.parametrize(
    "version",
    [
        VERSIONS[0],
        *(pytest.param(version, marks=pytest.mark.long) for version in VERSIONS[1:-1]),
        pytest.param(VERSIONS[-1], marks=pytest.mark.smoke),
    ],
)
def test_every_type_arrives_unchanged_in_every_encoding(on_both: OnBoth, version: int) -> None:
    wire_formats = [f"{version},{tight},{cache},{squeeze}" for tight, cache, squeeze in product(FLAGS, FLAGS, FLAGS)]
    ours, classics = on_both("round-trip", *wire_formats)
    assert len(ours) == 2 * len(wire_formats)
    assert [row for row in ours if row["differences"] or row["messages"] < MESSAGES] == []
    assert ours == classics


def test_every_type_arrives_unchanged_between_versions(on_both: OnBoth) -> None:
    pairs = [f"{sender},true,true,false|{receiver},false,true,false" for sender, receiver in PAIRS]
    pairs += [f"{sender},false,false,true|{receiver},true,false,true" for sender, receiver in PAIRS]
    ours, classics = on_both("across-versions", *pairs)
    assert len(ours) == len(pairs)
    assert [row["format"] for row in ours if row["messages"] < MESSAGES] == []
    assert [difference for row in ours for difference in _whole_characters(row)] == []
    assert [difference for row in classics for difference in _whole_characters(row)] == []


def _whole_characters(row: Observation) -> list[str]:
    """The differences, but for texts cut within a character: in another version's layout that half is U+FFFD."""
    return [text for text in row["differences"] if not text.startswith("headers-half.") or "\ufffd" not in text]
