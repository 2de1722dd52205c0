"""The brokers at the other ends of a broker's links, each with a unique id and name.

Loops are found by ids. Client ids and durable subscriptions of bridges contain names. A link to a broker with the id or
name of another linked broker is refused, whichever end opened the link.

Brokers without a configured name are all called ``localhost``, with different ids. Each such broker gets a label for
client ids here: ``localhost``, ``localhost-2`` and so on, in the order of the links. Generated ids change at a restart,
and would be unsuitable labels.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.security.audit_log import printable
from spanwire.model.errors import JmsError
from spanwire.model.routing import UNNAMED

logger = logging.getLogger(__name__)


class RemoteBrokerRegistry:
    """Knows the brokers behind all links of a broker in both directions, and counts the links to each."""

    def __init__(self) -> None:
        self._names: Final[dict[str, str]] = {}
        self._ids: Final[dict[str, str]] = {}
        self._links: Final[dict[str, int]] = {}
        self._labels: Final[dict[str, str]] = {}
        self._urls: Final[dict[str, str]] = {}

    def add_link(self, broker_id: str, name: str, own_id: str, own_name: str, url: str = "") -> None:
        """Add a link to the broker with this id and name; ``url`` is its address in its own words, for messages.

        Raises:
            JmsError: another broker has the id or the name
        """
        if broker_id == own_id:
            raise JmsError("the remote broker is this broker itself, or one with the same brokerId")
        known_name = self._names.get(broker_id)
        if known_name is not None and known_name != name:
            raise JmsError(
                f"broker {name} has the brokerId {broker_id}, and so has broker {known_name}, which is linked already: "
                f"give each a brokerId of its own"
            )
        if name != UNNAMED:
            self._check_name(broker_id, name, own_name, url)
            self._ids[name] = broker_id
        self._names[broker_id] = name
        self._urls[broker_id] = url
        self._links[broker_id] = self._links.get(broker_id, 0) + 1

    def _check_name(self, broker_id: str, name: str, own_name: str, url: str) -> None:
        other = self._ids.get(name, broker_id)
        if name == own_name or other != broker_id:
            known = f"the broker of brokerId {other}{_at(self._urls.get(other, ''))}, which is linked already"
            whose = "this broker" if name == own_name else known
            raise JmsError(
                f"the broker of brokerId {broker_id}{_at(url)} is named {name}, and so is {whose}: give each a "
                f"brokerName of its own"
            )

    def label(self, broker_id: str, name: str) -> str:
        """Return the name of a broker for client ids here, unique among the linked brokers."""
        if name != UNNAMED:
            return name
        label, number = UNNAMED, 1
        while self._labels.get(label, broker_id) != broker_id:
            number += 1
            label = f"{UNNAMED}-{number}"
        return label

    def reserve_label(self, broker_id: str, name: str) -> None:
        """Reserve the label of a broker until its last link is closed."""
        label = self.label(broker_id, name)
        self._labels[label] = broker_id
        if label != name:
            logger.warning(
                "the broker of brokerId %s has no brokerName, like another one that is linked, and is called %s here: "
                "after a restart their durable subscriptions may be mixed up; give each broker a brokerName of its own",
                printable(broker_id), label,
            )  # fmt: skip

    def remove_link(self, broker_id: str) -> None:
        """Remove a link to a broker."""
        count = self._links.pop(broker_id, 0) - 1
        if count > 0:
            self._links[broker_id] = count
            return
        for label in [label for label, owner in self._labels.items() if owner == broker_id]:
            del self._labels[label]
        name = self._names.pop(broker_id, None)
        self._urls.pop(broker_id, None)
        if name is not None and self._ids.get(name) == broker_id:
            del self._ids[name]


def _at(url: str) -> str:
    return f" at {printable(url)}" if url else ""


def name_elsewhere(broker_id: str, name: str) -> str:
    """Return the local broker's name for client ids at other brokers, where the default name may be taken."""
    return name if name != UNNAMED else f"{UNNAMED}-{broker_id}"
