"""Key stores and trust stores in a command's options; most commands have none."""

from __future__ import annotations

import argparse
import os

from spanwire.cli.endpoint import KEY_VARIABLE, TRUST_VARIABLE
from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.redaction import redacted
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.tls.settings import ClientTlsSettings, KeyStore, TrustStore


def client_stores(url: str, options: argparse.Namespace) -> ClientTlsSettings:
    """Return the stores of the options; raises `ConfigurationError` for an address without TLS."""
    parsed = parse_url(url)
    if not parsed.may_use_tls:
        raise ConfigurationError(f"{redacted(url)} has no TLS, so it needs no store; write ssl://host:port")
    return ClientTlsSettings(
        trust_store=None
        if options.trust_store is None
        else TrustStore(options.trust_store, _store_password(options.trust_store_password, TRUST_VARIABLE)),
        key_store=None
        if options.key_store is None
        else KeyStore(options.key_store, _store_password(options.key_store_password, KEY_VARIABLE)),
    )


def _store_password(password: str | None, variable: str) -> Secret:
    return Secret(password if password is not None else os.environ.get(variable, ""))
