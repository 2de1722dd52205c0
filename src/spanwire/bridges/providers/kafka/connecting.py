"""Addresses and logins of the Kafka provider."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

from aiokafka.errors import KafkaError

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Place, Scheme, context_of, place_of
from spanwire.model.errors import ConfigurationError, JmsError

SCHEMES: Final = {"kafka": Scheme(9092, False), "kafka+ssl": Scheme(9093, True)}
MECHANISM: Final = "saslMechanism"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LIBRARY: Final = "aiokafka"
REQUEST_MS: Final = 20_000  # milliseconds for one request
START_S: Final = 30.0  # seconds until the bridge gives the cluster up for this attempt
CLOSE_S: Final = 5.0  # seconds; a cluster that is silent must not hold up the next attempt
MAX_REASON: Final = 300  # characters of an error


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES, (MECHANISM,))
    if place.path:
        raise ConfigurationError(f"{place.shown}: a cluster of Kafka has no path; write kafka://host:port")
    if place.options.get(MECHANISM, MECHANISMS[0]) not in MECHANISMS:
        raise ConfigurationError(f"{place.shown}: {MECHANISM} is none of {', '.join(MECHANISMS)}")
    return place


def settings_of(factory: ConnectionFactory, client_id: str | None) -> dict[str, Any]:
    """Return the arguments for a producer or consumer of the library.

    Raises:
        ConfigurationError: a store cannot be read.
    """
    logging.getLogger(LIBRARY).setLevel(logging.CRITICAL)  # its errors are raised as well, and the bridge logs them
    place = address_of(factory)
    host = f"[{place.host}]" if ":" in place.host else place.host
    settings: dict[str, Any] = {
        "bootstrap_servers": f"{host}:{place.port}",
        "client_id": client_id or "spanwire",
        "request_timeout_ms": REQUEST_MS,
        "ssl_context": context_of(factory, place),
    }
    protocol = "SSL" if place.is_secure else "PLAINTEXT"
    if place.user_name is not None:
        settings |= {
            "sasl_mechanism": place.options.get(MECHANISM, MECHANISMS[0]),
            "sasl_plain_username": place.user_name,
            "sasl_plain_password": "" if place.password is None else place.password.reveal(),
        }
        protocol = f"SASL_{protocol}"
    return {**settings, "security_protocol": protocol}


@contextlib.contextmanager
def translated(place: Place) -> Iterator[None]:
    """Raise errors of the library as `JmsError`."""
    try:
        yield
    except TimeoutError:
        raise JmsError(f"no connection to {place.shown}: no answer in time; is the cluster started?") from None
    except (KafkaError, OSError, RuntimeError, AssertionError) as error:
        raise JmsError(f"{place.shown}: {reason_of(error)}") from None


def reason_of(error: BaseException) -> str:
    """Return the text of an error of the library on one line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:MAX_REASON]
