"""A process that stores messages until it is killed, and says on its output what became of them.

    python journal_victim.py DIRECTORY FIRST_NUMBER loop|thread

Lines: ``stored N`` after the position of message N was reported, ``removing N`` before its removal is asked for,
``removed N`` after that was reported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from spanwire.model.destination import QUEUE, Destination
from tests.support.journal_store_driver import JournalStoreDriver
from tests.support.plain_format import plain_message

QUEUE_NAME = "A"


def main(directory: str, first_number: str, writer: str) -> None:
    """Never returns."""
    destination = Destination(QUEUE, QUEUE_NAME)
    driver = JournalStoreDriver(Path(directory), in_loop=writer == "loop")
    number = int(first_number)
    kept: list[tuple[int, int]] = []
    while True:
        added: list[tuple[int, int]] = []
        for _ in range(number % 7 + 1):
            number += 1
            message = plain_message(destination, number, b"x" * (number * 37 % 3000))
            added.append((number, driver.store.append(destination, message)))
        removals = kept[::2] if len(kept) > 40 else []
        kept = [pair for pair in kept if pair not in removals] + added
        tell("removing", removals)
        for _, sequence in removals:
            driver.store.remove(destination, sequence)
        driver.turn()
        tell("stored", added)
        tell("removed", removals)


def tell(word: str, pairs: list[tuple[int, int]]) -> None:
    """One line per message, unbuffered."""
    os.write(1, "".join(f"{word} {number}\n" for number, _ in pairs).encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
