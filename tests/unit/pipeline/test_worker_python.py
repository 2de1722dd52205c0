"""The interpreter of Spark's workers, with scripts in the role of interpreters and folders in the role of Spark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spanwire.pipeline.spark.worker_python import quote, worker_python


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """A package with a name that a shell would take apart."""
    package = tmp_path / "it's a place/pyspark"
    (package / "python/lib").mkdir(parents=True)
    return package


def interpreter(folder: Path, finds: Path) -> str:
    """What finds PySpark there, and tells its path and its words."""
    program = folder / "python 3"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -c ]; then echo {quote(str(finds.resolve()))}; '
        'else echo "path=${PYTHONPATH-none}"; for word in "$@"; do echo "<$word>"; done; fi\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return str(program)


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(folder / "cache"), **more}


def said(program: str, path: str) -> list[str]:
    answer = subprocess.run(
        [program, "-m", "a module", "*"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
    )
    return answer.stdout.splitlines()


def test_only_the_zips_of_that_spark_are_taken_off_the_path(tmp_path: Path, spark: Path) -> None:
    python = worker_python(interpreter(tmp_path, spark), spark, environment(tmp_path))
    lib = f"{spark}/python/lib"
    core = f"{spark}/jars/spark-core_2.13-4.3.0.jar"
    path = f"{lib}/pyspark.zip:{lib}/py4j-0.10.9.9-src.zip:{core}:/else/where/pyspark.zip:{lib}/mine.zip:/a b:/*"
    words = ["<-m>", "<a module>", "<*>"]
    assert said(python, path) == [f"path=/else/where/pyspark.zip:{lib}/mine.zip:/a b:/*", *words]
    assert said(python, f"{lib}/pyspark.zip:{lib}/py4j-0.10.9.9-src.zip") == ["path=none", *words]


def test_the_zips_are_taken_off_the_path_where_spark_is_found_behind_a_link(tmp_path: Path, spark: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(spark)
    python = worker_python(interpreter(tmp_path, spark), link, environment(tmp_path))
    for home in (spark.resolve(), link):
        path = f"{home}/python/lib/pyspark.zip:/mine:{home}/jars/spark-core_2.13-4.3.0.jar"
        assert said(python, path)[0] == "path=/mine"


def test_the_script_is_made_once(tmp_path: Path, spark: Path) -> None:
    program = interpreter(tmp_path, spark)
    made = worker_python(program, spark, environment(tmp_path))
    before = Path(made).stat()
    assert made != program
    assert worker_python(program, spark, environment(tmp_path, SPARK_HOME=str(spark))) == made
    assert Path(made).stat() == before
    assert sorted(path.name for path in Path(made).parent.iterdir()) == [Path(made).name]


def test_another_spark_keeps_its_zips(tmp_path: Path, spark: Path) -> None:
    program = interpreter(tmp_path, spark)
    assert worker_python(program, spark, environment(tmp_path, SPARK_HOME=str(tmp_path / "spark"))) == program


def test_an_interpreter_that_finds_another_package_keeps_the_zips(tmp_path: Path, spark: Path) -> None:
    program = interpreter(tmp_path, tmp_path / "another/pyspark")
    assert worker_python(program, spark, environment(tmp_path)) == program
    assert list((tmp_path / "cache/spanwire").iterdir()) == []


def test_an_interpreter_that_finds_none_keeps_the_zips(tmp_path: Path, spark: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    assert worker_python(str(program), spark, environment(tmp_path)) == str(program)


def test_where_nothing_can_be_written_spark_goes_its_own_way(tmp_path: Path, spark: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    program = interpreter(tmp_path, spark)
    assert worker_python(program, spark, environment(tmp_path)) == program


def test_a_user_without_a_home_gets_sparks_own_way(
    tmp_path: Path, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    program = interpreter(tmp_path, spark)
    assert worker_python(program, spark, {"PATH": os.environ["PATH"]}) == program
