"""Rights of a directory that reach a running broker, and what becomes of them when the directory fails."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from spanwire.broker.ports import READ, WRITE, Principal
from spanwire.broker.security.authorization_map import AuthorizationMap
from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.right import QUEUES, TEMPORARY, TOPICS, Right, Rights
from spanwire.model.destination import QUEUE, parse_destination
from spanwire.model.errors import AuthorizationError
from spanwire.service.directories import refreshed_rights as module
from spanwire.service.directories.refreshed_rights import RefreshedRights, map_of, no_rights

ANNA = Principal("anna", frozenset({"staff"}))
OTTO = Principal("otto", frozenset({"anna"}))  # a group with the name of a user


def right(kind: str, name: str, right: str, groups: str = "", users: str = "") -> Right:
    return Right(kind, name, right, frozenset(groups.split()), frozenset(users.split()))


def may(found: AuthorizationMap, principal: Principal, action: str, name: str) -> bool:
    try:
        found.check(principal, action, parse_destination(name, QUEUE))
    except AuthorizationError:
        return False
    return True


def test_groups_and_users_have_the_rights_of_their_entries() -> None:
    found = map_of(
        Rights(
            (
                right(QUEUES, "ORDERS.>", "read", "staff"),
                right(QUEUES, "ORDERS.>", "write", users="anna"),
                right(TOPICS, "NEWS", "read", "anna"),
            ),
            (),
        ),
        [],
    )
    assert may(found, ANNA, READ, "queue://ORDERS.new")
    assert may(found, ANNA, WRITE, "queue://ORDERS.new")
    assert not may(found, OTTO, WRITE, "queue://ORDERS.new"), "a group is no user"
    assert may(found, OTTO, READ, "topic://NEWS")
    assert not may(found, ANNA, READ, "topic://NEWS"), "a user is no group"
    assert may(found, ANNA, WRITE, "temp-queue://ID:c:1"), "without an entry everybody may use temporary ones"


def test_temporary_destinations_have_an_entry_of_their_own() -> None:
    found = map_of(Rights((right(TEMPORARY, "", "write", "staff"),), ()), [])
    assert may(found, ANNA, WRITE, "temp-queue://ID:c:1")
    assert not may(found, OTTO, WRITE, "temp-queue://ID:c:1")


@pytest.mark.parametrize("name", ["", "A,B", "A.>.B"])
def test_a_name_that_is_none_of_a_destination_gives_no_right(name: str) -> None:
    unusable: list[str] = []
    found = map_of(Rights((right(QUEUES, name, "read", "staff"),), ()), unusable)
    assert unusable == [f"{name!r} is no name of a queue"]
    assert not may(found, ANNA, READ, "queue://A")


def test_before_the_first_map_nobody_has_rights() -> None:
    assert not may(no_rights(), ANNA, READ, "queue://A")
    assert not may(no_rights(), ANNA, WRITE, "temp-queue://ID:c:1")


class Source:
    """A directory that the test changes."""

    def __init__(self, found: Rights | Exception) -> None:
        self.found = found
        self.reads = 0
        self.maps: list[AuthorizationMap] = []

    def read(self) -> Rights:
        self.reads += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


FIRST = Rights((right(QUEUES, "A", "read", "staff"),), ())
SECOND = Rights((right(QUEUES, "B", "read", "staff"),), tuple(f"line {number}" for number in range(8)))
GONE = DirectoryError("the directory", "cannot be asked: connection refused")


def test_a_changed_map_reaches_the_broker_and_an_equal_one_does_not(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(FIRST)
    refreshed = RefreshedRights(source.read, source.maps.append, 0)

    async def scene() -> None:
        assert await refreshed.refresh()
        assert await refreshed.refresh()
        source.found = SECOND
        assert await refreshed.refresh()

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    assert [may(one, ANNA, READ, "queue://A") for one in source.maps] == [True, False]
    lines = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert lines == [
        "rights read from the directory: 1",
        "rights read from the directory: 1",
        *(f"an entry of the directory gives no rights: line {number}" for number in range(5)),
        "3 more entries of the directory give no rights",
    ]


def test_rights_stay_as_they_were_while_the_directory_is_away(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(GONE)
    refreshed = RefreshedRights(source.read, source.maps.append, 0)

    async def scene() -> None:
        for found in (GONE, GONE, FIRST, GONE, GONE, FIRST):
            source.found = found
            assert await refreshed.refresh() is (found is FIRST)

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    assert len(source.maps) == 1
    lines = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert lines == [
        f"nobody has rights: {GONE}",
        "the directory of the rights answers again",
        "rights read from the directory: 1",
        f"rights stay as they were: {GONE}",
        "the directory of the rights answers again",
    ]


def test_an_unexpected_error_leaves_the_rights_and_the_next_read(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(IndexError("list index out of range"))
    refreshed = RefreshedRights(source.read, source.maps.append, 0.001)

    async def scene() -> None:
        await refreshed.start()
        source.found = FIRST
        while not source.maps:
            await asyncio.sleep(0.001)
        refreshed.stop()

    asyncio.run(asyncio.wait_for(scene(), 5.0))
    assert "nobody has rights: unexpected IndexError" in caplog.text


def test_a_broker_starts_without_a_directory_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No build compiles the module."""
    monkeypatch.setattr(module, "FIRST_S", 0.05)
    source = Source(FIRST)
    released = threading.Event()

    def slow() -> Rights:
        assert released.wait(10.0)
        return source.read()

    async def scene() -> None:
        refreshed = RefreshedRights(slow, source.maps.append, 0)
        await refreshed.start()
        assert source.maps == []
        released.set()
        while not source.maps:
            await asyncio.sleep(0.001)
        refreshed.stop()

    asyncio.run(scene())
    assert "nobody has rights yet: the directory has not answered within 0.05 s" in caplog.text


@pytest.mark.parametrize(("refresh_s", "reads"), [(0.0, 1), (0.01, 3)])
def test_a_map_is_read_once_or_again_and_again(refresh_s: float, reads: int) -> None:
    source = Source(FIRST)

    async def scene() -> None:
        refreshed = RefreshedRights(source.read, source.maps.append, refresh_s)
        await refreshed.start()
        while source.reads < reads:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.03)
        refreshed.stop()

    asyncio.run(scene())
    assert (source.reads == 1) is (reads == 1)
