"""The drain of links: nothing further is taken, and what is on its way is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from spanwire.model.environment import Environment
from spanwire.model.errors import ConfigurationError
from spanwire.network.connector.link import Link

PATIENCE_S: Final = 30.0  # seconds for the answers to messages on their way; then the links go on
POLL_S: Final = 0.05  # seconds between two looks at them


async def drain_links(links: Sequence[Link], environment: Environment, wake: Callable[[], None]) -> None:
    """Hold links until no message is on its way over them to the remote broker. They stay held.

    ``wake`` ends a turn of the broker soon.

    Messages that come from the other end of a duplex link are not held.

    Raises:
        ConfigurationError: messages had no answer for `PATIENCE_S`; the links go on.
    """
    _hold(links, True, environment)
    ends = environment.now().monotonic + PATIENCE_S
    while count := sum(link.view().in_flight for link in links):
        if environment.now().monotonic >= ends:
            _hold(links, False, environment)
            wake()
            raise ConfigurationError(
                f"for {PATIENCE_S:.0f} s there was no answer for {count} messages, so the link goes on; spanwire "
                "network stop NAME ends it at once, and these messages are sent again"
            )
        await asyncio.sleep(POLL_S)


def _hold(links: Sequence[Link], is_held: bool, environment: Environment) -> None:
    for link in links:
        if link.bridge is not None and link.bridge.forwarder is not None:
            link.bridge.forwarder.local.hold(is_held, environment.now())
