"""The context of a trace in two properties of a message (W3C Trace Context).

    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
                 version  trace id, 16 bytes          span id     flags
    tracestate:  vendor=opaque,other=opaque

Both names are valid names of JMS properties and STOMP headers. A value against the specification is ignored without a
word, as section 3.2.2.3 asks: the sender of a message may write any text into the properties.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.model.message_view import STRING_VALUE, PropertyValue

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
SAMPLED: Final = 1  # flag: somebody records the trace
VERSION_0_LENGTH: Final = 55
MAX_TRACEPARENT: Final = 256  # characters; a later version may append fields, no sane one appends more
MAX_TRACESTATE: Final = 512  # characters; section 3.3.1.5 asks that so many are kept
MAX_MEMBERS: Final = 32  # vendors' entries of a state; section 3.3.1.1 allows no more
INVALID_VERSION: Final = "ff"
NO_TRACE: Final = "0" * 32
NO_SPAN: Final = "0" * 16

_FIELDS: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_KEY: Final = r"(?:[a-z][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
_VALUE: Final = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER: Final = re.compile(rf"[ \t]*{_KEY}={_VALUE}[ \t]*")


class TraceContext:
    """Names the span of the sender: trace id, span id, flags, and the vendors' state.

    The ids are in lower-case hexadecimal.
    """

    __slots__ = ("flags", "span_id", "state", "trace_id")

    def __init__(self, trace_id: str, span_id: str, flags: int = SAMPLED, state: str = "") -> None:
        self.trace_id: Final[str] = trace_id
        self.span_id: Final[str] = span_id
        self.flags: Final[int] = flags
        self.state: Final[str] = state

    @property
    def is_sampled(self) -> bool:
        """True if the sender records the trace."""
        return self.flags & SAMPLED != 0

    def traceparent(self) -> str:
        """Return the value of the property ``traceparent``."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    def __repr__(self) -> str:
        return self.traceparent()


def parse_traceparent(text: str, state: str = "") -> TraceContext | None:
    """Return the context of a ``traceparent``, or None if the text breaks the specification.

    A too long or malformed ``tracestate`` is dropped, and the context stays.
    """
    if not VERSION_0_LENGTH <= len(text) <= MAX_TRACEPARENT:
        return None
    fields = _FIELDS.match(text)
    if fields is None:
        return None
    version, trace_id, span_id, flags = fields.groups()
    rest = text[VERSION_0_LENGTH:]
    if version == INVALID_VERSION or trace_id == NO_TRACE or span_id == NO_SPAN:
        return None
    if rest and (version == "00" or not rest.startswith("-")):
        return None
    return TraceContext(trace_id, span_id, int(flags, 16), state if _is_state(state) else "")


def _is_state(text: str) -> bool:
    """Return True for a list of vendors' entries (section 3.3)."""
    if len(text) > MAX_TRACESTATE or text.count(",") >= MAX_MEMBERS:
        return False
    for member in text.split(","):
        if _MEMBER.fullmatch(member) is None:
            return False
    return True


def context_of(properties: dict[str, PropertyValue]) -> TraceContext | None:
    """Return the context in the properties of a message, or None."""
    parent = properties.get(TRACEPARENT)
    if parent is None or parent[0] != STRING_VALUE:
        return None
    state = properties.get(TRACESTATE)
    written = "" if state is None or state[0] != STRING_VALUE else str(state[1])
    return parse_traceparent(str(parent[1]), written)
