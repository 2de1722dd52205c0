"""The client's core in a dialogue with a broker that the test plays, command by command: no socket, no clock."""

from __future__ import annotations

from typing import Final

from spanwire.client import Body, Properties
from spanwire.client.addressing.address import BrokerUrl, parse_url
from spanwire.client.addressing.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.io.environment import Machine
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.protocol.connection import ClientConnection
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.producer import ClientProducer, SendDefaults
from spanwire.client.protocol.response_correlator import Request
from spanwire.client.protocol.session import ClientSession
from spanwire.model.destination import QUEUE, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, negotiate, wire_format_info
from spanwire.protocols.openwire.messages.identities import wire_destination

START_MS: Final = 1_700_000_000_000
URL: Final = "tcp://broker:61616"


class Still:
    """A machine whose clock stands where the test puts it and whose dice always fall the same way."""

    def __init__(self) -> None:
        self.monotonic = 100.0
        self.dice = 0

    @property
    def host_name(self) -> str:
        return "test"

    def now(self) -> Time:
        return Time(self.monotonic, START_MS + int((self.monotonic - 100.0) * 1000))

    def random_bytes(self, count: int) -> bytes:
        self.dice += 1
        return (self.dice * 2654435761 % 2**32).to_bytes(4, "big")[:count].rjust(count, b"\0")


class StillMachine(Machine):
    """The machine of a blocking connection, with the test's clock."""

    def __init__(self, clock: Still) -> None:
        super().__init__()
        self._clock: Final = clock

    def now(self) -> Time:
        return self._clock.now()


