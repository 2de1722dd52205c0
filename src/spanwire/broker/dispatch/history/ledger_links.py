"""The numbers of links in the ledger: one for the name of each broker at the other end."""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import LEDGER_LINKS
from spanwire.broker.ports import MetadataStore
from spanwire.model.ledger import FIRST_LINK, OTHER_LINKS

MAX_NAME: Final = 200  # characters of a broker's name that are kept; a peer may send any number


class LedgerLinks:
    """Gives each broker a number, and keeps it in the store: the journal has the number in its records.

    Brokers beyond `MAX_LINKS` share the last number.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store: Final[MetadataStore] = store
        self._numbers: Final[dict[str, int]] = {}

    def number_of(self, name: str) -> int:
        """Return the number of links to the broker with a name."""
        name = name[:MAX_NAME]
        number = self._numbers.get(name, 0)
        if number == 0:
            number = FIRST_LINK + len(self._numbers)
            if number >= OTHER_LINKS:
                return OTHER_LINKS
            self._numbers[name] = number
            self._store.put_metadata(LEDGER_LINKS, bytes([number]), name.encode("utf-8", "surrogatepass"))
        return number

    def names(self) -> dict[int, str]:
        """Return the name for each number."""
        return {number: name for name, number in self._numbers.items()}

    def restore(self, metadata: dict[bytes, bytes]) -> None:
        """Take the numbers from the store."""
        for key in sorted(metadata):
            if len(key) == 1:
                self._numbers[metadata[key].decode("utf-8", "replace")] = key[0]
