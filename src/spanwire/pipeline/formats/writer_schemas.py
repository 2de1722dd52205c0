"""The schemas of writers, by the ids in framed bodies, as one worker has fetched them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.schema_registry import StoredSchema, UnknownSchemaError

T = TypeVar("T")
Fetch = Callable[[int, str], StoredSchema]
MAX_SCHEMAS: Final = 1000  # of one subject there are some dozens; bounds the memory of a worker


class WriterSchemas(Generic[T]):
    """Fetches each schema once, and keeps the parsed form.

    A registry that does not answer ends the batch, because its rows are not at fault. An unknown id is asked for once
    in a batch: the registry may be behind.
    """

    def __init__(self, fetch: Fetch, kind: str, parse: Callable[[StoredSchema], T], form: str = "") -> None:
        """``fetch`` is a registry's `schema`, ``form`` the format that it is asked for."""
        self._fetch: Final = fetch
        self._kind: Final = kind
        self._parse: Final = parse
        self._form: Final = form
        self._parsed: Final[dict[int, T]] = {}
        self._failed: Final[dict[int, str]] = {}

    def begin_batch(self) -> None:
        """Forget the ids that could not be used."""
        self._failed.clear()

    def get(self, number: int) -> T:
        """Return the schema with an id.

        Raises:
            MessageFormatError: the registry has none, or it cannot be used.
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
