"""Writes Spark's own log to a file, so that a terminal shows only the pipeline's output.

Spark logs Java and Python stacks for each failure of a route, such as a missing broker, and some lines at each start.
The commands report a failure in one line; the details are in the file, of which there are at most two of 10 MiB
(`spark_log.properties`). A log4j configuration of the user takes precedence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.java import cache_directory

NAME: Final = "spark.log"
CONFIGURATION: Final = Path(__file__).with_name("spark_log.properties")
CHOICE: Final = "LOG4J_CONFIGURATION_FILE"  # log4j 2, Configuration: variable for log4j2.configurationFile
FILE: Final = "SPANWIRE_SPARK_LOG"  # in `CONFIGURATION`


def log_of_commands(environment: Mapping[str, str]) -> Path | None:
    """Return the log of commands without a state directory, or ``None`` without a home directory."""
    try:
        return cache_directory(environment) / NAME
    except ConfigurationError:
        return None


def has_own_log(environment: Mapping[str, str], spark: Path) -> bool:
    """Return True if the user has configured Spark's log; ``spark`` is Spark's home."""
    folder = Path(environment.get("SPARK_CONF_DIR") or Path(environment.get("SPARK_HOME") or spark) / "conf")
    submitted = environment.get("PYSPARK_SUBMIT_ARGS", "")
    files = [path for path in folder.glob("log4j*") if path.suffix != ".template"]  # Spark's own are examples
    return CHOICE in environment or "log4j" in submitted or bool(files)


@contextmanager
def log_into(file: Path) -> Iterator[None]:
    """Let a Java process that starts inside the context log into ``file``.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
    except OSError as error:
        raise ConfigurationError(f"Spark's log {file}: {error.strerror}") from None
    settings = {CHOICE: str(CONFIGURATION), FILE: str(file)}
    previous = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
