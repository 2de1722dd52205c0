"""Fuzz what brokers, programs and files tell in documents: any bytes are read, left out, or refused in one line.

python tests/fuzz/fuzz_documents.py [COUNT [SEED]]      seeded damage to documents; atheris if it is installed
python tests/fuzz/fuzz_documents.py -atheris_runs=N     atheris and its own options

Each input goes to all readers: members of gossip, observations of traces, statuses of pipelines, progress of a replay,
the state of a route, decisions of bridges, values of AMQP, definitions of a broker.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.amqp import codec
from spanwire.bridges.running.stored_message import LENGTH, decode_message, encode_message
from spanwire.bridges.xa.branches import Side
from spanwire.bridges.xa.records import Decision, Done, Heuristic, Record, header_line, read_lines, record_line
from spanwire.management.definitions.document import from_toml, to_toml
from spanwire.management.operations.replays import ROUTE, ReplayTasks
from spanwire.management.questions.pipeline_batches import _routes
from spanwire.management.questions.traces import MAX_BROKERS, Trace, mark_settings
from spanwire.management.tasks import Tasks
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, MessageFormatError, StoreError
from spanwire.model.message_view import TEXT
from spanwire.network.gossip.kept_members import MAX_KEPT, recalled
from spanwire.network.gossip.members import MAX_GOSSIP_BYTES, Members
from spanwire.network.reports.trace_rows import MAX_ROWS, merged, read_answer, with_offsets
from spanwire.pipeline.archive.replay_note import read_note, read_starts, read_targets
from tests.fuzz.harness import run
from tests.support.bridge_dialogue import Content

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 1.0  # one document with all readers, interpreted, on a busy machine
NOW_MS: Final = 1_700_000_000_000
ODD: Final[tuple[object, ...]] = (
    None, True, False, 0, -1, 1.5, 1e308, -0.0, 5e-324, float("nan"), float("inf"), 1 << 53, -(1 << 63), 10**400, "",
    "x" * 1_000, "\0", "\ud800", "é\n", "tcp://10.0.0.1:1", "queue://Q", "NaN", [], {}, [[]], [0, 0, 1, 0], {"": None},
)  # fmt: skip
PIECES: Final = (
    b'{|}|[|]|"|\\|,|:|null|true|1e400|-|NaN|Infinity|1E-400|\x00|\xff|\xed\xa0\x80|\\ud800|\\u0000|99999999999999999999|'
    b"[[[[[[[[[[[[[[[[|\n|\r\n|[a.b]|= 1|'''|"
    b'"""|\x00\x53\x75|\xd0\x00\x00\x00\xff|\xc1\x02\x02|\xf0|\xe0\x02\xff\x40|\xa1\xff|\x45'
).split(b"|")

Reader = Callable[[bytes], object]


class Statuses:
    """One published status."""

    def __init__(self, text: str) -> None:
        self._text = text

    def rows(self, state: None) -> list[dict[str, object]]:
        return [{"status": self._text, "run": "r", "user": "u", "pipeline": "p", "ageMs": 1}]

    def stop_run(self, run: str) -> bool:
        return False


class Clock:
    """Stands still."""

    def now(self) -> Time:
        return Time(100.0, NOW_MS)


