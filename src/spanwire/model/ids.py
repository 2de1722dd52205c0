"""Ids of connections, sessions, producers, consumers, messages and transactions.

The string forms are ActiveMQ's.

Connection ids are plain strings (``ID:host-port-millis-0:1``); all other ids contain a connection id. Ids compare by
value. Protocols intern producer and consumer ids per connection, so a comparison of two ids is mostly an identity test.

Equality and hash are spelled out in each class: a shared base class would cost a method call on the paths of every
message.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr


class SessionId:
    """Session id ``connection_id:value``; -1 is the connection's hidden session for advisories."""

    __slots__ = ("connection_id", "value")

    def __init__(self, connection_id: str, value: int) -> None:
        self.connection_id: Final[str] = connection_id
        self.value: Final[int] = value

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.value}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionId) and self.value == other.value and self.connection_id == other.connection_id

    def __hash__(self) -> int:
        return hash((self.connection_id, self.value))


@mypyc_attr(acyclic=True)
class ProducerId:
    """Producer id ``connection_id:session_id:value``."""

    __slots__ = ("_octets", "connection_id", "session_id", "value")

    def __init__(self, connection_id: str, session_id: int, value: int) -> None:
        self.connection_id: Final[str] = connection_id
        self.session_id: Final[int] = session_id
        self.value: Final[int] = value
        self._octets: bytes | None = None

    def octets(self) -> bytes:
        """Return the text in UTF-8, made once.

        The journal writes the text for each message consumed at once.
        """
        made = self._octets
        if made is None:
            made = str(self).encode("utf-8", "surrogatepass")
            self._octets = made
        return made

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProducerId)
            and self.value == other.value
            and self.session_id == other.session_id
            and self.connection_id == other.connection_id
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.session_id, self.value))


class ConsumerId:
    """Consumer id ``connection_id:session_id:value``."""

    __slots__ = ("connection_id", "session_id", "value")

    def __init__(self, connection_id: str, session_id: int, value: int) -> None:
        self.connection_id: Final[str] = connection_id
        self.session_id: Final[int] = session_id
        self.value: Final[int] = value

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConsumerId)
            and self.value == other.value
            and self.session_id == other.session_id
            and self.connection_id == other.connection_id
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.session_id, self.value))


@mypyc_attr(acyclic=True)
class MessageId:
    """Message id ``producer_id:sequence``; ``sequence`` counts the messages of the producer.

    ``text_view`` is set only for an id from another messaging system and replaces the string form (``ID:`` is put in
    front if missing).
    """

    __slots__ = ("producer_id", "sequence", "text_view")

    def __init__(self, producer_id: ProducerId, sequence: int, text_view: str | None = None) -> None:
        self.producer_id: Final[ProducerId] = producer_id
        self.sequence: Final[int] = sequence
        self.text_view: Final[str | None] = text_view

    def equals(self, other: MessageId) -> bool:
        """Return True if both ids are equal; avoids the type test of ``==`` on the acknowledgement path."""
        if self.sequence != other.sequence:
            return False
        mine = self.producer_id
        theirs = other.producer_id
        if mine is not theirs and not (
            mine.value == theirs.value
            and mine.session_id == theirs.session_id
            and mine.connection_id == theirs.connection_id
        ):
            return False
        return self.text_view == other.text_view

    def __str__(self) -> str:
        text = self.text_view
        if text is not None:
            return text if text.startswith("ID:") else "ID:" + text
        return f"{self.producer_id}:{self.sequence}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageId) and self.equals(other)

    def __hash__(self) -> int:
        return hash((self.producer_id, self.sequence, self.text_view))


class TransactionId:
    """Id of a local transaction of one connection: ``TX:connection_id:value``."""

    __slots__ = ("_text", "connection_id", "value")

    def __init__(self, connection_id: str, value: int) -> None:
        self.connection_id: Final[str] = connection_id
        self.value: Final[int] = value
        self._text: Final[str] = f"TX:{connection_id}:{value}"  # each message of the transaction asks for it

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TransactionId) and self.value == other.value and self.connection_id == other.connection_id
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.value))


class XaTransactionId:
    """Id of an XA transaction branch, chosen by the transaction manager (X/Open XA).

    ``key`` is a unique encoding of the three parts. The string form is ActiveMQ's: octets in hexadecimal without
    leading zeros, negative octets with their sign.
    """

    __slots__ = ("branch_qualifier", "format_id", "global_id", "key")

    def __init__(self, format_id: int, global_id: bytes, branch_qualifier: bytes) -> None:
        self.format_id: Final[int] = format_id
        self.global_id: Final[bytes] = global_id
        self.branch_qualifier: Final[bytes] = branch_qualifier
        self.key: Final[bytes] = (
            format_id.to_bytes(4, "big", signed=True) + bytes([len(global_id)]) + global_id + branch_qualifier
        )

    def __str__(self) -> str:
        return f"XID:[{self.format_id},globalId={_digits(self.global_id)},branchId={_digits(self.branch_qualifier)}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XaTransactionId) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


AnyTransactionId: TypeAlias = TransactionId | XaTransactionId


def xa_transaction_id(key: bytes) -> XaTransactionId:
    """Return the id encoded by `XaTransactionId.key`.

    Raises:
        ValueError: ``key`` is too short.
    """
    if len(key) < 5 or len(key) < 5 + key[4]:
        raise ValueError("the key of a transaction branch is too short")
    end = 5 + key[4]
    return XaTransactionId(int.from_bytes(key[:4], "big", signed=True), key[5:end], key[end:])


def _digits(octets: bytes) -> str:
    return "".join([f"{octet if octet < 0x80 else octet | 0xFFFFFF00:x}" for octet in octets])


def parsed_producer_id(text: str) -> ProducerId | None:
    """Parse the string form of a producer id; return None for any other text."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not _is_number(parts[1]) or not _is_number(parts[2]):
        return None
    return ProducerId(parts[0], int(parts[1]), int(parts[2]))


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= 19
