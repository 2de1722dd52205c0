"""What the tools that talk to a broker have in common: its address, who connects, and the destination."""

from __future__ import annotations

import argparse
import os
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.client.blocking import BlockingConnection, Credentials
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.registry import AUTO, TRANSPORT_SCHEMES
from spanwire.service.config.document import closest
from spanwire.service.config.uri import LATER_SCHEMES, is_tls, parse_uri, redacted
from spanwire.service.config.values import as_flag
from spanwire.tls import suites
from spanwire.tls.settings import ClientTlsSettings, KeyStore, TrustStore

DEFAULT_BROKER_URL: Final = "tcp://localhost:61616"
DEFAULT_DESTINATION: Final = "queue://TEST"
PASSWORD_VARIABLE: Final = "SPANWIRE_PASSWORD"
TRUST_VARIABLE: Final = "SPANWIRE_TRUST_STORE_PASSWORD"
KEY_VARIABLE: Final = "SPANWIRE_KEY_STORE_PASSWORD"


def endpoint_options(parser: Parser) -> None:
    """``--brokerUrl --user --password --clientId --destination``."""
    parser.option("brokerUrl", f"the broker's address, {DEFAULT_BROKER_URL} without it", DEFAULT_BROKER_URL, "URL")
    parser.option("user", "user name", metavar="NAME")
    parser.option("password", f"password; ${PASSWORD_VARIABLE} keeps it out of the list of processes", metavar="SECRET")
    parser.option("clientId", "client id of the connection", metavar="ID")
    parser.option(
        "destination", f"queue://NAME or topic://NAME, {DEFAULT_DESTINATION} without it", DEFAULT_DESTINATION, "NAME"
    )
    parser.add_argument(
        "--trust-store",
        "--trustStore",
        type=Path,
        metavar="FILE",
        help="for ssl://: certificates to believe, PEM or PKCS#12; without it those of the system",
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


def connect(options: argparse.Namespace) -> BlockingConnection:
    """A logged-in connection to the broker that the options name."""
    url = str(options.broker_url)
    host, port = address(url)
    password = options.password if options.password is not None else os.environ.get(PASSWORD_VARIABLE)
    credentials = Credentials(options.user, password, options.client_id)
    return BlockingConnection.open(host, port, credentials, tls=tls_settings(url, options))


def tls_settings(url: str, options: argparse.Namespace) -> ClientTlsSettings | None:
    """How to speak TLS; None for a URL without it. Raises `ConfigurationError` for options that cannot be meant."""
    uri = parse_uri(url, _ignored)
    if uri is None or not is_tls(uri):
        if options.trust_store is not None or options.key_store is not None:
            raise ConfigurationError(f"{redacted(url)} has no TLS, so it needs no store; write ssl://host:port")
        return None
    given = {name.removeprefix("socket."): value.strip() for name, value in uri.options.items()}
    verify = as_flag(given.get("verifyHostName", "true"))
    if verify is None:
        raise ConfigurationError(f"{redacted(url)}: verifyHostName must be true or false")
    return ClientTlsSettings(
        trust_store=None
        if options.trust_store is None
        else TrustStore(options.trust_store, _store_password(options.trust_store_password, TRUST_VARIABLE)),
        key_store=None
        if options.key_store is None
        else KeyStore(options.key_store, _store_password(options.key_store_password, KEY_VARIABLE)),
        verify_host_name=verify,
        protocols=_known(url, given.get("enabledProtocols"), suites.VERSIONS),
        cipher_suites=_known(url, given.get("enabledCipherSuites"), suites.SUITES),
    )


def _ignored(reason: str) -> None:
    """`address` has told it before."""


def _store_password(given: str | None, variable: str) -> Secret:
    return Secret(given if given is not None else os.environ.get(variable, ""))


def _known(url: str, text: str | None, known: Collection[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for name in names:
        if name not in known:
            close = closest(name, known)
            hint = f", did you mean {close}?" if close else ""
            raise ConfigurationError(f"{redacted(url)}: {name[:60]!r} is not offered{hint}")
    return names


def destination(options: argparse.Namespace) -> Destination:
    """The destination that the options name; a bare name is a queue's."""
    return parse_destination(str(options.destination), QUEUE)


def address(url: str) -> tuple[str, int]:
    """Host and port of an OpenWire URL; raises `ConfigurationError` for anything else."""
    reasons: list[str] = []
    scheme = url.partition(":")[0]
    if scheme in LATER_SCHEMES:
        raise ConfigurationError(f"{redacted(url)}: {scheme} is not yet supported by the tools; write tcp://host:port")
    uri = parse_uri(url, reasons.append)
    if uri is None:
        raise ConfigurationError(reasons[0])
    if TRANSPORT_SCHEMES.get(uri.scheme) not in ("openwire", AUTO):
        raise ConfigurationError(f"{redacted(url)}: the tools speak OpenWire; write tcp://host:port or ssl://host:port")
    if uri.port is None:
        raise ConfigurationError(f"{redacted(url)} names no port; write tcp://host:61616")
    return uri.host or "localhost", uri.port


def rate(count: int, seconds: float) -> str:
    """``0.31 s (3225/s)``."""
    return f"{seconds:.2f} s ({count / seconds if seconds > 0 else 0:.0f}/s)"


def printable(text: str) -> str:
    """A text of a stranger on one line, without anything that steers a terminal."""
    return "".join(
        character if character == " " or unicodedata.category(character)[0] not in "CZ" else f"\\u{ord(character):04x}"
        for character in text
    )
