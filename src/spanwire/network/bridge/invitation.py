"""Invitations: a broker asks for the report of the broker that has opened a duplex link to it.

The asking broker has no address and no login there, so it sends a ConnectionControl over the link, with seconds in the
token. ActiveMQ would not know the token, and gets none. The invited broker answers, if the user of its connector has
the right of links, with the login of its own link, by a question to the control destination that has its report.
"""

from __future__ import annotations

from typing import Final

from spanwire.protocols.openwire.codec import _marshallers as wire

MARK: Final = b"spanwire-report "
FIRST_VERSION: Final = 8  # of OpenWire, with a token in ConnectionControl
MAX_SECONDS: Final = 60  # of one invitation; a watch of the map lasts as long


def invitation(seconds: int) -> wire.ConnectionControl:
    """Return the command that asks for reports during so many seconds."""
    return wire.ConnectionControl(connected_brokers="", reconnect_to="", token=MARK + b"%d" % min(seconds, MAX_SECONDS))


def invited_seconds(command: wire.ConnectionControl) -> int:
    """Return the seconds of an invitation; 0 for any other command."""
    token = command.token or b""
    number = token.removeprefix(MARK)
    if len(number) == len(token) or not number.isdigit() or len(number) > len(str(MAX_SECONDS)):
        return 0
    return min(int(number), MAX_SECONDS)
