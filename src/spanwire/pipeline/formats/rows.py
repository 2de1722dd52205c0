"""Batches of bodies as columns, and columns as bodies, with the codec of a format.

An invalid body becomes null, ends the query, or becomes a row of nulls with the error in a further field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa

from spanwire.model.errors import ConfigurationError, MessageFormatError

NULL: Final = "null"
FAIL: Final = "fail"
COLUMN: Final = "column"
ERROR_FIELD: Final = "_error"
# Errors of Arrow for a value of another type or out of range.
UNSUITABLE: Final = (pa.ArrowException, OverflowError, TypeError, ValueError)


class Codec(Protocol):
    """Bodies of one format with one schema.

    Attributes:
        arrow: the type of a decoded body.
        body: the type of an encoded body, text or octets.
    """

    arrow: pa.DataType
    body: pa.DataType

    def decode(self, body: bytes | str) -> object:
        """Return the value of a body. Raises `MessageFormatError` for an invalid body."""

    def encode(self, value: object) -> bytes | str:
        """Return the body of a value. Raises `MessageFormatError` if the schema does not allow the value."""


def decoded_type(codec: Codec, on_error: str) -> pa.DataType:
    """Return the type of the column of decoded bodies.

    Raises:
        ConfigurationError: ``on_error`` is unknown, or `COLUMN` for a schema without a struct.
    """
    if on_error not in (NULL, FAIL, COLUMN):
        raise ConfigurationError(f"spanwire: on_error is {on_error[:60]!r}; write {NULL}, {FAIL} or {COLUMN}")
    if on_error != COLUMN:
        return codec.arrow
    if not pa.types.is_struct(codec.arrow) or ERROR_FIELD in [field.name for field in codec.arrow]:
        raise ConfigurationError(
            f"spanwire: on_error={COLUMN} adds a field {ERROR_FIELD} to a struct, and this schema makes "
            f"{codec.arrow}; write {NULL} or {FAIL}"
        )
    return pa.struct([*codec.arrow, pa.field(ERROR_FIELD, pa.string())])


def decode_bodies(bodies: Sequence[bytes | str | None], codec: Codec, on_error: str) -> pa.Array:
    """Return bodies as a column; a null body becomes null.

    Raises:
        ConfigurationError: ``on_error`` does not fit.
        MessageFormatError: a body is invalid, and ``on_error`` is `FAIL`.
    """
    kind = decoded_type(codec, on_error)
    results = [_decode(body, codec, on_error) for body in bodies]
    try:
        return pa.array(results, kind)
    except UNSUITABLE:  # a value is out of range: look for its body
        return pa.array([_checked(result, kind, on_error) for result in results], kind)


def encode_values(values: Sequence[object], codec: Codec, on_error: str) -> pa.Array:
    """Return values of a column as bodies; a null value becomes null.

    Raises:
        ConfigurationError: ``on_error`` is neither `NULL` nor `FAIL`.
        MessageFormatError: the schema does not allow a value, and ``on_error`` is `FAIL`.
    """
    if on_error not in (NULL, FAIL):
        raise ConfigurationError(f"spanwire: on_error is {on_error[:60]!r}; write {NULL} or {FAIL}")
    bodies: list[bytes | str | None] = []
    for value in values:
        try:
            bodies.append(None if value is None else codec.encode(value))
        except MessageFormatError as error:
            if on_error == FAIL:
                raise MessageFormatError(f"spanwire: a row makes no body: {error}") from None
            bodies.append(None)
    return pa.array(bodies, codec.body)


def _decode(body: bytes | str | None, codec: Codec, on_error: str) -> object:
    if body is None:
        return None
    try:
        value = codec.decode(body)
    except MessageFormatError as error:
        return _bad_body(str(error), on_error)
    return value


def _checked(result: object, kind: pa.DataType, on_error: str) -> object:
    try:
        pa.array([result], kind)
    except UNSUITABLE:
        return _bad_body("a value does not fit the type of its column", on_error)
    return result


def _bad_body(error: str, on_error: str) -> object:
    if on_error == FAIL:
        raise MessageFormatError(f"spanwire: a body cannot be read: {error}; on_error={NULL} or {COLUMN} reads on")
    return {ERROR_FIELD: error} if on_error == COLUMN else None
