"""Conditions under which bridges get messages, in a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.broker.policy.policy_entry import BridgePolicy
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration


def read(tmp_path: Path, inside: str) -> BridgePolicy | None:
    path = tmp_path / "activemq.xml"
    entry = f"<policyEntry queue='Q'>{inside}</policyEntry>"
    policy = f"<destinationPolicy><policyMap><policyEntries>{entry}</policyEntries></policyMap></destinationPolicy>"
    path.write_text(f"<broker>{policy}</broker>", "utf-8")
    return load_configuration(str(path), environment={}).policies[0].queue.bridges


def factory(attributes: str) -> str:
    return (
        "<networkBridgeFilterFactory>"
        f"<conditionalNetworkBridgeFilterFactory {attributes}/></networkBridgeFilterFactory>"
    )


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", None),
        (factory(""), None),
        (factory("replayWhenNoConsumers='true'"), BridgePolicy(replays=True)),
        (factory("rateLimit='5'"), BridgePolicy(rate_limit=5)),
        (
            factory("replayWhenNoConsumers='true' replayDelay='7' rateLimit='8' rateDuration='9' selectorAware='true'"),
            BridgePolicy(True, 7, 8, 9, True),
        ),
    ],
)
def test_the_conditions_of_bridges_are_read(tmp_path: Path, inside: str, expected: BridgePolicy | None) -> None:
    assert read(tmp_path, inside) == expected


def test_a_wrong_value_and_an_unknown_word_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, factory("replayDelai='1' rateDuration='0'"))
    assert "did you mean replayDelay?" in str(raised.value)
    assert "rateDuration of <conditionalNetworkBridgeFilterFactory> is '0'" in str(raised.value)
