"""Finds the classes that Hadoop's native library needs, in the jars of CLASSPATH.

PyArrow says "HDFS connection failed" without a jar, and for a NameNode whose name cannot be looked up. The first fault
stays until somebody sets the variable; the second one may end by itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

SCHEMES: Final = ("hdfs", "viewfs")
REMEDY: Final = "set JAVA_HOME, ARROW_LIBHDFS_DIR and CLASSPATH to Java, libhdfs.so and Hadoop's jars"
# The library loads both at each connection. Jars with the first one do not have the second one.
NEEDED: Final = ("org.apache.hadoop.fs.FileSystem", "org.apache.commons.lang3.exception.ExceptionUtils")


def missing_class(class_path: str) -> str | None:
    """Return a needed class that no entry of a class path has."""
    entries = [Path(entry) for entry in class_path.split(os.pathsep) if entry]
    for name in NEEDED:
        file = f"{name.replace('.', '/')}.class"
        if not any(_has(entry, file) for entry in entries):
            return name
    return None


def _has(entry: Path, file: str) -> bool:
    if entry.name == "*":
        return any(_has(jar, file) for jar in entry.parent.glob("*.jar"))
    if entry.is_dir():
        return (entry / file).exists()
    try:
        with ZipFile(entry) as jar:
            return file in jar.NameToInfo
    except (OSError, BadZipFile):
        return False
