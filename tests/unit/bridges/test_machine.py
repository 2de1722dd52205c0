"""Dialogues with the state machine of a bridge."""

from __future__ import annotations

import pytest

from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Acknowledged,
    Commit,
    Committed,
    Connect,
    Connected,
    DeadLetter,
    DeadLettered,
    Disconnect,
    Disconnected,
    Elapsed,
    Event,
    Failed,
    Interrupt,
    Interrupted,
    Pause,
    Receive,
    Received,
    Refused,
    Send,
    Sent,
    Start,
    Stop,
    Wait,
)
from spanwire.bridges.engine.machine import DRAINED_S, IDLE_S, MAX_BATCH_BYTES
from spanwire.bridges.engine.retries import GROWING_MAX_S, STABLE_S
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.model.definition import Quality
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import AppendMessageId
from spanwire.model.errors import LocalProtocolError, MessageFormatError
from spanwire.model.message_view import STRING_VALUE, TEXT, PropertyValue
from spanwire.routes.readers.bridge_parameters import FOREVER, ID_LIST
from tests.support.bridge_dialogue import BridgeDialogue, definition, text_message, text_messages


class BrokenContent:
    """A content whose properties cannot be decoded."""

    def neutral_body(self) -> bytes | None:
        return None

    def property_values(self) -> dict[str, PropertyValue]:
        raise MessageFormatError("broken")


def test_a_started_bridge_connects_and_receives_with_the_credit_of_a_batch() -> None:
    bridge = BridgeDialogue(definition(size=10))
    assert bridge.state == "stopped"
    assert bridge.hears(Start()) == [Connect()]
    assert bridge.state == "starting"
    assert bridge.hears(Connected()) == [Receive(10, MAX_BATCH_BYTES, IDLE_S)]
    assert bridge.state == "running"


def test_duplicates_ok_sends_before_it_acknowledges() -> None:
    bridge = BridgeDialogue(definition(Quality.DUPLICATES_OK))
    messages = text_messages(3)
    assert bridge.hears(Start(), Connected(), Received(messages)) == [Send(messages)]
    assert bridge.hears(Sent()) == [Acknowledge()]
    assert isinstance(bridge.hears(Acknowledged())[0], Receive)
    counters = bridge.machine.counters
    assert (counters.received, counters.forwarded, counters.batches) == (3, 3, 1)


def test_a_batch_that_waits_to_be_full_ends_when_the_source_hands_over_no_more() -> None:
    bridge = BridgeDialogue(definition(size=10, quiet_ms=FOREVER))
    messages = text_messages(3)
    assert isinstance(bridge.hears(Start(), Connected(), Received(messages[:2]))[0], Receive)
    assert bridge.hears(Received(messages[2:], is_last=True)) == [Send(messages)]


def test_at_most_once_acknowledges_before_it_sends() -> None:
    bridge = BridgeDialogue(definition(Quality.AT_MOST_ONCE))
    messages = text_messages(3)
    assert bridge.hears(Start(), Connected(), Received(messages)) == [Acknowledge()]
    assert bridge.hears(Acknowledged()) == [Send(messages)]
    assert isinstance(bridge.hears(Sent())[0], Receive)


def test_once_and_only_once_commits_what_it_has_sent() -> None:
    bridge = BridgeDialogue(definition(Quality.ONCE_AND_ONLY_ONCE))
    messages = text_messages(3)
    assert bridge.hears(Start(), Connected(), Received(messages)) == [Send(messages)]
    assert bridge.hears(Sent()) == [Commit()]
    assert isinstance(bridge.hears(Committed())[0], Receive)


def test_a_batch_without_a_quiet_time_is_sent_with_the_messages_at_hand() -> None:
    bridge = BridgeDialogue(definition(size=10, quiet_ms=None))
    messages = text_messages(1)
    assert bridge.hears(Start(), Connected(), Received(messages)) == [Send(messages)]