class Target:
    """All readers, and documents that they read whole."""

    def __init__(self) -> None:
        self._folder: Final = tempfile.TemporaryDirectory()
        self._state: Final = Path(self._folder.name)
        self.readers: Final[tuple[Reader, ...]] = (
            self.gossip, self.kept, self.trace, self.status, self.note, self.stored_message, self.decisions, self.amqp,
            self.definitions,
        )  # fmt: skip
        self.samples: Final = self._samples()
        self.refused = 0
        self.reason = ""  # of the last refusal

    def _samples(self) -> list[bytes]:
        members = Members("a", "ID:a")
        members.addresses = ("tcp://10.0.0.1:61616",)
        row = {"name": "b", "id": "ID:b", "age_s": 1.5, "addresses": ["tcp://10.0.0.2:61616", "ssl://b:61617"]}
        members.add(json.dumps({"brokers": [row]}), "b", 0.0)
        step = {
            "kind": "observation",
            "broker": "b",
            "teller": "b",
            "number": 1,
            "message_id": "ID:x",
            "time_ms": NOW_MS,
        }
        state = {"kind": "broker", "broker": "b", "id": "ID:b", "time_ms": NOW_MS, "offset_ms": -3, "uncertain_ms": 1}
        route = {"route": ROUTE, "rows": 1, "total": 9, "rows_per_s": 0.5, "state": "running", "source": "/data"}
        status = {"host": "h", "routes": [{**route, "cursor": "c", "ranges": [[1, 0, 9, NOW_MS]]}], "started_at_ms": 1}
        note = {
            "choice": {"archive": "/data"}, "run": "0123456789ab", "total": 100, "sent": 0, "until": 10, "batch": 0,
            "forgotten": False, "undone": False, "removed": 0,
        }  # fmt: skip
        message = BridgeMessage("ID:1", TEXT, Content("text"), 9)
        decided: list[Record] = [Decision("bridge:1:2", "b", "tcp://a:1", "tcp://b:1", 7, NOW_MS), Done("bridge:1:1")]
        heuristic = Heuristic("bridge:1:3", "b", next(iter(Side)), "rolled back", NOW_MS)
        values = codec.write(
            (codec.MAP, [((codec.STRING, "a"), (codec.LIST, [(codec.LONG, 7), (codec.BINARY, b"x" * 300)]))])
        )
        return [
            members.tell(0.0).encode(),
            b'{"b":"tcp://10.0.0.2:61616","c":["ssl://c:1",7]}',
            json.dumps({"rows": [state, step, {**step, "number": 2}]}).encode(),
            json.dumps(status).encode(),
            json.dumps(note).encode(),
            encode_message(message),
            header_line("5f0c") + record_line([*decided, heuristic]),
            values,
            b'format = "spanwire-definitions"\nversion = 1\nbroker = "b"\n[[queue]]\nname = "A"\n',
        ]

    def run(self, data: bytes) -> None:
        """Give a document to each reader."""
        self.give(data, *self.readers)

    def give(self, data: bytes, *readers: Reader) -> None:
        """Give a document to some readers."""
        for reader in readers:
            started = time.process_time()
            try:
                reader(data)
            except (ConfigurationError, MessageFormatError, StoreError) as error:
                self.refused += 1
                self.reason = str(error)
            assert "\n" not in self.reason, f"{reader.__name__}: {data!r}"
            assert time.process_time() - started < SLOWEST_SECONDS, f"{reader.__name__} is too slow: {data!r}"

    def gossip(self, data: bytes) -> None:
        members = Members("a", "ID:a")
        members.add(data, "b", 0.0)
        assert len(members.tell(1.0)) <= MAX_GOSSIP_BYTES

    def kept(self, data: bytes) -> None:
        found = recalled(data)
        assert len(found) <= MAX_KEPT
        assert recalled(json.dumps(found).encode()) == found

    def trace(self, data: bytes) -> None:
        rows = merged(with_offsets(read_answer(data.decode("utf-8", "replace")), "b", NOW_MS, NOW_MS + 5))
        assert len(rows) <= MAX_ROWS
        trace = Trace(mark_settings({"id": "t", "destination": "queue://Q"}), 0, everywhere=True)
        trace.take(rows)
        assert len(trace.after) <= MAX_BROKERS
        json.dumps([trace.rows, trace.brokers])

    def status(self, data: bytes) -> None:
        statuses = Statuses(data.decode("utf-8", "replace"))
        tasks = Tasks(Clock())
        ReplayTasks(statuses, Clock(), tasks)
        json.dumps(list(tasks.views()), allow_nan=False)
        json.dumps(list(_routes(statuses.rows(None)[0])), allow_nan=False)

    def note(self, data: bytes) -> None:
        path = self._state / "targets.json"
        path.write_bytes(data)
        for read in (lambda: read_note(path), lambda: read_targets(self._state)):
            try:
                read()
            except ConfigurationError as error:
                self.refused += 1
                lines = str(error).splitlines()
                if len(lines) != 1:
                    raise AssertionError(f"the reason of a refusal has {len(lines)} lines") from error
        path.replace(self._state / "portions.json")
        read_starts(self._state)

    def stored_message(self, data: bytes) -> None:
        message = decode_message(data)
        assert decode_message(encode_message(message)).message_id == message.message_id

    def decisions(self, data: bytes) -> None:
        read_lines(data, "decisions")

    def amqp(self, data: bytes) -> None:
        _, end = codec.read(data)
        assert codec.value_end(data, 0) == end

    def definitions(self, data: bytes) -> None:
        document = from_toml(data, "definitions.toml")
        assert from_toml(to_toml(document).encode(), "again").items == document.items


