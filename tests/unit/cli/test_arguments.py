"""Options in both spellings, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.messages.producer import payload, with_option
from spanwire.model.errors import ConfigurationError


def parser() -> Parser:
    made = Parser(prog="spanwire test", description="A test.")
    made.option("brokerUrl", "address", "tcp://localhost:61616")
    made.whole_number("messageCount", "how many", 1000)
    made.flag("persistent", "store", default=True)
    return made


@pytest.mark.parametrize("words", [["--brokerUrl", "x"], ["--broker-url", "x"], ["--brokerUrl=x"], ["--broker-url=x"]])
def test_both_spellings_mean_the_same(words: list[str]) -> None:
    assert parser().parse(words).broker_url == "x"


@pytest.mark.parametrize(
    ("words", "value"),
    [([], True), (["--persistent"], True), (["--persistent", "false"], False), (["--persistent=TRUE"], True)],
)
def test_a_truth_value_may_stand_alone(words: list[str], value: bool) -> None:
    assert parser().parse(words).persistent is value


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--brokerUr", "x"], "unknown option --brokerUr, did you mean --brokerUrl?"),
        (["--messageCont=5"], "unknown option --messageCont, did you mean --messageCount?"),
        (["--zzz"], "unknown option --zzz;"),
        (["surplus"], "'surplus' is one argument too many"),
        (["--messageCount", "many"], "'many' is no whole number from 0 on"),
        (["--messageCount", "-1"], "'-1' is no whole number from 0 on"),
        (["--persistent", "maybe"], "'maybe' is neither true nor false"),
        (["--brokerUrl"], "expected one argument"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        parser().parse(words)
    assert raised.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("spanwire test: ")
    assert part in told


def test_placeholders_are_taken_from_the_command_line() -> None:
    made = Parser(prog="spanwire test", description="A test.")
    placement(made)
    found = made.parse(["xbean:a.xml", "-D", "a=1", "-Db=2=3"])
    assert found.configuration == "xbean:a.xml"
    assert dict(found.definitions) == {"a": "1", "b": "2=3"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://a:1", "tcp://a:1?jms.x=1"),
        ("tcp://a:1?keepAlive=true", "tcp://a:1?keepAlive=true&jms.x=1"),
        ("failover:(tcp://a:1?keepAlive=true)", "failover:(tcp://a:1?keepAlive=true)?jms.x=1"),
        ("failover:(tcp://a:1)?randomize=false", "failover:(tcp://a:1)?randomize=false&jms.x=1"),
    ],
)
def test_an_option_of_the_client_goes_behind_the_addresses_of_a_composite_url(url: str, expected: str) -> None:
    assert with_option(url, "jms.x=1") == expected


def test_a_payload_that_is_no_text_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc\xff")
    with pytest.raises(ConfigurationError, match="is not UTF-8 from byte 3 on"):
        payload(str(tmp_path / "x"))