def test_the_quiet_time_begins_anew_with_each_message() -> None:
    bridge = BridgeDialogue(definition(size=3, quiet_ms=125))
    first, second = text_messages(2)
    assert bridge.hears(Start(), Connected(), Received([first])) == [Receive(2, MAX_BATCH_BYTES - 100, 0.125)]
    bridge.now = 0.0625
    assert bridge.hears(Received([second])) == [Receive(1, MAX_BATCH_BYTES - 200, 0.125)]
    bridge.now = 0.125
    assert isinstance(bridge.hears(Received([]))[0], Receive)
    bridge.now = 0.1875
    assert bridge.hears(Received([])) == [Send([first, second])]


def test_a_full_batch_does_not_wait() -> None:
    bridge = BridgeDialogue(definition(size=2, quiet_ms=60_000))
    messages = text_messages(2)
    assert bridge.hears(Start(), Connected(), Received(messages)) == [Send(messages)]


def test_a_batch_time_of_minus_one_waits_for_a_full_batch() -> None:
    bridge = BridgeDialogue(definition(size=2, quiet_ms=-1))
    first, second = text_messages(2)
    bridge.hears(Start(), Connected(), Received([first]))
    bridge.now = 100_000.0
    assert bridge.hears(Received([])) == [Receive(1, MAX_BATCH_BYTES - 100, IDLE_S)]
    assert bridge.hears(Received([second])) == [Send([first, second])]


def test_a_batch_of_large_messages_is_sent_before_it_is_full() -> None:
    bridge = BridgeDialogue(definition(size=1_000, quiet_ms=-1))
    large = text_message(1, size=MAX_BATCH_BYTES)
    assert bridge.hears(Start(), Connected(), Received([large])) == [Send([large])]


def test_a_bridge_without_messages_receives_again() -> None:
    bridge = BridgeDialogue(definition())
    assert isinstance(bridge.hears(Start(), Connected(), Received([]))[0], Receive)


def test_the_steps_change_the_batch_before_it_is_sent() -> None:
    bridge = BridgeDialogue(definition(steps=(AppendMessageId(),)))
    message = text_message(7)
    assert bridge.hears(Start(), Connected(), Received([message])) == [Send([message])]
    assert message.properties == {ID_LIST: (STRING_VALUE, "ID:7")}


FAILING: list[list[Event]] = [
    [],
    [Connected()],
    [Connected(), Received(text_messages(2))],
    [Connected(), Received(text_messages(2)), Sent()],
]


@pytest.mark.parametrize("before", FAILING)
def test_a_failure_closes_the_link_and_retries_after_the_interval(before: list[Event]) -> None:
    bridge = BridgeDialogue(definition(interval_ms=2_500))
    bridge.hears(Start(), *before)
    assert bridge.hears(Failed("broker lost")) == [Disconnect()]
    assert bridge.state == "retrying"
    assert bridge.hears(Disconnected()) == [Wait(2.5)]
    assert bridge.hears(Elapsed()) == [Connect()]
    assert bridge.state == "retrying"
    assert bridge.hears(Connected()) == [Receive(10, MAX_BATCH_BYTES, IDLE_S)]
    assert bridge.state == "running"
    assert bridge.machine.status().last_error == "broker lost"


def test_a_bridge_fails_after_its_retries_and_can_be_started_again() -> None:
    bridge = BridgeDialogue(definition(max_retries=2))
    bridge.hears(Start())
    for _ in range(2):
        assert bridge.hears(Failed("no broker"), Disconnected()) == [Wait(1.0)]
        assert bridge.hears(Elapsed()) == [Connect()]
    assert bridge.hears(Failed("still no broker"), Disconnected()) == []
    assert bridge.state == "failed"
    assert bridge.machine.status().last_error == "still no broker"
    assert bridge.hears(Start()) == [Connect()]
    assert bridge.hears(Failed("no broker"), Disconnected()) == [Wait(1.0)]  # all retries are there again


def test_no_retry_with_max_retries_zero() -> None:
    bridge = BridgeDialogue(definition(max_retries=0))
    assert bridge.hears(Start(), Failed("no broker"), Disconnected()) == []
    assert bridge.state == "failed"


def test_a_complete_batch_makes_the_failures_count_from_one() -> None:
    bridge = BridgeDialogue(definition(max_retries=1))
    bridge.hears(Start())
    for _ in range(5):
        actions = bridge.hears(Connected(), Received(text_messages(1)), Sent(), Acknowledged(), Failed("lost"))
        assert actions == [Disconnect()]
        assert bridge.hears(Disconnected()) == [Wait(1.0)]
        bridge.hears(Elapsed())


