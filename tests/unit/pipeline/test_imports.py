"""A Spark executor loads the client and the codecs, and no broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORBIDDEN = ("broker", "stores", "transports", "management", "service", "web", "network", "bridges", "cli")


def loaded_by(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sorted(name for name in sys.modules if name.startswith('spanwire.')))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


@pytest.mark.large
def test_the_data_source_loads_no_broker() -> None:
    loaded = loaded_by("pyspark_spanwire")
    assert "spanwire.client.blocking" in loaded and "spanwire.pipeline.datasource.source" in loaded
    assert {name for name in loaded if name.split(".")[1] in FORBIDDEN} == set()


def test_finding_java_loads_neither_spark_nor_arrow() -> None:
    program = "import sys, spanwire.pipeline.spark.java; print({'pyspark', 'pyarrow'} & set(sys.modules) or 'none')"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "none"


def test_dead_letters_and_the_control_destination_need_no_package_of_the_extra() -> None:
    modules = "spanwire.pipeline.archive.redrive, spanwire.pipeline.link.control_client, spanwire.pipeline.options"
    modules += ", spanwire.cli.pipeline.pipeline"
    program = f"import sys, {modules}; print({{'pyspark', 'pyarrow', 'yaml'}} & set(sys.modules) or 'none')"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "none"
