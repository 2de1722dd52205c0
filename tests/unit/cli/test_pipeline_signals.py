from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from spanwire.cli.pipeline.pipeline_options import STOPPING, stop_on_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPPING)
def test_a_second_signal_ends_a_command_that_waits(number: signal.Signals) -> None:
    ended: list[int] = []
    for each in STOPPING:
        signal.signal(each, lambda got, _frame: ended.append(got))
    stop = threading.Event()
    stop_on_signals(stop)
    signal.raise_signal(number)
    assert stop.is_set() and not ended
    signal.raise_signal(signal.SIGINT)
    assert ended == [signal.SIGINT]
