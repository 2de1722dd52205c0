from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.batch_writer import BatchWriter
from spanwire.pipeline.routes.route_state import RouteState, open_state
from spanwire.routes.model import Endpoint, To
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

QUERY = "7d1c"
ONCE = "?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"


class Frame:
    """Rows, many or none, that note how they are written."""

    def __init__(self, is_empty: bool, written: list[dict[str, str]]) -> None:
        self._is_empty = is_empty
        self._written = written
        self._words: dict[str, str] = {}

    def isEmpty(self) -> bool:  # noqa: N802
        return self._is_empty

    @property
    def write(self) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        return self.options(format=name)

    def mode(self, name: str) -> Frame:
        return self.options(mode=name)

    def options(self, **words: str) -> Frame:
        self._words |= words
        return self

    def save(self) -> None:
        self._written.append(self._words)


class Failing(Frame):
    """Rows that cannot be written."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(is_empty=False, written=[])
        self._failure = failure

    def save(self) -> None:
        raise self._failure


def endpoints(*uris: str) -> list[Endpoint]:
    steps = ", ".join(f'{{to: {{uri: "{uri}", parameters: {{dbtable: t}}}}}}' for uri in uris if uri.startswith("jdbc"))
    steps += ", ".join(f'{{to: "{uri}"}}' for uri in uris if not uri.startswith("jdbc"))
    text = f'- from: {{uri: "jms:A", id: r, steps: [{steps}]}}'
    (route,) = read_routes(text.encode(), "r.yaml", Placeholders({}, {})).routes
    return [step.endpoint for step in route.steps if isinstance(step, To)]


def state_in(directory: Path) -> RouteState:
    text = b'- from: {uri: "jms:A", id: r, steps: [{to: "json:/x"}]}'
    (route,) = read_routes(text, "r.yaml", Placeholders({}, {})).routes
    return open_state(directory, route)


def written(
    state: RouteState, batch: int, *uris: str, is_empty: bool = False, query: str = QUERY
) -> list[dict[str, str]]:
    """What a batch writes to endpoints, as one that is made after a restart."""
    found: list[dict[str, str]] = []
    writer = BatchWriter(state.run_of(query), batch, state.first_batch)
    for endpoint in endpoints(*uris):
        writer.write(cast(DataFrame, Frame(is_empty, found)), endpoint, is_rare=True)
    return found


def test_a_broker_that_commits_once_hears_of_batches_without_rows(tmp_path: Path) -> None:
    (found,) = written(state_in(tmp_path), 0, f"jms:queue:DEAD{ONCE}", is_empty=True)
    assert (found["ledgerBatch"], found["firstLedgerBatch"]) == ("0", "0")


def test_files_are_written_over_though_there_are_no_rows_any_more(tmp_path: Path) -> None:
    first = written(state_in(tmp_path), 3, "json:/x")
    again = written(state_in(tmp_path), 3, "json:/x", is_empty=True)
    assert first == again and again[0]["mode"] == "overwrite"
    assert again[0]["path"].endswith("/route_batch=0000000003")


@pytest.mark.parametrize("uri", ["jms:queue:DEAD", "jdbc:x"])
def test_other_endpoints_are_spared_a_batch_without_rows(uri: str, tmp_path: Path) -> None:
    assert written(state_in(tmp_path), 0, uri, is_empty=True) == []
    assert len(written(state_in(tmp_path), 0, uri)) == 1


def test_an_endpoint_that_is_new_begins_late_and_leaves_the_ledgers_of_others(tmp_path: Path) -> None:
    (before,) = written(state_in(tmp_path), 0, f"jms:queue:B{ONCE}")
    for batch in (7, 8):
        new, after = written(state_in(tmp_path), batch, f"jms:queue:A{ONCE}", f"jms:queue:B{ONCE}")
        assert (new["firstLedgerBatch"], after["firstLedgerBatch"]) == ("7", "0")
        assert after["ledger"] == before["ledger"] != new["ledger"]
        assert after["ledgerBatch"] == new["ledgerBatch"] == str(batch)


def test_two_ways_to_one_queue_have_a_ledger_each(tmp_path: Path) -> None:
    one, two = written(state_in(tmp_path), 0, f"jms:queue:B{ONCE}", f"jms:queue:B{ONCE}")
    assert one["ledger"] != two["ledger"]


def test_a_delta_table_is_told_the_batch_by_which_it_knows_a_repetition(tmp_path: Path) -> None:
    uris = ["format:delta?path=/a&txnVersion=7", "format:delta?path=/b", "format:delta?path=/b"]
    tables = written(state_in(tmp_path), 3, *uris)
    assert [table["txnVersion"] for table in tables] == ["3", "3", "3"]
    assert len({table["txnAppId"] for table in tables}) == 3  # two ways to one table are two applications
    assert written(state_in(tmp_path), 3, *uris) == tables
    assert written(state_in(tmp_path), 3, *uris[1:]) == tables[1:]  # an endpoint before them has gone
    assert "txnAppId" not in written(state_in(tmp_path), 3, "format:xml?path=/a")[0]


def test_batches_of_a_new_checkpoint_are_new_to_a_delta_table(tmp_path: Path) -> None:
    (before,) = written(state_in(tmp_path), 0, "format:delta?path=/a")
    (after,) = written(state_in(tmp_path), 0, "format:delta?path=/a", query="new")
    assert after["txnAppId"] != before["txnAppId"]


def test_a_jar_that_is_missing_is_one_line_at_its_endpoint(tmp_path: Path) -> None:
    writer = BatchWriter(state_in(tmp_path).run_of(QUERY), 0, state_in(tmp_path).first_batch)
    failure = Py4JError("java.lang.X: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.\n\tat x")
    table, files, queue = endpoints("format:delta?path=/a", "json:/a", "jms:queue:A")
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:1: Spark .* has no format delta; .*io\.delta:"):
        writer.write(cast(DataFrame, Failing(failure)), table)
    for other in (files, queue):  # these need no jar
        with pytest.raises(Py4JError):
            writer.write(cast(DataFrame, Failing(failure)), other)


def test_where_a_ledger_begins_may_be_said_and_a_damaged_note_is_one_line(tmp_path: Path) -> None:
    state = state_in(tmp_path)
    (found,) = written(state, 5, f"jms:queue:B{ONCE}&firstLedgerBatch=4")
    assert found["firstLedgerBatch"] == "4"
    state.ledgers.write_text("[1", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"ledgers\.json is damaged"):
        written(state, 6, f"jms:queue:B{ONCE}")


def test_batches_of_a_new_checkpoint_are_no_repetitions_of_those_of_the_old_one(tmp_path: Path) -> None:
    uris = [f"jms:queue:B{ONCE}", "jms:queue:C", "json:/x"]
    before = written(state_in(tmp_path), 0, *uris)
    assert written(state_in(tmp_path), 0, *uris) == before
    for broker, plain, files in (
        written(state_in(tmp_path), 0, *uris, query="new"),
        written(state_in(tmp_path), 0, *uris, query="newer"),
    ):
        assert (broker["ledgerBatch"], broker["firstLedgerBatch"]) == ("0", "0")
        assert broker["ledger"] != before[0]["ledger"]
        assert plain["duplicateIdPrefix"] != before[1]["duplicateIdPrefix"]
        assert files["path"] != before[2]["path"]
    assert written(state_in(tmp_path), 0, *uris) == before  # the old checkpoint is put back


def test_a_state_that_has_not_noted_its_query_keeps_its_run(tmp_path: Path) -> None:
    note = state_in(tmp_path).note
    note.write_text('{"source": "queue://A", "run": "abc"}', encoding="utf-8")
    assert state_in(tmp_path).run_of(QUERY) == "abc"
    assert state_in(tmp_path).run_of("new") != "abc"
    assert state_in(tmp_path).run_of(QUERY) == "abc"


@pytest.mark.parametrize("text", ["[1", "[]", '{"run": "abc"}'])
def test_a_damaged_note_of_the_route_is_one_line(text: str, tmp_path: Path) -> None:
    state = state_in(tmp_path)
    state.note.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"route\.json is damaged"):
        state_in(tmp_path)
    state.note.write_text("[1", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"route\.json is damaged or missing"):
        state.run_of(QUERY)


def test_a_ledger_keeps_the_name_that_earlier_versions_gave_it(tmp_path: Path) -> None:
    uris = [f"jms:queue:B{ONCE}"] * 2
    names = [found["ledger"].rpartition(".") for found in written(state_in(tmp_path), 0, *uris)]
    assert [last for _, _, last in names] == ["1", "2"] and names[0][0] == names[1][0]
