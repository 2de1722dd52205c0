"""Which tests run one after the other in the same process of a parallel run, because they share brokers or Spark, and
which begin first.

`--dist loadgroup` of pytest-xdist 3.8 writes a group behind the node id, which pytest 9.2 passes over: each test is a
group of its own then, and each process starts a Spark. So `tests/conftest.py` gives it this scheduler.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

# Their drivers are processes of their own: they do not use the session that the others of the folder share.
OWN_DRIVERS: Final = frozenset(
    {
        "test_cluster.py", "test_cluster_kills.py", "test_cluster_page.py", "test_connect.py",
        "test_exactly_once_kills.py", "test_example_jars.py", "test_example_processes.py", "test_kill.py",
        "test_ledger_link.py",
        "test_link.py", "test_network_kills.py", "test_project.py", "test_redriving.py", "test_s3_faults.py",
    }
)  # fmt: skip

# The folders whose tests meet foreign programs. In `make test` one build runs those alone that have the mark `smoke`.
WITH_PEERS: Final = ("tests/spark/", "tests/conformance/differential/", "tests/interop/")
# Folders whose tests share brokers, with the group of each.
SHARED: Final = {
    "tests/conformance/differential": "differential",
    "tests/interop/bridge_providers": "tests/interop/bridge_providers",
}
# Groups begin in the order of their tests. Spark takes as long as half of all others, and waits of tests with processes
# are filled by tests without; those are many and short, so that no process has one left when all others have ended.
LONG_FIRST: Final = (*WITH_PEERS, "tests/faults/", "tests/service/", "tests/simulation/", "tests/unit/testing/")


def rank_of(nodeid: str) -> int:
    """The place of a test's folder among those that begin first."""
    for rank, folder in enumerate(LONG_FIRST):
        if nodeid.startswith(folder):
            return rank
    return len(LONG_FIRST)


def group_of(nodeid: str) -> str:
    """The tests that share a Spark session, those of a folder that share its brokers, else those of a file."""
    file = nodeid.partition("::")[0]
    folder, _, name = file.rpartition("/")
    if folder == "tests/spark":
        return "drivers" if name in OWN_DRIVERS else "spark"
    return SHARED.get(folder, file)


def group_scheduling(config: pytest.Config, log: object) -> object:
    """A scheduler of pytest-xdist that gives whole groups to processes."""
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = group_of
    return scheduling
