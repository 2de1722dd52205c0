"""The table of states and commands says all there is to say about order."""

from __future__ import annotations

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.states import TRANSITIONS, State


def test_every_message_and_acknowledgement_is_at_home_in_the_connected_state() -> None:
    types = [type_id for type_id in wire.TYPE_NAMES if wire.is_message(type_id)]
    for type_id in [*types, wire.MESSAGE_ACK]:
        assert TRANSITIONS[State.CONNECTED, type_id] is State.CONNECTED
        assert not [state for state, allowed in TRANSITIONS if allowed == type_id and state is not State.CONNECTED]


def test_before_the_login_six_commands_are_allowed() -> None:
    assert {type_id for state, type_id in TRANSITIONS if state is State.LOGIN} == {
        wire.KEEP_ALIVE_INFO,
        wire.BROKER_INFO,
        wire.BROKER_SUBSCRIPTION_INFO,  # ActiveMQ's bridges send it right behind their BrokerInfo
        wire.CONNECTION_CONTROL,
        wire.CONNECTION_INFO,
        wire.SHUTDOWN_INFO,
    }


def test_nothing_leads_out_of_the_closed_states() -> None:
    assert not [state for state, _ in TRANSITIONS if state in (State.CLOSING, State.CLOSED)]


def test_only_a_client_that_logged_in_gets_to_the_connected_state() -> None:
    sources = {
        (state, type_id)
        for (state, type_id), following in TRANSITIONS.items()
        if following is State.CONNECTED and state is not State.CONNECTED
    }
    assert sources == {(State.LOGIN, wire.CONNECTION_INFO)}
