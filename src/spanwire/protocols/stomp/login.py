"""Parses a CONNECT or STOMP frame and creates the CONNECTED frame (STOMP 1.2, "Connecting")."""

from __future__ import annotations

from typing import Final

from spanwire import __version__
from spanwire.model.info import ConnectionInfo
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.stomp.codec.encoding import encode_frame
from spanwire.protocols.stomp.codec.errors import StompProtocolError
from spanwire.protocols.stomp.codec.frames import CONNECTED, V1_0, V1_1, V1_2, VERSION_NAMES, Frame
from spanwire.protocols.stomp.heart_beat import HeartBeat, negotiate

SERVER: Final = f"Spanwire/{__version__}"


class Login:
    """The parsed first frame of a client; the broker checks the credentials."""

    def __init__(self, frame: Frame, options: dict[str, str]) -> None:
        """``options`` belong to the connector.

        Raises `StompProtocolError` for invalid versions or heart-beats.
        """
        headers = frame.block.headers
        self.version: Final[int] = negotiated_version(headers.get("accept-version"))
        self.heart_beat: Final[HeartBeat] = negotiate(headers.get("heart-beat"), options)
        self._headers: Final[dict[str, str]] = headers
        self._request_id: Final[str | None] = headers.get("request-id", frame.receipt)

    def connection_info(self, connection_id: str, settings: ConnectionSettings) -> ConnectionInfo:
        """Return the announcement for the broker; without a client id, the connection id replaces it."""
        headers = self._headers
        return ConnectionInfo(
            connection_id,
            self._client_id(connection_id),
            headers.get("login"),
            headers.get("passcode"),
            settings.remote_address,
            f"stomp {VERSION_NAMES[self.version]}",
            certificate_subject=settings.certificate_subject,
            encrypted=settings.encrypted,
            max_consumers=settings.max_consumers,
            max_producers=settings.max_producers,
            steals_links=settings.steals_links,
            connector=settings.connector_name,
        )

    def answer(self, connection_id: str) -> bytes:
        """Return the CONNECTED frame."""
        answer = [
            ("version", VERSION_NAMES[self.version]),
            ("session", self._client_id(connection_id)),
            ("server", SERVER),
            ("heart-beat", self.heart_beat.header),
        ]
        request_id = self._request_id
        if request_id is not None:
            answer += [("response-id", request_id), ("receipt-id", request_id)]
        return encode_frame(CONNECTED, answer, b"", self.version)

    def _client_id(self, connection_id: str) -> str:
        return self._headers.get("client-id") or connection_id


def negotiated_version(accepted: str | None) -> int:
    """Return the highest common version; 1.0 for a client without `accept-version`.

    Raises `StompProtocolError`.
    """
    if accepted is None:
        return V1_0
    names = [name.strip() for name in accepted.split(",")]
    for version in (V1_2, V1_1, V1_0):
        if VERSION_NAMES[version] in names:
            return version
    raise StompProtocolError(f"Invalid Protocol version[{accepted}], supported versions are: [1.2, 1.1, 1.0]")
