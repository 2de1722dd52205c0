"""Runs of answers: they do what each by itself would have done."""

from __future__ import annotations

import pytest

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.answer_run import AnswerRun
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info


def decoded(commands: list[wire.Response], wire_format: WireFormat, *, gathers: bool = True) -> list[wire.Command]:
    decoder = FrameDecoder()
    decoder.gathers_answers = gathers
    decoder.feed(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
    decoder.negotiated(wire_format)
    encoder = FrameEncoder(wire_format)
    return decoder.feed(b"".join(encoder.encode(command) for command in commands))


@pytest.mark.parametrize("version", [1, 6, 12])
def test_neighbours_become_one_run(version: int) -> None:
    (run,) = decoded([wire.Response(number) for number in (5, 7, 2**31 - 1)], WireFormat(version=version))
    assert isinstance(run, AnswerRun)
    assert run.correlation_ids == [5, 7, 2**31 - 1]


def test_what_is_no_plain_answer_stands_between_two_runs() -> None:
    refusal = wire.ExceptionResponse(correlation_id=2)
    result = wire.IntegerResponse(correlation_id=3, result=1)
    asks = wire.Response(4)
    asks.response_required = True
    commands = decoded([wire.Response(1), refusal, result, asks, wire.Response(5)], WireFormat())
    assert [type(command) for command in commands] == [
        AnswerRun,
        wire.ExceptionResponse,
        wire.IntegerResponse,
        wire.Response,
        AnswerRun,
    ]


@pytest.mark.parametrize(
    ("wire_format", "gathers"), [(WireFormat(), False), (WireFormat(tight=True), True), (WireFormat(cache=True), True)]
)
def test_without_the_wish_or_in_another_encoding_each_comes_by_itself(wire_format: WireFormat, gathers: bool) -> None:
    commands = decoded([wire.Response(1), wire.Response(2)], wire_format, gathers=gathers)
    assert [command.correlation_id for command in commands if isinstance(command, wire.Response)] == [1, 2]


def test_a_run_visits_like_its_answers() -> None:
    visited: list[int] = []

    class Visitor(wire.CommandVisitor):
        def response(self, command: wire.Response) -> None:
            visited.append(command.correlation_id)

    (run,) = decoded([wire.Response(1), wire.Response(2)], WireFormat())
    run.visit(Visitor())
    assert visited == [1, 2]
