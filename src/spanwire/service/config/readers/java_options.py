"""What the options of a Java process say that a broker's users still set: ``-Dname=value`` and ``-Xmx``.

ActiveMQ's start script takes them from the variables ACTIVEMQ_OPTS, ACTIVEMQ_SSL_OPTS and ACTIVEMQ_OPTS_MEMORY. Options
of the Java machine that mean nothing here are left alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from spanwire.service.config.values.values import as_size

GIB: Final = 1024**3
ASSUMED_HEAP_BYTES: Final = GIB  # -Xmx1G of ActiveMQ's own start script: what percentOfJvmHeap is a share of
DEFINING: Final = ("ACTIVEMQ_OPTS_MEMORY", "ACTIVEMQ_OPTS", "ACTIVEMQ_SSL_OPTS")  # a later one wins
MAX_OPTIONS: Final = 64 * 1024  # characters of one variable
DEFINITION: Final = re.compile(r"-D([^=\s]+)=(.*)", re.DOTALL)
HEAP: Final = re.compile(r"-Xmx([0-9]{1,15}[kKmMgG]?)", re.ASCII)


def definitions(environment: Mapping[str, str]) -> dict[str, str]:
    """The values that the variables of the start script define."""
    values: dict[str, str] = {}
    for word in _words(environment):
        definition = DEFINITION.fullmatch(word)
        if definition is not None:
            values[definition.group(1)] = definition.group(2)
    return values


def heap_bytes(environment: Mapping[str, str]) -> tuple[int, str]:
    """How large the heap of a Java broker would be, and in words why."""
    heap_and_reason = (ASSUMED_HEAP_BYTES, "1 gb, ActiveMQ's usual heap")
    for word in _words(environment):
        heap = HEAP.fullmatch(word)
        size = None if heap is None else as_size(heap.group(1))
        if size:
            heap_and_reason = (size, f"the heap that {word} gives")
    return heap_and_reason


def _words(environment: Mapping[str, str]) -> list[str]:
    words: list[str] = []
    for variable in DEFINING:
        text = environment.get(variable, "")[:MAX_OPTIONS]
        try:
            words += shlex.split(text)
        except ValueError:  # a quote that is left open
            words += text.split()
    return words
