"""The authorization map of a directory: read before clients come, and again from time to time.

An unreadable map changes no rights; before the first map no user has rights.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap, user_entry
from spanwire.ldap.right import QUEUES, TEMPORARY, Right, Rights
from spanwire.model.destination import QUEUE, TOPIC, Destination, check_name
from spanwire.model.errors import InvalidDestinationError, SpanwireError
from spanwire.service.directories.daemon import in_daemon

FIRST_S: Final = 10.0  # seconds that the start of the broker waits for the first map
RETRY_S: Final = 10.0  # seconds until a map that could not be read is tried again, if it is not refreshed sooner
MAX_SHOWN: Final = 5  # unusable entries that the log names

Read = Callable[[], Rights]
Use = Callable[[AuthorizationMap], None]

logger = logging.getLogger(__name__)


class RefreshedRights:
    """Reads rights in a thread and hands a changed map to the broker."""

    def __init__(self, read: Read, use: Use, refresh_s: float) -> None:
        """``refresh_s`` are the seconds between two reads; with 0 the rights are read once."""
        self._read: Final = read
        self._use: Final = use
        self._refresh_s: Final = refresh_s
        self._rights: Rights | None = None
        self._failure = ""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to read; return with the first map, or after some seconds without a map."""
        first = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(first))
        try:
            await asyncio.wait_for(first.wait(), FIRST_S)
        except TimeoutError:
            logger.error("nobody has rights yet: the directory has not answered within %g s", FIRST_S)

    def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, first: asyncio.Event) -> None:
        while True:
            is_read = await self.refresh()
            first.set()
            if is_read and self._refresh_s == 0:
                return
            await asyncio.sleep(self._refresh_s if is_read else min(self._refresh_s or RETRY_S, RETRY_S))

    async def refresh(self) -> bool:
        """Read the rights, and apply changed ones. Return False after a failed read."""
        try:
            rights = await in_daemon(self._read, "spanwire-rights")
        except SpanwireError as error:
            self._fail(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - the next read must come, whatever a directory has sent
            self._fail(f"unexpected {type(error).__name__}: {error}")
            return False
        if self._failure:
            self._failure = ""
            logger.info("the directory of the rights answers again")
        if rights != self._rights:
            self._rights = rights
            unusable = list(rights.unusable)
            self._use(map_of(rights, unusable))
            logger.info("rights read from the directory: %d", len(rights.rights))
            for line in unusable[:MAX_SHOWN]:
                logger.warning("an entry of the directory gives no rights: %s", line)
            if len(unusable) > MAX_SHOWN:
                logger.warning("%d more entries of the directory give no rights", len(unusable) - MAX_SHOWN)
        return True

    @property
    def is_read(self) -> bool:
        """Return True once there is a map."""
        return self._rights is not None

    def _fail(self, reason: str) -> None:
        """Log the reason of a failed read once."""
        if reason == self._failure:
            return
        self._failure = reason
        if self._rights is None:
            logger.error("nobody has rights: %s", reason)
        else:
            logger.error("rights stay as they were: %s", reason)


def no_rights() -> AuthorizationMap:
    """Return the map before the first read: without any right."""
    return AuthorizationMap([], AccessList())


def map_of(rights: Rights, unusable: list[str]) -> AuthorizationMap:
    """Return the map of ``rights``; ``unusable`` gets a line for each name without a destination."""
    lists: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
    for right in rights.rights:
        of_one = lists.setdefault((right.kind, right.name), {})
        of_one[right.right] = of_one.get(right.right, frozenset()) | _holders(right)
    entries: list[AuthorizationEntry] = []
    temporary: AccessList | None = None
    for (kind, name), named in lists.items():
        access = AccessList(**named)
        if kind == TEMPORARY:
            temporary = access
            continue
        destination = _destination(kind, name)
        if destination is None:
            unusable.append(f"{name[:200]!r} is no name of a {kind}")
        else:
            entries.append(AuthorizationEntry(destination, access))
    return AuthorizationMap(entries, temporary, names_users=True)


def _holders(right: Right) -> frozenset[str]:
    return right.groups | {user_entry(name) for name in right.users}


def _destination(kind: str, name: str) -> Destination | None:
    try:
        check_name(name)
    except InvalidDestinationError:
        return None
    destination = Destination(QUEUE if kind == QUEUES else TOPIC, name)
    return None if destination.is_composite or ">" in destination.elements[:-1] else destination