class PlayedBroker:
    """The other end of the wire. Its answers are what the test says; `lets_in` plays the login."""

    def __init__(
        self, url: str = URL, preferences: WireFormatPreferences | None = None, client_id: str | None = None
    ) -> None:
        self.machine: Final = Still()
        self.url: Final[BrokerUrl] = parse_url(url, "u", "c4n4ry-pa55word", client_id)
        self.client: Final = ClientConnection(self.url, self.machine)
        self.preferences = preferences or WireFormatPreferences()
        self.on_completed: Final[list[Request]] = []
        self._decoder = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._encoder = FrameEncoder()
        self._sequence = 0

    @property
    def now(self) -> Time:
        return self.machine.now()

    def passes(self, seconds: float) -> Time:
        """Time goes by."""
        self.machine.monotonic += seconds
        return self.now

    def opens(self) -> None:
        """A new socket, to the address that failover chose, or the first."""
        self._decoder = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._decoder.authenticated()
        self._encoder = FrameEncoder()
        self.client.on_connected(self.client.failover.address, self.now)

    def receives(self) -> list[wire.Command]:
        """What the client has sent."""
        commands: list[wire.Command] = []
        found = self._decoder.feed(self.client.data_to_send())
        while found:
            commands += found
            found = self._decoder.feed(b"")
        return commands

    def sends(self, *commands: DataStructure) -> None:
        """What the broker says."""
        for command in commands:
            self.client.receive_data(self._encoder.encode(command), self.now)

    def sends_octets(self, octets: bytes) -> None:
        """What a broker should not say."""
        self.client.receive_data(octets, self.now)

    def shakes_hands(self) -> WireFormat:
        self.opens()
        (info,) = self.receives()
        assert isinstance(info, wire.WireFormatInfo)
        self.sends(wire_format_info(self.preferences))
        agreed = negotiate(self.preferences, info)
        self._decoder.negotiated(agreed)
        self._encoder = FrameEncoder(agreed)
        return agreed

    def lets_in(self) -> list[wire.Command]:
        """The whole login; gives what the client sent before its ConnectionInfo and after the answer to that."""
        self.shakes_hands()
        sent = self.receives()
        login = sent.pop()
        assert isinstance(login, wire.ConnectionInfo)
        self.answers(login)
        return sent + self.receives()

    def answers(self, command: wire.Command, refused: Throwable | None = None) -> None:
        """The answer to a command of the client."""
        assert isinstance(command, (wire.BaseCommand, wire.MessageFrame))
        assert command.response_required, f"{command} wants no answer"
        if refused is None:
            self.sends(wire.Response(command.command_id))
        else:
            self.sends(wire.ExceptionResponse(correlation_id=command.command_id, exception=refused))

    def answers_all(self) -> list[wire.Command]:
        """Answer everything that asks for it; gives all that the client sent."""
        sent = self.receives()
        for command in sent:
            if isinstance(command, wire.BaseCommand) and command.response_required:
                self.answers(command)
        return sent

    def goes(self, reason: str = "the broker closed it") -> bool:
        """The socket breaks; whether the client wants another one."""
        return self.client.on_disconnected(self.client.link_error(reason), self.now)

    def session(self, acknowledge: str = "auto") -> ClientSession:
        session = self.client.add_session(acknowledge)
        (info,) = self.receives()
        assert isinstance(info, wire.SessionInfo)
        return session

    def producer(self, session: ClientSession, destination: str | None = "queue://Q") -> ClientProducer:
        target = None if destination is None else parse_destination(destination, QUEUE)
        producer = session.add_producer(self.client.next_producer(), target, SendDefaults())
        producer.announce()
        self.answers_all()
        return producer

    def consumer(
        self, session: ClientSession, destination: str = "queue://Q", options: ConsumerOptions | None = None
    ) -> ClientConsumer:
        info = consumer_info(destination, options or ConsumerOptions(), self.client.settings)
        consumer = session.add_consumer(self.client.next_consumer(), info, Acknowledging(session))
        self.client.add_consumer(consumer)
        consumer.announce()
        self.answers_all()
        return consumer

    def send(self, producer: ClientProducer, body: object, wait: bool | None = None) -> Request | None:
        return producer.send(Outgoing(body), wait, self.now.wall_ms)

    def send_with(self, producer: ClientProducer, wait: bool | None, **said: object) -> Request | None:
        """A send with any of the arguments of `Outgoing`."""
        return producer.send(Outgoing(**said), wait, self.now.wall_ms)  # type: ignore[arg-type]

    def dispatches(
        self,
        consumer: ClientConsumer,
        *bodies: str,
        redelivered: int = 0,
        expiration: int = 0,
        persistent: bool = True,
        priority: int = 4,
    ) -> list[wire.MessageId]:
        """Text messages for a consumer; gives their ids."""
        found: list[wire.MessageId] = []
        for body in bodies:
            message = text_message(body, self._next())
            message.expiration = expiration
            message.persistent = persistent
            message.priority = priority
            assert message.message_id is not None
            found.append(message.message_id)
            self.sends(
                wire.MessageDispatch(
                    consumer_id=consumer.info.consumer_id,
                    destination=consumer.info.destination,
                    message=message,
                    redelivery_counter=redelivered,
                )
            )
        return found

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def takes(self, consumer: ClientConsumer) -> Message:
        message = consumer.next_message(self.now)
        assert message is not None, "nothing to take"
        return message

    def acknowledgements(self) -> list[tuple[int, int, int]]:
        """Type, first and last sequence of the acknowledgements that the client has sent since the last look."""
        found: list[tuple[int, int, int]] = []
        for command in self.receives():
            if isinstance(command, wire.MessageAck):
                assert command.first_message_id is not None
                assert command.last_message_id is not None
                first = command.first_message_id.producer_sequence_id
                found.append((command.ack_type, first, command.last_message_id.producer_sequence_id))
        return found


class Acknowledging:
    """What a shell's session does for `Message.acknowledge`."""

    def __init__(self, session: ClientSession) -> None:
        self._session: Final = session

    def acknowledge(self, message: Message) -> None:
        self._session.acknowledge(message)

    def reply(self, message: Message, body: Body, properties: Properties | None = None) -> None:
        raise AssertionError("nobody answers here")


def text_message(body: str, sequence: int) -> wire.ActiveMQTextMessage:
    """A message as a broker passes it on."""
    message = wire.ActiveMQTextMessage()
    octets = body.encode("ascii")
    message.content = len(octets).to_bytes(4, "big") + octets
    producer = wire.ProducerId(connection_id="ID:other-1", value=1, session_id=1)
    message.producer_id = producer
    message.message_id = wire.MessageId(
        producer_id=producer, producer_sequence_id=sequence, broker_sequence_id=1000 + sequence
    )
    message.destination = wire_destination(parse_destination("queue://Q", QUEUE))
    message.persistent = True
    message.priority = 4
    message.timestamp = START_MS
    return message


def refusal_of(request: Request | None) -> JmsError | None:
    """What a request was refused with."""
    assert request is not None
    assert request.done
    return request.error
