"""A client that works in transactions over OpenWire, one command at a time: the broker can be killed between any two of
them, or while one is on its way.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final, Self

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, negotiate, wire_format_info

BEGIN, PREPARE, COMMIT_ONE_PHASE, COMMIT_TWO_PHASE, ROLLBACK, RECOVER, FORGET, END = range(8)
INDIVIDUAL: Final = 4
ANSWER_S: Final = 30.0
READ_SIZE: Final = 65_536


class TransactionClient:
    """One connection with a session, a producer and a consumer. `do` waits for the answer, `begin_to` does not."""

    def __init__(self, port: int, name: str) -> None:
        self._connection_id: Final = f"ID:{name}-1-1:1"
        self._socket: Final = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self._encoder = FrameEncoder()
        self._decoder: Final = FrameDecoder(pass_messages=False)
        self._decoder.authenticated()
        self._received: Final[list[wire.Command]] = []
        self._command = 0
        self._message = 0
        self._log_in()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _log_in(self) -> None:
        preferences = WireFormatPreferences(version=12, tight=False, cache=False)
        self._socket.sendall(FrameEncoder().encode(wire_format_info(preferences)))
        remote = self._wait_for(wire.WireFormatInfo)
        assert isinstance(remote, wire.WireFormatInfo)
        wire_format = negotiate(preferences, remote)
        self._encoder = FrameEncoder(wire_format)
        self._decoder.negotiated(wire_format)
        self.do(
            wire.ConnectionInfo(connection_id=wire.ConnectionId(self._connection_id), client_id=self._connection_id)
        )
        self.do(wire.SessionInfo(session_id=wire.SessionId(connection_id=self._connection_id, value=1)))
        self.do(wire.ProducerInfo(producer_id=self._producer_id()))

    def _producer_id(self) -> wire.ProducerId:
        return wire.ProducerId(connection_id=self._connection_id, session_id=1, value=1)

    def _consumer_id(self) -> wire.ConsumerId:
        return wire.ConsumerId(connection_id=self._connection_id, session_id=1, value=1)

    def message(
        self, queue: str, text: str, transaction_id: wire.TransactionId | None = None
    ) -> wire.ActiveMQTextMessage:
        self._message += 1
        message = wire.ActiveMQTextMessage()
        message.producer_id = self._producer_id()
        message.destination = wire.ActiveMQQueue(queue)
        message.message_id = wire.MessageId(producer_id=message.producer_id, producer_sequence_id=self._message)
        message.persistent = True
        message.priority = 4
        octets = text.encode()
        message.content = len(octets).to_bytes(4, "big") + octets
        message.transaction_id = transaction_id
        return message

    def acknowledgement(self, message: wire.Message, transaction_id: wire.TransactionId | None) -> wire.MessageAck:
        return wire.MessageAck(
            consumer_id=self._consumer_id(),
            destination=message.destination,
            ack_type=INDIVIDUAL,
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
            transaction_id=transaction_id,
        )

    def transaction(self, transaction_id: wire.TransactionId | None, kind: int) -> wire.TransactionInfo:
        return wire.TransactionInfo(
            connection_id=wire.ConnectionId(self._connection_id), transaction_id=transaction_id, type=kind
        )

    def local(self, value: int = 1) -> wire.LocalTransactionId:
        return wire.LocalTransactionId(value=value, connection_id=wire.ConnectionId(self._connection_id))

    def subscribe(self, queue: str) -> None:
        self.do(
            wire.ConsumerInfo(
                consumer_id=self._consumer_id(), destination=wire.ActiveMQQueue(queue), prefetch_size=1000
            )
        )

    def take(self) -> wire.Message:
        """The next message of the consumer."""
        dispatch = self._wait_for(wire.MessageDispatch)
        assert isinstance(dispatch, wire.MessageDispatch)
        assert dispatch.message is not None
        return dispatch.message

    def in_doubt(self) -> list[wire.XATransactionId]:
        """The prepared branches of the broker."""
        answer = self.do(self.transaction(None, RECOVER))
        assert isinstance(answer, wire.DataArrayResponse)
        return [xid for xid in answer.data or [] if isinstance(xid, wire.XATransactionId)]

    def begin_to(self, command: wire.BaseCommand) -> int:
        """Send a command that asks for an answer; its number."""
        self._command += 1
        command.command_id = self._command
        command.response_required = True
        self._socket.sendall(self._encoder.encode(command))
        return self._command

    def do(self, command: wire.BaseCommand) -> wire.Command:
        """Send a command and wait for its answer, which is no refusal. Raises OSError when the broker is gone."""
        number = self.begin_to(command)
        while True:
            for answer in self._received:
                if isinstance(answer, wire.Response) and answer.correlation_id == number:
                    self._received.remove(answer)
                    assert not isinstance(answer, wire.ExceptionResponse), answer.exception
                    return answer
            self._read()

    def _wait_for(self, kind: type[wire.Command]) -> wire.Command:
        while True:
            for command in self._received:
                if isinstance(command, kind):
                    self._received.remove(command)
                    return command
            self._read()

    def _read(self) -> None:
        octets = self._socket.recv(READ_SIZE)
        if not octets:
            raise ConnectionResetError("the broker closed the connection")
        commands: Sequence[wire.Command] = self._decoder.feed(octets)
        while commands:
            self._received.extend(commands)
            if isinstance(commands[0], wire.WireFormatInfo):
                return
            commands = self._decoder.feed(b"")
