"""Nobody fills the log by opening connections and saying nothing."""

from __future__ import annotations

import pytest

from spanwire.broker.security.unfinished_logins import MAX_HOSTS, MAX_LINES, WINDOW, UnfinishedLogins


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_one_address_has_one_line_in_a_window_and_the_next_one_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logins = UnfinishedLogins()
    for port in range(2_000):
        logins.ended(f"tcp://10.0.0.1:{port}", "STOMP", "no login", 5.0 + port / 1_000)
    logins.ended("tcp://10.0.0.2:1", "OpenWire", "no login", 6.0)
    logins.ended("tcp://10.0.0.1:9", "STOMP", "no login", 5.0 + WINDOW)
    logins.ended("tcp://10.0.0.1:9", "STOMP", "no login", 5.0 + 2 * WINDOW)
    assert lines(caplog) == [
        "STOMP connection of tcp://10.0.0.1:0 closed: no login",
        "OpenWire connection of tcp://10.0.0.2:1 closed: no login",
        "STOMP connection of tcp://10.0.0.1:9 closed: no login; 1999 more from there since the last line",
        "STOMP connection of tcp://10.0.0.1:9 closed: no login",
    ]


def test_ever_new_addresses_fill_neither_the_log_nor_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    logins = UnfinishedLogins()
    for number in range(20 * MAX_HOSTS):
        logins.ended(f"tcp://[2001:db8::{number:x}]:1", "STOMP", "no login", 5.0)
    assert len(caplog.records) == MAX_LINES
    assert len(logins._hosts) == MAX_HOSTS


def test_an_address_whose_line_did_not_fit_is_counted_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    logins = UnfinishedLogins()
    for number in range(MAX_LINES + 1):
        logins.ended(f"tcp://10.0.1.{number}:1", "STOMP", "no login", 5.0)
    last = f"tcp://10.0.1.{MAX_LINES}:1"
    assert not any(last in line for line in lines(caplog))
    logins.ended(last, "STOMP", "no login", 5.0 + WINDOW)
    assert lines(caplog)[-1] == f"STOMP connection of {last} closed: no login; 1 more from there since the last line"


def test_a_peers_words_stay_on_their_line(caplog: pytest.LogCaptureFixture) -> None:
    UnfinishedLogins().ended("tcp://10.0.0.1:1", "STOMP", "bad\nrefused: root\x1b[0m" + "x" * 10_000, 5.0)
    (line,) = lines(caplog)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 400
