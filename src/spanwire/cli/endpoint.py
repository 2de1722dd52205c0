"""What the tools that talk to a broker have in common: its address, who connects, and the destination."""

from __future__ import annotations

import argparse
import os
import unicodedata
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.client.blocking import BlockingConnection, Credentials
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.registry import TRANSPORT_SCHEMES
from spanwire.service.config.uri import LATER_SCHEMES, parse_uri, redacted

DEFAULT_BROKER_URL: Final = "tcp://localhost:61616"
DEFAULT_DESTINATION: Final = "queue://TEST"
PASSWORD_VARIABLE: Final = "SPANWIRE_PASSWORD"


def endpoint_options(parser: Parser) -> None:
    """``--brokerUrl --user --password --clientId --destination``."""
    parser.option("brokerUrl", f"the broker's address, {DEFAULT_BROKER_URL} without it", DEFAULT_BROKER_URL, "URL")
    parser.option("user", "user name", metavar="NAME")
    parser.option("password", f"password; ${PASSWORD_VARIABLE} keeps it out of the list of processes", metavar="SECRET")
    parser.option("clientId", "client id of the connection", metavar="ID")
    parser.option(
        "destination", f"queue://NAME or topic://NAME, {DEFAULT_DESTINATION} without it", DEFAULT_DESTINATION, "NAME"
    )


def connect(options: argparse.Namespace) -> BlockingConnection:
    """A logged-in connection to the broker that the options name."""
    host, port = address(str(options.broker_url))
    password = options.password if options.password is not None else os.environ.get(PASSWORD_VARIABLE)
    return BlockingConnection.open(host, port, Credentials(options.user, password, options.client_id))


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
    if TRANSPORT_SCHEMES.get(uri.scheme) != "openwire":
        raise ConfigurationError(f"{redacted(url)}: the tools speak OpenWire; write tcp://host:port")
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
