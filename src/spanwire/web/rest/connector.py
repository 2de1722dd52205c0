"""The address of the broker's own OpenWire connector, for the web process as a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from spanwire.client.aio import Connection, connect
from spanwire.management.tables.view_table import CONNECTORS, rows_of
from spanwire.model.errors import ResourceAllocationError
from spanwire.web.link import Snapshots

SCHEMES: Final = ("tcp", "nio", "auto", "auto+nio")
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
OPTIONS: Final = "jms.sendTimeout=30000"  # milliseconds; a producer that the broker holds back gets an answer


Admit = Callable[[str | None, str | None, str], Awaitable[None]]


async def connected(
    snapshots: Snapshots, admit: Admit, user: str | None, password: str | None, host: str
) -> Connection:
    """Return a new connection of a user to the broker.

    Args:
        snapshots: answers of the broker.
        admit: raises `ProblemError` for a user or host without the right to connect.
        user: the user, or None.
        password: the password, or None.
        host: the address of the user's machine.

    Raises:
        ControlError: the broker does not answer.
        JmsError: the broker refuses the user.
    """
    await admit(user, password, host)
    return await connect(await broker_url(snapshots), user, password)


async def broker_url(snapshots: Snapshots) -> str:
    """Return the URL of an OpenWire connector without TLS.

    Raises:
        ControlError: the broker does not answer.
        ResourceAllocationError: the broker has no such connector.
    """
    status = await snapshots.answer("summary")
    for row in rows_of(CONNECTORS, status if isinstance(status, dict) else {}):
        parts = urlsplit(str(row.get("uri", "")))
        if parts.scheme in SCHEMES and parts.port:
            host = ANY_ADDRESS.get(parts.hostname or "", parts.hostname or "")
            return f"tcp://{f'[{host}]' if ':' in host else host}:{parts.port}?{OPTIONS}"
    raise ResourceAllocationError(
        f"the broker has no OpenWire connector without TLS ({', '.join(SCHEMES)}); messages over HTTP need one, and it "
        "may listen on 127.0.0.1 alone"
    )
