"""What needs a classic session of Spark says so in one line where it meets Spark Connect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkAttributeError

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.executors import prepare_executors
from spanwire.pipeline.jdbc import write_once
from spanwire.pipeline.routes.route_runner import session_on
from spanwire.pipeline.session import local_session


class ConnectSession:
    """Refuses attributes as a session of Spark Connect does."""

    def __getattr__(self, name: str) -> Any:
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})


def test_functions_for_classic_sessions_refuse_one_of_spark_connect_in_one_line() -> None:
    batch: Any = SimpleNamespace(sparkSession=ConnectSession())
    for call in (lambda: prepare_executors(batch.sparkSession), lambda: write_once(batch, 1, {}, "name")):
        with pytest.raises(ConfigurationError, match="needs a classic session: Spark Connect gives no access") as error:
            call()
        assert "\n" not in str(error.value)


def test_a_server_of_spark_connect_is_no_master_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ConfigurationError, match="--master sc://host names a server of Spark Connect"),
        session_on("sc://host", "name"),
    ):
        pass
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    for master in ("local[1]", "spark://host:7077"):
        with pytest.raises(ConfigurationError, match="SPARK_REMOTE names a server of"), session_on(master, "name"):
            pass
    with pytest.raises(ConfigurationError, match="and unset SPARK_REMOTE"), local_session("name"):
        pass
