"""W3C Trace Context in properties: what is valid, and what is ignored without a word."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.message_view import BYTES_VALUE, STRING_VALUE, PropertyValue
from spanwire.model.observation.trace_context import (
    MAX_MEMBERS,
    MAX_TRACEPARENT,
    MAX_TRACESTATE,
    TraceContext,
    context_of,
    parse_traceparent,
)

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
VALID: Final = f"00-{TRACE}-{SPAN}-01"
HOSTILE: Final = (
    "",
    "00",
    VALID.upper(),
    VALID + "0",
    VALID + "-extra",
    f"00-{TRACE}-{SPAN}-0g",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"ff-{TRACE}-{SPAN}-01",
    f"00_{TRACE}_{SPAN}_01",
    f"00-{TRACE[:-1]}\u0663-{SPAN}-01",
    f"00-{TRACE[:-1]}\uff11-{SPAN}-01",
    " " + VALID,
    VALID + "\n",
    "00-" + "a" * 100_000,
    f"cc-{TRACE}-{SPAN}-01" + "-" + "a" * MAX_TRACEPARENT,
    f"cc-{TRACE}-{SPAN}-01.later",
    "\x00" * 55,
)


def test_a_context_is_read_and_written_again() -> None:
    context = parse_traceparent(VALID, "vendor=1, 2@other=2")
    assert context is not None
    assert (context.trace_id, context.span_id, context.flags) == (TRACE, SPAN, 1)
    assert context.state == "vendor=1, 2@other=2"
    assert context.is_sampled
    assert context.traceparent() == VALID


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_traceparent_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


@pytest.mark.parametrize("text", [f"cc-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like"])
def test_a_later_version_is_read_as_far_as_it_is_known(text: str) -> None:
    context = parse_traceparent(text)
    assert context is not None
    assert context.traceparent() == VALID


@pytest.mark.parametrize(("flags", "expected"), [("00", False), ("01", True), ("02", False), ("ff", True)])
def test_only_the_lowest_flag_says_that_a_trace_is_recorded(flags: str, expected: bool) -> None:
    context = parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}")
    assert context is not None
    assert context.is_sampled is expected


@pytest.mark.parametrize(
    "state",
    [
        "a" * (MAX_TRACESTATE + 1),
        "vendor=\x00",
        "vendor=\u00e4",
        "vendor=1\r\nX: y",
        "vendor",
        "Vendor=1",
        "a=1,,b=2",
        ",".join(f"v{number}=1" for number in range(MAX_MEMBERS + 1)),
    ],
)
def test_a_hostile_tracestate_is_dropped_and_the_context_stays(state: str) -> None:
    context = parse_traceparent(VALID, state)
    assert context is not None
    assert context.state == ""


def test_a_tracestate_with_as_many_entries_as_are_allowed_is_kept() -> None:
    state = ",".join(f"v{number}=1" for number in range(MAX_MEMBERS))
    context = parse_traceparent(VALID, state)
    assert context is not None
    assert context.state == state


def test_a_context_is_found_in_properties_of_the_type_string_alone() -> None:
    text: PropertyValue = (STRING_VALUE, VALID)
    found = context_of({"traceparent": text, "tracestate": (STRING_VALUE, "a=1")})
    assert found is not None
    assert (found.traceparent(), found.state) == (VALID, "a=1")
    assert context_of({"traceparent": (BYTES_VALUE, VALID.encode())}) is None
    assert context_of({"tracestate": (STRING_VALUE, "a=1")}) is None


@given(st.text(max_size=300), st.text(max_size=600))
def test_any_text_gives_a_valid_context_or_none(text: str, state: str) -> None:
    context = parse_traceparent(text, state)
    assert context is None or parse_traceparent(context.traceparent(), context.state) is not None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_what_is_written_is_read_as_the_same(trace: int, span: int, flags: int) -> None:
    written = TraceContext(f"{trace:032x}", f"{span:016x}", flags)
    read = parse_traceparent(written.traceparent())
    assert read is not None
    assert (read.trace_id, read.span_id, read.flags) == (written.trace_id, written.span_id, flags)
