"""Options shared by the tools with a connection to a broker: address, login and destination."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.cli.arguments import Parser
from spanwire.client import blocking
from spanwire.model.destination import Destination
from spanwire.model.errors import AuthenticationError
from spanwire.model.written_destination import written_destination

if TYPE_CHECKING:
    from spanwire.tls.settings import ClientTlsSettings

DEFAULT_BROKER_URL: Final = "tcp://localhost:61616"
DEFAULT_DESTINATION: Final = "queue://TEST"
PASSWORD_VARIABLE: Final = "SPANWIRE_PASSWORD"
TRUST_VARIABLE: Final = "SPANWIRE_TRUST_STORE_PASSWORD"
KEY_VARIABLE: Final = "SPANWIRE_KEY_STORE_PASSWORD"


def endpoint_options(parser: Parser) -> None:
    """Add ``--brokerUrl --user --password --clientId --destination``."""
    parser.option("brokerUrl", f"the broker's address, {DEFAULT_BROKER_URL} without it", DEFAULT_BROKER_URL, "URL")
    parser.option("clientId", "client id of the connection", metavar="ID")
    parser.option(
        "destination", f"queue://NAME or topic://NAME, {DEFAULT_DESTINATION} without it", DEFAULT_DESTINATION, "NAME"
    )
    login_options(parser)


def login_options(parser: Parser) -> None:
    """Add ``--user --password`` and the stores for TLS."""
    parser.option("user", "user name", metavar="NAME")
    parser.option("password", f"password; ${PASSWORD_VARIABLE} keeps it out of the list of processes", metavar="SECRET")
    parser.add_argument(
        "--trust-store",
        "--trustStore",
        type=Path,
        metavar="FILE",
        help="for ssl://: trusted certificates, PEM or PKCS#12; default: the system's certificates",
    )
    parser.option("trustStorePassword", f"its password, better in ${TRUST_VARIABLE}", metavar="SECRET")
    parser.add_argument(
        "--key-store",
        "--keyStore",
        type=Path,
        metavar="FILE",
        help="for ssl://: the key and certificate to show the broker, PEM or PKCS#12",
    )
    parser.option("keyStorePassword", f"its password, better in ${KEY_VARIABLE}", metavar="SECRET")


def connect(options: argparse.Namespace) -> blocking.Connection:
    """Return a logged-in connection to the broker of the options.

    Raises:
        AuthenticationError: the broker refuses the login; without a user the text says how to give one.
    """
    url = str(options.broker_url)
    try:
        return blocking.connect(url, options.user, password(options), options.client_id, tls_settings(url, options))
    except AuthenticationError as error:
        if options.user is not None:
            raise
        reason = str(error).rstrip(".")
        raise AuthenticationError(f"{reason}; give --user NAME, and the password in {PASSWORD_VARIABLE}") from None


def password(options: argparse.Namespace) -> str | None:
    """Return the password of the options, else of the environment."""
    return str(options.password) if options.password is not None else os.environ.get(PASSWORD_VARIABLE)


def tls_settings(url: str, options: argparse.Namespace) -> ClientTlsSettings | None:
    """Return the stores of the options, or None; raises `ConfigurationError` for an address without TLS."""
    if options.trust_store is None and options.key_store is None:
        return None
    read = cast("Callable[[str, argparse.Namespace], ClientTlsSettings]", registry.load(registry.CLIENT_STORES))
    return read(url, options)


def destination(options: argparse.Namespace) -> Destination:
    """Return the destination of the options; a bare name is a queue."""
    return written_destination(str(options.destination))


def rate(count: int, seconds: float) -> str:
    """Format a duration and a rate as ``0.31 s (3225/s)``."""
    return f"{seconds:.2f} s ({count / seconds if seconds > 0 else 0:.0f}/s)"
