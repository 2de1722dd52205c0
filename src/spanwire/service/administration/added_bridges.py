"""Bridges that an operator created while the broker ran, kept in the store until an operator deletes them.

A definition is a document of one bridge or route, in TOML, YAML or Camel's XML, as in the deploy directory. It is
kept as it was written, so its placeholders ``{{env:SPANWIRE_BRIDGE_…}}`` are replaced anew at each start. A password in
clear is never kept: the bridge lasts until the next start of the broker. Configuration and deploy directory stay the
authority for their own bridges.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Final, Protocol

from spanwire.bridges.files.changed_parameters import SQS
from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.model.route_definition import (
    Definition,
    FileSource,
    FileTarget,
    HttpTarget,
    RouteDefinition,
    with_factories,
)
from spanwire.broker.broker import Broker
from spanwire.broker.metadata import MAX_KEY_BYTES
from spanwire.client.addressing.redaction import redacted
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.routes.masking import SECRET_PARTS, mask
from spanwire.routes.readers.nodes import Location, Mapping, Node, Word
from spanwire.routes.readers.placeholders import PLACEHOLDER, Placeholders
from spanwire.service.administration.disk_wait import is_on_disk
from spanwire.service.config.interpretation.deployed_file import DeployedFileReader

Row = dict[str, object]

VARIABLES: Final = "SPANWIRE_BRIDGE_"  # beginning of the variables that a created definition may read
FORMATS: Final = ("toml", "yaml", "xml")
MAX_DEFINITION_BYTES: Final = 16 * 1024  # bytes of a definition; a bridge has some 500
MAX_KEPT: Final = 1_000  # created bridges, as many as the deploy directory has files; each is read at the start
MAX_NAMES: Final = 1_000  # bridges in one request of an operator
MAX_FILE_NAME: Final = 120  # characters of the file's name in errors
MIN_BEGINNING: Final = 8  # characters of a value that an error has cut off; fewer stand in other words, too
DEPLOY: Final = "put its file into the deploy directory instead"

logger = logging.getLogger(__name__)


class BridgesAtWork(Protocol):
    """The part of the process of the bridges that is used here."""

    def names(self) -> list[str]:
        """Return the names of all bridges."""
        ...

    def take(self, definition: Definition) -> Row:
        """Start a created bridge, in place of a created one of the name. Raises `ConfigurationError`."""
        ...

    async def give_up(self, names: Sequence[str]) -> list[Row]:
        """Let created bridges complete their batches and end, and forget them."""
        ...


class AddedBridges:
    """The created bridges of one broker."""

    def __init__(
        self,
        broker: Broker,
        process: BridgesAtWork,
        broker_name: str,
        environment: AnyMapping[str, str],
        wake: Callable[[], None],
    ) -> None:
        """Keep the definitions in the broker's store. ``wake`` ends a turn of the broker soon."""
        self._wake: Final = wake
        self._broker: Final = broker
        self._process: Final = process
        self._broker_name: Final = broker_name
        # An operator over HTTP decides where a value is sent, so no other secret of the broker is within reach.
        self._environment: Final = {name: text for name, text in environment.items() if name.startswith(VARIABLES)}
        self._kept: Final = broker.assembly.added_bridges
        self._names: Final[set[str]] = set()  # of created bridges that are there
        self._changing: Final = asyncio.Lock()

    async def recover(self) -> None:
        """Start the bridges of the last run. One that cannot be read is a line in the log, and stays kept."""
        async with self._changing:
            for key, value in list(self._kept.values.items()):
                try:
                    warnings = await self._start_again(key, value)
                except ConfigurationError as error:
                    why = "; ".join(str(error).splitlines())
                    logger.warning("bridge %s, which an operator created, is not started: %s", _shown(key), why)
                    continue
                for warning in warnings:
                    logger.warning("bridge %s: %s", _shown(key), warning)

    async def _start_again(self, key: bytes, value: bytes) -> list[str]:
        text, file = _decoded(value)
        definition, _, warnings = await asyncio.to_thread(self._read, text, file, self._process.names())
        if _key(definition.name) != key:
            raise ConfigurationError(f"its record in the store is of {definition.name!r}")
        _check_free(definition.name, self._process.names())  # it was read meanwhile
        self._process.take(definition)
        self._names.add(definition.name)
        return warnings

    async def create(self, arguments: AnyMapping[str, object]) -> list[Row]:
        """Create the bridge of a definition and start it; return its row, with a note if it is not kept.

        Args:
            arguments: ``definition`` is the document, ``format`` one of `FORMATS`, ``file`` its name in errors, and
                ``replace`` True to take the place of a created bridge of the name.

        Raises:
            ConfigurationError: an argument or the definition is faulty, or the name is taken.
        """
        text, file, replaces = _asked_for(arguments)
        async with self._changing:
            definition, secrets, warnings = await asyncio.to_thread(self._read, text, file, self._taken())
            _check_free(definition.name, self._taken())  # a file may have been deployed meanwhile
            if definition.name in self._names and not replaces:
                raise ConfigurationError(
                    f"there is a bridge or route {definition.name!r} already, which was created; replace it with "
                    '--replace ("replace": true over HTTP), or rename this one'
                )
            known = {*self._kept.values, *map(_key, self._names)}  # also kept ones that cannot be used
            if _key(definition.name) in known and not replaces:
                raise ConfigurationError(
                    f"a bridge {definition.name!r} is kept that could not be started; replace or delete it"
                )
            if len(known) >= MAX_KEPT and _key(definition.name) not in known:
                raise ConfigurationError(f"there are {MAX_KEPT} created bridges already; delete one first")
            if len(_key(definition.name)) > MAX_KEY_BYTES:
                raise ConfigurationError(f"the name of the bridge is longer than {MAX_KEY_BYTES} bytes; shorten it")
            row = self._process.take(definition)
            self._names.add(definition.name)
            note = await self._keep(definition.name, text, file, secrets)
        return [{**row, "note": "; ".join([note, *warnings] if note else warnings)}]

    async def delete(self, arguments: AnyMapping[str, object]) -> list[Row]:
        """Let created bridges complete their batches and end, and forget them.

        Raises:
            ConfigurationError: a name is not that of a created bridge.
        """
        names = arguments.get("bridges")
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES or not all(isinstance(n, str) for n in names):
            raise ConfigurationError(f"bridges must be a list of 1 to {MAX_NAMES} names of bridges")
        async with self._changing:
            for name in names:
                if name not in self._names and _key(name) not in self._kept.values:
                    raise ConfigurationError(self._not_created(name))
            rows = await self._process.give_up([name for name in names if name in self._names])
            self._names.difference_update(names)
            if sum(self._kept.discard(_key(name)) for name in names):
                await self._is_on_disk()
        shown = [row["name"] for row in rows]
        return rows + [{"name": name, "state": "stopped"} for name in dict.fromkeys(names) if name not in shown]

    def _taken(self) -> list[str]:
        return [name for name in self._process.names() if name not in self._names]

    def _not_created(self, name: str) -> str:
        if name in self._process.names():
            return f"bridge {name[:100]} is of the configuration or of a deployed file; remove it there"
        known = ", ".join(sorted(self._names)[:20]) or "none"
        return f"unknown bridge {name[:100]}; created are {known}"

    async def _keep(self, name: str, text: str, file: str, secrets: list[str]) -> str:
        """Keep a definition; return "", or a sentence that it lasts until the next start only, and why."""
        why = ""
        if self._broker.assembly.context.store is None:
            why = "the broker keeps nothing, it has no store"
        elif secrets:
            why = (
                f"its {' and '.join(secrets)} is not kept in clear: write {{{{env:{VARIABLES}…}}}}, a variable of the "
                "broker's environment"
            )
        if why:
            if self._kept.discard(_key(name)):  # the one in whose place it came
                await self._is_on_disk()
            logger.warning("bridge %s lasts until the next start only: %s", name, why)
            return f"lasts until the next start only: {why}"
        value = json.dumps({"definition": text, "file": file}, separators=(",", ":")).encode("ascii")
        self._kept.put(_key(name), value)
        return "" if await self._is_on_disk() else "is kept as soon as the disk takes it, which is full or slow"

    async def _is_on_disk(self) -> bool:
        self._wake()
        return await is_on_disk(self._broker)

    def _read(self, text: str, file: str, taken: list[str]) -> tuple[Definition, list[str], list[str]]:
        """Return the bridge of a definition, the names of its secrets in clear, and warnings."""
        placeholders = _Recorded(self._environment)
        reader = DeployedFileReader(self._broker_name, self._environment, placeholders)
        try:
            definitions, warnings = reader.read(text.encode(), Path(file), taken)
        except ConfigurationError as error:
            raise ConfigurationError(_without(self._environment.values(), str(error))) from None
        warnings = [_without(self._environment.values(), warning) for warning in warnings]
        if len(definitions) != 1:
            raise ConfigurationError(
                f"{file} has {len(definitions)} bridges and routes; create one at a time, so that each has a "
                "definition of its own"
            )
        factories = _factories(definitions[0])
        _refuse(definitions[0], factories, file)
        return definitions[0], _secrets_in_clear(factories, placeholders, text), warnings


