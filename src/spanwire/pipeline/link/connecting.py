"""A connection for the options that name a broker; needs no package of the extra ``spark``."""

from __future__ import annotations

from spanwire.client import blocking
from spanwire.pipeline.options import Login


def connect(login: Login) -> blocking.Connection:
    """Connect to the broker of a login. Raises `JmsError` or `ConfigurationError`."""
    password = None if login.password is None else login.password.reveal()
    return blocking.connect(login.url, login.user, password, login.client_id, login.tls)
