"""Dialogues with a broker: a stage with clock and store, peers that send and consume, and what they were told.

stage = Stage()
producer, consumer = stage.peer("p"), stage.peer("c")
listener = consumer.consumes("queue://Q")
producer.sends("queue://Q", "one")
assert listener.takes() == ["one"]
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from spanwire.broker.admin.views import ConnectionView, DestinationView
from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import MAX_UNCOMMITTED
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.plugins.filtered_broker import FilteredBroker
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.plugins import plug_in
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.virtual_settings import VirtualSettings
from spanwire.broker.ports import NO_TOKEN, AdvisoryFormat, Authenticator, Authorizer, StatisticsFormat
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.acks import INDIVIDUAL_ACK, LAST_DELIVERED_UNKNOWN, STANDARD_ACK, MessageAck
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, MessageId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message
from tests.support.dialogue.text_format import text_formats, text_message, text_of
from tests.support.late_store import LateStore

START_MS = 1_700_000_000_000


class Fields(TypedDict, total=False):
    """What a message may have beside its text."""

    connection_id: str
    persistent: bool
    expiration_ms: int
    priority: int
    properties: dict[str, object]
    original: str | None
    group: str
    group_sequence: int
    timestamp_ms: int
    reply_to: str | None


class FixedEnvironment:
    """Duck-typed to `spanwire.model.environment.Environment`."""

    def __init__(self) -> None:
        self.time = Time(100.0, START_MS)

    @property
    def host_name(self) -> str:
        return "host"

    def now(self) -> Time:
        return self.time

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))

    def advance(self, seconds: float) -> None:
        self.time = Time(self.time.monotonic + seconds, self.time.wall_ms + int(seconds * 1000))


class Delivery:
    """One dispatch as the consumer saw it."""

    def __init__(self, message: Message, sequence: int, redelivery_count: int) -> None:
        self.message = message
        self.text = text_of(message)
        self.sequence = sequence
        self.redelivery_count = redelivery_count


class Listener:
    """One consumer: duck-typed to `spanwire.broker.ports.MessageConsumer`, and the test's handle on it."""

    def __init__(self, peer: Peer, info: ConsumerInfo) -> None:
        self.peer = peer
        self.info = info
        self.deliveries: list[Delivery] = []
        self.ends = 0
        self.closed: JmsError | None = None
        self.was_told_to_pull = False
        self.pulls_when_told = True
        self._taken = 0
        self._subscription: Subscription | None = None

    # The port

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        delivery = Delivery(message, sequence, redelivery_count)
        self.deliveries.append(delivery)
        self.peer.stage.dispatches.append((self, delivery))
        self.peer.out_bytes += message.size

    def dispatch_end(self) -> None:
        self.ends += 1

    def close(self, reason: JmsError) -> None:
        self.closed = reason

    def switch_to_pull(self) -> bool:
        self.was_told_to_pull = True
        return self.pulls_when_told

    # The test's side

    @property
    def subscription(self) -> Subscription:
        assert self._subscription is not None
        return self._subscription

    def attached(self, subscription: Subscription) -> None:
        self._subscription = subscription

    @property
    def out(self) -> list[str]:
        """Everything it ever received."""
        return [delivery.text for delivery in self.deliveries]

    def takes(self) -> list[str]:
        """What it received since the last call."""
        return [delivery.text for delivery in self.takes_deliveries()]

    def takes_deliveries(self) -> list[Delivery]:
        """The same, with all that is known."""
        new = self.deliveries[self._taken :]
        self._taken = len(self.deliveries)
        return new

    def redelivery_counts(self) -> list[tuple[str, int]]:
        """Text and redelivery count of what it received since the last call."""
        return [(delivery.text, delivery.redelivery_count) for delivery in self.takes_deliveries()]

    def id_of(self, text: str) -> MessageId:
        """The id of the latest message with this text."""
        for delivery in reversed(self.deliveries):
            if delivery.text == text:
                return delivery.message.message_id
        raise AssertionError(f"{text} was not received, the last were {self.out[-5:]}")

    def acknowledges(
        self,
        last: str,
        *,
        first: str | None = None,
        ack_type: int = STANDARD_ACK,
        count: int = 0,
        transaction: int = 0,
        answer: bool = False,
    ) -> int:
        """Acknowledge up to ``last`` (from ``first``); gives the token of the answer it wants."""
        peer = self.peer
        if peer.reads:
            peer.flushes()
        token = peer.new_token() if answer else NO_TOKEN
        done = peer.stage.broker.acknowledge(
            peer.state,
            self.subscription,
            MessageAck(ack_type, None if first is None else self.id_of(first), self.id_of(last), count),
            peer.transaction_id(transaction) if transaction else None,
            token,
            peer.stage.now,
        )
        if done and answer:
            peer.answers[token] = None
        return token

    def acknowledges_one(self, text: str, transaction: int = 0) -> None:
        """An individual acknowledgement."""
        self.acknowledges(text, ack_type=INDIVIDUAL_ACK, count=1, transaction=transaction)

    def pulls(self, timeout_ms: int) -> None:
        self.peer.stage.broker.pull(self.subscription, timeout_ms, self.peer.stage.now)

    def leaves(self, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        peer = self.peer
        peer.stage.broker.remove_consumer(peer.state, self.info.consumer_id, last_delivered, peer.stage.now)


class Peer:
    """One client connection: duck-typed to `spanwire.broker.ports.ClientConnection`."""

    def __init__(self, stage: Stage, name: str, info: ConnectionInfo) -> None:
        self.stage = stage
        self.name = name
        self.answers: dict[int, SpanwireError | None] = {}
        self.reports: list[SpanwireError] = []  # refusals of what wanted no answer
        self.closed_with: SpanwireError | None = None
        self.out_bytes = 0
        self.reads = True  # the socket is flushed before each acknowledgement
        self._token = 0
        self._number = 0
        self._consumer_number = 0
        self.state: ConnectionState = stage.broker.add_connection(self, info, stage.now)
        self.session(1)

    # The port

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        if token == NO_TOKEN:
            assert error is not None
            self.reports.append(error)
            return
        assert token not in self.answers, f"token {token} was answered twice"
        self.answers[token] = error

    def close_with(self, error: SpanwireError) -> None:
        self.closed_with = error

    # The test's side

    @property
    def connection_id(self) -> str:
        return self.state.connection_id

    def new_token(self) -> int:
        self._token += 1
        return self._token

    def session(self, value: int) -> None:
        self.stage.broker.add_session(self.state, SessionId(self.connection_id, value))

    def producer(self, destination: str | None, value: int = 1, session: int = 1) -> ProducerInfo:
        parsed = None if destination is None else parse_destination(destination)
        info = ProducerInfo(ProducerId(self.connection_id, session, value), parsed)
        self.stage.broker.add_producer(self.state, info, self.stage.now)
        return info

    def message(self, destination: str, text: str, **fields: Unpack[Fields]) -> Message:
        """A message of this peer, the next of its producer."""
        self._number += 1
        fields.setdefault("connection_id", self.connection_id)
        return text_message(parse_destination(destination), self._number, text.encode(), **fields)

    def sends(self, destination: str, *texts: str, transaction: int = 0, **fields: Unpack[Fields]) -> int:
        """Send one message per text, each wanting an answer; gives the token of the last."""
        token = NO_TOKEN
        for text in texts:
            token = self.sends_message(self.message(destination, text, **fields), transaction)
        return token

    def sends_message(self, message: Message, transaction: int = 0) -> int:
        """Send a message that is made already; gives the token of its answer."""
        token = self.new_token()
        transaction_id = self.transaction_id(transaction) if transaction else None
        if self.stage.broker.send(self.state, message, transaction_id, token, self.stage.now):
            self.answers[token] = None
        return token

    def is_answered(self, token: int) -> bool:
        """Whether the request was granted; raises what it was refused with."""
        if token not in self.answers:
            return False
        error = self.answers[token]
        if error is not None:
            raise error
        return True

    def announces(
        self,
        destination: str,
        *,
        prefetch: int = 1000,
        selector: str | None = None,
        browser: bool = False,
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        session: int = 1,
        automatic: bool = False,
        durable: str | None = None,
        retroactive: bool = False,
        maximum_pending: int = 0,
        network: bool = False,
        pulls_when_told: bool = True,
    ) -> Listener:
        """A consumer that is not started yet; ``durable`` names its subscription."""
        self._consumer_number += 1
        info = ConsumerInfo(
            ConsumerId(self.connection_id, session, self._consumer_number),
            parse_destination(destination),
            prefetch,
            selector,
            browser=browser,
            no_local=no_local,
            exclusive=exclusive,
            priority=priority,
            subscription_name=durable,
            retroactive=retroactive,
            maximum_pending_messages=maximum_pending,
            network_subscription=network,
        )
        listener = Listener(self, info)
        listener.pulls_when_told = pulls_when_told
        listener.attached(self.stage.broker.add_consumer(self.state, info, listener, self.stage.now, automatic))
        return listener

    def consumes(
        self,
        destination: str,
        *,
        prefetch: int = 1000,
        selector: str | None = None,
        browser: bool = False,
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        session: int = 1,
        automatic: bool = False,
        durable: str | None = None,
        retroactive: bool = False,
        maximum_pending: int = 0,
        network: bool = False,
    ) -> Listener:
        """A consumer at work."""
        listener = self.announces(
            destination,
            prefetch=prefetch,
            selector=selector,
            browser=browser,
            no_local=no_local,
            exclusive=exclusive,
            priority=priority,
            session=session,
            automatic=automatic,
            durable=durable,
            retroactive=retroactive,
            maximum_pending=maximum_pending,
            network=network,
        )
        self.stage.broker.start_consumer(listener.subscription, self.stage.now)
        return listener

    def transaction_id(self, number: int) -> TransactionId:
        return TransactionId(self.connection_id, number)

    def begins(self, number: int) -> None:
        self.stage.broker.begin(self.state, self.transaction_id(number), self.stage.now)

    def commits(self, number: int) -> int:
        token = self.new_token()
        if self.stage.broker.commit(self.state, self.transaction_id(number), token, self.stage.now):
            self.answers[token] = None
        return token

    def rolls_back(self, number: int) -> None:
        self.stage.broker.rollback(self.state, self.transaction_id(number), self.stage.now)

    def creates(self, destination: str) -> None:
        self.stage.broker.add_destination(self.state, parse_destination(destination), self.stage.now)

    def removes(self, destination: str) -> None:
        self.stage.broker.remove_destination(self.state, parse_destination(destination), self.stage.now)

    def temporary(self, number: int = 1, kind: str = "temp-queue") -> str:
        """A temporary destination of this connection."""
        name = f"{kind}://{self.connection_id}:{number}"
        self.creates(name)
        return name

    def unsubscribes(self, name: str) -> None:
        self.stage.broker.unsubscribe(self.state, name, self.stage.now)

    def flushes(self, unsent: int = 0) -> None:
        """The transport wrote what there was; ``unsent`` bytes are still with it."""
        self.out_bytes = unsent
        self.stage.broker.output_progress(self.state, unsent, self.stage.now)

    def leaves(self) -> None:
        self.stage.broker.remove_connection(self.state, self.stage.now)


class Stage:
    """A broker with a clock and a store in the test's hands. Without ``late`` every call is stored at once when the
    test says `settle`, and reads are answered then.
    """

    def __init__(
        self,
        *policies: PolicyEntry,
        store: LateStore | None = None,
        persistent: bool = True,
        authorizer: Authorizer | None = None,
        authenticator: Authenticator | None = None,
        advisory_format: AdvisoryFormat | None = None,
        memory_limit_bytes: int = 1024 * 1024 * 1024,
        limits: UsageLimits | None = None,
        max_uncommitted: int = MAX_UNCOMMITTED,
        virtual: VirtualSettings | None = None,
        scheduler: SchedulerSettings | None = None,
        upkeep: UpkeepSettings | None = None,
        plugins: PluginSettings | None = None,
        statistics_format: StatisticsFormat | None = None,
        anonymous_producer_advisories: bool = False,
        temporary_by_send: bool = False,
        producer_audit: ProducerAudit | None = None,
    ) -> None:
        self.environment = FixedEnvironment()
        self.dispatches: list[tuple[Listener, Delivery]] = []  # all dispatches in their order
        self.store = store if store is not None else LateStore()
        self.plugins = plugins
        self.advisory_format = advisory_format
        self.virtual = virtual
        broker_class = Broker if plugins is None else FilteredBroker
        usage_limits = limits if limits is not None else UsageLimits(memory_bytes=memory_limit_bytes)
        self.broker = broker_class(
            "stage",
            "ID:stage",
            self.environment,
            self.store if persistent else None,
            text_formats(),
            BrokerSettings(
                advisory_format=advisory_format,
                anonymous_producer_advisories=anonymous_producer_advisories,
                authenticator=authenticator,
                authorizer=authorizer,
                policies=PolicyMap(list(policies)),
                limits=usage_limits,
                max_uncommitted=max_uncommitted,
                virtual=virtual,
                scheduler=scheduler,
                upkeep=upkeep,
                temporary_by_send=temporary_by_send,
                producer_audit=producer_audit,
            ),
        )
        if plugins is not None and isinstance(self.broker, FilteredBroker):
            addresses = {"openwire": "tcp://host:61616", "dataDirectory": "/data"}
            plug_in(self.broker, plugins, statistics_format, usage_limits, addresses)

    @property
    def now(self) -> Time:
        return self.environment.time

    def peer(
        self, name: str, client_id: str | None = None, user: str | None = None, *, reconnected: bool = False
    ) -> Peer:
        """A new connection, or one of a failover client that had a connection of this name before."""
        info = ConnectionInfo(
            f"ID:{name}:1", client_id, user, "secret", f"tcp://{name}:1", "test",
            fault_tolerant=True, reconnected=reconnected,
        )  # fmt: skip
        return Peer(self, name, info)

    def syncs(self) -> None:
        """Everything handed to the store so far is safe."""
        self.store.sync(self.broker, self.now)

    def has_room(self, room: bool) -> None:
        """The disk of the store is full, or has room again."""
        self.store.room = room
        self.broker.room_changed(self.now)

    def reads(self) -> None:
        """Answer every read that waits, and those that follow from them."""
        for _ in range(10_000):
            if not self.store.reads:
                return
            self.store.answer(self.broker, self.now)
        raise AssertionError("the broker does not stop reading")

    def settle(self) -> None:
        """Store, read and run jobs until nothing is left to do."""
        for _ in range(1_000):
            self.syncs()
            self.reads()
            self.runs()
            if self.broker.next_timeout() != 0.0 and not self.store.reads:
                return
        raise AssertionError("the broker does not come to rest")

    def runs(self) -> None:
        """One call of the timers."""
        self.broker.run(self.now)

    def waits(self, seconds: float) -> None:
        """Time passes, and the timers are called."""
        self.environment.advance(seconds)
        self.runs()

    def view(self, destination: str) -> DestinationView:
        """The statistics of one destination."""
        for view in self.broker.destination_views():
            if view.destination == destination:
                return view
        raise AssertionError(f"there is no {destination}")

    def has(self, destination: str) -> bool:
        """Whether the destination exists."""
        return destination in self.names()

    def names(self) -> set[str]:
        """The destinations that exist; who asks for many of them asks once."""
        return {view.destination for view in self.broker.destination_views()}

    def connection_view(self, peer: Peer) -> ConnectionView:
        """The statistics of one connection."""
        return next(view for view in self.broker.connection_views() if view.connection_id == peer.connection_id)

    def memory(self) -> int:
        """Bytes of memory in use."""
        return self.broker.statistics().memory_bytes

    def restarts(
        self,
        clean: bool = False,
        position: int = -1,
        policies: tuple[PolicyEntry, ...] = (),
        scheduler: SchedulerSettings | None = None,
        advisory_format: AdvisoryFormat | None = None,
    ) -> Stage:
        """A new broker over what the store kept."""
        store = self.store.crash(position)
        stage = Stage(
            *policies, store=store, scheduler=scheduler, plugins=self.plugins, advisory_format=advisory_format,
            virtual=self.virtual,
        )  # fmt: skip
        stage.environment.time = self.environment.time
        stage.broker.recover(store.recovered(), clean, stage.now, store.metadata)
        return stage


def destination(text: str) -> Destination:
    """Short for `parse_destination`."""
    return parse_destination(text)
