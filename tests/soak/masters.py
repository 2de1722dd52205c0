"""Whether at most one broker was master at any moment, from the logs of all brokers and the answers that clients got.

It knows nothing of locks, leases and files: a broker is master from the line in which it says so until the next one
says so, and what it answers must have been asked before that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

OWNS: Final = re.compile(r"^(\S+) .*this broker owns the store with epoch (\d+)$")


class Reign(NamedTuple):
    """A broker has said that it is master; ``since`` in seconds since 1970."""

    since: float
    broker: str
    epoch: int


class Answer(NamedTuple):
    """A broker has answered a call; both times in seconds since 1970."""

    broker: str
    asked: float
    answered: float
    call: str


def reigns(logs: dict[str, list[str]]) -> list[Reign]:
    """What the logs say, by the time of their lines."""
    found: list[Reign] = []
    for broker, lines in logs.items():
        for line in lines:
            owns = OWNS.match(line)
            if owns is not None:
                found.append(Reign(datetime.fromisoformat(owns[1]).timestamp(), broker, int(owns[2])))
    return sorted(found)


def faults(masters: list[Reign], answers: Iterable[Answer]) -> list[str]:
    """One line for each moment with two masters."""
    found: list[str] = []
    for earlier, later in pairwise(masters):
        if later.epoch <= earlier.epoch:
            found.append(f"{later.broker} became master with epoch {later.epoch} behind epoch {earlier.epoch}")
    for answer in answers:
        at = [reign for reign in masters if reign.since <= answer.asked]
        if not at:
            found.append(f"{answer.broker} answered {answer.call} before any broker was master")
        elif at[-1].broker != answer.broker:
            found.append(
                f"{answer.broker} answered {answer.call}, which was asked {answer.asked - at[-1].since:.3f} s after"
                f" {at[-1].broker} became master with epoch {at[-1].epoch}"
            )
    return found


def with_a_second_master(masters: list[Reign], answers: list[Answer]) -> list[Answer]:
    """The same history with a planted fault: the master before the last one answers once more."""
    last, former = masters[-1], masters[-2]
    return [*answers, Answer(former.broker, last.since + 0.001, last.since + 0.002, "planted")]
