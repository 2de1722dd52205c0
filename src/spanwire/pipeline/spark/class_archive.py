"""Takes Spark's loaded classes from a file, as prepared by the first start (JEP 350, class data sharing).

Nearly half of the processor time from a start of Spark to the first rows goes into reading and checking some 20,000
classes. The first command with a stream lets its Java write them to a file in the user's cache when it ends, and later
starts map this file. Java ignores a file that does not fit its version or the jars, and the name of the file depends on
both.

A configuration with which Java could refuse the file aloud, or refuse to start, is left as it is: options of the user
for Spark's Java, directories or jars in front of Spark's own, or a Java without classes of its own in such a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.java import cache_directory

OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # variable with options for the Java of a driver, before those of the user
QUIET: Final = "-Xlog:cds*=off -Xlog:class+path=off"  # Java reports on standard output which classes it leaves out
MAX_ARCHIVES: Final = 3  # files of some 180 MB; for Java and Spark of today, and of two other environments
STALE_S: Final = 86_400.0  # seconds; a Java writes for some seconds
# Settings and options that change the class path or the Java of a driver.
CHOICES: Final = (
    "extraJavaOptions",
    "driver-java-options",
    "extraClassPath",
    "driver-class-path",
    "defaultJavaOptions",
)
PATHS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_CLASSPATH")
JAVA_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", OPTIONS)
AGENTS_AND_SHARING: Final = ("agent", "-Xshare", "Archive")


@contextmanager
def shared_classes(
    environment: Mapping[str, str], spark: Path, settings: Mapping[str, str], is_recording: bool
) -> Iterator[None]:
    """Let a Java process that starts inside the context use the file of classes.

    Args:
        environment: the variables of this process, with JAVA_HOME.
        spark: Spark's home, unless SPARK_HOME is set.
        settings: the settings of the session.
        is_recording: without a file, let the Java process write it when it ends.
    """
    options = sharing_options(environment, Path(environment.get("SPARK_HOME") or spark), settings, is_recording)
    previous = os.environ.get(OPTIONS)
    if options:
        os.environ[OPTIONS] = f"{options} {previous}" if previous else options
    try:
        yield
    finally:
        if options and previous is None:
            os.environ.pop(OPTIONS, None)
        elif options and previous is not None:
            os.environ[OPTIONS] = previous


def sharing_options(environment: Mapping[str, str], home: Path, settings: Mapping[str, str], is_recording: bool) -> str:
    """Return the options of Java that use or write the file of classes; empty if there is nothing to do."""
    java = environment.get("JAVA_HOME", "")
    if os.name != "posix" or not java or not is_plain(environment, home, settings):
        return ""
    try:
        directory = cache_directory(environment)
        archive = archive_of(directory, Path(java), home)
        if archive is None or " " in str(directory):
            return ""
        adopt(archive)
        if archive.exists():
            os.utime(archive)  # the files of long ago are removed first
            return f"{QUIET} -XX:SharedArchiveFile={archive}"
        if not is_recording:
            return ""
        directory.mkdir(parents=True, exist_ok=True)
        return f"{QUIET} -XX:ArchiveClassesAtExit={archive}.{os.getpid()}.part"
    except (OSError, ConfigurationError):
        return ""


def is_plain(environment: Mapping[str, str], home: Path, settings: Mapping[str, str]) -> bool:
    """Return True if the class path is Spark's own, and no option of Java contradicts a file of classes."""
    submitted = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if any(choice in text for choice in CHOICES for text in (submitted, *settings)):
        return False
    if any(environment.get(name) for name in PATHS):
        return False
    java_options = " ".join(environment.get(name, "") for name in JAVA_OPTIONS)
    if any(word in java_options for word in AGENTS_AND_SHARING):
        return False
    configuration = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    # Java keeps no classes of a path with a directory that has files.
    return not configuration.is_dir() or not any(configuration.iterdir())


def archive_of(directory: Path, java: Path, home: Path) -> Path | None:
    """Return the file for this Java and Spark, or ``None`` if Java has no classes of its own in a file."""
    base = java / "lib/server/classes.jsa"
    if not base.exists():
        return None
    files = [base.resolve(), *sorted((home / "jars").glob("*.jar"))]
    identity = "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    return directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def adopt(archive: Path) -> None:
    """Give a completely written file its name, and remove remains and the oldest files.

    Raises:
        OSError: the directory cannot be changed.
    """
    for part in sorted(archive.parent.glob("classes-*.part")):
        if part.name.startswith(archive.name) and is_complete(part):
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(archive)
        elif time.time() - part.stat().st_mtime > STALE_S:
            part.unlink(missing_ok=True)
    others = sorted(archive.parent.glob("classes-*.jsa"), key=lambda file: -file.stat().st_mtime)
    for old in others[MAX_ARCHIVES:]:
        with contextlib.suppress(OSError):
            old.unlink()


def is_complete(part: Path) -> bool:
    """Return True if Java has written the file to its end: its head comes last."""
    with part.open("rb") as file:
        return any(file.read(4))
