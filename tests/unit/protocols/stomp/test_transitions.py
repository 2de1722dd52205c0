"""The table of states and frames says all there is to say about order."""

from __future__ import annotations

import pytest

from spanwire.protocols.stomp.codec.errors import StompProtocolError, StompRequestError
from spanwire.protocols.stomp.codec.frames import CLIENT_COMMANDS, CONNECT, DISCONNECT, SEND, STOMP
from spanwire.protocols.stomp.states import TRANSITIONS, State, next_state


def test_a_client_logs_in_first_and_once() -> None:
    assert {command for state, command in TRANSITIONS if state is State.LOGIN} == {CONNECT, STOMP}
    for command in (CONNECT, STOMP):
        assert next_state(State.LOGIN, command) is State.CONNECTED
        with pytest.raises(StompRequestError, match="Already connected"):
            next_state(State.CONNECTED, command)


def test_a_connected_client_stays_connected_until_it_disconnects() -> None:
    for command in CLIENT_COMMANDS:
        if command not in (CONNECT, STOMP):
            expected = State.LEAVING if command == DISCONNECT else State.CONNECTED
            assert next_state(State.CONNECTED, command) is expected


def test_nothing_leads_out_of_the_last_states() -> None:
    for state in (State.LEAVING, State.CLOSED):
        assert state not in [source for source, _ in TRANSITIONS]
        with pytest.raises(StompProtocolError, match="Unknown STOMP action: SEND"):
            next_state(state, SEND)
