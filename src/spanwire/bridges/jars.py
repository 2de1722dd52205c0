"""Jars of JMS providers: files of the directory of ``--jars``, writable for the owner alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.model.route_definition import Definition, RouteDefinition, error_about, with_factories
from spanwire.bridges.owned_files import check_directory, check_file
from spanwire.model.errors import ConfigurationError

DIRECTORY: Final = "the directory of jars"
JAR: Final = "the jar"
SUFFIX: Final = ".jar"
MAX_JARS: Final = 200  # of one factory; a client of JMS has some twenty


def with_jars(definitions: Iterable[Definition], directory: Path | None) -> list[Definition]:
    """Return the definitions with the paths of their jars.

    Raises:
        ConfigurationError: a jar is missing or has a path, or other users can write to it; or there is no directory.
    """
    return [_found(definition, directory) for definition in definitions]


def jar_obstacles(definitions: Iterable[Definition], directory: Path | None) -> list[str]:
    """Return one line for each bridge with unusable jars."""
    lines: list[str] = []
    for definition in definitions:
        try:
            with_jars([definition], directory)
        except ConfigurationError as error:
            lines.append(str(error))
    return lines


def _found(definition: Definition, directory: Path | None) -> Definition:
    word = "route" if isinstance(definition, RouteDefinition) else "bridge"
    try:
        return with_factories(definition, lambda factory: _with_paths(factory, directory))
    except ConfigurationError as error:
        raise error_about(definition, f"{word} {definition.name}: {error}") from None


def _with_paths(factory: ConnectionFactory, directory: Path | None) -> ConnectionFactory:
    java = factory.java
    if java is None:
        return factory
    if directory is None:
        raise ConfigurationError("the provider jvm needs --jars DIRECTORY with the jars of the JMS provider")
    place = directory.absolute()
    check_directory(place, DIRECTORY)
    names = java.jars or tuple(sorted(path.name for path in place.glob(f"*{SUFFIX}")))
    if not 0 < len(names) <= MAX_JARS:
        raise ConfigurationError(f"{DIRECTORY} {place} has {len(names)} jars; it must have 1 to {MAX_JARS}")
    for name in names:
        if "/" in name or not name.endswith(SUFFIX):
            raise ConfigurationError(f"{name[:120]!r} is no jar of the directory; write its file name alone")
        check_file(place / name, JAR)
    return replace(factory, java=replace(java, jars=tuple(str(place / name) for name in names)))
