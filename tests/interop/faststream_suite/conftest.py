"""A broker for FastStream's own tests, whose package `tests` is on the path in place of this project's."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from spanwire.testing import Broker


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """URL of a broker for all tests, in the form of the variable ADDRESS; their queues have random names."""
    with Broker() as broker:
        yield os.environ.get("ADDRESS", "{}").format(f"tcp://{broker.host}:{broker.port}")


@pytest.fixture(autouse=True)
def url_of_the_test(request: pytest.FixtureRequest, broker_url: str) -> None:
    """Tell the test's instance the URL, if it makes brokers."""
    if request.instance is not None:
        request.instance.url = broker_url
