"""Records of the service that outlive restarts in the store: orders of tasks, and added connectors."""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import MetadataStore
from spanwire.model.errors import StoreError

MAX_ORDERS: Final = 100  # orders of one kind, those that have ended among them; whoever adds one makes room


class KeptNames:
    """Values by name, in one table of the store's metadata."""

    def __init__(self, metadata: MetadataStore, table: int) -> None:
        self._metadata: Final[MetadataStore] = metadata
        self._table: Final[int] = table
        self.values: Final[dict[bytes, bytes]] = {}

    def put(self, name: bytes, value: bytes) -> None:
        """Keep ``value`` in place of the last one of the name.

        Raises:
            ResourceAllocationError: longer than `MAX_KEY_BYTES` or `MAX_VALUE_BYTES`.
        """
        self._metadata.put_metadata(self._table, name, value)
        self.values[name] = value

    def discard(self, name: bytes) -> bool:
        """Forget a value; return True if there was one."""
        if self.values.pop(name, None) is None:
            return False
        self._metadata.discard_metadata(self._table, name)
        return True

    def recover(self, records: dict[bytes, bytes]) -> None:
        """Restore the values of the last run; whoever reads them judges them."""
        self.values.update(records)


class KeptOrders:
    """Values by the number of their order, in one table of the store's metadata."""

    def __init__(self, metadata: MetadataStore, table: int) -> None:
        self._metadata: Final[MetadataStore] = metadata
        self._table: Final[int] = table
        self.values: Final[dict[int, bytes]] = {}

    def put(self, number: int, value: bytes) -> None:
        """Keep ``value`` in place of the last one of the order."""
        self.values[number] = value
        self._metadata.put_metadata(self._table, _key(number), value)

    def discard(self, number: int) -> None:
        """Forget an order."""
        if self.values.pop(number, None) is not None:
            self._metadata.discard_metadata(self._table, _key(number))

    def recover(self, records: dict[bytes, bytes]) -> None:
        """Restore the orders of the last run.

        Raises:
            StoreError: a key is no number.
        """
        for key, value in records.items():
            digits = key.decode("ascii", "replace")
            if not digits.isdecimal() or len(digits) > 18:
                raise StoreError(f"the store has an order that this version cannot read: key {key!r}")
            self.values[int(digits)] = value


def _key(number: int) -> bytes:
    return str(number).encode("ascii")
