"""Changes of incoming messages: time, delivery mode, user.

Source: ActiveMQ, "TimeStampPlugin", "ForcePersistencyModeBrokerPlugin" and "UserIDBroker".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.broker.security.authorization import ANONYMOUS
from spanwire.model.environment import Time
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message import Message


@dataclass(frozen=True)
class TimeStampSettings:
    """Settings of the broker's time in place of the sender's.

    A message keeps its time to live, up to ``ttl_ceiling_ms`` if above 0; a message without expiration gets
    ``zero_expiration_ms`` if above 0. With ``future_only`` no message expires earlier than before. Messages from other
    brokers are changed with ``network_messages`` only, messages without a time never.
    """

    zero_expiration_ms: int = 0
    ttl_ceiling_ms: int = 0
    future_only: bool = False
    network_messages: bool = False


class Stamping:
    """Changes messages of one broker.

    ``persistent`` None keeps each delivery mode; with ``names_user`` the broker sets JMSXUserID.
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
        """Return a changed copy of ``message``, or ``message`` if the settings change nothing.

        ``user`` is empty for an anonymous sender.

        Raises:
            MessageFormatError: the head of the message cannot be rewritten.
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


class StampingFilter(BrokerFilter):
    """Changes each sent message."""

    def __init__(self, stamping: Stamping) -> None:
        self._stamping: Final[Stamping] = stamping

    def send(self, state: ConnectionState, message: Message, now: Time) -> Message:
        """Return the changed message."""
        return self._stamping.stamped(message, now.wall_ms, _user_of(state))


def _user_of(state: ConnectionState) -> str:
    """Return the user name of a connection, empty for an anonymous connection."""
    principal = state.principal
    nameless = not state.info.user_name and principal.name == ANONYMOUS and not principal.groups
    return "" if nameless else principal.name
