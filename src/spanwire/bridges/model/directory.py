"""An LDAP directory with the connection factory of a bridge, read at each connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.secret import Secret

DEFAULT_CONNECT_MS: Final = 10_000  # milliseconds; default of RMI's look-ups in JBoss, which jnp.timeout changes
DEFAULT_READ_MS: Final = 18_000  # milliseconds; default of RMI's look-ups in JBoss, which jnp.sotimeout changes


@dataclass(frozen=True, slots=True)
class Directory:
    """Address and login of a directory, and milliseconds to connect and for an answer.

    With ``finds_destinations`` names of destinations are looked up as well; a name that is not there is the name of a
    queue or topic of the broker.
    """

    url: str
    user_name: str | None = None
    password: Secret | None = None
    connect_timeout_ms: int = DEFAULT_CONNECT_MS
    read_timeout_ms: int = DEFAULT_READ_MS
    finds_destinations: bool = False
