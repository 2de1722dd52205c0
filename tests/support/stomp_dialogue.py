"""A stage for dialogues between STOMP clients and a real broker, without sockets and with time passed in.

``peer.sends(frame)`` feeds bytes and lets everything settle; ``peer.receives()`` gives the frames that came back since.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import NO_TOKEN, Authenticator, Authorizer
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, SessionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.message_view import MessageView, PropertyValue
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from spanwire.protocols.stomp.message_format import stomp_formats
from spanwire.stores.memory import MemoryStore

FORMAT_VIEW: Final = 201
WALL_MS: Final = 1_700_000_000_000
MAX_ROUNDS: Final = 200  # of settling; a dialogue that needs more never comes to rest


class DialogueEnvironment:
    """Duck-typed to `spanwire.model.environment.Environment`."""

    def __init__(self) -> None:
        self.monotonic = 1_000.0

    @property
    def host_name(self) -> str:
        return "host"

    def now(self) -> Time:
        return Time(self.monotonic, WALL_MS + int((self.monotonic - 1_000.0) * 1_000))

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))


class ReceivedFrame:
    """A frame as a client sees it: header values as they stand on the wire."""

    def __init__(self, command: str, headers: dict[str, str], body: bytes) -> None:
        self.command: Final = command
        self.headers: Final = headers
        self.body: Final = body

    def __repr__(self) -> str:
        return f"{self.command} {self.headers} {self.body!r}"


class StagePeer(Protocol):
    """A client of any protocol, as the stage sees it."""

    @property
    def connection(self) -> ProtocolConnection: ...

    def flush(self) -> bool: ...


class Stage:
    """One broker with its store, and the clients that talk to it."""

    def __init__(
        self,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        formats: MessageFormats | None = None,
        limits: UsageLimits | None = None,
        policies: PolicyMap | None = None,
        scheduler: SchedulerSettings | None = None,
    ) -> None:
        self.environment: Final = DialogueEnvironment()
        self.store: Final = MemoryStore()
        self.broker: Final = Broker(
            "localhost",
            "ID:broker",
            self.environment,
            self.store,
            formats if formats is not None else MessageFormats(stomp_formats()),
            BrokerSettings(
                authenticator=authenticator,
                authorizer=authorizer,
                limits=limits,
                policies=policies,
                scheduler=scheduler,
            ),
        )
        self.peers: Final[list[StagePeer]] = []
        self.syncs = True  # whether the store's disk gets its turn while things settle

    def peer(
        self, connect: str | None = None, settings: ConnectionSettings | None = None, client_id: str | None = None
    ) -> Peer:
        """A new client; with ``connect``, a version, it has logged in already, with a ``client_id`` of its own."""
        made = Peer(self, settings)
        self.peers.append(made)
        if connect is not None:
            own = "" if client_id is None else f"client-id:{client_id}\n"
            made.sends(f"CONNECT\naccept-version:{connect}\nhost:h\n{own}\n\0")
            (answer,) = made.receives()
            assert answer.command == "CONNECTED", answer
            made.session = answer.headers["session"]
        return made

    def passes(self, seconds: float) -> None:
        """Let time pass, in steps no longer than the transport's sweep."""
        end = self.environment.monotonic + seconds
        while self.environment.monotonic < end:
            self.environment.monotonic = min(self.environment.monotonic + 0.25, end)
            now = self.environment.now()
            for peer in self.peers:
                due = peer.connection.next_timeout()
                if due is not None and due <= now.monotonic:
                    peer.connection.handle_timeout(now)
            self.settle()

    def settle(self) -> None:
        """Flush, sync and fetch until nothing moves."""
        for _ in range(MAX_ROUNDS):
            now = self.environment.now()
            if self.syncs:
                stored = self.store.turn()
                if stored is not None:
                    self.broker.stored(stored, now)
            for request, messages in self.store.take_fetched():
                self.broker.on_fetched(request, messages, now)
            due = self.broker.next_timeout()
            if due is not None and due <= now.monotonic:
                self.broker.run(now)
            self.broker.take_dirty()
            moved = False
            for peer in self.peers:
                moved = peer.flush() or moved
            if not moved and self.broker.next_timeout() != 0.0:
                return
        raise AssertionError("the dialogue never comes to rest")


