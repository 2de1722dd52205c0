"""Caches the writers' schemas of framed bodies by schema id, in one worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.schema_registry import StoredSchema, UnknownSchemaError

T = TypeVar("T")
Fetch = Callable[[int, str], StoredSchema]
MAX_SCHEMAS: Final = 1000  # bounds the memory of a worker; a subject has some dozens of versions
MAX_UNUSABLE: Final = 10_000  # ids; bounds the memory that senders of invented ids take, below 10 MiB
UNUSABLE_S: Final = 2.0  # seconds; a replica of the registry may get the schema later, and a batch is done again then


class WriterSchemas(Generic[T]):
    """Fetches each schema once, and keeps the parsed form.

    An unreachable registry ends the batch, because the rows are not at fault. An id without a usable schema is
    requested again after `UNUSABLE_S`.
    """

    def __init__(
        self,
        fetch: Fetch,
        kind: str,
        parse: Callable[[StoredSchema], T],
        form: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``fetch`` is the method `schema` of a registry, ``form`` the requested format."""
        self._fetch: Final = fetch
        self._kind: Final = kind
        self._parse: Final = parse
        self._form: Final = form
        self._clock: Final = clock
        self._parsed: Final[dict[int, T]] = {}
        self._unusable: Final[dict[int, tuple[float, str]]] = {}  # the next request and the reason, the oldest first

    def get(self, number: int) -> T:
        """Return the schema with an id.

        Raises:
            MessageFormatError: the registry has no such schema, or the schema is unusable.
            RegistryError: the registry does not answer.
        """
        if number in self._parsed:
            return self._parsed[number]
        self._refuse(number)
        try:
            stored = self._fetch(number, self._form)
            if stored.kind != self._kind:
                raise MessageFormatError(f"schema {number} of the registry is {stored.kind}, not {self._kind}")
            parsed = self._parse(stored)
        except (UnknownSchemaError, MessageFormatError, ConfigurationError) as error:
            reason = str(error).removeprefix("spanwire: ")
            if len(self._unusable) >= MAX_UNUSABLE:
                self._unusable.pop(next(iter(self._unusable)))
            self._unusable[number] = (self._clock() + UNUSABLE_S, reason)
            raise MessageFormatError(reason) from None
        if len(self._parsed) >= MAX_SCHEMAS:
            self._parsed.pop(next(iter(self._parsed)))
        self._parsed[number] = parsed
        return parsed

    def _refuse(self, number: int) -> None:
        """Raise `MessageFormatError` for an id that is not requested yet again."""
        if number in self._unusable:
            end, reason = self._unusable[number]
            if self._clock() < end:
                raise MessageFormatError(reason)
            del self._unusable[number]
