"""TLS of both shells; a client of addresses without TLS does not load this module."""

from __future__ import annotations

import ssl
from dataclasses import replace

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.io.environment import is_alert, short_reason
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.tls import suites
from spanwire.tls.context import client_context
from spanwire.tls.settings import ClientTlsSettings


def tls_context(address: BrokerAddress, tls: ClientTlsSettings | None) -> ssl.SSLContext:
    """Return the TLS context for an address with TLS.

    Options of the URL override ``tls``.

    Raises:
        ConfigurationError: A file, protocol or cipher suite cannot be used.
    """
    settings = address.settings
    chosen = tls if tls is not None else ClientTlsSettings()
    for name in settings.protocols:
        if name not in suites.VERSIONS:
            raise ConfigurationError(f"{address.url}: there is no protocol {name[:40]!r}; {', '.join(suites.VERSIONS)}")
    for name in settings.cipher_suites:
        if name not in suites.SUITES:
            raise ConfigurationError(f"{address.url}: the cipher suite {name[:60]!r} is not offered")
    return client_context(
        replace(
            chosen,
            verify_host_name=chosen.verify_host_name
            if settings.verify_host_name is None
            else settings.verify_host_name,
            protocols=settings.protocols or chosen.protocols,
            cipher_suites=settings.cipher_suites or chosen.cipher_suites,
        )
    )


def refusal(address: BrokerAddress, error: Exception) -> JmsError | None:
    """Return the error of a failed handshake, in one line with advice; None for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        advice = "name the certificate of its authority as trust store, or correct the host"
        return JmsError(f"the certificate of {address.url} is not valid: {reason}; {advice}")
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return JmsError(f"{address.url} does not speak TLS: write tcp://, or the port of its ssl connector")
    if isinstance(error, ssl.SSLError):
        advice = "" if is_alert(error) else "; is that an ssl connector?"
        return JmsError(f"no TLS with {address.url}: {short_reason(error)}{advice}")
    return None
