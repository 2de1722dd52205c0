"""A file of bridges in TOML.

[connectionFactories.berlin]
url = "tcp://berlin:61616"
userName = "bridge"
password = "{{env:BERLIN_PASSWORD}}"

[bridges.orders]
sourceConnectionFactory = "berlin"
…
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from spanwire.bridges.files.java_parameters import JVM
from spanwire.bridges.files.jndi_parameters import read_context
from spanwire.bridges.files.parameters import bridge_of, factory_of
from spanwire.bridges.files.toml_file import read_toml
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.routes.readers.nodes import Mapping, mapping_of
from spanwire.routes.readers.placeholders import Placeholders

FACTORIES: Final = "connectionFactories"
BRIDGES: Final = "bridges"
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
MAX_BRIDGES: Final = 1_000  # bridges of one file; each has two connections


def read_bridges(content: bytes, file: str, placeholders: Placeholders) -> list[BridgeDefinition]:
    """Return the bridges of a file, in order.

    Raises:
        ConfigurationError: the file cannot be honoured; the error has the line.
    """
    document = placeholders.fill(read_toml(content, file))
    assert isinstance(document, Mapping)
    document.check("table", (FACTORIES, BRIDGES))
    tables = _tables(document, FACTORIES)
    contexts = {
        name: context
        for name, words in tables
        if words.text("provider") != JVM and (context := read_context(words)) is not None
    }
    factories = {name: factory_of(words, name, contexts.get(name)) for name, words in tables}
    definitions = [
        replace(bridge_of(words, name, factories, contexts), written_at=str(words.location))
        for name, words in _tables(document, BRIDGES)
    ]
    if not definitions:
        raise document.location.error("there is no bridge; write a table [bridges.NAME]")
    if len(definitions) > MAX_BRIDGES:
        raise document.location.error(f"there are more than {MAX_BRIDGES} bridges; use several files")
    return definitions


def _tables(document: Mapping, name: str) -> list[tuple[str, Mapping]]:
    node = document.node(name)
    if node is None:
        return []
    tables: list[tuple[str, Mapping]] = []
    for inner, entry in mapping_of(node, name).entries.items():
        if NAME.fullmatch(inner) is None:
            raise entry.location.error(f"the name {inner[:60]!r} may hold letters, digits, dots, dashes and _ only")
        tables.append((inner, mapping_of(entry.value, f"{name}.{inner}")))
    return tables
