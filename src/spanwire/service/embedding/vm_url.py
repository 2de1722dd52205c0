"""Parses ``vm:`` and ``peer:`` URLs.

Forms are ``vm://NAME?create=…&waitForStart=…&broker.…=…`` (ActiveMQ's VM transport reference) and
``vm:(broker:(tcp://host:port)/NAME?option=value)``. ``broker.*`` options are attributes of the ``broker`` element of a
new broker. ``brokerConfig`` names a file or another description of a broker instead. The program
itself must have written the URL; never pass a URL from a wire.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spanwire.client.addressing.address import BROKER_URI
from spanwire.documents.element import Attribute, Element
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.service.config.interpretation.interpretation import Interpreter
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.reference import DEFAULT_BROKER_NAME
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.embedding.peer_url import SCHEME, PeerUrl, parse_peer_url

logger = logging.getLogger(__name__)

MAX_WAIT_MS: Final = 3_600_000  # an hour; a longer wait would be a hang
BROKER_PREFIX: Final = "broker."
DESCRIPTIONS: Final = ("broker:", "properties:", "xbean:")
WITHOUT_EFFECT: Final = (
    "async",
    "asyncQueueDepth",
    "marshal",
    "network",
    "trace",
    "wireFormat",
)  # bytes are always marshalled here
KNOWN: Final = ("brokerConfig", "create", "waitForStart", *WITHOUT_EFFECT)
NAME: Final = re.compile(r"vm:(?://)?([A-Za-z0-9._\-]{0,255})/?")


@dataclass(frozen=True, slots=True)
class VmUrl:
    """A parsed URL; ``wait_seconds`` is the wait for a broker created by others, 0 for no wait."""

    name: str
    create: bool
    wait_seconds: float
    settings: Mapping[str, str]
    reference: str | None
    peer: PeerUrl | None = None

    @property
    def address(self) -> str:
        """Return the URL for people."""
        return f"vm://{self.name}" if self.peer is None else f"peer://{self.peer.group}/{self.name}"

    @property
    def allow_anonymous(self) -> bool:
        """Return True if the broker may listen beyond this machine without passwords."""
        return self.peer is not None and self.peer.allow_anonymous

    def configuration(self) -> BrokerConfiguration:
        """Return the configuration of the new broker; raises `JmsError` with one line."""
        try:
            if self.reference is None:
                return self._simple()
            configuration = load_configuration(self.reference)
            if configuration.broker_name != self.name:
                raise ConfigurationError(
                    f"{self.reference} configures the broker {configuration.broker_name}; name it so here"
                )
            return configuration
        except ConfigurationError as error:
            prefix = "" if self.reference is None else f"{self.address}: "  # else the error has the URL already
            raise JmsError(prefix + "; ".join(str(error).splitlines())) from error

    def _simple(self) -> BrokerConfiguration:
        """Return a broker with the attributes and no connector, and with a journal if persistent."""
        findings = Findings(self.address)
        if self.peer is not None:
            element = self.peer.element()
        else:
            attributes = {name: Attribute(value, 1) for name, value in self.settings.items()}
            element = Element("broker", 1, attributes=attributes)
            element.attributes["brokerName"] = Attribute(self.name, 1)
        decryption = Decryption({})
        configuration = Interpreter(findings, Path.cwd(), Variables({}, {}, decryption), decryption).broker(element)
        findings.raise_if_any()
        for warning in configuration.warnings:
            logger.warning("%s", warning)
        return configuration


def parse_vm_url(url: str, options: Mapping[str, str]) -> VmUrl:
    """Parse a URL; raises `JmsError` with one line.

    For an unknown option, the line proposes the closest option.
    """
    if url.startswith(f"{SCHEME}:"):
        peer = parse_peer_url(url, options)
        return VmUrl(peer.name, True, 0.0, {}, None, peer)
    if BROKER_URI in options:
        return described_vm_url({name: value for name, value in options.items() if name != BROKER_URI}, options)
    match = NAME.fullmatch(url.partition("?")[0])
    if match is None:
        raise JmsError("a vm: URL names no broker of this process; write vm://NAME with letters, digits, '.', '_', '-'")
    return vm_url(match.group(1) or DEFAULT_BROKER_NAME, options)


def described_vm_url(own_options: Mapping[str, str], options: Mapping[str, str]) -> VmUrl:
    """Parse ``vm:(broker:(…)?…)?options``; the part in parentheses describes the broker and its name."""
    reference = options[BROKER_URI]
    if not reference.startswith(DESCRIPTIONS):
        raise JmsError("the parentheses of a vm: URL must contain a broker; write vm:(broker:(tcp://host:port)/NAME?…)")
    for option in own_options:
        if option.startswith(BROKER_PREFIX) or option == "brokerConfig":
            raise JmsError(f"vm:(…): the option {option[:60]} belongs to vm://NAME; write it inside of the parentheses")
    try:
        name = load_configuration(reference).broker_name
    except ConfigurationError as error:
        raise JmsError("; ".join(str(error).splitlines())) from error
    return replace(vm_url(name, own_options), reference=reference)


def vm_url(name: str, options: Mapping[str, str]) -> VmUrl:
    """Return the parsed form of ``vm://NAME`` with its options."""
    settings: dict[str, str] = {}
    plain: dict[str, str] = {}
    for option, value in options.items():
        if option.startswith(BROKER_PREFIX):
            settings[option.removeprefix(BROKER_PREFIX)] = value
        elif option in KNOWN:
            plain[option] = value
        else:
            raise JmsError(f"vm://{name}: unknown option {option[:60]!r}{suggestion(option, KNOWN)}")
    return VmUrl(
        name=name,
        create=_flag(name, "create", plain.get("create", "true")),
        wait_seconds=_milliseconds(name, plain.get("waitForStart", "-1")) / 1000,
        settings=settings,
        reference=plain.get("brokerConfig"),
    )


def _flag(name: str, option: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise JmsError(f"vm://{name}: the option {option} must be true or false")
    return value.lower() == "true"


def _milliseconds(name: str, value: str) -> int:
    """Return the wait; ActiveMQ's -1 means no wait and becomes 0."""
    if not re.fullmatch(r"-?[0-9]{1,9}", value):
        raise JmsError(f"vm://{name}: the option waitForStart must be a number of milliseconds")
    return min(max(0, int(value)), MAX_WAIT_MS)
