"""The state of a route on the disk: one SQLite database for each route.

SQLite keeps the changes of a batch together, and syncs them before it returns.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
from collections.abc import Callable
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
from spanwire.model.errors import MessageFormatError, StoreError

FORMAT: Final = 1  # PRAGMA user_version
SUFFIX: Final = ".routestate"
PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
PRIVATE: Final = 0o700
TABLES: Final = """
CREATE TABLE gathered (step INTEGER, key TEXT, first_ms INTEGER, message BLOB);
CREATE INDEX groups ON gathered (step, key);
CREATE TABLE keys (step INTEGER, key TEXT, UNIQUE (step, key));
CREATE TABLE recent (id TEXT UNIQUE);
"""

Answer = TypeVar("Answer")


class RouteStore:
    """The database of a route; calls run in a thread, one at a time."""

    def __init__(self, directory: Path, route: str) -> None:
        name = route if PLAIN_NAME.fullmatch(route) else hashlib.sha256(route.encode()).hexdigest()
        self.path: Final[Path] = directory / f"{name}{SUFFIX}"
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the database, and lock it against other processes. Raises `StoreError`."""
        await self._call(self._open)

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
            await asyncio.shield(asyncio.to_thread(database.close))

    async def _call(self, work: Callable[[], Answer]) -> Answer:
        try:
            return await asyncio.shield(asyncio.to_thread(work))  # a cancelled call ends before the database is closed
        except sqlite3.OperationalError as error:
            reason = "another process runs this route" if "locked" in str(error) else str(error)
            raise StoreError(f"{self.path}: {reason}") from None
        except (sqlite3.Error, MessageFormatError, OSError) as error:
            raise StoreError(f"{self.path}: {error}") from None

    def _open(self) -> None:
        self.path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN EXCLUSIVE")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in TABLES.strip().split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {FORMAT}")
            elif version != FORMAT:
                raise StoreError(f"{self.path}: its format {version} is that of a later version of Spanwire")
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        self._database = database

    @property
    def _open_database(self) -> sqlite3.Connection:
        assert self._database is not None, "the store is open"
        return self._database

    def _load(self) -> RouteState:
        state, database = RouteState(), self._open_database
        for step, key, first_ms, content in database.execute(
            "SELECT step, key, first_ms, message FROM gathered ORDER BY rowid"
        ):
            state.apply(Gathered(step, key, first_ms, decode_message(content)))
        for step, key in database.execute("SELECT step, key FROM keys ORDER BY rowid"):
            state.apply(KeySeen(step, key))
        state.remember([row[0] for row in database.execute("SELECT id FROM recent ORDER BY rowid")])
        return state

    def _store(self, changes: Changes) -> None:
        database = self._open_database
        database.execute("BEGIN")
        try:
            for change in changes.changes:
                at = (change.step, change.key)
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
