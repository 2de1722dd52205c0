"""Errors of a STOMP connection and their wire form, the ERROR frame (STOMP 1.2, "ERROR").

    RemoteProtocolError
    └── StompProtocolError    the frames can no longer be trusted, or the login failed: ERROR, then close
    JmsError
    └── StompRequestError     one frame asks for something impossible: ERROR, the connection lives on

The broker's own refusals (`JmsError`) are answered like a `StompRequestError`. The texts are ActiveMQ's, because
clients may compare them.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import JmsError, RemoteProtocolError, SpanwireError
from spanwire.protocols.stomp.codec.encoding import encode_frame
from spanwire.protocols.stomp.codec.frames import ERROR

MAX_ERROR_TEXT: Final = 1_024  # characters of an error text; bounds the client's own text in it


class StompProtocolError(RemoteProtocolError):
    """The peer broke a rule of STOMP for all further frames; the connection is closed."""


class StompRequestError(JmsError):
    """A well-formed frame asks for an impossible operation; the connection lives on."""


def error_frame(error: SpanwireError, receipt: str | None, version: int) -> bytes:
    """Return the ERROR frame with the text of ``error`` as header and body, and the frame's receipt id."""
    body = str(error)[:MAX_ERROR_TEXT].replace("\0", "?").encode("utf-8", "replace")
    text = body.decode()
    headers = [("message", text.strip()), ("content-type", "text/plain")]
    if receipt is not None:
        headers.append(("receipt-id", receipt))
    headers.append(("content-length", str(len(body))))
    return encode_frame(ERROR, headers, body, version)
