"""Reads YAML as nodes with lines; refuses tags, aliases and objects, and keeps every word as text.

PyYAML, of the extras ``yaml`` and ``spark``, parses the text.
"""

from __future__ import annotations

from typing import Final

import yaml

from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.routes.readers.nodes import Entry, Items, Location, Mapping, Node, Word

MAX_FILE_BYTES: Final = MIB  # bytes; a route file has some kilobytes
MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 40
NULL_TAG: Final = "tag:yaml.org,2002:null"
PLAIN_TAGS: Final = frozenset(
    {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map")}
)


def read_yaml(content: bytes, file: str) -> Node:
    """Return the document.

    Raises:
        ConfigurationError: the text is no YAML, or exceeds the limits of a route file; the error has the line.
    """
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{file}: is larger than {MAX_FILE_BYTES} bytes, which no route file needs")
    try:
        text = content.decode("utf-8-sig")
        events = 0
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            events += 1
            location = Location(file, event.start_mark.line + 1)
            if isinstance(event, yaml.AliasEvent):
                raise location.error("aliases (*name) are refused; write it out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if events > MAX_NODES or depth > MAX_DEPTH:
                raise location.error(f"more than {MAX_NODES} values, or more than {MAX_DEPTH} inside each other")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: is not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise Location(file, line).error(f"the YAML is broken: {error.problem}") from None
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0]
        raise ConfigurationError(f"{file}: the YAML is broken: {first}") from None
    if node is None:
        raise ConfigurationError(f"{file}: is empty; it must hold a list of routes")
    return _node(node, file)


def _node(node: yaml.Node, file: str) -> Node:
    location = Location(file, node.start_mark.line + 1)
    if node.tag not in PLAIN_TAGS:
        raise location.error(f"the tag {node.tag} is refused; a route file holds texts, lists and mappings")
    if isinstance(node, yaml.ScalarNode):
        return Word(location, None if node.tag == NULL_TAG else str(node.value))
    if isinstance(node, yaml.SequenceNode):
        return Items(location, [_node(item, file) for item in node.value])
    entries: dict[str, Entry] = {}
    for key, value in node.value:
        key_location = Location(file, key.start_mark.line + 1)
        if not isinstance(key, yaml.ScalarNode):
            raise key_location.error("a name must be a text")
        name = str(key.value)
        if name in entries:
            raise key_location.error(f"{name!r} is there twice")
        entries[name] = Entry(key_location, _node(value, file))
    return Mapping(location, entries)
