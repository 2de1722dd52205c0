"""A client makes spans if the program has configured OpenTelemetry, and loads nothing of it otherwise."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from spanwire.client.io.tracing_switch import API, EXCLUDED, is_traced

PROGRAM = """
import sys
from spanwire.client import aio, blocking
from spanwire.client.io.tracing_switch import is_traced
assert not is_traced()
print([name for name in sys.modules if "opentelemetry" in name or name.endswith((".traced", ".io.tracing"))])
"""


class ProxyTracerProvider:
    """The one that OpenTelemetry's API has until a program sets another."""


class SetProvider:
    """Any other one."""


def loaded(provider: Any) -> dict[str, object]:
    return {API: SimpleNamespace(get_tracer_provider=lambda: provider)}


@pytest.mark.parametrize(
    ("modules", "environment", "expected"),
    [
        ({}, {}, False),
        (loaded(ProxyTracerProvider()), {}, False),
        (loaded(SetProvider()), {}, True),
        (loaded(SetProvider()), {EXCLUDED: "redis, spanwire"}, False),
        (loaded(SetProvider()), {EXCLUDED: "redis"}, True),
        ({API: None}, {}, False),
    ],
)
def test_a_client_is_traced_if_the_program_has_set_a_provider(
    modules: dict[str, object], environment: dict[str, str], expected: bool
) -> None:
    assert is_traced(modules, environment) is expected


def test_a_program_without_opentelemetry_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
