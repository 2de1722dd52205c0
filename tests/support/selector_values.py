"""A message as a selector sees it, made of typed Python values."""

from __future__ import annotations

import struct
from typing import Final

from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
)

TYPES: Final = {
    "boolean": BOOLEAN_VALUE,
    "byte": BYTE_VALUE,
    "short": SHORT_VALUE,
    "int": INT_VALUE,
    "long": LONG_VALUE,
    "float": FLOAT_VALUE,
    "double": DOUBLE_VALUE,
    "string": STRING_VALUE,
    "null": NULL_VALUE,
}

# What ActiveMQ shows of the headers that a sender has not set.
UNSET_HEADERS: Final[dict[str, object]] = {
    "JMSPriority": 0,
    "JMSDeliveryMode": "NON_PERSISTENT",
    "JMSTimestamp": 0,
    "JMSExpiration": 0,
    "JMSRedelivered": False,
    "JMSXGroupSeq": 0,
    "JMSXGroupFirstForConsumer": False,
    "JMSActiveMQBrokerInTime": 0,
    "JMSActiveMQBrokerOutTime": 0,
    "JMSActiveMQBrokerPath": "null",
}


class TypedMessage:
    """Headers by name and properties as (JMS type, value); counts how often it is asked."""

    def __init__(self, headers: dict[str, object], properties: dict[str, tuple[str, object]]) -> None:
        self.questions = 0
        self._values: Final = dict(UNSET_HEADERS)
        self._types: Final[dict[str, int]] = {}
        for name, (type_name, value) in properties.items():
            self._types[name] = TYPES[type_name]
            self._values[name] = _converted(type_name, value)
        self._values.update(headers)
        self._values["JMSXDeliveryCount"] = 2 if self._values["JMSRedelivered"] else 1

    def value(self, name: str) -> object:
        self.questions += 1
        return self._values.get(name)

    def value_type(self, name: str) -> int:
        return self._types.get(name, NULL_VALUE)


def _converted(type_name: str, value: object) -> object:
    if type_name == "double" and isinstance(value, (int, float, str)):
        return float(value)
    if type_name == "float" and isinstance(value, (int, float, str)):
        (rounded,) = struct.unpack(">f", struct.pack(">f", float(value)))
        return rounded
    return value


def untyped(**properties: object) -> TypedMessage:
    """A message of whose properties only the Python values are known."""
    return TypedMessage({}, {name: ("null", value) for name, value in properties.items()})
