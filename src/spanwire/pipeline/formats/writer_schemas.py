"""Caches the writers' schemas of framed bodies by schema id, in one worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.schema_registry import StoredSchema, UnknownSchemaError

T = TypeVar("T")
Fetch = Callable[[int, str], StoredSchema]
MAX_SCHEMAS: Final = 1000  # bounds the memory of a worker; a subject has some dozens of versions


class WriterSchemas(Generic[T]):
    """Fetches each schema once, and keeps the parsed form.

    An unreachable registry ends the batch, because the rows are not at fault. An unknown id is requested once in each
    batch, because a replica of the registry may get the schema later.
    """

    def __init__(self, fetch: Fetch, kind: str, parse: Callable[[StoredSchema], T], form: str = "") -> None:
        """``fetch`` is the method `schema` of a registry, ``form`` the requested format."""
        self._fetch: Final = fetch
        self._kind: Final = kind
        self._parse: Final = parse
        self._form: Final = form
        self._parsed: Final[dict[int, T]] = {}
        self._failed: Final[dict[int, str]] = {}

    def begin_batch(self) -> None:
        """Forget the ids of unusable schemas."""
        self._failed.clear()

    def get(self, number: int) -> T:
        """Return the schema with an id.

        Raises:
            MessageFormatError: the registry has no such schema, or the schema is unusable.
            RegistryError: the registry does not answer.
        """
        if number in self._parsed:
            return self._parsed[number]
        if number in self._failed:
            raise MessageFormatError(self._failed[number])
        try:
            stored = self._fetch(number, self._form)
            if stored.kind != self._kind:
                raise MessageFormatError(f"schema {number} of the registry is {stored.kind}, not {self._kind}")
            parsed = self._parse(stored)
        except (UnknownSchemaError, MessageFormatError, ConfigurationError) as error:
            self._failed[number] = str(error).removeprefix("spanwire: ")
            raise MessageFormatError(self._failed[number]) from None
        if len(self._parsed) >= MAX_SCHEMAS:
            self._parsed.pop(next(iter(self._parsed)))
        self._parsed[number] = parsed
        return parsed
