"""Stores the decisions of all bridges of a process; simultaneous decisions share one sync of the disk."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from spanwire.bridges.uncancelled import to_its_end
from spanwire.bridges.xa.decisions import Decisions
from spanwire.bridges.xa.log_file import LogStorage
from spanwire.bridges.xa.records import Decision, Done, Heuristic, Record, header_line, read_lines, record_line
from spanwire.model.errors import StoreError
from spanwire.model.units import MIB

ID_BYTES: Final = 6  # of a log's id; two logs with branches at one broker must not have the same
MAX_FILE_BYTES: Final = MIB  # bytes; a larger file is written anew, without what is carried out


class DecisionLog:
    """The log of one process.

    After an error nobody knows whether the last records are stored. All calls fail then until `repair` has read the
    file again, so that the file decides.
    """

    def __init__(self, storage: LogStorage, where: object) -> None:
        """Open the log, or begin a new log. ``where`` names the log in errors.

        Raises:
            StoreError: the file is damaged or cannot be written, or another process uses the file.
        """
        self._storage: Final[LogStorage] = storage
        self._where: Final[object] = where
        self._turn: Final = asyncio.Lock()
        self._unwritten: list[Record] = []
        self._taken = 0  # records so far, of which …
        self._stored = 0
        self._epoch = 0  # repairs
        self._broken: str | None = None
        self._size = 0
        try:
            self._decisions = self._read()
        except BaseException:
            storage.close()
            raise
        self.log_id: Final[str] = self._decisions.log_id

    def pending(self, bridge: str) -> list[Decision]:
        """Return the decisions of a bridge that are not carried out as far as known."""
        return self._decisions.of_bridge(bridge)

    def is_decided(self, transaction: str) -> bool:
        """Return True if the decision is to commit."""
        return transaction in self._decisions.pending

    async def decide(self, decision: Decision) -> None:
        """Store a decision. After an error the decision may be stored.

        Raises:
            StoreError: the file cannot be written.
        """
        self._take(decision)
        await self._write()

    async def report(self, heuristic: Heuristic) -> None:
        """Store a heuristic outcome. Raises `StoreError`."""
        self._take(heuristic)
        await self._write()

    def finish(self, transaction: str) -> None:
        """Note that a decision is carried out; the note is stored with the next decision.

        A lost note costs nothing: the recovery finds no branch.
        """
        if self._broken is None:
            self._take(Done(transaction))

    async def repair(self) -> None:
        """Read the file again after an error. Raises `StoreError`."""
        async with self._turn:
            if self._broken is not None:
                self._decisions = await to_its_end(asyncio.to_thread(self._read))
                self._unwritten.clear()
                self._epoch += 1
                self._broken = None

    def close(self) -> None:
        """Store the last notes, and close the file."""
        try:
            if self._broken is None and self._unwritten:
                self._storage.append(record_line(self._unwritten))
        except OSError as error:
            self._broken = str(error)
        self._storage.close()

    def _take(self, record: Record) -> None:
        if self._broken is not None:
            raise StoreError(self._broken)
        self._decisions.add(record)
        self._unwritten.append(record)
        self._taken += 1

    async def _write(self) -> None:
        """Store all records taken so far, unless another call has done so meanwhile."""
        number, epoch = self._taken, self._epoch
        async with self._turn:
            if epoch == self._epoch and self._stored >= number:
                return
            if self._broken is not None or epoch != self._epoch:
                raise StoreError(self._broken or f"{self._where}: an earlier record could not be written")
            records, self._unwritten = self._unwritten, []
            last = self._taken
            whole = _encoded(self._decisions) if self._size > MAX_FILE_BYTES else None
            try:
                await to_its_end(asyncio.to_thread(self._store, records, whole))
            except OSError as error:
                self._broken = f"{self._where}: cannot be written: {error.strerror or error}"
                raise StoreError(self._broken) from None
            except BaseException:  # cancelled, and the thread has ended before the file is read again or closed
                self._broken = f"{self._where}: a write was interrupted"
                raise
            self._stored = last

    def _store(self, records: list[Record], whole: bytes | None) -> None:
        octets = record_line(records) if whole is None else whole
        if whole is None:
            self._storage.append(octets)
            self._size += len(octets)
        else:
            self._storage.replace(octets)
            self._size = len(octets)

    def _read(self) -> Decisions:
        """Read the file, and write the records anew: all are on the disk then, and a damaged end is gone."""
        try:
            octets = self._storage.open()
            if octets is None:
                decisions = Decisions(secrets.token_hex(ID_BYTES))
            else:
                decisions = Decisions(*read_lines(octets, self._where))
            whole = _encoded(decisions)
            self._storage.replace(whole)
        except OSError as error:
            raise StoreError(f"{self._where}: cannot be opened: {error.strerror or error}") from None
        self._size = len(whole)
        return decisions


def _encoded(decisions: Decisions) -> bytes:
    records = decisions.records()
    return header_line(decisions.log_id) + (record_line(records) if records else b"")
