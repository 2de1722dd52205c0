from __future__ import annotations

from spanwire.pipeline.parquet import DICTIONARY, with_parquet_options


def test_columns_that_differ_in_each_message_get_no_dictionary() -> None:
    options = with_parquet_options("parquet", {"path": "/data"})
    assert options["path"] == "/data"
    assert options[f"{DICTIONARY}#text"] == options[f"{DICTIONARY}#JMSMessageID"] == "false"
    assert f"{DICTIONARY}#JMSDestination" not in options


def test_another_format_and_somebodys_own_choice_stay_as_they_are() -> None:
    assert with_parquet_options("orc", {"path": "/data"}) == {"path": "/data"}
    chosen = {"path": "/data", f"{DICTIONARY}#text": "true"}
    assert with_parquet_options("parquet", chosen) == chosen
