"""Ports for work in later turns, called by `BrokerContext`: jobs, reads of the store, and alarms.

A class inherits the used ports. A port is a trait, because a compiled class has only one plain base. A port is not a
`typing.Protocol`, because the metaclass of protocols makes ``isinstance(destination, Queue)`` 25 times as slow in the
pure build.
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
    """Takes the messages of reads requested through `BrokerContext.fetch`."""

    @abstractmethod
    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the store's answer to a read."""


@trait
class Alarm:
    """Work to be done at a set time."""

    @abstractmethod
    def wake(self) -> None:
        """Handle the time requested through `BrokerContext.wake_at`."""
