from __future__ import annotations

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.columns.body_types import BODY_KINDS
from spanwire.pipeline.options import MAX_ROWS, check_browsable, read_options, staging_directory, write_options

CANARY = "canary-6b1f"
ONCE = {"qualityOfServiceMode": "ONCE_AND_ONLY_ONCE"}


def test_names_count_in_any_case_and_the_rest_has_defaults() -> None:
    options = read_options({"DESTINATION": "queue://ORDERS", "maxrowsperbatch": "10"})
    assert (str(options.destination), options.max_rows, options.mode) == ("queue://ORDERS", 10, "browse")
    assert options.bodies == frozenset(BODY_KINDS)
    assert options.login.url == "tcp://127.0.0.1:61616"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r'a reader needs .option\("destination", "queue://NAME"\)'),
        ({"destination": "Q", "selektor": "a = 1"}, "there is no option 'selektor'; did you mean selector?"),
        ({"destination": "Q", "maxRowPerBatch": "1"}, "did you mean maxRowsPerBatch?"),
        ({"destination": "Q", "priority": "1"}, "the option priority has no meaning for a read"),
        ({"destination": "topic://T"}, "topic://T keeps messages for a durable subscription only: set the options"),
        ({"destination": "topic://T", "subscription": "s"}, "set the options subscription and clientId"),
        (
            {"destination": "topic://T", "subscriptionDurable": "false", "subscription": "s", "clientId": "c"},
            "the subscription 's' has a name, so it is durable",
        ),
        ({"destination": "topic://T", "subscriptionDurable": "false", "cursor": "c"}, "a cursor reads a durable"),
        ({"destination": "Q", "url": "amqp://h:5672"}, "the client speaks OpenWire"),
        ({"destination": "Q", "url": "vm://b"}, "is a broker inside another process"),
        ({"destination": "Q", "trustStore": "t.pem"}, "is not encrypted, so the stores are of no use"),
        (
            {"destination": "Q", "url": "ssl://h:1", "keyStorePassword": "x"},
            "keyStorePassword needs the option keyStore",
        ),
        ({"destination": "Q", "subscription": "s"}, "queue://Q is a queue; the option subscription is for topics"),
        (
            {"destination": "topic://ActiveMQ.Advisory.>", "subscription": "s", "clientId": "c"},
            "has no durable subscriptions; leave the option subscription out",
        ),
        ({"destination": "A,topic://T"}, "combines destinations that one consumer cannot read"),
        ({"destination": "A,,B"}, "empty name"),
        ({"destination": "temp-queue://ID:1"}, "ends with its connection"),
        ({"destination": "queue://"}, "empty name"),
        ({"destination": "Q", "maxRowsPerBatch": "many"}, "the option maxRowsPerBatch is 'many', not a whole number"),
        ({"destination": "Q", "maxRowsPerBatch": "500001"}, f"must lie between 1 and {MAX_ROWS}"),
        ({"destination": "Q", "receiveTimeoutMs": "0"}, "must lie between 1 and 10000"),
        ({"destination": "Q", "mode": "peek"}, "the option mode is 'peek', not browse or consume"),
        ({"destination": "Q", "exclusive": "true"}, "the option exclusive is for a cursor"),
        ({"destination": "Q", "cursor": "it's"}, "it has at most 100 characters and no quote"),
        ({"destination": "Q", "cursor": "c" * 101}, "it has at most 100 characters and no quote"),
        ({"destination": "Q", "cursor": "c", "stagingDirectory": "/s"}, "a cursor stages no messages"),
        ({"destination": "A.>", "cursor": "c"}, "a cursor reads one queue or subscription; name"),
        (
            {"destination": "Q", "cursor": "c", "qualityOfServiceMode": "AT_MOST_ONCE"},
            "a cursor does not support AT_MOST_ONCE",
        ),
        ({"destination": "Q", "qualityOfServiceMode": "EXACTLY_ONCE"}, "'EXACTLY_ONCE', not ONCE_AND_ONLY_ONCE or DUP"),
        ({"destination": "Q", "bodies": "text,xml"}, "the option bodies names 'xml'; there are text, bytes"),
    ],
)
def test_a_reader_says_what_is_wrong_in_one_line(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        read_options(given)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("spanwire: ")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"selector": "a = 1"}, "the option selector has no meaning for a write"),
        ({"destination": "queue://A.>"}, "queue://A.> names more than one destination"),
        ({"destination": "A,B"}, "names more than one destination"),
        ({"persistent": "maybe"}, "the option persistent is 'maybe', neither true nor false"),
        ({"priority": "10"}, "must lie between 0 and 9"),
        ({"qualityOfServiceMode": "at least once"}, "'AT LEAST ONCE', not DUPLICATES_OK or ONCE"),
        ({"ledger": "l", "ledgerBatch": "1"}, r'are for .option\("qualityOfServiceMode", "ONCE_AND_ONLY_ONCE"\)'),
        ({"firstLedgerBatch": "1"}, "are for .option"),
        ({**ONCE, "ledger": "l"}, "the options ledger and ledgerBatch belong together"),
        ({**ONCE, "ledgerBatch": "1"}, "the options ledger and ledgerBatch belong together"),
        ({**ONCE, "ledger": "a/b", "ledgerBatch": "1"}, "a name has letters, digits and _ . - only"),
        ({**ONCE, "clientId": "me"}, "the sink chooses its own client ids; leave the option clientId out"),
        ({**ONCE, "url": "fanout:(tcp://a:1,tcp://b:1)"}, "commits at one broker"),
        ({**ONCE, "exactlyOnceBy": "xa"}, "the option exactlyOnceBy is 'xa', not auto or control or ledger"),
        ({"duplicateIdProperty": "a b"}, "which is no valid name of a message property"),
    ],
)
def test_a_writer_says_what_is_wrong_in_one_line(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        write_options(given)


def test_a_writer_may_take_the_destination_from_its_rows_and_go_without_ids() -> None:
    options = write_options(
        {"duplicateIdProperty": "", "checkpointLocation": "/c", "queryName": "q", "timeToLiveMs": "5"}
    )
    assert (options.destination, options.duplicate_id_property, options.time_to_live_ms) == (None, None, 5)


def test_the_modes_of_the_bridge_have_defaults_and_count_in_any_case() -> None:
    assert read_options({"destination": "Q"}).quality == "ONCE_AND_ONLY_ONCE"
    assert (write_options({}).quality, write_options({}).is_committed_once) == ("DUPLICATES_OK", False)
    assert write_options({}).duplicate_id_property == "_AMQ_DUPL_ID"
    for mode in ("once_and_only_once", "AT_MOST_ONCE"):
        options = write_options({"qualityOfServiceMode": mode, "ledger": "nightly-1.x", "ledgerBatch": "7"})
        assert options.duplicate_id_property is None
        assert options.is_committed_once and (options.ledger, options.ledger_batch) == ("nightly-1.x", 7)


def test_a_stream_says_why_it_needs_a_staging_directory() -> None:
    with pytest.raises(ConfigurationError, match=r"stagingDirectory.*must last as long as the checkpoint"):
        staging_directory(read_options({"destination": "Q"}))


def test_the_password_is_in_no_text_of_the_options() -> None:
    given = {"destination": "Q", "user": "u", "password": CANARY}
    for options in (read_options(given), write_options(given)):
        assert CANARY not in repr(options) + str(options)
        assert options.login.password is not None and options.login.password.reveal() == CANARY


@pytest.mark.parametrize(
    ("words", "kinds"), [("none", set()), ("all", set(BODY_KINDS)), ("Text, map", {"text", "map"})]
)
def test_the_bodies_that_are_wanted(words: str, kinds: set[str]) -> None:
    assert read_options({"destination": "Q", "bodies": words}).bodies == kinds


@pytest.mark.parametrize(
    ("given", "name", "has_many"),
    [
        ({"destination": "A.>"}, "queue://A.>", True),
        ({"destination": "queue://A,B"}, "queue://A,B", True),
        ({"destination": "topic://T", "subscription": "s", "clientId": "c"}, "topic://T", False),
        ({"destination": "topic://ActiveMQ.Advisory.>"}, "topic://ActiveMQ.Advisory.>", True),
    ],
)
def test_several_queues_and_subscribed_topics_are_sources(given: dict[str, str], name: str, has_many: bool) -> None:
    options = read_options(given)
    assert (str(options.destination), options.has_many_sources) == (name, has_many)
    with pytest.raises(ConfigurationError, match="cannot be browsed; name one queue"):
        check_browsable(options)


def test_a_topic_is_a_target() -> None:
    assert str(write_options({"destination": "topic://T"}).destination) == "topic://T"