class _Recorded(Placeholders):
    """Placeholders that remember the values that come from the environment alone, and passwords in clear."""

    _absent = f"the broker was started without it; only variables with {VARIABLES} at their beginning count"

    def __init__(self, environment: AnyMapping[str, str]) -> None:
        super().__init__({}, environment)
        self._known: Final = environment
        self.filled: Final[set[str]] = set()
        self.clear: Final[dict[str, None]] = {}  # names of secrets in clear, also of factories that no bridge uses

    def fill(self, node: Node, is_spring: bool = False) -> Node:
        """Return the nodes with values in place of placeholders."""
        if isinstance(node, Mapping):
            for name, entry in node.entries.items():
                written = entry.value.text if isinstance(entry.value, Word) else None
                if written and SECRET_PARTS.search(name) and not self._is_variable(written):
                    self.clear["password"] = None
        elif isinstance(node, Word) and node.text and mask(node.text) != node.text:
            self.clear["password in the URL"] = None
        return super().fill(node, is_spring)

    def _is_variable(self, text: str) -> bool:
        match = PLACEHOLDER.fullmatch(text)
        return match is not None and match[1] is not None and not match[3] and match[2] in self._known

    def _fill_text(self, text: str, location: Location) -> str:
        filled = super()._fill_text(text, location)
        if self._is_variable(text):
            self.filled.add(filled)
        return filled


