"""A world in which a program moves messages exactly once with cursor and sink, and everything breaks at any moment.

The program does what Spark's driver and workers do with their checkpoint: it writes the range of a batch down, reads
and stages it, has it committed, writes that down, and acknowledges the range when it asks for the next. It is taken for
dead at any step, and another run begins. Then it is gone, or its workers still finish what they were told, or it was
suspended and wakes up as a whole. The broker loses its power at any write to its disk.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message
from tests.simulation.disk import PowerCutError
from tests.simulation.world import World
from tests.support.dialogue.text_format import properties_of, text_message, text_of

SOURCE = parse_destination("queue://IN")
TARGET = parse_destination("queue://OUT")
MESSAGES = 60  # that are sent
MAX_STEPS = 20_000

Steps = Generator[None, None, None]


class Refused(Exception):
    """The broker or the checkpoint said no: this run has ended, or what it asks for is not there."""


class Gone(Exception):
    """The connection is."""


class Shown:
    """One consumer: duck-typed to `spanwire.broker.ports.MessageConsumer`."""

    def __init__(self) -> None:
        self.messages: list[tuple[Message, int]] = []
        self.ended = False

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        self.messages.append((message, sequence))

    def dispatch_end(self) -> None:
        self.ended = True

    def close(self, reason: JmsError) -> None:
        self.ended = True

    def switch_to_pull(self) -> bool:
        return False


class Link:
    """One connection: duck-typed to `spanwire.broker.ports.ClientConnection`. Its calls end when they are answered."""

    def __init__(self, world: ExactlyOnceWorld, name: str) -> None:
        self.world = world
        self.broker = world.broker
        self.name = name
        self.answers: dict[int, SpanwireError | None] = {}
        self.number = 0
        self.consumers = 0
        info = ConnectionInfo(f"ID:{name}:1", None, None, "", "tcp://h:1", "test")
        self.state: ConnectionState = self.broker.add_connection(self, info, world.now)
        self.broker.add_session(self.state, SessionId(f"ID:{name}:1", 1))
        self.broker.add_producer(self.state, ProducerInfo(ProducerId(f"ID:{name}:1", 1, 1), None), world.now)
        self.replies: Shown | None = None
        self.reply_to: Destination | None = None

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        self.answers[token] = error

    def close_with(self, error: SpanwireError) -> None:
        pass

    def check(self) -> None:
        """Raises `Gone` when the broker has restarted since."""
        if self.world.broker is not self.broker:
            raise Gone

    def send(self, destination: Destination, text: str, transaction: int, properties: dict[str, object]) -> int:
        self.check()
        self.number += 1
        reply_to = None if self.reply_to is None else self.reply_to.qualified_name
        message = text_message(
            destination, self.number, text.encode(), self.state.connection_id, properties=properties, reply_to=reply_to
        )
        transaction_id = TransactionId(self.state.connection_id, transaction) if transaction else None
        try:
            if self.broker.send(self.state, message, transaction_id, self.number, self.world.now):
                self.answers[self.number] = None
        except JmsError as error:
            self.answers[self.number] = error
        return self.number

    def answered(self, token: int) -> Steps:
        """Goes on when ``token`` is answered."""
        while token not in self.answers:
            self.check()
            yield
        error = self.answers[token]
        if error is not None:
            raise Refused(str(error))

    def consumes(self, destination: Destination, selector: str | None = None, browser: bool = False) -> Shown:
        self.check()
        self.consumers += 1
        consumer = Shown()
        info = ConsumerInfo(
            ConsumerId(self.state.connection_id, 1, self.consumers), destination, 1000, selector, browser=browser
        )
        try:
            found: Subscription = self.broker.add_consumer(self.state, info, consumer, self.world.now)
        except JmsError as error:
            raise Refused(str(error)) from None
        self.broker.start_consumer(found, self.world.now)
        return consumer

    def ask(self, found: dict[str, object], text: str = "", **properties: object) -> Steps:
        """One request; ``found`` gets the answer's properties."""
        if self.replies is None:
            self.reply_to = parse_destination(f"temp-queue://{self.state.connection_id}:1")
            self.broker.add_destination(self.state, self.reply_to, self.world.now)
            self.replies = self.consumes(self.reply_to)
        count = len(self.replies.messages)
        self.send(CONTROL, text, 0, properties)
        while len(self.replies.messages) == count:
            self.check()
            yield
        found.update(properties_of(self.replies.messages[count][0]))
        if found["status"] != "ok":
            raise Refused(str(found["reason"]))

    def read_range(self, found: list[str], epoch: object, start: int, end: int) -> Steps:
        selector = f"cursor = 'c' AND epoch = {epoch} AND from = {start} AND to = {end}"
        consumer = self.consumes(CONTROL, selector, True)
        while not consumer.ended:
            self.check()
            yield
        if [number for _, number in consumer.messages] != list(range(start, end)):
            raise Refused("the range ended early")
        found.extend(text_of(message) for message, _ in consumer.messages)

    def stage(self, texts: list[str], transaction: int, properties: dict[str, object]) -> Steps:
        self.check()
        transaction_id = TransactionId(self.state.connection_id, transaction)
        self.broker.begin(self.state, transaction_id, self.world.now)
        for text in texts:
            self.send(TARGET, text, transaction, {})
            yield
        if not self.world.naive:
            self.send(CONTROL, "", transaction, {"action": "stage", **properties})
        yield
        self.check()
        self.number += 1
        token = self.number
        try:
            if self.broker.commit(self.state, transaction_id, token, self.world.now):
                self.answers[token] = None
        except JmsError as error:
            raise Refused(str(error)) from None
        yield from self.answered(token)


