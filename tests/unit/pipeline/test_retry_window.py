from __future__ import annotations

import pytest

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.source.offsets import offset, segment_of
from spanwire.pipeline.source.retry_window import MAX_OUTAGE_S, RetryWindow


def test_a_broker_that_was_never_there_is_an_error_at_once() -> None:
    with pytest.raises(JmsError, match="no connection"):
        RetryWindow(lambda: 0.0).on_failure(JmsError("no connection"))


def test_a_broker_that_is_started_again_in_time_is_waited_for() -> None:
    now = [0.0]
    outage = RetryWindow(lambda: now[0])
    outage.on_success()
    outage.on_failure(JmsError("gone"))
    now[0] = MAX_OUTAGE_S - 1
    outage.on_failure(JmsError("gone"))
    outage.on_success()
    outage.on_failure(JmsError("gone again"))
    now[0] = 3 * MAX_OUTAGE_S
    with pytest.raises(JmsError, match="gone for good"):
        outage.on_failure(JmsError("gone for good"))


def test_an_offset_is_the_number_of_a_segment() -> None:
    assert segment_of(offset(7)) == 7
    for strange in ({}, {"segment": "7"}, {"segment": -1}):
        with pytest.raises(ConfigurationError, match="the checkpoint belongs to another source"):
            segment_of(strange)
