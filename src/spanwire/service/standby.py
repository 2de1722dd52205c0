"""A broker in wait for the lock of its data directory, and the check of the lock of a running broker.

Of several brokers with one directory, the holder of the lock is the master. The others are standbys: a standby tries
the lock again and again, and binds no port before the lock. With a lease a standby also takes the lock of a master
without a renewal in time, after the bind of the standby's ports: a standby unable to serve must not end a working
master.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError, SpanwireError, StoreError
from spanwire.service.config.model import LockConfiguration
from spanwire.service.lease import Lease
from spanwire.service.persistence import Persistence
from spanwire.stores.directory import DirectoryInUseError
from spanwire.stores.epoch import LeaseWatch, epoch_in
from spanwire.stores.lock_file import LOCK_NAME, UNKNOWN, LockHolder, StandbyMarker, has_standby
from spanwire.transports.connector import TransportConnector

logger = logging.getLogger(__name__)

LOOKS: Final = 4  # of a standby in the time of a lease
Waits = Callable[[Path], None]


class StandbyEndError(SpanwireError):
    """Raised by the start of a broker after a stop during the wait for the lock."""


class Standby:
    """Acquires the lock of the data directory and checks the lock afterwards.

    ``on_wait`` gets the directory locked by another broker, once. ``on_lost`` gets the error after a loss of the lock;
    the broker must not write to the store then.
    """

    def __init__(
        self,
        persistence: Persistence,
        settings: LockConfiguration,
        on_wait: Waits,
        on_lost: Callable[[StoreError], None],
    ) -> None:
        self._persistence: Final = persistence
        self._settings: Final = settings
        self._on_wait: Final = on_wait
        self._on_lost: Final = on_lost
        self._checks: asyncio.TimerHandle | None = None
        self._marker: StandbyMarker | None = None
        self._holder: LockHolder | None = None
        self._lease: Lease | None = None
        self._renewing: Final = ExitStack()  # the lease, while the start may block the loop
        self._obstacle = ""  # what has kept this broker from taking an expired lease, as the log has it
        self._lease_watch: Final = LeaseWatch(settings.lease_ms / 1000)

    async def enter(self, connectors: Sequence[TransportConnector], stopped: asyncio.Event) -> None:
        """Lock the directory and bind ``connectors``; wait for both while another broker has the lock.

        A new directory is created after the ports are bound, so that a refused start leaves nothing behind.

        Raises:
            StandbyEndError: ``stopped`` was set meanwhile.
            DirectoryInUseError: another broker uses the directory, and this one must not wait.
            StoreError: a directory is unusable.
            TransportError: a port cannot be bound.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            expired = b""
            if all((path / LOCK_NAME).exists() for path in self._persistence.directories):
                expired = await self._acquire(stopped)
            if await self._takes(connectors, expired):
                self._entered(expired, loop.time() - began)
                return
            if expired:
                await self._pause(stopped)

    async def standby_arrived(self, stopped: asyncio.Event) -> None:
        """Wait for a standby, if the configuration has ``waitForSlave``.

        Raises:
            StandbyEndError: ``stopped`` was set meanwhile.
            ConfigurationError: no standby has arrived within ``waitForSlaveTimeout``.
        """
        settings = self._settings
        if not settings.waits_for_standby:
            return
        logger.info("the connectors stay closed until a standby waits for this broker (waitForSlave)")
        waited_ms = 0
        while not self.has_standby():
            if waited_ms >= settings.standby_timeout_ms:
                raise ConfigurationError(
                    f"no standby has come within {settings.standby_timeout_ms / 1000:g} s: start one with the same data"
                    " directory, or remove waitForSlave"
                )
            if await _is_set(stopped, settings.retry_ms):
                raise StandbyEndError("the broker was stopped while it waited for a standby")
            waited_ms += settings.retry_ms

    def has_standby(self) -> bool:
        """Return True for a broker in wait for the lock of the present broker."""
        return any(has_standby(path) for path in self._persistence.directories)

    def starting(self) -> AbstractContextManager[object]:
        """Return a context for renewals of the lease during the start, which blocks the loop."""
        return self._renewing

    def watch(self) -> None:
        """Check the lock and renew the lease every ``lockKeepAlivePeriod``, until `stop`."""
        if self._settings.keep_alive_ms and self._persistence.journal is not None:
            self._checks = asyncio.get_running_loop().call_later(self._settings.keep_alive_ms / 1000, self._check)

    def stop(self) -> None:
        """Stop waiting and checking."""
        self._renewing.close()
        if self._checks is not None:
            self._checks.cancel()
            self._checks = None
        self._withdraw_marker()

    @property
    def _waits(self) -> bool:
        return self._settings.use_lock and not self._settings.fail_if_locked and self._persistence.is_persistent

    async def _takes(self, connectors: Sequence[TransportConnector], expired: bytes) -> bool:
        """Bind ``connectors``, and then lock the directory.

        Returns False, with the ports free, for a standby that must wait.
        """
        try:
            for connector in connectors:
                await connector.bind()
            self._persistence.lock(expired)
            return True
        except DirectoryInUseError:  # another broker was faster, or has renewed its lease after all
            if not self._waits:
                raise
        except SpanwireError as error:
            if not expired:
                raise
            self._note_obstacle(error)
        for connector in connectors:
            connector.stop()
        return False

    async def _acquire(self, stopped: asyncio.Event) -> bytes:
        """Wait for the lock and return b"", or return the expired epoch of the lock's holder."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._persistence.lock()
            except DirectoryInUseError as error:
                if not self._waits:
                    raise
                self._note(error)
                expired = self._expired(error, loop.time())
                if expired:
                    return expired
            else:
                self._begin_lease()  # now, because a look-up of a connector's host may take long
                return b""
            await self._pause(stopped)

    async def _pause(self, stopped: asyncio.Event) -> None:
        """Wait until the next look at the lock. Raises `StandbyEndError`."""
        if await _is_set(stopped, self._retry_ms):
            self.stop()
            raise StandbyEndError("the broker was stopped while it waited for the lock of its data directory")

    def _entered(self, expired: bytes, waited_s: float) -> None:
        """Note the possession of the directory, by a lock or after the epoch ``expired``."""
        self._begin_lease()
        self._withdraw_marker()
        if expired:
            logger.warning(
                "the lease of %s in %s has not been renewed for %g s: that broker hangs or has lost the store",
                epoch_in(expired),
                self._persistence.journal_directory,
                self._settings.lease_ms / 1000,
            )
        if self._holder is not None:
            logger.warning("this broker takes over from %s, after it has waited for %d s", self._holder, waited_s)

    def _withdraw_marker(self) -> None:
        if self._marker is not None:
            self._marker.withdraw()
            self._marker = None

    @property
    def _retry_ms(self) -> int:
        lease_ms = self._settings.lease_ms
        return min(self._settings.retry_ms, lease_ms // LOOKS) if lease_ms else self._settings.retry_ms

    def _begin_lease(self) -> None:
        """Renew the lease on a thread until the end of `starting`; once."""
        epoch, settings = self._persistence.epoch, self._settings
        if epoch is not None and self._lease is None:
            self._lease = Lease(epoch, settings.lease_ms / 1000, settings.keep_alive_ms / 1000)
            self._renewing.enter_context(self._lease)
            logger.info("this broker owns the store with epoch %d", epoch.number)

    def _expired(self, error: DirectoryInUseError, now: float) -> bytes:
        """Return the epoch of the directory's holder after a missed renewal of the lease; else b"".

        A holder other than the owner of the epoch has no lease, such as ``spanwire store repair``.
        """
        if not self._settings.lease_ms:
            return b""
        text = self._persistence.present_epoch()
        if self._lease_watch.expired(text, now) and error.holder in (epoch_in(text).holder, UNKNOWN):
            return text
        return b""

    def _note_obstacle(self, error: SpanwireError) -> None:
        """Report the obstacle to a takeover by the broker, once for each reason."""
        if str(error) != self._obstacle:
            self._obstacle = str(error)
            logger.warning(
                "standby: the master has not renewed its lease for %g s, and this broker cannot take over: %s; it tries"
                " again and again",
                self._settings.lease_ms / 1000,
                error,
            )

    def _note(self, error: DirectoryInUseError) -> None:
        """Set the marker, and tell people of a first or changed holder."""
        if self._marker is None:
            self._marker = StandbyMarker(error.path)
            self._on_wait(error.path)
        self._marker.set()
        if error.holder != self._holder and (error.holder.process or self._holder is None):
            self._holder = error.holder
            logger.warning(
                "standby: waits for the lock of %s, which %s holds; it takes over when that broker ends",
                error.path,
                error.holder,
            )

    def _check(self) -> None:
        try:
            if self._lease is not None:
                self._lease.renew()
            lost = self._persistence.lost_lock()
            if lost is not None:
                self._persistence.check_owner()
        except StoreError as error:
            self._checks = None
            self._on_lost(error)
            return
        except OSError as error:
            self._fail(f"the lock of the data directory cannot be checked: {error.strerror}")
            return
        if lost is not None:
            self._fail(f"{lost / LOCK_NAME} was removed or replaced, so another broker may use the directory")
            return
        self.watch()

    def _fail(self, reason: str) -> None:
        self._checks = None
        self._on_lost(StoreError(f"{reason}; this broker ends, so that two never write to one store"))


async def _is_set(event: asyncio.Event, timeout_ms: int) -> bool:
    """Wait for ``event``, for at most ``timeout_ms``. Returns True for a set event."""
    try:
        await asyncio.wait_for(event.wait(), timeout_ms / 1000)
    except TimeoutError:
        return False
    return True
