"""Answers of the control destination: errors with their codes, reservations, results and rows for operators.

``docs/reference/control-destination.md`` describes the protocol.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from spanwire.client.messages.message import Message
from spanwire.model.errors import JmsError

NO_ANSWER: Final = "no-answer"
MALFORMED: Final = "malformed"
UNAUTHORIZED: Final = "unauthorized"
UNKNOWN: Final = "unknown"
INCOMPLETE: Final = "incomplete"
FENCED: Final = "fenced"
NOT_HELD: Final = "not-held"
OTHER_TARGET: Final = "other-target"
CODES: Final = (
    MALFORMED, UNAUTHORIZED, UNKNOWN, FENCED, NOT_HELD, OTHER_TARGET, INCOMPLETE, "limit",
    "unavailable",
)  # fmt: skip


class ControlError(JmsError):
    """The broker refused a request; ``code`` is the error code of the protocol."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code: Final = code


class FencedError(ControlError):
    """Another run has taken over the cursor or sink, or an operator has ended it; stop."""


class NotHeldError(ControlError):
    """The messages were acknowledged or released, or are not reserved yet, so they cannot be read."""


class OtherTargetError(ControlError):
    """The sink was begun for another target and belongs to another program."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The sequences that a cursor reserves, from ``start`` to ``end`` exclusive.

    ``waiting`` is the number of pending messages behind the reservation.
    """

    epoch: int
    start: int
    end: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class CursorView:
    """A cursor for an operator."""

    name: str
    destination: str
    epoch: int
    run: str
    exclusive: bool
    released: bool
    start: int
    end: int
    user: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class BegunSink:
    """The epoch of a sink and its last committed batch (-1: none)."""

    epoch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class Part:
    """The messages staged by one attempt of one partition."""

    partition: int
    attempt: int
    messages: int


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit.

    ``messages`` became visible. ``repeated`` is true if the batch had been committed before.
    """

    messages: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class SinkView:
    """A sink for an operator; ``staged`` messages wait for commits."""

    query: str
    epoch: int
    run: str
    batch: int
    staged: int
    user: str


@dataclass(frozen=True, slots=True)
class PublishedView:
    """The latest status that one run of a pipeline has published, ``age_ms`` ago; ``text`` is the status."""

    pipeline: str
    run: str
    user: str
    age_ms: int
    ended: bool
    stopping: bool
    text: str


def check_status(answer: Message) -> Message:
    """Return ``answer``, or raise the `ControlError` in it."""
    properties = answer.properties
    if properties.get("status") == "ok":
        return answer
    raise _error_of_code(str(properties.get("error")), str(properties.get("reason")))


def _error_of_code(code: str, reason: str) -> ControlError:
    if code == FENCED:
        return FencedError(code, reason)
    if code == OTHER_TARGET:
        return OtherTargetError(code, reason)
    return NotHeldError(code, reason) if code == NOT_HELD else ControlError(code, reason)


def control_error(error: JmsError) -> JmsError:
    """Return the error with the protocol's code in its text, if there is one."""
    if isinstance(error, ControlError):
        return error
    text = str(error)
    for code in CODES:
        index = text.find(f"{code}: ")
        if index >= 0:
            return _error_of_code(code, text[index:])
    return error


def number_of(answer: Message, name: str) -> int:
    """Return a property of an answer."""
    value = answer.properties[name]
    assert isinstance(value, int)
    return value


def reservation_of(answer: Message, epoch: int = 0) -> Reservation:
    """Return the reservation in an answer. ``epoch`` is for answers without one."""
    pending = answer.properties.get("waiting", 0)
    assert isinstance(pending, int)
    return Reservation(
        epoch if epoch else number_of(answer, "epoch"), number_of(answer, "from"), number_of(answer, "to"), pending
    )


def cursors_in(answer: Message) -> list[CursorView]:
    """Return the cursors that an answer lists."""
    return [
        CursorView(
            row["cursor"], row["destination"], row["epoch"], row["run"], row["exclusive"], row["released"],
            row["from"], row["to"], row["user"], row.get("selector", ""),
        )
        for row in json.loads(str(answer.body))
    ]  # fmt: skip


def sinks_in(answer: Message) -> list[SinkView]:
    """Return the sinks that an answer lists."""
    return [
        SinkView(row["query"], row["epoch"], row["run"], row["batch"], row["staged"], row["user"])
        for row in json.loads(str(answer.body))
    ]


def pipelines_in(answer: Message) -> list[PublishedView]:
    """Return the statuses of pipelines that an answer lists."""
    return [
        PublishedView(
            row["pipeline"], row["run"], row["user"], row["ageMs"], row["ended"], row["stopping"], row["status"]
        )
        for row in json.loads(str(answer.body))
    ]
