"""States of routes in every released format are read, and those of a newer Spanwire or with damage refused."""

from __future__ import annotations

import asyncio
import json
import lzma
import sqlite3
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.running.route_store import FORMAT, NEW_SUFFIX, RouteStore
from spanwire.model.errors import StoreError
from tests.vectors.routes.make import STEPS, readable

STATES: Final = Path(__file__).resolve().parents[2] / "vectors/routes"
FORMATS: Final = range(1, FORMAT + 1)


def restored(number: int, folder: Path) -> RouteStore:
    """The state of a format, as that of the route `kept`."""
    store = RouteStore(folder, "kept", STEPS)
    store.path.write_bytes(lzma.decompress((STATES / f"format-{number}.routestate.xz").read_bytes()))
    return store


def read(store: RouteStore) -> dict[str, object]:
    async def scenario() -> dict[str, object]:
        try:
            await store.open()
            return readable(await store.load())
        finally:
            await store.close()

    return asyncio.run(scenario())


def refusal_of(store: RouteStore) -> str:
    """The refusal; the file must stay as it is."""
    before = store.path.read_bytes()
    with pytest.raises(StoreError) as refused:
        read(store)
    assert store.path.read_bytes() == before
    assert "\n" not in str(refused.value)
    return str(refused.value)


def execute(store: RouteStore, statement: str) -> None:
    database = sqlite3.connect(store.path)
    database.executescript(statement)
    database.close()


def test_there_is_a_state_of_each_format() -> None:
    assert sorted(path.name for path in STATES.glob("*.xz")) == [f"format-{number}.routestate.xz" for number in FORMATS]


@pytest.mark.parametrize("number", FORMATS)
def test_a_state_of_each_format_is_read_and_kept_in_the_present_one(number: int, tmp_path: Path) -> None:
    expected = json.loads((STATES / f"format-{number}.json").read_text("utf-8"))
    store = restored(number, tmp_path)
    assert read(store) == expected
    assert read(store) == expected
    database = sqlite3.connect(store.path)
    assert database.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    database.close()


def test_a_state_of_a_newer_spanwire_is_refused_in_one_line_and_left_alone(tmp_path: Path) -> None:
    store = restored(FORMAT, tmp_path)
    execute(store, f"PRAGMA user_version = {FORMAT + 1}; DROP TABLE keys; CREATE TABLE more (a TEXT)")
    assert refusal_of(store) == (
        f"{store.path} has the format {FORMAT + 1} of a newer Spanwire, and this one reads up to {FORMAT}: use "
        "the newer one"
    )


def test_a_state_that_was_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    store = restored(FORMAT, tmp_path)
    whole = store.path.read_bytes()
    for length in [*range(110), *range(110, len(whole), 509)]:
        store.path.write_bytes(whole[:length])
        assert refusal_of(store).startswith(f"{store.path}")


def test_an_empty_file_is_no_new_state(tmp_path: Path) -> None:
    store = restored(FORMAT, tmp_path)
    store.path.write_bytes(b"")
    assert refusal_of(store) == (
        f"{store.path} is damaged: its format is missing; restore it, or move it away, which gives up the messages in "
        "groups of the route kept and its known keys"
    )


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM steps", "4 messages wait in groups of no step"),
        ("UPDATE gathered SET step = NULL WHERE key = 'y'", "1 messages wait in groups of no step"),
        ("UPDATE gathered SET key = x'00'", "a value is of another type"),
        ("UPDATE gathered SET first_ms = 'soon'", "a value is of another type"),
        ("UPDATE gathered SET message = 'text'", "a value is of another type"),
        ("UPDATE keys SET key = 7.5 WHERE key = 'k1'; UPDATE keys SET key = NULL", "a value is of another type"),
        ("UPDATE recent SET id = NULL", "a value is of another type"),
        ("UPDATE gathered SET message = x'ff'", "a stored message is damaged"),
        ("DROP TABLE gathered", "no such table: gathered"),
        ("PRAGMA user_version = 0", "its format is missing"),
        ("PRAGMA user_version = -1", "its format is missing"),
    ],
)
def test_a_state_with_a_wrong_value_is_refused(statement: str, reason: str, tmp_path: Path) -> None:
    store = restored(FORMAT, tmp_path)
    execute(store, statement)
    assert reason in refusal_of(store)


def test_a_database_that_a_crash_left_without_its_name_becomes_the_state(tmp_path: Path) -> None:
    store = RouteStore(tmp_path, "kept", STEPS)
    Path(f"{store.path}{NEW_SUFFIX}").write_bytes(b"")
    assert read(store) == {"groups": {}, "keys": [], "recent": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.routestate"]
