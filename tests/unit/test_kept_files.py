"""Damaged files of all kinds that are kept: the same content, a refusal in one line, or what is documented.

Files with a checksum keep their content or are refused. Of the others a changed digit cannot be told from a right one:
their content stays of its type, and is never empty.
"""

from __future__ import annotations

import asyncio
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.running.route_store import RouteStore
from spanwire.bridges.xa.records import Decision, read_lines
from spanwire.model.errors import ConfigurationError, StoreError
from spanwire.pipeline.archive.replay_note import read_note, read_starts, read_targets
from spanwire.pipeline.arrow.segments import StagingDirectory
from spanwire.pipeline.routes.route_state import open_state
from spanwire.pipeline.sink.xa_ledger_sink import Entry, entry_of
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.service.children.paused_bridges import FILE_NAME, PausedBridges
from spanwire.stores.epoch import epoch_in
from spanwire.stores.journal.recovery.recovery import recover
from spanwire.stores.journal.segments.patches import PLAN_NAME
from spanwire.stores.lock_file import holder_of
from spanwire.stores.offline.importing import ImportReader
from spanwire.stores.offline.repair import finish
from tests.simulation.disk import SimulatedDisk
from tests.support.plain_format import plain_formats
from tests.vectors.routes.make import STEPS, readable

VECTORS: Final = Path(__file__).resolve().parents[1] / "vectors"
ROUTE: Final = b'[{route: {id: kept, from: {uri: "activemq:queue:KEPT", steps: [{to: "activemq:queue:KEPT.OUT"}]}}}]'
SOURCE: Final = {"destination": "queue://KEPT", "selector": ""}
QUERY: Final = "0b8b3c1e-query"
REPLAY: Final = VECTORS / "checkpoints/replay-format-1"

Reader = Callable[[bytes], object]


class Kept:
    """A kind of file: good bytes, a reader of the content, and a check of a content that may differ."""

    def __init__(
        self, good: bytes, read: Reader, is_plausible: Callable[[object], bool] | None = None, may_be_cut: bool = False
    ) -> None:
        self.good: Final = good
        self.read: Final = read
        self.content: Final = read(good)
        self.is_plausible: Final = is_plausible or (lambda content: content == self.content)
        self.may_be_cut: Final = may_be_cut


def in_file(name: str, read: Callable[[Path], object], **others: bytes) -> Reader:
    """A reader of bytes through a file, which a refusal must leave alone."""

    def of(octets: bytes) -> object:
        with TemporaryDirectory() as folder:
            directory = Path(folder)
            for other, content in {**others, name: octets}.items():
                (directory / other).parent.mkdir(parents=True, exist_ok=True)
                (directory / other).write_bytes(content)
            try:
                return read(directory)
            except (ConfigurationError, StoreError):
                assert (directory / name).read_bytes() == octets
                raise

    return of


def paused(directory: Path) -> frozenset[str]:
    bridges = PausedBridges(directory)
    bridges.read()
    return bridges.names


def identity(directory: Path) -> object:
    (route,) = read_routes(ROUTE, "kept.yaml", Placeholders({}, {})).routes
    return open_state(directory, route).run_of(QUERY)


def first_batches(directory: Path) -> object:
    (route,) = read_routes(ROUTE, "kept.yaml", Placeholders({}, {})).routes
    state = open_state(directory, route)
    return [state.first_batch("orders", 99), state.first_batch("copies", 99)]


def staged(directory: Path) -> object:
    StagingDirectory(directory, SOURCE).close()
    return json.loads((directory / "source.json").read_bytes())["destination"]


def replayed(directory: Path) -> object:
    note = read_note(directory / "replay.json")
    assert note is not None
    return (dict(note.choice), note.run, note.total, note.sent, note.until, note.batch)


def gathered(directory: Path) -> object:
    async def scenario() -> dict[str, object]:
        store = RouteStore(directory, "kept", STEPS)
        try:
            await store.open()
            return readable(await store.load())
        finally:
            await store.close()

    return asyncio.run(scenario())


def sizes(state: object) -> list[int]:
    """The numbers of messages in all groups, and of keys and ids."""
    assert isinstance(state, dict)
    return [*sorted(len(group) for group in state["groups"].values()), len(state["keys"]), len(state["recent"])]


def decided(octets: bytes) -> list[str]:
    """The id of the log, and the decisions."""
    log_id, records = read_lines(octets, "log")
    return [log_id, *(record.transaction for record in records if isinstance(record, Decision))]


def completed(octets: bytes) -> object:
    disk = SimulatedDisk.holding(
        {"1.journal": b"bad", "1.journal.repaired": b"good", "2.journal": b"", PLAN_NAME: octets}
    )
    before = disk.contents()
    try:
        assert finish(disk)
    except StoreError:
        assert disk.contents() == before
        raise
    return disk.contents()


def exported(octets: bytes) -> object:
    return len(list(ImportReader(io.BytesIO(octets), "export", plain_formats()).items()))


def plan() -> bytes:
    text = b"put 1.journal\nremove 2.journal\n"
    return b"plan 2 %08x\n" % crc32(text) + text


def log() -> bytes:
    return (VECTORS / "decisions/format-1.octets").read_bytes()


def is_beginning(found: object) -> bool:
    """Of a log the last line may be lost: a crash can leave it half written."""
    assert isinstance(found, list)
    return bool(found) and found == decided(log())[: len(found)]


def is_entry(content: object) -> bool:
    return isinstance(content, Entry)


