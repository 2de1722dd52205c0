"""The chain of plug-ins: each sees the requests as the ones before it left them."""

from __future__ import annotations

import logging
from typing import Final

import pytest

from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.timestamp_plugin import TimeStampSettings
from tests.support.dialogue.broker_dialogue import START_MS, Stage

MODULE: Final = "spanwire.broker.event_log"  # the documented logger


def test_the_log_has_a_request_as_the_client_made_it(caplog: pytest.LogCaptureFixture) -> None:
    plugins = PluginSettings(path_separator="/", event_log=EventLogSettings(everything=True))
    with caplog.at_level(logging.INFO, MODULE):
        stage = Stage(plugins=plugins)
        stage.peer("p").sends("queue://a/b", "1")
        listener = stage.peer("c").consumes("queue://a/b")
    assert listener.takes() == ["1"]
    lines = [record.getMessage() for record in caplog.records if record.name == MODULE]
    assert [line.partition(", ")[2] for line in lines if line.startswith("adding consumer")] == ["queue://a/b"]
    assert ["queue://a/b, " in line for line in lines if line.startswith("sending message")] == [True]


def test_each_filter_changes_the_message_that_the_one_before_has_changed() -> None:
    plugins = PluginSettings(path_separator="/", times=TimeStampSettings(zero_expiration_ms=5_000), persistent=True)
    stage = Stage(plugins=plugins)
    listener = stage.peer("c").consumes("queue://a.b")
    stage.peer("p").sends("queue://a/b", "1", persistent=False, timestamp_ms=START_MS - 1)
    stage.settle()
    (delivery,) = listener.deliveries
    message = delivery.message
    assert (str(message.destination), message.persistent) == ("queue://a.b", True)
    assert message.expiration_ms == START_MS + 5_000


def test_a_filter_changes_the_names_of_destinations_that_clients_create() -> None:
    stage = Stage(plugins=PluginSettings(path_separator="/"))
    peer = stage.peer("p")
    peer.creates("queue://x/y")
    assert stage.has("queue://x.y")
    peer.removes("queue://x.y")
    assert not stage.has("queue://x.y")
