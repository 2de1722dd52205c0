"""The brokers at the other ends of one broker's links: each has an id and a name of its own.

Loops are found by ids; client ids and durable subscriptions of bridges are made of names. Of two brokers that have one
in common the second is refused, whichever end opened its link, for as long as the first is there.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import JmsError

UNNAMED: Final = "localhost"  # ActiveMQ's default brokerName, which many brokers have because nobody gave them one


class LinkedBrokers:
    """Knows the brokers behind all links of one broker, of both directions, and counts the links to each."""

    def __init__(self) -> None:
        self._names: Final[dict[str, str]] = {}
        self._ids: Final[dict[str, str]] = {}
        self._links: Final[dict[str, int]] = {}

    def enter(self, broker_id: str, name: str, own_id: str, own_name: str) -> None:
        """One more link to the broker of this id and name. Raises `JmsError` when another has one of them."""
        if broker_id == own_id:
            raise JmsError("the remote broker is this broker itself, or one with the same brokerId")
        known_name = self._names.get(broker_id)
        if known_name is not None and known_name != name:
            raise JmsError(
                f"broker {name} has the brokerId {broker_id}, and so has broker {known_name}, which is linked already: "
                f"give each a brokerId of its own"
            )
        if name != UNNAMED:
            self._check_name(broker_id, name, own_name)
            self._ids[name] = broker_id
        self._names[broker_id] = name
        self._links[broker_id] = self._links.get(broker_id, 0) + 1

    def _check_name(self, broker_id: str, name: str, own_name: str) -> None:
        other = self._ids.get(name, broker_id)
        if name == own_name or other != broker_id:
            whose = "this broker" if name == own_name else f"the broker of brokerId {other}, which is linked already"
            raise JmsError(
                f"the broker of brokerId {broker_id} is named {name}, and so is {whose}: give each a brokerName of "
                f"its own"
            )

    def leave(self, broker_id: str) -> None:
        """One link less."""
        count = self._links.pop(broker_id, 0) - 1
        if count > 0:
            self._links[broker_id] = count
            return
        name = self._names.pop(broker_id, None)
        if name is not None and self._ids.get(name) == broker_id:
            del self._ids[name]