NOTE: Final = json.dumps({"format": 1, "source": "queue://KEPT", "run": "0123456789ab", "query": QUERY}).encode()
KINDS: Final = {
    "bridges.json": Kept(
        b'{"format": 1, "paused": ["orders", "stock"]}', in_file(FILE_NAME, paused), lambda found: bool(found)
    ),
    "route.json": Kept(NOTE, in_file("kept/route.json", identity), lambda found: isinstance(found, str)),
    "ledgers.json": Kept(
        b'{"orders": 3, "copies": 12}',
        in_file("kept/ledgers.json", first_batches, **{"kept/route.json": NOTE}),
        lambda found: isinstance(found, list) and all(isinstance(number, int) for number in found),
    ),
    "source.json": Kept(json.dumps({"format": 1, **SOURCE}).encode(), in_file("source.json", staged)),
    "replay.json": Kept(
        (REPLAY / "replay.json").read_bytes(), in_file("replay.json", replayed), lambda found: isinstance(found, tuple)
    ),
    "targets.json": Kept((REPLAY / "targets.json").read_bytes(), in_file("targets.json", read_targets), bool),
    "portions.json": Kept((REPLAY / "portions.json").read_bytes(), in_file("portions.json", read_starts), bool),
    "ledger queue": Kept(
        Entry(7, ("a:1", "b:2"), "queue://T", ("r1",)).text().encode(),
        lambda octets: entry_of(octets.decode("utf-8", "replace")),
        is_entry,
    ),
    "decisions.log": Kept(log(), decided, is_beginning, may_be_cut=True),
    "repair.plan": Kept(plan(), completed),
    "routestate": Kept(
        lzma.decompress((VECTORS / "routes/format-2.routestate.xz").read_bytes()),
        in_file("kept.routestate", gathered),
        lambda found: sizes(found) == [2, 2, 3, 2, 4],
    ),
}


def spoilt(octets: bytes) -> st.SearchStrategy[bytes]:
    """Bytes cut off, overwritten, removed, repeated or put in; more often where there is something."""
    busy = [index for index, octet in enumerate(octets) if octet]
    index = st.one_of(st.sampled_from(busy), st.integers(0, len(octets) - 1))
    some = st.one_of(
        st.binary(min_size=1, max_size=8), st.sampled_from([b"null", b"1e999", b"[", b'"', b"-1", b"{}", b"\n"])
    )
    return st.one_of(
        st.builds(lambda at: octets[:at], index),
        st.builds(lambda at, new: octets[:at] + new + octets[at + len(new) :], index, some),
        st.builds(lambda at, new: octets[:at] + new + octets[at:], index, some),
        st.builds(lambda at, count: octets[:at] + octets[at + count :], index, st.integers(1, 40)),
        st.builds(lambda at, count: octets[: at + count] + octets[at:], index, st.integers(1, 40)),
        st.builds(
            lambda at, bit: octets[:at] + bytes([octets[at] ^ 1 << bit]) + octets[at + 1 :], index, st.integers(0, 7)
        ),
        st.builds(lambda depth: b"[" * depth, st.sampled_from([1, 100_000])),
    )


def outcome(read: Reader, octets: bytes) -> tuple[object, str]:
    """The content, or the refusal."""
    try:
        return read(octets), ""
    except (ConfigurationError, StoreError) as refused:
        return None, str(refused) or "a refusal without a word"


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_damaged_file_is_refused_in_one_line_or_has_its_content(kind: str, data: st.DataObject) -> None:
    kept = KINDS[kind]
    content, refusal = outcome(kept.read, data.draw(spoilt(kept.good)))
    assert "\n" not in refusal
    assert refusal or kept.is_plausible(content), content


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "routestate"])  # it has a test of its own
def test_a_file_that_was_cut_off_anywhere_is_refused_in_one_line(kind: str) -> None:
    kept = KINDS[kind]
    size = len(kept.good)
    for length in [*range(min(100, size)), *range(100, size, max(1, size // 1_000))]:
        content, refusal = outcome(kept.read, kept.good[:length])
        assert "\n" not in refusal
        assert refusal or content == kept.content or (kept.may_be_cut and kept.is_plausible(content)), length


@given(st.binary(max_size=120))
def test_any_text_of_a_lock_or_an_epoch_names_somebody_or_nobody(text: bytes) -> None:
    assert epoch_in(text).number >= 0
    with TemporaryDirectory() as folder:
        (Path(folder) / "lock").write_bytes(text)
        assert holder_of(Path(folder)).process >= 0


def files_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        parts = {Path(entry.name).name: opened.extractfile(entry) for entry in opened if entry.isfile()}
        return {name: part.read() for name, part in parts.items() if part is not None}


def recovered(files: dict[str, bytes]) -> tuple[object, bool]:
    """Metadata and the numbers of messages in a journal, and True if its last write is cut off."""
    recovery = recover(SimulatedDisk.holding(files))
    lines = {line.destination.qualified_name: list(line.sequences) for line in recovery.destinations()}
    is_cut = any("ends with an incomplete write" in warning for warning in recovery.warnings)
    return (recovery.metadata(), lines), is_cut


@pytest.mark.parametrize("archive", ["metadata/tables-16-numbers", "directories/format-3-tables-16"])
@given(st.data())
def test_a_damaged_journal_is_refused_or_has_its_content_but_for_its_last_write(
    archive: str, data: st.DataObject
) -> None:
    files = files_of(VECTORS / f"{archive}.tar.xz")
    expected, _ = recovered(files)
    name = data.draw(st.sampled_from(sorted(files)))

    def read(octets: bytes) -> object:
        content, is_cut = recovered({**files, name: octets})
        return expected if is_cut else content

    content, refusal = outcome(read, data.draw(spoilt(files[name])))
    assert "\n" not in refusal
    assert refusal or content == expected
