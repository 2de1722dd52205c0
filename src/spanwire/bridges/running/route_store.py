"""The state of a route on the disk: one SQLite database for each route.

SQLite keeps the changes of a batch together, and syncs them before it returns. A new database gets its name when its
tables are on the disk, so an empty file under the name is damaged.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from spanwire.bridges.engine.route_state import (
    MAX_RECENT,
    Changes,
    Completed,
    Gathered,
    KeyForgotten,
    KeySeen,
    RouteState,
)
from spanwire.bridges.running.stored_message import decode_message, encode_message
from spanwire.bridges.uncancelled import to_its_end
from spanwire.model.errors import MessageFormatError, StoreError
from spanwire.model.text import escaped

FORMAT: Final = 2  # PRAGMA user_version
WITHOUT_STEPS: Final = 1  # the format before the table of steps; its numbers were those of the route then
SUFFIX: Final = ".routestate"
NEW_SUFFIX: Final = ".new"  # of a database without all of its tables
PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
PRIVATE: Final = 0o700
TABLES: Final = """
CREATE TABLE gathered (step INTEGER, key TEXT, first_ms INTEGER, message BLOB);
CREATE INDEX groups ON gathered (step, key);
CREATE TABLE keys (step INTEGER, key TEXT, UNIQUE (step, key));
CREATE TABLE recent (id TEXT UNIQUE);
"""
STEPS: Final = "CREATE TABLE steps (number INTEGER PRIMARY KEY, name TEXT UNIQUE)"
UNNAMED: Final = """
INSERT INTO steps SELECT DISTINCT step, 'step ' || step FROM (SELECT step FROM gathered UNION SELECT step FROM keys)
WHERE step NOT IN (SELECT number FROM steps)
"""
GATHERED: Final = "SELECT name, count(*) FROM gathered JOIN steps ON step = number GROUP BY name ORDER BY name"
ORPHANS: Final = "SELECT count(*) FROM gathered WHERE step IS NULL OR step NOT IN (SELECT number FROM steps)"

Answer = TypeVar("Answer")


class RouteStore:
    """The database of a route; calls run in a thread, one at a time.

    Steps are stored by the names in ``steps``, so that a changed route finds the state of each remaining step.
    """

    def __init__(self, directory: Path, route: str, steps: Mapping[int, str]) -> None:
        """``steps`` are the names of `RouteProcessor.step_names`, by number."""
        self._route: Final = route
        self._steps: Final = steps
        self._stored: Final[dict[int, int]] = {}  # the numbers in the database by those of the route
        name = route if PLAIN_NAME.fullmatch(route) else hashlib.sha256(route.encode()).hexdigest()
        self.path: Final[Path] = directory / f"{name}{SUFFIX}"
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the database, and lock it against other processes.

        Raises:
            StoreError: also if messages were gathered by a step that the route does not have any more.
        """
        try:
            await self._call(self._open)
        except BaseException:
            await self.close()  # a cancelled call has opened the database nevertheless
            raise

    async def load(self) -> RouteState:
        """Return the stored state. Raises `StoreError`."""
        return await self._call(self._load)

    async def store(self, changes: Changes) -> None:
        """Store the changes of a batch together. After an error they may be stored. Raises `StoreError`."""
        await self._call(lambda: self._store(changes))

    async def close(self) -> None:
        """Close the database, without raising."""
        database, self._database = self._database, None
        if database is not None:
            await to_its_end(asyncio.to_thread(database.close))

    async def _call(self, work: Callable[[], Answer]) -> Answer:
        try:  # to the end: the database must not be closed, or opened again, under a working thread
            return await to_its_end(asyncio.to_thread(work))
        except sqlite3.OperationalError as error:
            reason = "another process runs this route" if "locked" in str(error) else escaped(str(error))
            raise StoreError(f"{self.path}: {reason}") from None
        except (sqlite3.Error, MessageFormatError, OSError) as error:
            raise StoreError(f"{self.path}: {escaped(str(error))}") from None
        except (
            KeyError,
            UnicodeDecodeError,
        ):  # a step of no number, and an error of SQLite with a name that is no text
            raise self._damaged("its tables do not fit together") from None

    def _open(self) -> None:
        self.path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if not self.path.exists():
            self._create()
        database = _locked(self.path)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > FORMAT:
                raise StoreError(
                    f"{self.path} has the format {version} of a newer Spanwire, and this one reads up to {FORMAT}: use "
                    "the newer one"
                )
            (fault,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if version < WITHOUT_STEPS or fault != "ok":
                raise self._damaged("its format is missing" if fault == "ok" else escaped(str(fault)))
            if version == WITHOUT_STEPS:
                database.execute(STEPS)
                database.executemany("INSERT INTO steps VALUES (?, ?)", self._steps.items())
                database.execute(UNNAMED)
                database.execute(f"PRAGMA user_version = {FORMAT}")
            self._take_steps(database)
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        self._database = database

    def _create(self) -> None:
        """Make a database with all tables under another name, and give it its name.

        A second process finds the lock taken, or the same file.
        """
        new = self.path.with_name(self.path.name + NEW_SUFFIX)
        with closing(_locked(new)) as database:
            if database.execute("PRAGMA user_version").fetchone() == (0,):
                for statement in f"{TABLES.strip()}\n{STEPS}".split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {FORMAT}")
            database.execute("COMMIT")
        with suppress(FileNotFoundError):  # another process was faster
            new.unlink() if self.path.exists() else new.rename(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _damaged(self, reason: str) -> StoreError:
        return StoreError(
            f"{self.path} is damaged: {reason}; restore it, or move it away, which gives up the messages in groups of "
            f"the route {self._route} and its known keys"
        )

    def _take_steps(self, database: sqlite3.Connection) -> None:
        """Give each step a number in the database.

        Raises `StoreError` for gathered messages of another step.
        """
        (orphans,) = database.execute(ORPHANS).fetchone()
        if orphans:
            raise self._damaged(f"{orphans} messages wait in groups of no step")
        for name, count in database.execute(GATHERED):
            if name not in self._steps.values():
                raise StoreError(
                    f"{self.path}: {count} messages wait in groups of a step that the route {self._route} lacks "
                    f"now: {escaped(name)}; put the step back until its groups are sent, or move the file away, "
                    "which gives up the messages"
                )
        names = [(name,) for name in self._steps.values()]
        database.executemany("INSERT OR IGNORE INTO steps (name) VALUES (?)", names)
        numbers = dict(database.execute("SELECT name, number FROM steps"))
        self._stored.update({number: numbers[name] for number, name in self._steps.items()})

    @property
    def _open_database(self) -> sqlite3.Connection:
        assert self._database is not None, "the store is open"
        return self._database

    def _load(self) -> RouteState:
        state, database = RouteState(), self._open_database
        own = {stored: number for number, stored in self._stored.items()}
        for step, key, first_ms, content in database.execute(
            "SELECT step, key, first_ms, message FROM gathered ORDER BY rowid"
        ):
            self._check(isinstance(key, str) and isinstance(first_ms, int) and isinstance(content, bytes))
            state.apply(Gathered(own[step], key, first_ms, decode_message(content)))
        for step, key in database.execute("SELECT step, key FROM keys ORDER BY rowid"):
            self._check(isinstance(key, str))
            if step in own:  # keys of a step that is gone wait for its return
                state.apply(KeySeen(own[step], key))
        recent = [row[0] for row in database.execute("SELECT id FROM recent ORDER BY rowid")]
        self._check(all(isinstance(one, str) for one in recent))
        state.remember(recent)
        return state

    def _check(self, is_right: bool) -> None:
        """Raise `StoreError` for a value of another type than its column's."""
        if not is_right:
            raise self._damaged("a value is of another type")

    def _store(self, changes: Changes) -> None:
        database = self._open_database
        database.execute("BEGIN")
        try:
            for change in changes.changes:
                at = (self._stored[change.step], change.key)
                if isinstance(change, Gathered):
                    row = (*at, change.first_ms, encode_message(change.message))
                    database.execute("INSERT INTO gathered VALUES (?, ?, ?, ?)", row)
                elif isinstance(change, Completed):
                    database.execute("DELETE FROM gathered WHERE step = ? AND key = ?", at)
                elif isinstance(change, KeySeen):
                    database.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", at)
                else:
                    assert isinstance(change, KeyForgotten)
                    database.execute("DELETE FROM keys WHERE step = ? AND key = ?", at)
            database.executemany("INSERT OR IGNORE INTO recent VALUES (?)", [(one,) for one in changes.recent])
            database.execute("DELETE FROM recent WHERE rowid <= (SELECT max(rowid) FROM recent) - ?", (MAX_RECENT,))
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def _locked(path: Path) -> sqlite3.Connection:
    """Open a database in a transaction that keeps other processes out until the connection is closed."""
    database = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN EXCLUSIVE")
    except BaseException:
        database.close()
        raise
    return database


async def refuse_left_state(directory: Path | None, name: str) -> None:
    """Refuse to run a bridge or route without state while messages wait in groups of its earlier steps.

    Raises:
        StoreError: messages wait, or the stored state is damaged or in use.
    """
    store = None if directory is None else RouteStore(directory, name, {})
    if store is not None and await asyncio.to_thread(store.path.exists):
        await store.open()
        await store.close()