def test_a_link_of_a_minute_makes_the_failures_count_from_one() -> None:
    bridge = BridgeDialogue(definition(max_retries=1))
    bridge.hears(Start())
    for _ in range(5):
        bridge.hears(Connected())
        bridge.now += STABLE_S
        assert bridge.hears(Failed("lost"), Disconnected()) == [Wait(1.0)]
        bridge.hears(Elapsed())


def test_a_link_that_fails_at_once_uses_up_the_retries() -> None:
    bridge = BridgeDialogue(definition(max_retries=1))
    bridge.hears(Start(), Connected(), Failed("refused"), Disconnected(), Elapsed(), Connected())
    assert bridge.hears(Failed("refused"), Disconnected()) == []
    assert bridge.state == "failed"


def test_an_interval_of_minus_one_lets_the_pause_grow_to_a_minute() -> None:
    bridge = BridgeDialogue(definition(interval_ms=-1))
    bridge.hears(Start())
    pauses: list[float] = []
    for _ in range(20):
        action = bridge.hears(Failed("no broker"), Disconnected())[0]
        assert isinstance(action, Wait)
        pauses.append(action.seconds)
        bridge.hears(Elapsed())
    assert pauses[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert set(pauses[6:]) == {GROWING_MAX_S}


def test_only_at_most_once_counts_messages_as_perhaps_lost() -> None:
    for quality, lost in ((Quality.AT_MOST_ONCE, 2), (Quality.DUPLICATES_OK, 0)):
        bridge = BridgeDialogue(definition(quality))
        bridge.hears(Start(), Connected(), Received(text_messages(2)))
        if quality is Quality.AT_MOST_ONCE:
            bridge.hears(Acknowledged())
        bridge.hears(Failed("the target is lost"))
        assert bridge.machine.counters.perhaps_lost == lost


@pytest.mark.parametrize(("is_without_effect", "lost"), [(True, 0), (False, 2)])
def test_a_failed_acknowledgement_of_at_most_once_may_have_lost_its_batch(is_without_effect: bool, lost: int) -> None:
    bridge = BridgeDialogue(definition(Quality.AT_MOST_ONCE))
    bridge.hears(Start(), Connected(), Received(text_messages(2)), Failed("lost", is_without_effect))
    assert bridge.machine.counters.perhaps_lost == lost


def test_a_pause_ends_the_receive_and_closes_the_link() -> None:
    bridge = BridgeDialogue(definition())
    assert bridge.hears(Start(), Connected(), Pause()) == [Interrupt()]
    assert bridge.hears(Interrupted()) == [Disconnect()]
    assert bridge.hears(Disconnected()) == []
    assert bridge.state == "paused"
    assert bridge.hears(Start()) == [Connect()]


def test_a_pause_completes_the_batch_first() -> None:
    bridge = BridgeDialogue(definition(size=10, quiet_ms=60_000))
    message = text_message(1)
    bridge.hears(Start(), Connected(), Received([message]))
    assert bridge.hears(Pause()) == [Interrupt()]
    assert bridge.hears(Interrupted()) == [Send([message])]
    assert bridge.hears(Sent()) == [Acknowledge()]
    assert bridge.hears(Acknowledged()) == [Disconnect()]


def test_messages_that_arrive_with_the_pause_are_forwarded() -> None:
    bridge = BridgeDialogue(definition(size=10, quiet_ms=60_000))
    message = text_message(1)
    bridge.hears(Start(), Connected(), Pause())
    assert bridge.hears(Received([message])) == [Send([message])]


def test_a_pause_while_sending_waits_for_the_batch() -> None:
    bridge = BridgeDialogue(definition())
    bridge.hears(Start(), Connected(), Received(text_messages(1)))
    assert bridge.hears(Pause()) == []
    assert bridge.hears(Sent()) == [Acknowledge()]
    assert bridge.hears(Acknowledged()) == [Disconnect()]


def test_a_start_during_the_pause_connects_again() -> None:
    bridge = BridgeDialogue(definition())
    bridge.hears(Start(), Connected(), Pause(), Interrupted())
    assert bridge.hears(Start()) == []
    assert bridge.hears(Disconnected()) == [Connect()]
    assert bridge.state == "starting"


def test_a_start_before_the_interruption_goes_on_receiving() -> None:
    bridge = BridgeDialogue(definition(), ends_when_empty=True)
    bridge.hears(Start(), Connected(), Pause(), Start())
    assert bridge.hears(Interrupted()) == [Receive(10, MAX_BATCH_BYTES, DRAINED_S)]


def test_a_stop_ends_the_pause_between_attempts() -> None:
    bridge = BridgeDialogue(definition())
    bridge.hears(Start(), Failed("no broker"), Disconnected())
    assert bridge.hears(Stop()) == [Interrupt()]
    assert bridge.hears(Interrupted()) == []
    assert bridge.state == "stopped"


def test_a_stop_ends_an_attempt_to_connect() -> None:
    bridge = BridgeDialogue(definition())
    assert bridge.hears(Start(), Stop()) == [Interrupt()]
    assert bridge.hears(Interrupted()) == [Disconnect()]
    assert bridge.hears(Disconnected()) == []
    assert bridge.state == "stopped"


def test_a_failure_during_a_stop_does_not_retry() -> None:
    bridge = BridgeDialogue(definition())
    bridge.hears(Start(), Connected(), Received(text_messages(1)), Stop(), Failed("lost"))
    assert bridge.hears(Disconnected()) == []
    assert bridge.state == "stopped"


def test_a_pause_of_a_stopped_bridge_changes_nothing() -> None:
    bridge = BridgeDialogue(definition())
    assert bridge.hears(Pause()) == []
    assert bridge.state == "stopped"


def test_a_bridge_that_ends_when_empty_stops_after_the_last_batch() -> None:
    bridge = BridgeDialogue(definition(size=10, quiet_ms=-1), ends_when_empty=True)
    message = text_message(1)
    assert bridge.hears(Start(), Connected()) == [Receive(10, MAX_BATCH_BYTES, DRAINED_S)]
    assert isinstance(bridge.hears(Received([message]))[0], Receive)
    assert bridge.hears(Received([])) == [Send([message])]
    bridge.hears(Sent(), Acknowledged())
    assert bridge.hears(Received([])) == [Disconnect()]
    assert bridge.hears(Disconnected()) == []
    assert bridge.state == "stopped"


def test_a_bridge_that_ends_when_empty_goes_on_after_a_late_acknowledgement() -> None:
    bridge = BridgeDialogue(definition(size=10, quiet_ms=-1), ends_when_empty=True)
    bridge.hears(Start(), Connected(), Received(text_messages(1), is_last=True), Sent(), Acknowledged())
    assert bridge.hears(Received([], is_last=True)) == [Receive(10, MAX_BATCH_BYTES, DRAINED_S)]
    assert bridge.hears(Received([])) == [Disconnect()]


def test_the_status_has_the_lag_of_the_last_batch_and_the_time_of_the_state() -> None:
    bridge = BridgeDialogue(definition())
    bridge.hears(Start(), Connected(), Received(text_messages(1)))
    bridge.now = 1.5
    bridge.hears(Sent(), Acknowledged())
    assert bridge.machine.status().lag_ms == 1_500
    bridge.now = 2.0
    bridge.hears(Failed("lost"))
    status = bridge.machine.status()
    assert (status.state, status.since_ms % 100_000, status.failures) == (BridgeState.RETRYING, 2_000, 1)


def test_a_refused_message_that_is_alone_becomes_a_dead_letter() -> None:
    bridge = BridgeDialogue(definition())
    bridge.hears(Start(), Connected(), Received([text_message(7)]))
    assert bridge.hears(Refused(0, "too large")) == [DeadLetter("too large")]
    assert isinstance(bridge.hears(DeadLettered())[0], Receive)
    status = bridge.machine.status()
    assert (status.dead_letters, status.forwarded, status.failures) == (1, 0, 0)
    assert status.last_error == "message ID:7: too large"


def test_a_batch_with_a_refused_message_is_received_again_one_message_at_a_time() -> None:
    bridge = BridgeDialogue(definition(size=3, quiet_ms=60_000))
    messages = text_messages(3)
    bridge.hears(Start(), Connected(), Received(messages))
    assert bridge.hears(Refused(1, "too large")) == [Disconnect()]
    assert bridge.hears(Disconnected()) == [Connect()]
    for number, message in enumerate(messages):
        actions = bridge.hears(Connected()) if number == 0 else bridge.hears(Acknowledged())
        assert isinstance(actions[0], Receive) and actions[0].max_messages == 1
        assert bridge.hears(Received([message])) == [Send([message])]
        bridge.hears(Sent())
    actions = bridge.hears(Acknowledged())
    assert isinstance(actions[0], Receive) and actions[0].max_messages == 3


def test_at_most_once_sends_the_rest_of_a_batch_without_its_refused_message() -> None:
    bridge = BridgeDialogue(definition(Quality.AT_MOST_ONCE))
    first, second, third = text_messages(3)
    bridge.hears(Start(), Connected(), Received([first, second, third]), Acknowledged())
    assert bridge.hears(Refused(1, "too large")) == [Send([first, third])]
    bridge.hears(Sent())
    counters = bridge.machine.counters
    assert (counters.forwarded, counters.perhaps_lost, counters.dead_letters) == (2, 1, 0)


def test_at_most_once_does_not_send_again_what_the_target_has_stored_before_a_refused_message() -> None:
    bridge = BridgeDialogue(definition(Quality.AT_MOST_ONCE))
    first, second, third = text_messages(3)
    bridge.hears(Start(), Connected(), Received([first, second, third]), Acknowledged())
    assert bridge.hears(Refused(1, "too large", is_prefix_stored=True)) == [Send([third])]
    bridge.hears(Sent())
    counters = bridge.machine.counters
    assert (counters.forwarded, counters.perhaps_lost, counters.batches) == (2, 1, 1)


def test_a_message_that_a_step_cannot_change_becomes_a_dead_letter() -> None:
    bridge = BridgeDialogue(definition(steps=(AppendMessageId(),)))
    message = BridgeMessage("ID:7", TEXT, BrokenContent(), 100)
    assert bridge.hears(Start(), Connected(), Received([message])) == [DeadLetter("broken")]


@pytest.mark.parametrize("event", [Connected(), Received([]), Sent(), Elapsed(), Interrupted(), Failed("x")])
def test_an_event_without_its_action_is_a_bug(event: Event) -> None:
    bridge = BridgeDialogue(definition())
    with pytest.raises(LocalProtocolError, match=r"bridge orders: .* while none"):
        bridge.hears(event)


def test_attempts_within_the_failover_timeout_do_not_count_as_retries() -> None:
    bridge = BridgeDialogue(definition(max_retries=1, interval_ms=1_000, failover_ms=5_000))
    assert bridge.hears(Start(), Connected(), Failed("lost"), Disconnected()) == [Wait(1.0)]
    for _ in range(4):
        bridge.now += 1.0
        assert bridge.hears(Elapsed(), Failed("away"), Disconnected()) == [Wait(1.0)]
    bridge.now += 1.0
    assert bridge.hears(Elapsed(), Failed("away"), Disconnected()) == [Wait(1.0)]  # the only retry
    assert bridge.hears(Elapsed(), Failed("away"), Disconnected()) == []
    assert bridge.state == "failed"


def test_a_link_that_fails_before_each_batch_has_one_failover_timeout() -> None:
    bridge = BridgeDialogue(definition(max_retries=0, interval_ms=1_000, failover_ms=5_000))
    assert bridge.hears(Start(), Connected(), Failed("refused"), Disconnected()) == [Wait(1.0)]
    bridge.now += 6.0
    assert bridge.hears(Elapsed(), Connected(), Failed("refused"), Disconnected()) == []
    assert bridge.state == "failed"


def test_a_broker_that_was_never_reached_has_no_failover_timeout() -> None:
    bridge = BridgeDialogue(definition(max_retries=0, interval_ms=1_000, failover_ms=5_000))
    assert bridge.hears(Start(), Failed("away"), Disconnected()) == []
