"""The states of a bridge, and the events that change them.

    NEGOTIATING  both brokers send a WireFormatInfo
    IDENTIFYING  waits for the BrokerInfo of the remote broker
    STARTING     both connections are open; login and subscription wait for their answers
    RUNNING      demand and messages
    CLOSED       the bridge's ``reason`` has the cause

`TRANSITIONS` has all changes of the state. A closed bridge stays closed; the connector makes the next one.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The state of a bridge."""

    NEGOTIATING = 0
    IDENTIFYING = 1
    STARTING = 2
    RUNNING = 3
    CLOSED = 4


class Event(Enum):
    """The events of a bridge; the values are the words of the documentation."""

    NEGOTIATED = "its WireFormatInfo"
    BROKER_INFO_RECEIVED = "its BrokerInfo"
    LOGIN_ACCEPTED = "login answered"
    SUBSCRIBED = "subscription answered"
    DISCONNECTED = "connection closed"
    INACTIVE = "silence"
    PROTOCOL_ERROR = "protocol broken"
    REFUSED = "refusal"
    DUPLICATE_ID = "our own id"
    REMOTE_STOPPED = "it stops"
    STOPPED = "we stop"
    LOCAL_ERROR = "failure here"


OPEN_STATES: Final = (State.NEGOTIATING, State.IDENTIFYING, State.STARTING, State.RUNNING)
CLOSING_EVENTS: Final = (
    Event.DISCONNECTED,
    Event.INACTIVE,
    Event.PROTOCOL_ERROR,
    Event.REFUSED,
    Event.DUPLICATE_ID,
    Event.REMOTE_STOPPED,
    Event.STOPPED,
    Event.LOCAL_ERROR,
)
# An event without an entry for an open state is a protocol error.
TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.NEGOTIATING, Event.NEGOTIATED): State.IDENTIFYING,
    (State.IDENTIFYING, Event.BROKER_INFO_RECEIVED): State.STARTING,
    (State.STARTING, Event.BROKER_INFO_RECEIVED): State.STARTING,  # brokers repeat it when their cluster changes
    (State.STARTING, Event.LOGIN_ACCEPTED): State.STARTING,
    (State.STARTING, Event.SUBSCRIBED): State.RUNNING,
    (State.RUNNING, Event.BROKER_INFO_RECEIVED): State.RUNNING,
    **{(state, event): State.CLOSED for state in OPEN_STATES for event in CLOSING_EVENTS},
}
