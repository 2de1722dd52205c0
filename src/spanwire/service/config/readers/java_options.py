"""Reads the Java options ``-Dname=value`` and ``-Xmx`` in variables of ActiveMQ's start script.

The variables are ACTIVEMQ_OPTS, ACTIVEMQ_SSL_OPTS and ACTIVEMQ_OPTS_MEMORY. Other options of the Java machine are
ignored.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from spanwire.service.config.values.values import as_size

GIB: Final = 1024**3
ASSUMED_HEAP_BYTES: Final = GIB  # bytes; -Xmx1G of ActiveMQ's start script is the base of percentOfJvmHeap
DEFINING: Final = ("ACTIVEMQ_OPTS_MEMORY", "ACTIVEMQ_OPTS", "ACTIVEMQ_SSL_OPTS")  # later variables take precedence
MAX_OPTIONS: Final = 64 * 1024  # characters of one variable; bounds the work of parsing
DEFINITION: Final = re.compile(r"-D([^=\s]+)=(.*)", re.DOTALL)
HEAP: Final = re.compile(r"-Xmx([0-9]{1,15}[kKmMgG]?)", re.ASCII)


def definitions(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values defined in the variables of the start script."""
    values: dict[str, str] = {}
    for word in _words(environment):
        definition = DEFINITION.fullmatch(word)
        if definition is not None:
            values[definition.group(1)] = definition.group(2)
    return values


def heap_bytes(environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the heap size of a Java broker in bytes, and the origin of the size in words."""
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
        except ValueError:  # an unclosed quote
            words += text.split()
    return words
