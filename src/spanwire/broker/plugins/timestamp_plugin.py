"""What the broker changes of a message when it comes in: its time (ActiveMQ, "TimeStampPlugin"), whether it is
persistent (ActiveMQ, "ForcePersistencyModeBrokerPlugin"), whose it is (ActiveMQ, "UserIDBroker").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message import Message


@dataclass(frozen=True)
class TimeStampSettings:
    """Messages get the broker's time, and live as long from then on as their senders wanted: at most
    ``ttl_ceiling_ms`` if that is above 0; those that would live for ever so long as ``zero_expiration_ms``, if that is
    above 0. With ``future_only`` a message is left alone that would expire no later. What another broker forwarded is
    left alone unless ``network_messages``, and so is what has no time.
    """

    zero_expiration_ms: int = 0
    ttl_ceiling_ms: int = 0
    future_only: bool = False
    network_messages: bool = False


class Stamping:
    """Changes messages of one broker; ``persistent`` None leaves that as it was sent; with ``names_user`` JMSXUserID
    is the broker's.
    """

    def __init__(
        self,
        times: TimeStampSettings | None,
        persistent: bool | None,
        formats: MessageFormats,
        names_user: bool = False,
    ) -> None:
        self._names_user: Final[bool] = names_user
        self._times: Final[TimeStampSettings | None] = times
        self._persistent: Final[bool | None] = persistent
        self._formats: Final[MessageFormats] = formats

    def stamped(self, message: Message, wall_ms: int, user: str = "") -> Message:
        """``message`` of ``user`` (empty: of nobody) as it is to be kept; itself when nothing changes. Raises
        `MessageFormatError` when its head cannot be written anew.
        """
        timestamp_ms = message.timestamp_ms
        expiration_ms = message.expiration_ms
        times = self._times
        if times is not None and timestamp_ms > 0 and (times.network_messages or not message.broker_path):
            lifetime_ms = expiration_ms - timestamp_ms if expiration_ms > 0 else times.zero_expiration_ms
            if 0 < times.ttl_ceiling_ms < lifetime_ms:
                lifetime_ms = times.ttl_ceiling_ms
            if not times.future_only or wall_ms + lifetime_ms > expiration_ms:
                if lifetime_ms > 0:
                    expiration_ms = wall_ms + lifetime_ms
                timestamp_ms = wall_ms
        persistent = message.persistent if self._persistent is None else self._persistent
        if (
            not self._names_user
            and timestamp_ms == message.timestamp_ms
            and expiration_ms == message.expiration_ms
            and persistent == message.persistent
        ):
            return message
        message_format = self._formats.format(message.format_id)
        try:
            user_id = user if self._names_user else None
            return message_format.restamped(message, timestamp_ms, expiration_ms, persistent, user_id)
        except ProtocolError as error:
            raise MessageFormatError(
                f"a message cannot be given the broker's time, delivery mode or user: {error}"
            ) from None