class Checkpoint:
    """What all runs of the program share on a safe disk: the range of each batch, and how many are done.

    An entry is written once, as in the logs of Spark: a run that finds it there has to stop, for another run goes on.
    """

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.done = 0

    def add_range(self, batch: int, start: int, end: int) -> None:
        if batch != len(self.ranges):
            raise Refused(f"another run has written the range of batch {batch}")
        self.ranges.append((start, end))

    def add_done(self, batch: int) -> None:
        if batch != self.done:
            raise Refused(f"another run has written that batch {batch} is done")
        self.done = batch + 1

    def copy(self) -> Checkpoint:
        other = Checkpoint()
        other.ranges = self.ranges.copy()
        other.done = self.done
        return other


class Mover:
    """The program, in one run. Whoever holds it calls `step`.

    It reads the checkpoint when it begins, and knows later only what it has written itself.
    """

    def __init__(self, world: ExactlyOnceWorld, number: int, checkpoint: Checkpoint) -> None:
        self.world = world
        self.random: Random = world.random
        self.run = f"run-{number}"
        self.checkpoint = checkpoint
        self.known = checkpoint.copy()
        self.can_write = True  # False: the driver is dead, and only its workers are left
        self.attempts = 1000 * number
        self.cursor_epoch: object = 0
        self.sink_epoch: object = 0
        self.links = 0
        self.link: Link | None = None
        self.batches = 0
        self.transactions = 0
        self._steps = self._live()

    def step(self) -> bool:
        """Go on; False when it has ended."""
        try:
            next(self._steps)
        except StopIteration:
            return False
        except Gone:
            self.link = None
            self._steps = self._live()  # a failover client connects again and asks again
        except Refused:
            return False
        return True

    def _live(self) -> Steps:
        self.links += 1
        self.link = Link(self.world, f"{self.run}-{self.links}")
        opened: dict[str, object] = {}
        exclusive = self.world.exclusive
        yield from self.link.ask(opened, action="open", cursor="c", queue="IN", run=self.run, exclusive=exclusive)
        self.cursor_epoch = opened["epoch"]
        begun: dict[str, object] = {}
        yield from self.link.ask(begun, action="begin", query="q", run=self.run)
        self.sink_epoch = begun["epoch"]
        if len(self.known.ranges) > self.known.done:
            yield from self._move(self.known.done)
        while True:
            ranges = self.known.ranges
            start = ranges[-1][1] if ranges else 0
            held: dict[str, object] = {}
            yield from self.link.ask(
                held, action="reserve", cursor="c", epoch=self.cursor_epoch, messages=self.random.randrange(1, 8),
                acknowledge=start,
            )  # fmt: skip
            end = held["to"]
            assert isinstance(end, int)
            if held["from"] != start:
                raise Refused("what the checkpoint knows and what the cursor holds do not fit")
            yield
            if end > start:
                for checkpoint in self._written():
                    checkpoint.add_range(len(ranges), start, end)
                yield
                yield from self._move(self.known.done)

    def _written(self) -> tuple[Checkpoint, Checkpoint]:
        """Both checkpoints that get a new entry: that on the disk first, for it may refuse."""
        if not self.can_write:
            raise Refused("the driver is dead")
        return self.checkpoint, self.known

    def _move(self, batch: int) -> Steps:
        assert self.link is not None
        start, end = self.known.ranges[batch]
        middle = self.random.randrange(start, end + 1)
        parts: list[str] = []
        for partition, (first, last) in enumerate(((start, middle), (middle, end))):
            texts: list[str] = []
            yield from self.link.read_range(texts, self.cursor_epoch, first, last)
            self.attempts += 1
            if texts:
                self.transactions += 1
                properties: dict[str, object] = {
                    "query": "q", "epoch": self.sink_epoch, "batch": batch, "partition": partition,
                    "attempt": self.attempts,
                }  # fmt: skip
                yield from self.link.stage(texts, self.transactions, properties)
            if texts and not self.world.naive:
                parts.append(f"{partition} {self.attempts} {len(texts)}")
            yield
        done: dict[str, object] = {}
        yield from self.link.ask(done, "\n".join(parts), action="commit", query="q", epoch=self.sink_epoch, batch=batch)
        yield
        for checkpoint in self._written():
            checkpoint.add_done(batch)
        self.batches += 1
        yield


