"""moto's server of SQS with queues that outlive it: ``python -m tests.support.durable_sqs_server JOURNAL [OPTION…]``.

Each queue, message and deletion is in the journal before its answer. After a start each message is visible that is not
deleted.
"""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.server import main
from moto.sqs.models import Message, Queue, SQSBackend, sqs_backends

from tests.support.sqs_server import REGION


class Journal:
    """A file of pickled entries: what happened, the queue, and the rest."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._lock: Final = threading.Lock()

    def entries(self) -> list[tuple[str, str, Any]]:
        """Return all entries but a last one that is not whole."""
        found: list[tuple[str, str, Any]] = []
        if self._path.exists():
            with self._path.open("rb") as file:
                while True:
                    try:
                        found.append(pickle.load(file))  # noqa: S301 -- the server has written it
                    except (EOFError, pickle.UnpicklingError):
                        break
        return found

    def write(self, entry: tuple[str, str, Any]) -> None:
        """Append an entry, for the kernel to keep."""
        with self._lock, self._path.open("ab") as file:
            file.write(pickle.dumps(entry))


def restore(journal: Journal) -> None:
    """Fill the queues."""
    backend = sqs_backends[DEFAULT_ACCOUNT_ID][REGION]
    for what, name, value in journal.entries():
        if what == "queue":
            backend.create_queue(name, **value)
        elif what == "message":
            backend.queues[name]._messages.append(value)
        else:
            queue = backend.queues[name]
            queue._messages = [message for message in queue._messages if message.id != value]


def record(journal: Journal) -> None:
    """Let the server write what it does from now on."""
    create, add, delete = SQSBackend.create_queue, Queue.add_message, Queue.delete_message

    def create_queue(self: SQSBackend, name: str, tags: Any = None, **words: Any) -> Queue:
        is_new = name not in self.queues
        entry = ("queue", name, dict(words))
        queue = create(self, name, tags, **words)
        if is_new:
            journal.write(entry)
        return queue

    def add_message(self: Queue, message: Message) -> None:
        add(self, message)
        journal.write(("message", self.name, message))

    def delete_message(self: Queue, receipt: str) -> None:
        ids = [message.id for message in self._messages if message.had_receipt_handle(receipt)]
        delete(self, receipt)
        for one in ids:
            journal.write(("deleted", self.name, one))

    SQSBackend.create_queue = create_queue
    Queue.add_message = add_message
    Queue.delete_message = delete_message


if __name__ == "__main__":
    kept = Journal(Path(sys.argv[1]))
    restore(kept)
    record(kept)
    main(sys.argv[2:])
