"""The table of states of a bridge: every state with every event, as the documentation shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.model.errors import JmsError
from spanwire.model.ids import SessionId
from spanwire.model.info import ConnectionInfo
from spanwire.network.bridge.bridge import START_DEADLINE
from spanwire.network.bridge.bridge_states import CLOSING_EVENTS, OPEN_STATES, TRANSITIONS, Event, State
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from tests.unit.network.test_rogue_remotes import Q, Remote

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "link-states.md"
NEVER = "-"
SILENCE_S = 31.0  # longer than the start and than the inactivity of a wire format


def documented() -> dict[tuple[State, Event], str]:
    """The cells of the table."""
    lines = iter(PAGE.read_text("utf-8").splitlines())
    head = next(line for line in lines if line.startswith("| event | negotiating"))
    states = [State[cell.strip().upper()] for cell in head.strip("|").split("|")[1:]]
    next(lines)
    found: dict[tuple[State, Event], str] = {}
    for line in lines:
        if not line.startswith("|"):
            return found
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for state, cell in zip(states, cells, strict=True):
            found[state, Event(name)] = cell
    return found


def in_state(state: State) -> Remote:
    """A bridge that came so far, over a link that carries a message unless it is too early."""
    remote = Remote(BridgeSettings(name="link"))
    if state is State.NEGOTIATING:
        return remote
    remote.octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
    if state is State.IDENTIFYING:
        return remote
    remote.says(broker_info())
    if state is State.RUNNING:
        remote.answers_all()
        remote.advises(remote.consumer())
        remote.site.client().sends(Q, "one", persistent=False)
        remote.listens()
        assert remote.bridge.in_flight == 1
    assert remote.bridge.state is state
    return remote


def broker_info(broker_id: str = "R") -> wire.BrokerInfo:
    return wire.BrokerInfo(broker_id=wire.BrokerId(broker_id), broker_name="remote")


def say(remote: Remote, command: wire.BaseCommand) -> None:
    encoder = FrameEncoder() if remote.bridge.state is State.NEGOTIATING else FrameEncoder(WireFormat())
    remote.octets(encoder.encode(command))


def stay_silent(remote: Remote) -> None:
    remote.network.environment.advance(SILENCE_S)
    remote.bridge.handle_timeout(remote.network.now)


def answer(remote: Remote, which: int) -> None:
    asked = remote.asked()
    say(remote, wire.Response(asked[which].command_id if asked else 0))


def clash_of_names(remote: Remote) -> None:
    """The client id that the bridge wants here is somebody else's."""
    info = ConnectionInfo("ID:other:1", "link_remote_inbound_brokerA")
    state = remote.site.broker.add_connection(remote.site.client(), info, remote.network.now)
    remote.site.broker.add_session(state, SessionId("ID:other:1", 1))
    say(remote, broker_info())


HAPPENS: dict[Event, Callable[[Remote], None]] = {
    Event.NEGOTIATED: lambda remote: remote.octets(FrameEncoder().encode(wire_format_info(WireFormatPreferences()))),
    Event.BROKER_INFO_RECEIVED: lambda remote: say(remote, broker_info()),
    Event.LOGIN_ACCEPTED: lambda remote: answer(remote, 0),
    Event.SUBSCRIBED: lambda remote: answer(remote, -1),
    Event.DISCONNECTED: lambda remote: remote.bridge.receive_eof(remote.network.now),
    Event.INACTIVE: stay_silent,
    Event.PROTOCOL_ERROR: lambda remote: remote.octets(b"\xff" * 64),
    Event.REFUSED: lambda remote: say(remote, wire.ConnectionError(exception=Throwable("x.Y", "no"))),
    Event.DUPLICATE_ID: lambda remote: say(remote, broker_info("A")),
    Event.REMOTE_STOPPED: lambda remote: say(remote, wire.ShutdownInfo()),
    Event.STOPPED: lambda remote: remote.bridge.close_with(JmsError("the broker is stopping")),
    Event.LOCAL_ERROR: clash_of_names,
}


def test_the_documented_table_has_every_state_and_every_event() -> None:
    assert set(documented()) == {(state, event) for state in OPEN_STATES for event in Event}


@pytest.mark.parametrize("event", list(Event), ids=[event.value for event in Event])
@pytest.mark.parametrize("state", OPEN_STATES, ids=[state.name for state in OPEN_STATES])
def test_the_documented_table_is_the_one_that_bridges_go_by(state: State, event: Event) -> None:
    cell = documented()[state, event]
    if cell == NEVER:
        assert event in (
            Event.LOGIN_ACCEPTED,
            Event.SUBSCRIBED,
            Event.DUPLICATE_ID,
        )  # what can be heard in one state only
        return
    assert TRANSITIONS.get((state, event), State.CLOSED) is State[cell.upper()]


# A failure of our own can be caused from outside in one state alone: the bridge's name here is taken.
CAUSED = [
    (state, event)
    for state in OPEN_STATES
    for event in Event
    if (event is not Event.DUPLICATE_ID and event is not Event.LOCAL_ERROR) or state is State.IDENTIFYING
]


@pytest.mark.large
@pytest.mark.parametrize(("state", "event"), CAUSED, ids=[f"{state.name}-{event.value}" for state, event in CAUSED])
def test_every_event_leads_where_the_table_says_and_leaves_nothing_behind(state: State, event: Event) -> None:
    remote = in_state(state)
    before = remote.site.broker.connection_views()
    HAPPENS[event](remote)
    cell = documented()[state, event]
    expected = state if cell == NEVER else State[cell.upper()]
    bridge = remote.bridge
    assert bridge.state is expected
    if expected is not State.CLOSED:
        assert not bridge.closed and bridge.next_timeout() is not None
        return
    assert bridge.closed and bridge.reason and bridge.next_timeout() is None
    assert (bridge.in_flight, bridge.demand_count, bridge.destinations(9)) == (0, 0, ())
    left = {view.connection_id for view in remote.site.broker.connection_views()}
    assert not [
        view for view in before if view.client_id == "link_remote_inbound_brokerA" and view.connection_id in left
    ]
    inbox = remote.site.client().consumes(Q)
    remote.network.settles()
    assert inbox.texts == (["one"] if state is State.RUNNING else [])


@pytest.mark.parametrize("event", list(Event), ids=[event.value for event in Event])
def test_a_closed_bridge_stays_closed_whatever_comes(event: Event) -> None:
    remote = in_state(State.RUNNING)
    remote.bridge.receive_eof(remote.network.now)
    reason = remote.bridge.reason
    HAPPENS[event](remote)
    assert (remote.bridge.state, remote.bridge.reason) == (State.CLOSED, reason)


@pytest.mark.parametrize("state", OPEN_STATES[:3], ids=[state.name for state in OPEN_STATES[:3]])
def test_a_start_that_takes_too_long_is_given_up_however_far_it_came(state: State) -> None:
    remote = in_state(state)
    remote.network.environment.advance(START_DEADLINE - 0.01)
    remote.bridge.handle_timeout(remote.network.now)
    assert remote.bridge.state is state
    remote.network.environment.advance(0.01)
    remote.bridge.handle_timeout(remote.network.now)
    assert remote.bridge.reason == "no answer within 15 s (the peer accepts and stays silent)"


def test_all_endings_end() -> None:
    assert {
        event for event in Event if all(TRANSITIONS.get((one, event)) is State.CLOSED for one in OPEN_STATES)
    } == set(CLOSING_EVENTS)