def damaged(source: random.Random, sample: bytes, samples: list[bytes]) -> bytes:
    """A document with pieces put in, cut out, doubled or taken from another one; with right sums, mostly."""
    data = bytearray(sample)
    for _ in range(source.randrange(1, 5)):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.randrange(40))
        kind = source.randrange(5)
        if kind == 0:
            data[start:start] = source.choice(PIECES) * source.choice((1, 1, 1, 1, 50, 2_000))
        elif kind == 1:
            del data[start:end]
        elif kind == 2:
            data[start:end] = bytes(data[start:end]) * 2
        elif kind == 3:
            data[start : start + 1] = bytes((source.randrange(256),))
        else:
            other = source.choice(samples)
            cut = source.randrange(len(other))
            data[start:end] = other[cut : cut + 200]
    return summed(bytes(data)) if source.random() < 0.5 else bytes(data)


def rearranged(source: random.Random, sample: bytes, samples: list[bytes]) -> bytes:
    """A document in JSON in which values are exchanged for odd ones."""
    data = sample
    head, tail = b"", b""
    if data[9:10] == b"[":  # a line of decisions behind its sum
        line, _, tail = data.partition(b"\n")
        if source.random() < 0.7 and tail:
            head, line, tail = line + b"\n", tail.rstrip(b"\n"), b""
        data = line[9:]
    elif data[:2] == b"\0\0":  # a stored message
        (length,) = LENGTH.unpack_from(data)
        tail, data = data[LENGTH.size + length :], data[LENGTH.size : LENGTH.size + length]
        return _with_length(json.dumps(exchanged(source, json.loads(data))).encode()) + tail
    try:
        content = json.loads(data)
    except ValueError:
        return damaged(source, sample, samples)
    for _ in range(source.randrange(1, 4)):
        content = exchanged(source, content)
    text = json.dumps(content).encode()
    return head + summed(b"00000000 " + text + b"\n") + tail if head or tail else text


def exchanged(source: random.Random, content: object) -> object:
    """The content with one of its values in place of another."""
    if isinstance(content, dict) and content and source.random() < 0.9:
        name = source.choice(list(content))
        return {**content, name: exchanged(source, content[name])}
    if isinstance(content, list) and content and source.random() < 0.9:
        index = source.randrange(len(content))
        return [*content[:index], exchanged(source, content[index]), *content[index + source.randrange(2) :]]
    odd = source.choice(ODD)
    return [odd] * source.choice((1, 2_000)) if source.random() < 0.02 else odd


def summed(data: bytes) -> bytes:
    """The lines that look like lines of decisions, with right sums."""
    lines = [b"%08x %s" % (crc32(one[9:]), one[9:]) if one[8:9] == b" " else one for one in data.split(b"\n")]
    return b"\n".join(lines)


def _with_length(octets: bytes) -> bytes:
    return LENGTH.pack(len(octets)) + octets


TARGET: Final = Target()


def loop(source: random.Random, count: int) -> str:
    """Damaged documents."""
    logging.disable()  # a line for each damaged record is right, and too many here
    for _ in range(count):
        one(source)
    return f"documents: {count} documents for {len(TARGET.readers)} readers, {TARGET.refused} refused"


def one(source: random.Random) -> None:
    """Damage a document, for its reader and any other."""
    index = source.randrange(len(TARGET.samples))
    change = damaged if source.random() < 0.5 else rearranged
    data = change(source, TARGET.samples[index], TARGET.samples)
    TARGET.give(data, TARGET.readers[index], source.choice(TARGET.readers))


if __name__ == "__main__":
    sys.exit(run(sys.argv, TARGET.run, DEFAULT_COUNT, loop))
