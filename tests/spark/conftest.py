"""One Spark session and the two brokers that all tests of this folder share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spanwire.pipeline.session import local_session
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.peers import require
from tests.support.postgres import driver
from tests.support.s3_credentials import set_credentials
from tests.support.spark_classes import QUICK_JAVA

# They take half a minute and more each: `make soak-spark` runs them.
LONG = [
    "test_example_jars.py",
    "test_example_processes.py",
    "test_large_messages.py",
    "test_network_kills.py",
    "test_route_database.py",
    "test_route_jars.py",
    "test_route_kill.py",
]
collect_ignore = [] if os.environ.get("SPANWIRE_SPARK_POINTS") == "all" else LONG


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores; its first stream takes some seconds, each further one about one."""
    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    if driver().exists():
        settings["spark.jars"] = str(driver())  # for the tests with PostgreSQL
    set_credentials()  # Spark's processes inherit them
    with local_session("tests", 2, settings) as session:
        yield session


@pytest.fixture(scope="session")
def spanwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(spanwire_command(), tmp_path_factory.mktemp("spanwire")) as broker:
        yield broker


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A Spanwire of one module, for tests that look at all queues, cursors or routes of a broker."""
    with BrokerProcess(spanwire_command(), tmp_path_factory.mktemp("own")) as broker:
        yield broker


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    require("activemq-broker")
    with classic_broker(tmp_path_factory.mktemp("classic")) as broker:
        yield broker


@pytest.fixture(params=["spanwire", "classic"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of either broker."""
    broker: BrokerProcess = request.getfixturevalue(request.param)
    return broker.openwire_uri()
