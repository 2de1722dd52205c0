"""Source and target over streams of Redis."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import Any, Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.redis.connection import (
    CLOSE_S,
    MAX_LENGTH,
    TAKE_OVER,
    TAKE_OVER_MS,
    RedisConnection,
)
from spanwire.bridges.providers.redis.messages import Fields, bridge_message, outgoing_fields, size_of
from spanwire.model.errors import JmsError, MessageFormatError

READ_COUNT: Final = 50  # entries of one read at most; Redis has no limit by bytes
READ_OCTETS: Final = 16 * 1024 * 1024  # octets that a read aims at, by the largest entry of the read before
BLOCK_MS: Final = 500  # milliseconds of one read without an entry
READ_END_S: Final = BLOCK_MS / 1_000 + 0.5  # seconds of a close for the read under way
ROOM_S: Final = 0.01  # seconds between two looks for room in the inbox
SHARE: Final = 3  # parts of the time for a take-over in which a bridge says once that entries are in work
NAME_BYTES: Final = 8  # of the random part of a consumer's name
MAX_NAMES: Final = 1_000  # consumers that are looked at for ones to remove
GROUP_EXISTS: Final = "BUSYGROUP"
IDLE_MS: Final = 86_400_000  # milliseconds for which an entry that is given back counts as idle: anybody may take it
REMOVE: Final = """\
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return 0
"""  # removes a consumer without entries in one step: with entries they would be lost
CLAIM: Final = """\
for place = 4, #ARGV do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[place], ARGV[place], 1, ARGV[2]) > 0 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[place], 'IDLE', ARGV[3], 'JUSTID')
  end
