"""Calls of the operator's functions, performed outside of the engine.

A step in need of an answer notes the call, and the message goes no further. The caller performs the calls, and the
message passes the steps anew, with the answers. Each call has a fixed place: the step, and a number there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spanwire.bridges.model.message import BridgeMessage

Answer = BridgeMessage | str  # the changed message, or why the function has failed
Place = tuple[int, int]  # number of the step, and of the call there


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The call of a function by name."""

    place: Place
    name: str
    message: BridgeMessage


@dataclass(slots=True)
class Calls:
    """The calls of one message; ``answers`` come from earlier passes."""

    answers: dict[Place, Answer] = field(default_factory=dict)
    pending: list[FunctionCall] = field(default_factory=list)
    _counts: dict[int, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a pass."""
        self.pending = []
        self._counts = {}

    def answer(self, step: int, name: str, message: BridgeMessage) -> Answer | None:
        """Return the answer of the next call of a step; None notes the call."""
        number = self._counts[step] = self._counts.get(step, 0) + 1
        found = self.answers.get((step, number))
        if found is None:
            self.pending.append(FunctionCall((step, number), name, message))
        return found

    def take(self, answers: list[Answer]) -> None:
        """Take the answers of the pending calls."""
        self.answers |= {call.place: answer for call, answer in zip(self.pending, answers, strict=True)}
