"""Decides if a client makes spans: if the program has configured OpenTelemetry.

A program without OpenTelemetry pays one look into the table of loaded modules for each connection.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

API: Final = "opentelemetry.trace"
UNSET: Final = "ProxyTracerProvider"  # the provider of a program that has only imported the API
EXCLUDED: Final = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"  # names, separated by commas
NAME: Final = "spanwire"


def is_traced(modules: Mapping[str, object] = sys.modules, environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if the program has set a tracer provider, and has not excluded this client."""
    api = modules.get(API)
    if api is None:
        return False
    provider = getattr(api, "get_tracer_provider", None)
    if provider is None or type(provider()).__name__ == UNSET:
        return False
    return NAME not in [name.strip() for name in environment.get(EXCLUDED, "").split(",")]
