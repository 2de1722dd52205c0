"""What goes wrong on a STOMP connection, and its wire form: the ERROR frame (STOMP 1.2, "ERROR").

    RemoteProtocolError
    └── StompProtocolError    the frames can no longer be trusted, or the login failed: ERROR, then close
    JmsError
    └── StompRequestError     one frame asks for something impossible: ERROR, the connection lives on

The broker's own refusals (`JmsError`) are answered like a `StompRequestError`. The texts are those of ActiveMQ, so that
a client which looks at them finds what it knows.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import JmsError, RemoteProtocolError, SpanwireError
from spanwire.protocols.stomp.codec.encoding import encode_frame
from spanwire.protocols.stomp.codec.frames import ERROR

MAX_ERROR_TEXT: Final = 1_024  # characters of a client's own words that an ERROR gives back


class StompProtocolError(RemoteProtocolError):
    """The peer broke a rule of STOMP that all further frames depend on. Its connection is closed."""


class StompRequestError(JmsError):
    """A frame that is well formed but asks for what cannot be done. The connection lives on."""


def error_frame(error: SpanwireError, receipt: str | None, version: int) -> bytes:
    """The ERROR frame for ``error``: its text as header and as body, correlated by the receipt that was asked for."""
    body = str(error)[:MAX_ERROR_TEXT].replace("\0", "?").encode("utf-8", "replace")
    text = body.decode()
    headers = [("message", text.strip()), ("content-type", "text/plain")]
    if receipt is not None:
        headers.append(("receipt-id", receipt))
    headers.append(("content-length", str(len(body))))
    return encode_frame(ERROR, headers, body, version)
