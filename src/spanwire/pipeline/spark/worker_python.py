"""The interpreter of Spark's local workers: as for this process, but without Spark's zips on the path.

Spark puts ``python/lib/pyspark.zip``, Py4J's zip and the jar of its own core first on the workers' path. The zips have
no compiled modules, so each of half a dozen processes compiles PySpark anew, half a second of CPU time each. The jar
has no Python, yet each process reads its long directory, a tenth of a second. If Spark is the installed package, found
by the interpreter anyway, a script removes exactly the three entries from ``PYTHONPATH``. In doubt Spark's default
stays.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.java import cache_directory

CHECK_TIMEOUT_S: Final = 60.0  # seconds; an interpreter starts and imports PySpark
CHECK: Final = "import os, py4j, pyspark; print(os.path.dirname(os.path.realpath(pyspark.__file__)))"
SCRIPT: Final = """\
#!/bin/sh
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
    {entries}) ;;
    *) kept=${{kept:+$kept:}}$entry ;;
    esac
done
unset IFS
if [ -n "$kept" ]; then
    PYTHONPATH=$kept
    export PYTHONPATH
else
    unset PYTHONPATH
fi
exec {python} "$@"
"""
ENTRIES: Final = ("/python/lib/pyspark.zip", "/python/lib/py4j-*-src.zip", "/jars/spark-core_*.jar")


def worker_python(program: str, spark: Path, environment: Mapping[str, str]) -> str:
    """Return PYSPARK_PYTHON for local workers: a script around ``program``, or ``program`` itself.

    ``spark`` is the imported package and must be Spark's home. The script is created once and tested then: it must
    import the same package.
    """
    home = Path(environment.get("SPARK_HOME") or spark)
    if os.name != "posix" or home.resolve() != spark.resolve():
        return program
    # Spark's scripts may find its home behind symbolic links.
    homes = dict.fromkeys((str(home), str(home.resolve())))
    entries = " | ".join(quote(place) + entry for place in homes for entry in ENTRIES)
    text = SCRIPT.format(entries=entries, python=quote(program))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        script = cache_directory(environment) / f"python-{name}"
        if os.access(script, os.X_OK):
            return str(script)
        return str(script) if _create_script(script, text, home, environment) else program
    except (OSError, ConfigurationError, subprocess.SubprocessError):
        return program


def quote(text: str) -> str:
    """Quote a text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _create_script(script: Path, text: str, home: Path, environment: Mapping[str, str]) -> bool:
    """Write the script; return False if it does not import the package with Spark's zips on the path."""
    script.parent.mkdir(parents=True, exist_ok=True)
    temporary = script.with_name(f".{script.name}-{os.getpid()}")
    python_path = [f"{home}/python/lib/pyspark.zip", *filter(None, [environment.get("PYTHONPATH")])]
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        answer = subprocess.run(
            [str(temporary), "-c", CHECK],
            capture_output=True,
            text=True,
            timeout=CHECK_TIMEOUT_S,
            check=True,
            env={**environment, "PYTHONPATH": ":".join(python_path)},
        )
        if answer.stdout.strip() != str(home.resolve()):
            return False
        temporary.replace(script)
        return True
    finally:
        temporary.unlink(missing_ok=True)
