"""How long one turn of the loop takes while transactions at their limit are committed and rolled back, the parts of
staged batches are dropped, scheduled messages are browsed and removed, and slow consumers lose messages.

    python -m tests.soak.commit_turns --count 100000

One STOMP client sends in a transaction and commits; another takes all of it in a transaction, aborts that, takes it
again and commits. A third stages 10,000 parts for each request that drops them, and a fourth schedules messages. A
twentieth of ``--count`` slow consumers of a topic leave a dead letter for each message that they lose.

Everything runs in this process with a journal on real files; the processor time of this thread is counted for each
turn, which a busy machine does not change much. Prints a line of JSON for each phase: turns, and the longest three in
milliseconds. Status 1 when one took longer than 20.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import MAX_PREFETCH
from spanwire.broker.exactly_once.sinks import MAX_STAGED_PARTS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.broker.topic.pending_eviction import MAX_OVERDUE
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.environment import Time
from spanwire.model.message import Message
from spanwire.model.units import MIB
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from spanwire.protocols.stomp.message_format import stomp_formats
from spanwire.service.machine.interpreter import settle_interpreter
from spanwire.stores.driver.journal_store import JournalStore
from tests.support.loop import PostedCalls
from tests.support.stomp_dialogue import DialogueEnvironment

CONTROL: Final = "/queue/ActiveMQ.Spanwire.Control"
LIMIT_MS: Final = 20.0  # that nothing may hold the loop
PIECE: Final = 64 * 1024  # bytes that one read gives
SLOW: Final = TopicPolicy(pending_limit=PendingLimit(1))
CONSUMERS: Final = 1_000  # of one connection


class World:
    """A broker with its journal, stepped turn by turn."""

    def __init__(self, directory: Path) -> None:
        self.environment = DialogueEnvironment()
        self._calls: Final = PostedCalls()
        formats = MessageFormats(stomp_formats())
        self.store = JournalStore.open(
            directory, formats, self._stored, self._fetched, _failed, self._calls.post, sync=False
        )
        self.broker = Broker(
            "turns",
            "ID:turns",
            self.environment,
            self.store.store,
            formats,
            BrokerSettings(
                limits=UsageLimits(memory_bytes=2048 * MIB),
                scheduler=SchedulerSettings(),
                policies=PolicyMap([PolicyEntry(Destination(TOPIC, "SLOW"), topic=SLOW)]),
            ),
        )
        self.broker.recover(self.store.recovered, self.store.clean, self.now)
        self.store.start()
        self.clients: list[StompBrokerConnection] = []
        self.received: dict[StompBrokerConnection, list[bytes]] = {}
        self.turns: list[float] = []

    @property
    def now(self) -> Time:
        return self.environment.now()

    def _stored(self, position: int) -> None:
        self.broker.stored(position, self.now)

    def _fetched(self, request: int, messages: list[Message | None]) -> None:
        self.broker.on_fetched(request, messages, self.now)

    def client(self, name: str) -> StompBrokerConnection:
        made = StompBrokerConnection(self.broker, ConnectionSettings(), self.now)
        self.clients.append(made)
        self.received[made] = []
        made.receive_data(f"CONNECT\naccept-version:1.2\nhost:h\nclient-id:{name}\n\n\0".encode(), self.now)
        return made

    def turn(self, work: Callable[[], None] | None = None) -> None:
        """One turn of the loop: a read, posted calls, jobs, output, the journal."""
        before = time.thread_time()
        if work is not None:
            work()
        self._calls.run_all()
        if self.broker.next_timeout() == 0.0:
            self.broker.run(self.now)
        for client in self.clients:
            if client.holds_requests:
                client.go_on(self.now)
            self.received[client].extend(client.data_to_send())
            client.unsent(0)
        self.broker.take_dirty()
        self.environment.monotonic += 0.001
        self.store.turn(self.environment.monotonic)
        self.turns.append((time.thread_time() - before) * 1000)

    def feeds(self, client: StompBrokerConnection, data: bytes) -> None:
        """What a client sends arrives in pieces, one in each turn."""
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            while client.holds_requests:
                self.turn()
            self.turn(lambda piece=piece: client.receive_data(piece, self.now))  # type: ignore[misc]

    def waits_for(self, client: StompBrokerConnection, what: bytes, count: int = 1) -> bytes:
        """Turns until ``what`` has come so often; gives all that came."""
        while True:
            got = b"".join(self.received[client])
            if got.count(what) >= count:
                self.received[client].clear()
                return got
            self.turn()
            if self.broker.next_timeout() != 0.0:
                time.sleep(0.0002)

    def phase(self, name: str, work: Callable[[], object]) -> float:
        """The longest turn while ``work`` is done."""
        self.turns = []
        work()
        longest = sorted(self.turns)[-3:]
        line = {"phase": name, "turns": len(self.turns), "longest_ms": [round(one, 1) for one in longest]}
        print(json.dumps(line), flush=True)
        return longest[-1]


def _failed(error: Exception) -> None:
    raise error


def run(count: int, directory: Path) -> float:
    """All phases; gives the longest turn of those that end a transaction."""
    world = World(directory)
    settle_interpreter()
    sender, taker = world.client("sender"), world.client("taker")
    sends = b"".join(
        b"SEND\ndestination:/queue/Q\npersistent:true\ntransaction:t\n\n%0100d\0" % number for number in range(count)
    )
    world.phase("send", lambda: world.feeds(sender, b"BEGIN\ntransaction:t\n\n\0" + sends))
    found = [world.phase("commit of sends", lambda: ended(world, sender, b"COMMIT\ntransaction:t\nreceipt:sent\n\n\0"))]
    window = min(count, MAX_PREFETCH)
    options = f"ack:client-individual\nactivemq.prefetchSize:{window}"
    head = f"SUBSCRIBE\nid:1\ndestination:/queue/Q\n{options}\n\n\0"
    taken: list[bytes] = []

    def take() -> None:
        world.feeds(taker, head.encode())
        got = world.waits_for(taker, b"MESSAGE\n", window)
        taken.extend(line[4:] for line in got.split(b"\n") if line.startswith(b"ack:"))

    world.phase("take", take)
    order = taken[::2] + taken[1::2]
    acks = b"".join(b"ACK\nid:%s\ntransaction:t\n\n\0" % one for one in order)
    world.phase("acknowledge", lambda: world.feeds(taker, b"BEGIN\ntransaction:t\n\n\0" + acks))
    found.append(world.phase("abort", lambda: ended(world, taker, b"ABORT\ntransaction:t\nreceipt:sent\n\n\0")))
    world.phase("acknowledge again", lambda: world.feeds(taker, b"BEGIN\ntransaction:t\n\n\0" + acks))
    end = b"COMMIT\ntransaction:t\nreceipt:sent\n\n\0"
    found.append(world.phase("commit of acknowledgements", lambda: ended(world, taker, end)))
    world.feeds(taker, b"BEGIN\ntransaction:u\n\n\0" + sends.replace(b"transaction:t", b"transaction:u"))
    found.append(world.phase("loss of a connection", lambda: gone(world, taker)))
    found += drops_parts(world, min(count, MAX_STAGED_PARTS))
    found += commits_batch(world, 10 * count)
    found += browses(world, count)
    found += loses(world, count // 20)
    world.store.stop()
    return max(found)


def drops_parts(world: World, parts: int) -> list[float]:
    """The longest turn of each request that drops staged parts."""
    program = world.client("program")
    ask = f"SEND\ndestination:{CONTROL}\nreply-to:/temp-queue/answers\nquery:q\nbatch:1\nreceipt:sent\n"
    ended(world, program, f"{ask}action:begin\nrun:r0\n\n\0".encode())
    found = []
    for number, action, more in ((1, "abort", ""), (1, "begin", "run:r1\n"), (2, "forget", "")):  # number: the epoch
        stages = b"".join(
            b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/OUT\npersistent:true\ntransaction:t\n\nx\0"
            b"SEND\ndestination:%s\ntransaction:t\naction:stage\nquery:q\nbatch:1\nepoch:%d\npartition:%d\nattempt:0\n\n\0"
            b"COMMIT\ntransaction:t\n\n\0" % (CONTROL.encode(), number, part)
            for part in range(parts)
        )
        world.phase(f"stage {parts} parts", lambda stages=stages: world.feeds(program, stages))  # type: ignore[misc]
        request = f"{ask}action:{action}\nepoch:{number}\n{more}\n\0".encode()
        found.append(world.phase(action, lambda request=request: ended(world, program, request)))  # type: ignore[misc]
    return found


def commits_batch(world: World, count: int) -> list[float]:
    """The longest turn of the commit, and of the abort, of a staged batch of so many messages."""
    program = world.client("large")
    ask = f"SEND\ndestination:{CONTROL}\nreply-to:/temp-queue/answers\nquery:large\nepoch:1\nreceipt:sent\n"
    ended(world, program, f"{ask}action:begin\nrun:r0\n\n\0".encode())
    send = b"SEND\ndestination:/queue/LARGE\npersistent:true\ntransaction:t\n\n%0100d\0"
    many = min(count, 10_000)
    piece = b"BEGIN\ntransaction:t\n\n\0" + b"".join(send % number for number in range(many))
    part = "query:large\nepoch:1\npartition:0\nattempt:0\n"
    stage = f"SEND\ndestination:{CONTROL}\ntransaction:t\naction:stage\n{part}"
    found = []
    for batch, action in enumerate(("commit", "abort")):
        request = f"{stage}batch:{batch}\n\n\0COMMIT\ntransaction:t\nreceipt:sent\n\n\0".encode()
        for _ in range(count // many):
            world.feeds(program, piece)
            ended(world, program, request)
        request = f"{ask}action:{action}\nbatch:{batch}\n\n0 0 {count // many * many}\0".encode()
        name = f"{action} of a batch of {count}"
        found.append(world.phase(name, lambda request=request: ended(world, program, request)))  # type: ignore[misc]
    return found


def browses(world: World, count: int) -> list[float]:
    """The longest turn of each request about scheduled messages."""
    planner = world.client("planner")
    sends = b"".join(
        b"SEND\ndestination:/queue/LATER\npersistent:true\nAMQ_SCHEDULED_DELAY:%d\n\nx\0"
        % (3_600_000 + number * 7919 % count)
        for number in range(count)
    )
    world.phase("schedule", lambda: world.feeds(planner, sends))
    ask = "SEND\ndestination:/topic/ActiveMQ.Scheduler.Management\nreceipt:sent\nreply-to:/temp-queue/copies\n"
    found = []
    for action in ("BROWSE", "REMOVEALL"):
        request = f"{ask}AMQ_SCHEDULER_ACTION:{action}\n\n\0".encode()
        found.append(world.phase(action, lambda request=request: ended(world, planner, request)))  # type: ignore[misc]
    return found


def loses(world: World, consumers: int) -> list[float]:
    """The longest turn while slow consumers come, fall behind, and lose a message for each further one."""
    clients = [world.client(f"slow{number}") for number in range(consumers // CONSUMERS)]
    head = "SUBSCRIBE\nid:%d\ndestination:/topic/SLOW\nack:client-individual\nactivemq.prefetchSize:1\n\n\0"

    def come() -> None:
        for client in clients:
            world.feeds(client, "".join(head % number for number in range(CONSUMERS)).encode())

    producer = world.client("producer")
    send = b"SEND\ndestination:/topic/SLOW\npersistent:true\nreceipt:sent\n\n%0100d\0"

    def sends(count: int) -> None:
        world.feeds(producer, b"".join(send % number for number in range(count)))
        world.waits_for(producer, b"receipt-id:sent", count)

    def commits() -> None:
        send = b"SEND\ndestination:/topic/SLOW\npersistent:true\ntransaction:t\n\nx\0"
        world.feeds(producer, b"BEGIN\ntransaction:t\n\n\0" + send * 5)
        world.feeds(producer, b"COMMIT\ntransaction:t\nreceipt:sent\n\n\0")
        world.waits_for(producer, b"receipt-id:sent")
        while world.broker.awaits_disk():
            world.turn()

    world.phase("slow consumers come", come)
    found = [world.phase("they fall behind", lambda: sends(MAX_OVERDUE + 2))]
    found.append(world.phase("they lose others", lambda: sends(5)))
    found.append(world.phase("they lose others for a commit", commits))
    return found


def ended(world: World, client: StompBrokerConnection, frame: bytes) -> None:
    world.feeds(client, frame)
    world.waits_for(client, b"receipt-id:sent")
    while world.broker.next_timeout() == 0.0:
        world.turn()


def gone(world: World, client: StompBrokerConnection) -> None:
    world.clients.remove(client)
    world.turn(lambda: client.receive_eof(world.now))
    while world.broker.next_timeout() == 0.0:
        world.turn()


def main() -> int:
    """Return 1 if a turn took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    count: int = parser.parse_args().count
    print(version_text(), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        longest = run(count, Path(directory))
    return 1 if longest > LIMIT_MS else 0


if __name__ == "__main__":
    sys.exit(main())