class Peer:
    """One client."""

    def __init__(self, stage: Stage, settings: ConnectionSettings | None) -> None:
        self._stage: Final = stage
        self.connection: Final = StompBrokerConnection(
            stage.broker, settings if settings is not None else ConnectionSettings(), stage.environment.now()
        )
        self.session = ""
        self.raw = b""

    def sends(self, data: str | bytes) -> None:
        """Feed bytes, then let everything settle."""
        if isinstance(data, str):
            data = data.encode()
        self.connection.receive_data(data, self._stage.environment.now())
        self._stage.settle()

    def leaves(self) -> None:
        """Close the socket."""
        self.connection.receive_eof(self._stage.environment.now())
        self._stage.settle()

    def flush(self) -> bool:
        """Take what there is to send, after going on with requests that are held; whether there was any."""
        held = self.connection.holds_requests and not self._stage.broker.awaits_login(self.connection)
        self.connection.go_on(self._stage.environment.now())
        chunks = self.connection.data_to_send()
        self.raw += b"".join(chunks)
        self.connection.unsent(0)
        return held or bool(chunks)

    def receives(self) -> list[ReceivedFrame]:
        """All frames since the last call, split by the rules of the wire and nothing else."""
        data = self.raw
        self.raw = b""
        frames: list[ReceivedFrame] = []
        while data := data.lstrip(b"\n"):
            head, _, rest = data.partition(b"\n\n")
            lines = head.decode().split("\n")
            headers: dict[str, str] = {}
            for line in lines[1:]:
                name, _, value = line.partition(":")
                headers.setdefault(name, value)
            length = int(headers["content-length"]) if "content-length" in headers else rest.index(b"\0")
            assert rest[length : length + 1] == b"\0", f"the frame {head!r} does not end with NUL"
            frames.append(ReceivedFrame(lines[0], headers, rest[:length]))
            data = rest[length + 1 :]
        return frames

    @property
    def closed(self) -> bool:
        return self.connection.closed


class ViewFormat:
    """Messages of no protocol at all: their bytes are the number of a `MessageView`. Duck-typed to `MessageFormat`."""

    def __init__(self) -> None:
        self._views: Final[list[MessageView]] = []

    def message(self, view: MessageView) -> Message:
        """The message that is ``view``."""
        self._views.append(view)
        raw = str(len(self._views) - 1).encode()
        return Message(
            FORMAT_VIEW, raw, 0, len(raw), len(raw), view.destination, view.message_id.producer_id,
            view.message_id.sequence, view.persistent, view.priority, view.expiration_ms, view.timestamp_ms,
            view.group_id, text_view=view.message_id.text_view,
        )  # fmt: skip

    def view(self, message: Message) -> MessageView:
        return self._views[int(message.raw)]

    def index(self, raw: bytes) -> Message:
        return self.message(self._views[int(raw)])

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        return self.view(message).properties

    def header(self, message: Message, name: str) -> object:
        return None

    def encode_from_view(self, view: MessageView) -> Message:
        return self.message(view)

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        view = self.view(message)
        view.timestamp_ms = timestamp_ms
        view.expiration_ms = expiration_ms
        view.persistent = persistent
        if user_id is not None:
            view.user_id = user_id or None
        return self.message(view)

    def first_for_consumer(self, message: Message) -> Message:
        return message

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        view = self.view(message)
        view.destination = destination
        return self.message(view)


class JmsClient:
    """A client of another protocol: sends messages made of views, keeps what it is dispatched as it is."""

    def __init__(self, stage: Stage, connection_id: str = "ID:jms-1-2-0:1") -> None:
        self._stage: Final = stage
        self._connection_id: Final = connection_id
        self.messages: Final[list[Message]] = []
        self.state: Final = stage.broker.add_connection(self, ConnectionInfo(connection_id), stage.environment.now())
        stage.broker.add_session(self.state, SessionId(connection_id, 1))

    def listens(self, *destinations: Destination) -> None:
        """Consume from each of these."""
        now = self._stage.environment.now()
        for number, destination in enumerate(destinations, 1):
            info = ConsumerInfo(ConsumerId(self._connection_id, 1, number), destination)
            self._stage.broker.start_consumer(self._stage.broker.add_consumer(self.state, info, self, now), now)

    def sends(self, message: Message) -> None:
        """Send, then let everything settle."""
        self._stage.broker.send(self.state, message, None, NO_TOKEN, self._stage.environment.now())
        self._stage.settle()

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        self.messages.append(message)

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None:
        raise AssertionError("nobody browses here")

    def close(self, reason: JmsError) -> None:
        raise AssertionError(f"the consumer was closed: {reason}")

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        raise AssertionError("no answer was asked for")

    def close_with(self, error: SpanwireError) -> None:
        raise AssertionError(f"the connection was closed: {error}")
