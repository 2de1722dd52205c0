"""Ports of work that goes on in later turns. `BrokerContext` calls the objects back.

Each class inherits the ports that it uses. A port is a trait, since a compiled class has one plain base; and not a
`typing.Protocol`, whose metaclass makes ``isinstance(destination, Queue)`` 25 times as slow in the pure build.
"""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import trait

from spanwire.model.message import Message


@trait
class Job:
    """Long work of the broker, done a slice at a time."""

    @abstractmethod
    def work(self) -> bool:
        """Do one slice.

        Returns:
            True if the job has more to do.
        """


@trait
class StoreReader:
    """Takes the messages of reads that `BrokerContext.fetch` requested."""

    @abstractmethod
    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the store's answer to a read."""


@trait
class Alarm:
    """Work that waits for a time."""

    @abstractmethod
    def wake(self) -> None:
        """Handle the time requested through `BrokerContext.wake_at`."""
