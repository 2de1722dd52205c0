from __future__ import annotations

from spanwire.pipeline.parquet import DICTIONARY, STATISTICS, with_parquet_options


def test_columns_that_differ_in_each_message_get_no_dictionary() -> None:
    options = with_parquet_options("parquet", {"path": "/data"})
    assert options["path"] == "/data"
    assert options[f"{DICTIONARY}#text"] == options[f"{DICTIONARY}#JMSMessageID"] == "false"
    assert f"{DICTIONARY}#JMSDestination" not in options


def test_bodies_have_no_least_and_greatest_value_and_ids_have_them() -> None:
    options = with_parquet_options("parquet", {})
    assert options[f"{STATISTICS}#text"] == options[f"{STATISTICS}#body.value"] == "false"
    assert f"{STATISTICS}#JMSMessageID" not in options


def test_another_format_and_somebodys_own_choices_stay_as_they_are() -> None:
    assert with_parquet_options("orc", {"path": "/data"}) == {"path": "/data"}
    for name, other in ((DICTIONARY, STATISTICS), (STATISTICS, DICTIONARY)):
        chosen = {"path": "/data", f"{name}#text": "true"}
        options = with_parquet_options("parquet", chosen)
        assert {option: value for option, value in options.items() if not option.startswith(other)} == chosen
        assert options[f"{other}#text"] == "false"
