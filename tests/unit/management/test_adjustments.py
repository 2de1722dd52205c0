"""Limits, settings and resets over the control socket: arguments are checked before the broker hears of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from spanwire.broker.admin.adjustments import LimitChange, SettingsChange, StrategyChange
from spanwire.management.operations.adjustments import AdjustedBroker, BrokerAdjustments
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.transports.base import Clock


class Heard:
    """Duck-typed to `AdjustedBroker` and `Clock`; notes what it is asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def now(self) -> Time:
        return Time(0.0, 0)

    def change_limits(self, change: LimitChange, now: Time) -> None:
        self.calls.append((change,))

    def change_settings(self, destination: object, change: SettingsChange, now: Time) -> None:
        self.calls.append((str(destination), change))

    def change_strategy(self, name: str, change: StrategyChange, now: Time) -> None:
        self.calls.append((name, change))

    def reset_producer(self, producer_id: str, only_waits: bool, now: Time) -> None:
        self.calls.append((producer_id, only_waits))

    def reset_consumer(self, consumer_id: str, now: Time) -> None:
        self.calls.append((consumer_id,))


def asked(operation: str, arguments: Mapping[str, object]) -> tuple[object, list[tuple[object, ...]]]:
    heard = Heard()
    adjustments = BrokerAdjustments(cast(AdjustedBroker, heard), cast(Clock, heard), lambda: None)
    result = asyncio.run(getattr(adjustments, operation)(arguments))
    return result, heard.calls


def test_missing_limits_stay() -> None:
    result, calls = asked("limits", {"memory_limit_bytes": 5, "store_limit_bytes": 0})
    assert result == {"memory_limit_bytes": 5, "store_limit_bytes": 0}
    assert calls == [(LimitChange(memory_bytes=5, store_bytes=0),)]


def test_settings_go_to_each_destination() -> None:
    result, calls = asked("settings", {"destinations": ["queue://A", "topic://B"], "producer_flow_control": False})
    assert result == [{"destination": "queue://A"}, {"destination": "topic://B"}]
    assert [change for _, change in calls] == [SettingsChange(producer_flow_control=False)] * 2


def test_a_strategy_and_counters_are_named() -> None:
    arguments = {"name": "topic://>", "max_slow_count": -1, "ignores_idle": True}
    assert asked("strategy", arguments)[1] == [
        ("topic://>", StrategyChange(max_slow_count=-1, ignore_idle_consumers=True))
    ]
    assert asked("reset_producer", {"producer_id": "ID:p"})[1] == [("ID:p", False)]
    assert asked("reset_producer", {"producer_id": "ID:p", "only_waits": True})[1] == [("ID:p", True)]
    assert asked("reset_consumer", {"consumer_id": "ID:c"})[1] == [("ID:c",)]


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("limits", {"memory_limit_bytes": 0}),
        ("limits", {"memory_limit_bytes": True}),
        ("limits", {"store_limit_bytes": -1}),
        ("limits", {"temporary_limit_bytes": 1 << 60}),
        ("limits", {"maximum_uncommitted": 0}),
        ("limits", {"maximum_uncommitted": "5"}),
        ("settings", {"destinations": ["queue://A"], "producer_flow_control": "true"}),
        ("settings", {"destinations": ["queue://>"], "memory_limit_bytes": 1}),
        ("settings", {"memory_limit_bytes": 1}),
        ("settings", {"destinations": ["queue://A"], "blocked_warning_ms": -1}),
        ("strategy", {"max_slow_count": 1}),
        ("strategy", {"name": "topic://>", "max_slow_ms": 1.5}),
        ("reset_producer", {}),
        ("reset_consumer", {"consumer_id": 1}),
    ],
)
def test_a_wrong_argument_is_refused(operation: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        asked(operation, arguments)