def _asked_for(arguments: AnyMapping[str, object]) -> tuple[str, str, bool]:
    """Return the document of a request, a name of a file with the suffix of its format, and whether it replaces."""
    text, form, file = arguments.get("definition"), arguments.get("format", FORMATS[0]), arguments.get("file")
    replaces = arguments.get("replace", False)
    if not isinstance(text, str) or not isinstance(replaces, bool) or not (file is None or isinstance(file, str)):
        raise ConfigurationError("definition and file are texts, and replace is true or false")
    if form not in FORMATS:
        raise ConfigurationError(f"format is {str(form)[:20]!r}; it is {', '.join(FORMATS)}")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_DEFINITION_BYTES:
        raise ConfigurationError(f"the definition is longer than {MAX_DEFINITION_BYTES} bytes; {DEPLOY}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError("the definition is no text in Unicode") from None
    stem = Path(file or "definition").name[:MAX_FILE_NAME] or "definition"
    return text, stem if stem.endswith(f".{form}") else f"{stem}.{form}", replaces


def _factories(definition: Definition) -> list[ConnectionFactory]:
    found: list[ConnectionFactory] = []

    def note(factory: ConnectionFactory) -> ConnectionFactory:
        found.append(factory)
        return factory

    with_factories(definition, note)
    return found


def _refuse(definition: Definition, factories: list[ConnectionFactory], file: str) -> None:
    """Refuse whatever reaches files or code of the machine: an operator may be far away from it."""
    if any(factory.java is not None for factory in factories):
        raise ConfigurationError(f"{file}: classes in Java are for those who may write on this machine; {DEPLOY}")
    if any(factory.provider == SQS and factory.password is None for factory in factories):
        raise ConfigurationError(
            f"{file}: the machine's own rights at Amazon are for those who may write on it; write userName and "
            f"password, an access key and its secret; {DEPLOY}"
        )
    if any(factory.trust_store or factory.key_store for factory in factories):
        raise ConfigurationError(f"{file}: files of trust and key stores are for those who may read them; {DEPLOY}")
    if isinstance(definition, RouteDefinition):
        ends = (definition.source, *definition.targets)
        if any(isinstance(end, (FileSource, FileTarget)) for end in ends):
            raise ConfigurationError(f"{file}: files are for those who may write on this machine; {DEPLOY}")
        if any(isinstance(end, HttpTarget) for end in ends):
            raise ConfigurationError(
                f"{file}: requests over HTTP are for those who may write on this machine; {DEPLOY}"
            )


def _secrets_in_clear(factories: list[ConnectionFactory], placeholders: _Recorded, text: str) -> list[str]:
    """Return the names of passwords that stand in the definition itself."""
    filled = {value for value in placeholders.filled if value not in text}
    names = dict(placeholders.clear)
    for factory in factories:
        directory = None if factory.directory is None else factory.directory.password
        for secret in (factory.password, directory):
            if isinstance(secret, Secret) and not secret.is_empty() and secret.reveal() not in filled:
                names["password"] = None
        if redacted(factory.url) != factory.url and factory.url not in placeholders.filled:
            names["password in the URL"] = None
    return list(names)


def _check_free(name: str, taken: list[str]) -> None:
    if name in taken:
        raise ConfigurationError(f"there is a bridge or route {name!r} already; rename it")


def _without(values: Iterable[str], text: str) -> str:
    """Return an error without the values of variables, or the beginning of one that the error has cut off."""
    for value in sorted(values, key=len, reverse=True):
        for form in dict.fromkeys((value, repr(value)[1:-1])):
            for end in range(len(form), min(len(form), MIN_BEGINNING) - 1, -1):
                if end and form[:end] in text:
                    text = text.replace(form[:end], "…")
                    break
    return text


def _decoded(value: bytes) -> tuple[str, str]:
    """Return the document and the file's name of a record. Raises `ConfigurationError`."""
    try:
        record = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError("its record in the store cannot be read; delete it, and create it anew") from error
    text, file = (record.get("definition"), record.get("file")) if isinstance(record, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(file, str):
        raise ConfigurationError("its record in the store is of another version; delete it, and create it anew")
    return text, file


def _key(name: str) -> bytes:
    return name.encode("utf-8", "backslashreplace")


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")
