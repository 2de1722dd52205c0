"""Reads a file of the deploy directory: Camel's XML, YAML of routes, or bridges in TOML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.model.route_definition import Definition
from spanwire.model.errors import ConfigurationError
from spanwire.routes.endpoints import Host
from spanwire.routes.model import EMBEDDED
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.service.config.interpretation.camel_routes import check_in_broker

TOML: Final = ".toml"


class DeployedFileReader:
    """Reads files for one broker."""

    def __init__(
        self, broker_name: str, environment: Mapping[str, str], placeholders: Placeholders | None = None
    ) -> None:
        """Placeholders have their values from the environment, unless there are other ``placeholders``."""
        self._broker_name: Final[str] = broker_name
        self._placeholders: Final = placeholders or Placeholders(environment, environment)

    def read(self, content: bytes, path: Path, taken: list[str]) -> tuple[list[Definition], list[str]]:
        """Return definitions and warnings. Routes without an id are named after the file.

        Raises:
            ConfigurationError: the file is faulty, or a name of ``taken`` is in it; the text is one line.
        """
        definitions, warnings = self._definitions(content, path)
        for definition in definitions:
            check_in_broker(definition)
            if definition.name in taken:
                raise ConfigurationError(f"{path}: there is a bridge or route {definition.name!r} already; rename it")
        return definitions, warnings

    def _definitions(self, content: bytes, path: Path) -> tuple[list[Definition], list[str]]:
        if path.suffix == TOML:
            return list(read_bridges(content, str(path), self._placeholders)), []
        host = Host(frozenset({self._broker_name}), f"{path.stem}-", takes_options=False)
        file = read_routes(content, str(path), self._placeholders, {}, host).only(EMBEDDED)
        return bridges_of(file.routes), file.warnings
