"""System calls of a running broker that fail: it stops answering, says why in one line and ends with a status.

strace makes the calls fail, on real files. What was answered before is there after the next start. A call that finds no
room is no failure: the broker waits a second and goes on. SPANWIRE_INJECTED=all tries every write up to the 60th and
the first syncs instead of a few, and writes without room up to the 200th.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.faults.broker import FragileBroker
from tests.faults.load import BrokerGoneError, MixedLoad, drain, until, verdict_of
from tests.support.histories import keep
from tests.support.peers import require
from tests.support.total_queue import Ledger

SOME: Final = [("pwritev2", 3), ("pwritev2", 40), ("fdatasync", 3), ("fsync", 3)]
LAST: Final = {"pwritev2": 60, "fdatasync": 9, "fsync": 5}  # most writes are synced by the same call
AT_START: Final = {"pwritev2": 2, "fdatasync": 1, "fsync": 1}  # calls that a broker makes before it starts
ALL: Final = [(call, when) for call, last in LAST.items() for when in range(AT_START[call] + 1, last + 1)]
CASES: Final = ALL if os.environ.get("SPANWIRE_INJECTED") == "all" else SOME
SOME_FULL: Final = [("pwritev2", 30, "ENOSPC"), ("pwritev2", 5, "EDQUOT")]
ALL_FULL: Final = [("pwritev2", when, "ENOSPC") for when in range(AT_START["pwritev2"] + 1, 201, 6)] + [
    ("pwritev2", when, "EDQUOT") for when in range(4, 13)
]
FULL_CASES: Final = ALL_FULL if os.environ.get("SPANWIRE_INJECTED") == "all" else SOME_FULL
ROUNDS: Final = 200  # of all clients together, after the injected error
EARLY: Final = 20  # calls before clients send
REPLAY: Final = "SPANWIRE_INJECTED=all python -m pytest tests/faults/test_injected_errors.py -k '{0}-{1}'"


def strace(directory: Path, call: str, when: str, error: str) -> tuple[str, ...]:
    """The broker stays our own child; strace looks at it from the side."""
    inject = f"inject={call}:error={error}:when={when}"
    return ("strace", "-D", "-f", "--seccomp-bpf", "-o", str(directory / "trace"), "-e", f"trace={call}", "-e", inject)


@pytest.mark.large
@pytest.mark.parametrize(("call", "when"), CASES)
def test_a_call_that_fails_ends_the_broker_and_loses_nothing_answered(tmp_path: Path, call: str, when: int) -> None:
    require("strace")
    broker = FragileBroker(tmp_path / "broker")
    broker.runs_under = strace(tmp_path, call, str(when), "EIO")
    ledger = Ledger()
    load = MixedLoad(ledger, "before")
    with broker:
        with suppress(BrokerGoneError):  # an early call: not everybody could connect
            load.start(broker.openwire_port, broker.stomp_port)
        status = broker.ended()
        load.end()
        assert status not in (0, -9), broker.log
        until(lambda: any("Input/output error" in line for line in broker.log), "that the broker's last line is read")
        assert "Traceback" not in "".join(broker.log)
        broker.runs_under = ()
        broker.start()
        drain(ledger, broker.stomp_port, "after")
    verdict = verdict_of(ledger)
    if not verdict.ok:
        path = keep(f"{call}-EIO", when, verdict.report(), REPLAY.format(call, when), ledger.lines())
        raise AssertionError(f"{verdict.report()}\nhistory: {path}")
    assert verdict.sent > 0 or when < EARLY


@pytest.mark.large
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ("fdatasync", "EIO", "Input/output error"),
        ("pwritev2", "EIO", "Input/output error; look at the disk"),
        ("pwritev2", "ENOSPC", "No space left on device; make room"),
    ],
)
def test_a_last_call_of_the_start_that_fails_keeps_the_broker_from_starting(
    tmp_path: Path, call: str, error: str, text: str
) -> None:
    require("strace")
    broker = FragileBroker(tmp_path / "broker")
    broker.runs_under = strace(tmp_path, call, str(AT_START[call]), error)
    with pytest.raises(RuntimeError, match=text):
        broker.start()
    assert "Traceback" not in "".join(broker.log)
    broker.runs_under = ()
    with broker:
        assert broker.stop() == 0
        broker.start()


@pytest.mark.large
@pytest.mark.parametrize(("call", "when", "error"), FULL_CASES)
def test_a_call_that_finds_no_room_is_made_again_and_nobody_notices(
    tmp_path: Path, call: str, when: int, error: str
) -> None:
    require("strace")
    broker = FragileBroker(tmp_path / "broker")
    broker.runs_under = strace(tmp_path, call, str(when), error)
    ledger = Ledger()
    load = MixedLoad(ledger, "during", transacts=False)
    with broker:
        load.start(broker.openwire_port, broker.stomp_port)
        until(lambda: f"= -1 {error}" in (tmp_path / "trace").read_text("ascii", "replace"), "that the call fails")
        before = load.rounds
        until(lambda: load.rounds > before + ROUNDS, "that the clients go on")
        load.end()
        drain(ledger, broker.stomp_port, "after")
        assert broker.stop() == 0
        assert "Traceback" not in "".join(broker.log)
    verdict = verdict_of(ledger)
    assert verdict.ok, verdict.report()
