"""A transport of kombu, the messaging library of Celery.

`register` adds ``spanwire://`` to the schemes of broker URLs:

    from celery import Celery
    from spanwire.adapters.kombu import register

    register()
    app = Celery("shop", broker="spanwire://localhost:61616")

Needs the extra ``kombu``.
"""

from __future__ import annotations

from typing import Final

from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

SCHEMES: Final = ("spanwire", "spanwires")  # the second one is for TLS
TRANSPORT: Final = "spanwire.adapters.kombu.transport:Transport"

try:
    from kombu.transport import TRANSPORT_ALIASES
except ImportError as error:
    raise ConfigurationError(f"kombu is not installed; run: {install_command('kombu')}") from error


def register() -> None:
    """Add ``spanwire://`` and, for TLS, ``spanwires://`` to the schemes of kombu."""
    for scheme in SCHEMES:
        TRANSPORT_ALIASES[scheme] = TRANSPORT
