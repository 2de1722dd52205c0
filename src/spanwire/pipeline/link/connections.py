"""Connections for the logins of options; needs no package of the extra ``spark``."""

from __future__ import annotations

from dataclasses import replace

from spanwire.client import blocking
from spanwire.client.addressing.address import parse_url
from spanwire.client.blocking.shared.core_connection import CoreConnection
from spanwire.client.io.environment import Machine
from spanwire.client.protocol.connection import ClientConnection
from spanwire.pipeline.options import Login


def connect(login: Login) -> blocking.Connection:
    """Connect to the broker of a login.

    The client sorts nothing by priority, because a source acknowledges ranges in the order of the broker.

    Raises:
        JmsError: the broker is lost or refuses the login.
        ConfigurationError: the URL is invalid.
    """
    password = None if login.password is None else login.password.reveal()
    url = parse_url(login.url, login.user, password, login.client_id)
    return blocking.open_url(replace(url, settings=replace(url.settings, message_priority=False)), login.tls)


def check_broker(login: Login) -> None:
    """Connect once, so that a wrong address or login is told before Spark starts.

    A URL that repeats its attempts, such as ``failover:``, does so in the receiver, which a signal ends.

    Raises:
        JmsError: the broker is not reached or refuses the login.
        ConfigurationError: the URL is invalid.
    """
    if parse_url(login.url).reconnect.startup_max_attempts == 0:
        connect(replace(login, client_id=None)).close()  # the id of a subscription stays free for its receiver


def connect_for_redelivery(login: Login, client_id: str | None) -> blocking.Connection:
    """Connect with a redelivery policy without limit, so that consumers accept every redelivered message.

    Raises:
        JmsError: the broker is lost or refuses the login.
        ConfigurationError: the URL is invalid.
    """
    password = None if login.password is None else login.password.reveal()
    url = parse_url(login.url, login.user, password, client_id)
    policy = replace(url.settings.redelivery, maximum_redeliveries=-1)
    machine = Machine()
    settings = replace(url.settings, redelivery=policy, message_priority=False)
    shared = CoreConnection(ClientConnection(replace(url, settings=settings), machine), machine, login.tls)
    shared.open()
    return blocking.Connection(shared)
