"""A connection factory of a JMS provider in Java, as the operator's configuration describes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from spanwire.model.secret import Secret


@dataclass(frozen=True, slots=True)
class JavaFactory:
    """A class with bean properties, or a name in a JNDI environment, and the jars of both.

    ``jars`` are absolute paths, or names in the directory of ``--jars`` until `spanwire.bridges.jars` has found
    them; until then an empty tuple means all jars of the directory.
    """

    class_name: str | None
    properties: tuple[tuple[str, Secret], ...] = ()
    jndi_name: str | None = None
    environment: tuple[tuple[str, Secret], ...] = ()
    jars: tuple[str, ...] = field(default=())
