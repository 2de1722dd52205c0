"""Errors of an XMPP connection and their conditions on the wire.

Source: RFC 6120, sections 4.9, 6.5 and 8.3.

RemoteProtocolError
└── XmppProtocolError    the stream can no longer be trusted: stream error, then close
JmsError
└── StanzaError          one stanza asks for something impossible: an error stanza, the stream lives on
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import JmsError, RemoteProtocolError

MAX_ERROR_TEXT: Final = 1_024  # characters of an error text; bounds the client's own text in it


class XmppProtocolError(RemoteProtocolError):
    """The peer broke a rule of the stream; ``condition`` is the element for the rule."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition: Final[str] = condition


class StanzaError(JmsError):
    """A well-formed stanza asks for an impossible action; ``kind`` tells the client whether to try again."""

    def __init__(self, kind: str, condition: str, text: str) -> None:
        super().__init__(text)
        self.kind: Final[str] = kind
        self.condition: Final[str] = condition
