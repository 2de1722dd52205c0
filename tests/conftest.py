"""What holds for every test: the Hypothesis profiles, chosen by HYPOTHESIS_PROFILE (`make fuzz` sets `fuzz`), that no
log record shows the canary password, at any level, that no connection of the blocking client is left open, which tests
may be tried again, which stay together, which come first, and what the garbage collector leaves alone.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Generator, Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.canary import CanaryWatch
from tests.support.groups import WITH_PEERS, group_scheduling, rank_of
from tests.support.seeds import EXAMPLES, PROFILE

# No deadlines: the same test runs interpreted and compiled, alone and beside others, and must not depend on speed.
# A run of the suite tries the same examples each time; `make fuzz` and the profile `random` look for new ones. The
# profile `short` of `make test` differs in EXAMPLES.
for profile in ("default", "short"):
    settings.register_profile(profile, deadline=None, print_blob=True, derandomize=True, max_examples=EXAMPLES)
settings.register_profile("random", deadline=None, print_blob=True)
settings.register_profile(
    "fuzz", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(PROFILE)

# Here other processes, foreign clients and the kernel take part, whose threads race each other on a busy machine. Such
# a test fails when it fails every time; the summary counts what was tried again. All others pass at the first attempt.
WITH_OTHERS: Final = tuple(
    f"tests/{beginning}"
    for beginning in (
        "bench/", "conformance/differential/", "faults/", "interop/", "service/", "spark/", "unit/discovery/",
        "unit/stores/", "unit/testing/", "unit/tools/", "unit/transports/", "unit/adapters/",
        "unit/bridges/test_jms_bridge.py", "unit/cli/test_pipeline_cursors.py", "unit/cli/test_transaction.py",
        "unit/client/test_first_mistakes.py", "unit/client/test_loading.py", "unit/client/test_recipes.py",
        "unit/client/test_sending_many.py", "unit/management/test_control.py", "unit/network/test_connector.py",
        "unit/network/test_discovered.py", "unit/pipeline/sources/test_queue_watch.py",
        "unit/pipeline/test_control_client.py", "unit/pipeline/test_cursor_reader.py",
        "unit/pipeline/test_exactly_once.py", "unit/pipeline/test_replay_undo.py",
    )
)  # fmt: skip
MORE_ATTEMPTS: Final = 2

# A quarter of the processor time of tests went into collections, most of it into those of everything. These numbers
# leave at most a million objects of garbage, some 150 MB, behind: 5,000 objects to a young collection, 10 of them to an
# older one, 20 of those to one of everything.
COLLECT_AFTER: Final = (5_000, 10, 20)
KEEPER_END_S: Final = 5.0  # a keeper that connects sees the end of its connection after the attempt


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """`--dist loadgroup` keeps tests together that share brokers or Spark."""
    return group_scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt what is collected from garbage collection: it stays until the end, and each process would search it again
    and again, while it grows and in all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that take long come first. Tests with other processes may be tried again, unless the command line says how
    often (`--reruns 0`).
    """
    items.sort(key=lambda item: rank_of(item.nodeid))
    for item in items:
        if item.nodeid.startswith(WITH_PEERS):
            item.add_marker(pytest.mark.peers)
    if config.getoption("reruns", None) is not None:
        return
    for item in items:
        if item.nodeid.startswith(WITH_OTHERS):  # ten thousand tests, and each process of a parallel run asks for all
            item.add_marker(pytest.mark.flaky(reruns=MORE_ATTEMPTS))


@pytest.fixture(scope="session", autouse=True)
def _brokers_of_tests_are_listed_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """``spanwire list`` of whoever runs the tests does not show their brokers."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("runtime"))
    yield
    os.environ.pop("XDG_RUNTIME_DIR")
    if before is not None:
        os.environ["XDG_RUNTIME_DIR"] = before


@pytest.fixture(scope="session")
def canary_watch() -> Iterator[CanaryWatch]:
    """Hears every logger down to DEBUG."""
    watch = CanaryWatch()
    root = logging.getLogger()
    before = root.level
    root.addHandler(watch)
    root.setLevel(logging.DEBUG)
    yield watch
    root.removeHandler(watch)
    root.setLevel(before)


@pytest.fixture(autouse=True)
def _canary_stays_hidden(canary_watch: CanaryWatch) -> Iterator[None]:
    """CVE-2025-27391: a password in a log."""
    canary_watch.take()
    yield
    assert canary_watch.take() == [], "a log record holds the canary password"


def _keepers() -> set[threading.Thread]:
    """Return the thread of each open connection of the blocking client."""
    return {thread for thread in threading.enumerate() if thread.name == "spanwire-client-keeper"}


@pytest.fixture(autouse=True)
def _connections_are_closed() -> Iterator[None]:
    """A connection left behind tries to reach its broker for ever, and its memory and log lines fail other tests."""
    before = _keepers()
    yield
    deadline = time.monotonic() + KEEPER_END_S
    while left := _keepers() - before:
        assert time.monotonic() < deadline, f"connections are left open: {len(left)}"
        time.sleep(0.01)