end
return 0
"""  # sets the idle time of a consumer's entries in one step: those that another one has taken over stay there
PREFIX: Final = "spanwire-"
BEGINNING: Final = b"0-0"  # of a stream, and of a group's entries without an acknowledgement

logger = logging.getLogger(__name__)

Entry = tuple[str, Fields, bool]  # id, fields, and whether it was delivered before


class RedisSource(SourceWithoutReplies):
    """A consumer of a group. It reads over one connection and acknowledges over another, because a read may wait."""

    def __init__(self, source: Source, credit: int) -> None:
        self._source: Final[Source] = source
        self._credit: Final[int] = credit
        self._stream: Final[str] = source.destination.name
        self._group: Final[str] = source.subscription or ""
        self._name: Final[str] = PREFIX + secrets.token_hex(NAME_BYTES)
        self._inbox: Final[Inbox[Entry]] = Inbox()
        self._reads: Final = RedisConnection(source.factory)
        self._requests: Final = RedisConnection(source.factory)
        self._take_over_ms: Final = int(self._requests.place.options.get(TAKE_OVER, TAKE_OVER_MS))
        self._held: Final[dict[str, int]] = {}  # octets of each entry without an acknowledgement, by id
        self._octets = 0  # sum of `_held`
        self._received: list[Entry] = []  # held entries that `receive` has returned
        self._count = 1  # entries of the next read; one at first, because their size is unknown
        self._cursor = BEGINNING  # place of the search for entries of killed bridges
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closing = False  # beside the cancellation of the tasks, which the library's wait_for may swallow

    async def open(self) -> None:
        """Connect, create the group at need, and read. A new group begins with the oldest entry."""
        await self._requests.open()
        await self._reads.open()
        try:
            await self._requests.ask("XGROUP", "CREATE", self._stream, self._group, "0", "MKSTREAM")
        except JmsError as error:
            if GROUP_EXISTS not in str(error):
                raise
        await self._remove_others()
        self._tasks = [asyncio.create_task(self._watched(work())) for work in (self._read, self._keep)]

    async def _watched(self, work: Any) -> None:
        try:
            await work
        except JmsError as error:
            self._inbox.fail(error)
        except Exception as error:  # noqa: BLE001 - an answer of an unknown form has to end the link
            self._inbox.fail(JmsError(f"{self._reads.place.shown}: an answer cannot be read: {error!r}"))

    async def _read(self) -> None:
        """Move entries to the inbox. Entries of killed bridges come first."""
        look_at = 0.0
        clock = asyncio.get_running_loop()
        while not self._is_closing:
            free = self._credit - len(self._held)
            if free <= 0 or self._octets >= MAX_OCTETS:
                await asyncio.sleep(ROOM_S)
                continue
            count = min(free, self._count)
            if clock.time() >= look_at:
                if not await self._take_over(count):
                    look_at = clock.time() + self._take_over_ms / 1_000 / SHARE
                continue
            answer = await self._reads.ask(
                *("XREADGROUP", "GROUP", self._group, self._name, "COUNT", count, "BLOCK", BLOCK_MS),
                *("STREAMS", self._stream, ">"),
            )
            for _, entries in answer or ():
                self._put(entries, False)

    async def _take_over(self, count: int) -> bool:
        """Take over entries whose bridge is gone. Returns False if there are no more."""
        self._cursor, entries, *_ = await self._reads.ask(
            "XAUTOCLAIM", self._stream, self._group, self._name, self._take_over_ms, self._cursor, "COUNT", count
        )
        self._put(entries, True)
        return self._cursor != BEGINNING

    def _put(self, entries: list[Any], is_redelivered: bool) -> None:
        """Put entries into the inbox, except for held ones. The next read is larger after small entries."""
        largest = 1
        for entry in entries:
            if entry is None or entry[1] is None:
                continue  # somebody has removed the entry from the stream
            key, pairs = entry[0].decode(), entry[1]
            if key in self._held:
                continue
            fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
            octets = size_of(fields)
            largest = max(largest, octets)
            self._held[key] = octets
            self._octets += octets
            self._inbox.put((key, fields, is_redelivered), octets)
        if entries:
            self._count = max(1, min(READ_COUNT, 2 * self._count, READ_OCTETS // largest))

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive entries without an acknowledgement."""
        entries = await self._inbox.take(max_messages, max_bytes, wait_s)
        self._received += entries
        return [bridge_message(self._stream, *entry) for entry in entries]

    async def acknowledge(self) -> None:
        """Acknowledge all received entries, and wait for the answer.

        Raises:
            JmsError: another bridge of the group has acknowledged some of them, after a stall of this one.
        """
        received, self._received = self._received, []
        self._inbox.check()
        if received:
            count = await self._requests.ask(*self._acknowledgement(received))
            self._forget(received)
            if count < len(received):
                raise JmsError(
                    f"{self._requests.place.shown}: another bridge has taken entries of {self._source.destination} "
                    "over after a stall of this one; with a slow target, set a larger takeOverMs"
                )

    def _acknowledgement(self, received: list[Entry]) -> tuple[object, ...]:
        return ("XACK", self._stream, self._group, *(key for key, _, _ in received))

    def _forget(self, received: list[Entry]) -> None:
        for key, _, _ in received:
            self._octets -= self._held.pop(key, 0)

    async def dead_letter(self, cause: str) -> None:
        """Add the last entry with its cause to the stream ``NAME.DLQ``, and acknowledge it, in one transaction."""
        received, self._received = self._received, []
        _, fields, _ = received[-1]
        notes = {CAUSE: cause_text(cause), ORIGIN: str(self._source.destination)}
        words: list[object] = ["XADD", self._stream + SUFFIX, "*"]
        for pair in (*fields.items(), *((name.encode(), text.encode()) for name, text in notes.items())):
            words += pair
        await self._requests.transact([tuple(words), self._acknowledgement(received)])
        self._forget(received)

    def check(self) -> None:
        """Raise `JmsError` if a connection is lost."""
        self._inbox.check()
        self._requests.check()

    async def close(self) -> None:
        """Give entries without an acknowledgement back, and close the connections.

        The close waits for the read under way, because its answer may have entries that the server has assigned to
        this consumer.
        """
        self._is_closing = True
        for task in self._tasks[1:]:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=READ_END_S)
            self._tasks[0].cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reads.close()
        with contextlib.suppress(JmsError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if self._held:
                    await self._set_idle(IDLE_MS)
                await self._remove(self._name)
        await self._requests.close()

    async def _keep(self) -> None:
        """Renew the claim to held entries, so that no other bridge takes them over while the target stalls."""
        while not self._is_closing:
            await asyncio.sleep(self._take_over_ms / 1_000 / SHARE)
            if self._held:
                await self._set_idle(0)

    async def _set_idle(self, idle_ms: int) -> None:
        words = (CLAIM, 1, self._stream, self._group, self._name, idle_ms, *self._held)
        await self._requests.ask("EVAL", *words)

    async def _remove_others(self) -> None:
        """Remove consumers of bridges that are gone, so that a group does not grow with each start."""
        with contextlib.suppress(JmsError):  # the user may not be allowed to
            for words in (await self._requests.ask("XINFO", "CONSUMERS", self._stream, self._group))[:MAX_NAMES]:
                found = dict(zip(words[::2], words[1::2], strict=False))
                name = found[b"name"].decode("utf-8", "replace")
                if name.startswith(PREFIX) and not found[b"pending"] and found[b"idle"] > IDLE_MS:
                    await self._remove(name)

    async def _remove(self, name: str) -> None:
        await self._requests.ask("EVAL", REMOVE, 1, self._stream, self._group, name)


class RedisTarget(TargetWithoutReplies):
    """A producer; each batch is a transaction of the server."""

    def __init__(self, target: Target) -> None:
        self._stream: Final[str] = target.destination.name
        self._connection: Final = RedisConnection(target.factory)

    async def open(self) -> None:
        """Connect. Warns of a server that stores messages in snapshots alone.

        Raises:
            JmsError: the connection fails, or the server loads its data and would refuse each batch.
        """
        await self._connection.open()
        persistence = b""
        with contextlib.suppress(JmsError):  # the user may not be allowed to
            persistence = bytes(await self._connection.ask("INFO", "persistence"))
        if b"loading:1" in persistence:
            raise JmsError(f"{self._connection.place.shown} loads its data and takes no messages yet")
        if b"aof_enabled:0" in persistence:
            logger.warning(
                "%s stores messages in snapshots alone, so a crash loses those since the last one; set appendonly",
                self._connection.place.shown,
            )

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Add a batch of entries as a whole, and wait for the answer."""
        limit = self._connection.place.options.get(MAX_LENGTH)
        bound = () if limit is None else ("MAXLEN", "~", limit)
        requests: list[tuple[object, ...]] = []
        for index, message in enumerate(messages):
            try:
                requests.append(("XADD", self._stream, *bound, "*", *outgoing_fields(message)))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        await self._connection.transact(requests)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()
