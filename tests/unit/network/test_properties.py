"""Settings of a connector as the text that ActiveMQ brokers exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spanwire.model.destination import TOPIC, Destination
from spanwire.network.bridge.settings_codec import properties_of, settings_of
from spanwire.network.demand.bridge_settings import BridgeSettings


def test_words_that_a_peer_leaves_out_have_the_defaults_of_activemqs_connector() -> None:
    found = settings_of("", [])
    assert (found.conduit, found.always_sync_send, found.bridge_temporary, found.suppress_topic_duplicates) == (
        True, True, True, True,
    )  # fmt: skip
    assert (found.static_bridge, found.virtual_demand, found.sync_durable, found.dynamic_only) == (
        False, False, False, False,
    )  # fmt: skip
    assert (found.conduit_network_queues, found.suppress_queue_duplicates, found.decrease_priority) == (
        False, False, False,
    )  # fmt: skip
    assert (found.message_ttl, found.consumer_ttl, found.prefetch_size, found.priority_base) == (1, 1, 1000, -5)


@pytest.mark.parametrize("name", ["two words", " a blank in front", "a:b=c#d!e", "back\\slash", "Grüße", "tab\there"])
def test_a_name_comes_back_as_it_was_written(name: str) -> None:
    assert settings_of(properties_of(BridgeSettings(name=name), "A"), []).name == name


def test_a_blank_is_escaped_only_where_java_would_drop_it() -> None:
    lines = properties_of(BridgeSettings(name=" a b"), "A").splitlines()
    assert "name=\\u0020a b" in lines


@pytest.mark.parametrize("sync", [True, False])
def test_the_other_end_of_a_duplex_link_learns_every_setting(sync: bool) -> None:
    settings = replace(BridgeSettings(duplex=True), always_sync_send=sync, excluded=(Destination(TOPIC, "A.>"),))
    found = settings_of(properties_of(settings, "A"), [])
    assert (found.always_sync_send, found.excluded) == (sync, (Destination(TOPIC, "A.>"),))