class ExactlyOnceWorld(World):
    """A sender, the program with its zombies, and a broker that restarts."""

    def __init__(self, seed: int, naive: bool = False) -> None:
        """``naive``: what the program sends is visible before the commit, as with a sink that knows of no batches."""
        super().__init__(seed)
        self.clients = []
        self.naive = naive
        self.exclusive = self.chance(0.5)
        self.checkpoint = Checkpoint()
        self.runs = 1
        self.mover = Mover(self, 1, self.checkpoint)
        self.zombies: list[Mover] = []
        self.kills = 0
        self.late = 0  # steps of zombies
        self.sent: list[str] = []
        self.safe: set[str] = set()
        self._sender = self._send_all()

    def step(self) -> None:
        """Something happens."""
        self.environment.advance(self.random.choice((0.0, 0.001, 0.01)))
        kind = self.random.random()
        try:
            if kind < 0.10:
                self._send()
            elif kind < 0.55:
                self._move()
            elif kind < 0.85:
                self._store_turn()
            elif kind < 0.95:
                self._answer_read()
            elif kind < 0.995:
                self.broker.run(self.now)
            elif not self.calm:
                raise PowerCutError
        except PowerCutError:
            self._come_back()
        except OSError:
            self._fail()
            self._come_back()
        self._drain_dirty()

    def _move(self) -> None:
        if self.zombies and self.chance(0.3):
            zombie = self.random.choice(self.zombies)
            self.late += 1
            if not zombie.step():
                self.zombies.remove(zombie)
            return
        if not self.calm and self.chance(0.01):
            if self.chance(0.7) and len(self.zombies) < 3:
                self.mover.can_write = self.chance(0.5)
                self.zombies.append(self.mover)
            self._begin_again()
        if not self.mover.step():
            self._begin_again()

    def _begin_again(self) -> None:
        self.kills += 1
        self.runs += 1
        self.mover = Mover(self, self.runs, self.checkpoint)

    def _send(self) -> None:
        try:
            next(self._sender)
        except Gone:
            self._sender = self._send_all()
        except StopIteration:
            return

    def _send_all(self) -> Steps:
        """What is not answered is not sent again: it may have come, or not."""
        link = Link(self, f"sender-{len(self.sent)}")
        while len(self.sent) < MESSAGES:
            text = f"m{len(self.sent):03}"
            self.sent.append(text)
            yield from link.answered(link.send(SOURCE, text, 0, {}))
            self.safe.add(text)

    def finish(self) -> list[str]:
        """No more faults: everything is moved; gives what came."""
        for _ in range(MAX_STEPS):
            self.step()
            if len(self.sent) == MESSAGES and self._is_moved():
                break
        else:
            raise AssertionError("the program does not come to its end")
        self.calm = True
        link = Link(self, "looks")
        shown = link.consumes(TARGET)
        for _ in range(1000):
            self._store_turn()
            self._answer_read()
            self.broker.run(self.now)
        return [text_of(message) for message, _ in shown.messages]

    def _is_moved(self) -> bool:
        if len(self.sent) == MESSAGES:
            self.calm = True
        pending = {view.destination: view.pending for view in self.broker.destination_views()}
        return pending.get(SOURCE.qualified_name, 0) == 0 and not self.safe.difference(self.sent)
