"""Addresses of brokers beyond the project's own client, and the stores for TLS of all providers."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.client.addressing.redaction import redacted
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.tls.context import client_context
from spanwire.tls.settings import NO_PASSWORD, ClientTlsSettings, KeyStore, TrustStore

VERIFY_HOST: Final = "verifyHostName"
TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Scheme:
    """The scheme of a URL: the port without one in the URL, and whether the connection has TLS."""

    port: int
    is_secure: bool


@dataclass(frozen=True, slots=True)
class Place:
    """The parts of a URL. ``shown`` is the URL without secrets, ``path`` has no leading slash."""

    shown: str
    host: str
    port: int
    is_secure: bool
    path: str
    options: dict[str, str]
    user_name: str | None
    password: Secret | None


def place_of(factory: ConnectionFactory, schemes: dict[str, Scheme], options: tuple[str, ...] = ()) -> Place:
    """Return the address of a factory, with the login of the factory or else of the URL.

    Raises:
        ConfigurationError: the URL has another scheme, no host, an unknown option, or no TLS for the given stores.
    """
    shown = redacted(factory.url)
    form = f"{next(iter(schemes))}://host:port"
    try:
        parts = urlsplit(factory.url)
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"{shown} is no URL; write {form}") from None
    scheme = schemes.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ConfigurationError(f"{shown} is no URL for the provider {factory.provider}; write {form}")
    if tls_settings(factory) is not None and not scheme.is_secure:
        secure = next(name for name, other in schemes.items() if other.is_secure)
        raise ConfigurationError(f"{shown} has no TLS, so it needs no store; write {secure}://host:port")
    user_name, password = _login(factory, parts)
    return Place(
        shown,
        parts.hostname,
        port or scheme.port,
        scheme.is_secure,
        unquote(parts.path.removeprefix("/")),
        _options(parts.query, shown, (*options, VERIFY_HOST) if scheme.is_secure else options),
        user_name,
        password,
    )


def _login(factory: ConnectionFactory, parts: SplitResult) -> tuple[str | None, Secret | None]:
    if factory.user_name is not None or factory.password is not None:
        return factory.user_name, factory.password
    password = None if parts.password is None else Secret(unquote(parts.password))
    return None if parts.username is None else unquote(parts.username), password


def _options(query: str, shown: str, known: tuple[str, ...]) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "there are none"
            raise ConfigurationError(f"{shown}: unknown option {name[:60]!r}; {there_are}")
        if name == VERIFY_HOST and value.lower() not in TRUTHS:
            raise ConfigurationError(f"{shown}: {VERIFY_HOST} must be true or false")
    return options


def context_of(factory: ConnectionFactory, place: Place) -> ssl.SSLContext | None:
    """Return the TLS context for an address, or None for an address without TLS.

    Raises:
        ConfigurationError: a store cannot be used.
    """
    if not place.is_secure:
        return None
    settings = tls_settings(factory) or ClientTlsSettings()
    verify = TRUTHS[place.options.get(VERIFY_HOST, "true").lower()]
    return client_context(ClientTlsSettings(settings.trust_store, settings.key_store, verify))


def tls_settings(factory: ConnectionFactory) -> ClientTlsSettings | None:
    """Return the stores of a factory, or None without stores."""
    if factory.trust_store is None and factory.key_store is None:
        return None
    trust = factory.trust_store
    key = factory.key_store
    return ClientTlsSettings(
        None if trust is None else TrustStore(Path(trust), _or_none(factory.trust_store_password)),
        None if key is None else KeyStore(Path(key), _or_none(factory.key_store_password)),
    )


def _or_none(password: Secret | None) -> Secret:
    return NO_PASSWORD if password is None else password
