"""The broker's own time on messages, and a delivery mode that it forces (ActiveMQ, "TimeStampPlugin",
"ForcePersistencyModeBrokerPlugin").
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.timestamp_plugin import Stamping, TimeStampSettings
from spanwire.model.destination import parse_destination
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import START_MS, Stage
from tests.support.dialogue.text_format import text_formats, text_message, text_of, user_of

Q: Final = "queue://Q"
HOUR: Final = 3_600_000
EARLY: Final = START_MS - HOUR


def stamped(times: TimeStampSettings, timestamp_ms: int, expiration_ms: int, path: tuple[str, ...] = ()) -> Message:
    message = text_message(parse_destination(Q), 1, b"a", timestamp_ms=timestamp_ms, expiration_ms=expiration_ms)
    message.broker_path = path
    return Stamping(times, None, text_formats()).stamped(message, START_MS)


@pytest.mark.parametrize(
    ("times", "sent", "expected"),
    [
        (TimeStampSettings(), (EARLY, 0), (START_MS, 0)),
        (TimeStampSettings(), (EARLY, EARLY + 5_000), (START_MS, START_MS + 5_000)),
        (TimeStampSettings(), (0, 0), (0, 0)),
        (TimeStampSettings(), (0, START_MS + 1), (0, START_MS + 1)),
        (TimeStampSettings(zero_expiration_ms=9_000), (EARLY, 0), (START_MS, START_MS + 9_000)),
        (TimeStampSettings(zero_expiration_ms=9_000, ttl_ceiling_ms=4_000), (EARLY, 0), (START_MS, START_MS + 4_000)),
        (TimeStampSettings(zero_expiration_ms=9_000), (EARLY, EARLY + 5_000), (START_MS, START_MS + 5_000)),
        (TimeStampSettings(ttl_ceiling_ms=4_000), (EARLY, EARLY + 5_000), (START_MS, START_MS + 4_000)),
        (TimeStampSettings(ttl_ceiling_ms=4_000), (EARLY, EARLY + 3_000), (START_MS, START_MS + 3_000)),
        (TimeStampSettings(ttl_ceiling_ms=4_000), (EARLY, 0), (START_MS, 0)),
        (
            TimeStampSettings(future_only=True),
            (START_MS + HOUR, START_MS + HOUR + 5),
            (START_MS + HOUR, START_MS + HOUR + 5),
        ),
        (TimeStampSettings(future_only=True), (EARLY, EARLY + 5), (START_MS, START_MS + 5)),
        (TimeStampSettings(), (START_MS + HOUR, START_MS + HOUR + 5), (START_MS, START_MS + 5)),
    ],
)
def test_a_message_gets_the_broker_s_time_and_keeps_its_time_to_live(
    times: TimeStampSettings, sent: tuple[int, int], expected: tuple[int, int]
) -> None:
    message = stamped(times, *sent)
    assert (message.timestamp_ms, message.expiration_ms) == expected


def test_what_another_broker_forwarded_is_left_alone_unless_it_is_asked_for() -> None:
    assert stamped(TimeStampSettings(), EARLY, 0, ("ID:other",)).timestamp_ms == EARLY
    assert stamped(TimeStampSettings(network_messages=True), EARLY, 0, ("ID:other",)).timestamp_ms == START_MS


@given(st.integers(0, 2**41), st.integers(0, 2**41), st.integers(0, 2**32), st.integers(0, 2**32), st.booleans())
def test_with_a_ceiling_nothing_that_expires_lives_longer(
    timestamp_ms: int, expiration_ms: int, zero_ms: int, ceiling_ms: int, future_only: bool
) -> None:
    message = stamped(TimeStampSettings(zero_ms, ceiling_ms, future_only), timestamp_ms, expiration_ms)
    if message.timestamp_ms == START_MS != timestamp_ms and message.expiration_ms > START_MS and ceiling_ms > 0:
        assert message.expiration_ms <= START_MS + ceiling_ms
    if future_only and expiration_ms > 0:
        assert message.expiration_ms >= expiration_ms


def test_a_client_whose_clock_is_behind_loses_nothing() -> None:
    for plugins, taken in ((None, []), (PluginSettings(times=TimeStampSettings()), ["a"])):
        stage = Stage(plugins=plugins)
        listener = stage.peer("c").consumes(Q)
        stage.peer("p").sends(Q, "a", timestamp_ms=EARLY, expiration_ms=EARLY + 60_000)
        assert listener.takes() == taken


@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize("forced", [True, False])
def test_a_delivery_mode_is_forced(forced: bool, transacted: bool) -> None:
    stage = Stage(plugins=PluginSettings(persistent=forced))
    peer = stage.peer("p")
    transaction = 1 if transacted else 0
    if transacted:
        peer.begins(1)
    peer.sends(Q, "a", persistent=True, transaction=transaction)
    peer.sends(Q, "b", persistent=False, transaction=transaction)
    if transacted:
        peer.commits(1)
    stage.settle()
    kept = stage.store.kept(parse_destination(Q))
    assert [text_of(message) for message in kept] == (["a", "b"] if forced else [])
    listener = stage.peer("c").consumes(Q)
    assert listener.takes() == ["a", "b"]
    assert {delivery.message.persistent for delivery in listener.deliveries} == {forced}


@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize(("user", "named"), [("alice", "alice"), (None, "")])
def test_a_message_names_the_user_that_its_sender_logged_in_as(user: str | None, named: str, transacted: bool) -> None:
    stage = Stage(plugins=PluginSettings(names_user=True))
    peer = stage.peer("p", user=user)
    if transacted:
        peer.begins(1)
    peer.sends(Q, "a", transaction=1 if transacted else 0)
    if transacted:
        peer.commits(1)
    stage.settle()
    listener = stage.peer("c").consumes(Q)
    assert listener.takes() == ["a"]
    assert [user_of(delivery.message) for delivery in listener.deliveries] == [named]


def test_without_the_setting_a_message_is_as_its_sender_made_it() -> None:
    stage = Stage(plugins=PluginSettings(persistent=True))
    stage.peer("p", user="alice").sends(Q, "a", persistent=False)
    listener = stage.peer("c").consumes(Q)
    assert listener.takes() == ["a"]
    assert [user_of(delivery.message) for delivery in listener.deliveries] == [None]


def test_a_message_that_is_as_it_should_be_is_not_written_anew() -> None:
    message = text_message(parse_destination(Q), 1, b"a", persistent=True)
    assert Stamping(None, True, text_formats()).stamped(message, START_MS) is message
    assert Stamping(TimeStampSettings(), None, text_formats()).stamped(message, START_MS) is message
