"""The lease of a broker: a renewal that fails is told once, and is an error when the lease has run out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spanwire.model.errors import FencedError, StoreError
from spanwire.service.lease import Lease
from spanwire.stores.epoch import claim_epoch, read_epoch


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_renewal_that_fails_is_told_once_and_ends_the_broker_with_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    lease = Lease(claim_epoch(tmp_path, "a"), 10.0, 2.5, clock)

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for _ in range(2):
        with monkeypatch.context() as failing:
            failing.setattr(os, "pwrite", pwrite)
            clock.now += 4.0
            lease.renew()
            clock.now += 4.0
            lease.renew()
        lease.renew()  # and all is well again
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    monkeypatch.setattr(os, "pwrite", pwrite)
    clock.now += 10.0
    with pytest.raises(
        StoreError, match=r"could not be renewed for 10 s: Input/output error; this broker ends, so that"
    ):
        lease.renew()


def test_a_thread_renews_while_the_loop_is_blocked_and_ends_when_another_has_taken_over(tmp_path: Path) -> None:
    lease = Lease(claim_epoch(tmp_path, "a"), 1.0, 0.001)
    first = read_epoch(tmp_path)
    with lease:
        while read_epoch(tmp_path) == first:
            continue
        claim_epoch(tmp_path, "b")
    with pytest.raises(FencedError):
        lease.renew()
