"""Errors of requests about beans, with the names of Java's exceptions."""

from __future__ import annotations

from typing import Final

NOT_FOUND: Final = "javax.management.InstanceNotFoundException"
NO_ATTRIBUTE: Final = "javax.management.AttributeNotFoundException"
ILLEGAL: Final = "java.lang.IllegalArgumentException"
SECURITY: Final = "java.lang.SecurityException"
STATE: Final = "java.lang.IllegalStateException"


class BeanError(Exception):
    """Raised for a request without a bean or permission; ``status`` and ``kind`` are Jolokia's."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind
