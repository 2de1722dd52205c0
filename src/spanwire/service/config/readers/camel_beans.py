"""Finds Camel's routes in the document of a broker, and in the files that it imports.

    <beans>
      <broker/>
      <import resource="camel.xml"/>
      <bean id="activemq" class="…ActiveMQComponent">…</bean>
      <camelContext><route>…</route></camelContext>
    </beans>

No bean is created. The components of brokers, and all beans that they refer to, belong to the routes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.values.diagnostics import Findings, read_text_file

CONTEXTS: Final = ("camelContext", "routes")
COMPONENTS: Final = ("ActiveMQComponent", "JmsComponent")
PARTS: Final = ("org.apache.camel.processor.", "org.apache.camel.support.")
REFERENCE: Final = "-ref"  # end of the short form p:connectionFactory-ref="…"
MAX_IMPORTS: Final = 16  # imported files of one document; bounds the files to open
LOCATION: Final = re.compile(r"^(classpath:|file:(//(?=/))?)")


class CamelBeans:
    """The parts of a broker's documents that are Camel's: each with the name of its file."""

    def __init__(self, root: Element, findings: Findings, variables: Variables, base: Path) -> None:
        self._findings: Final = findings
        self._variables: Final = variables
        self._base: Final = base
        self._own: Final[list[Element]] = _camel_elements(root)
        self._imports: Final[list[tuple[Element, str]]] = []

    def is_used(self, element: Element) -> bool:
        """Return True if an element beside the broker belongs to routes."""
        return any(element is used for used in self._own)

    def take_import(self, resource: str, line: int) -> bool:
        """Take an imported file with routes or components; report a file that cannot be read.

        Returns False for any other file, also a missing one.
        """
        try:
            path = self._base / LOCATION.sub("", self._variables.replace(resource))
            if not path.is_file():
                return False
            root = read_xml(read_text_file(path), str(path))
        except ConfigurationError as error:
            self._findings.error(line, str(error))
            return True
        if root.name not in ("beans", *CONTEXTS) or not _camel_elements(root):
            return False
        if len(self._imports) >= MAX_IMPORTS:
            self._findings.error(line, f"more than {MAX_IMPORTS} imported files with routes")
        self._imports.append((root, str(path)))
        return True

    def documents(self) -> list[tuple[Element, str]]:
        """Return all documents with parts of Camel."""
        own = [(Element("beans", self._own[0].line, children=self._own), self._findings.source)] if self._own else []
        return [*own, *self._imports]


def _camel_elements(root: Element) -> list[Element]:
    """Return contexts, components, and the beans to which components lead, in the order of the document."""
    if root.name in CONTEXTS:
        return [root]
    beans = {element.value("id") or element.value("name"): element for element in root.children}
    has_context = any(element.name in CONTEXTS for element in root.children)
    found = [
        element
        for element in root.children
        if element.name in CONTEXTS or _is_component(element) or (has_context and _is_part(element))
    ]
    for element in found:  # grows
        if element.name == "bean":
            for name in _references(element):
                bean = beans.get(name)
                if bean is not None and not any(bean is other for other in found):
                    found.append(bean)
    return [element for element in root.children if any(element is one for one in found)]


def _is_component(element: Element) -> bool:
    return element.name == "bean" and (element.value("class") or "").rpartition(".")[2] in COMPONENTS


def _is_part(element: Element) -> bool:
    """Return True for a bean of Camel that attributes of steps may name, such as a strategy of aggregate."""
    return element.name == "bean" and (element.value("class") or "").startswith(PARTS)


def _references(bean: Element) -> Iterator[str]:
    pending = [bean]
    while pending:
        element = pending.pop()
        pending.extend(element.children)
        reference = element.value("ref") or (element.value("bean") if element.name == "ref" else None)
        if reference is not None:
            yield reference
        for (_, name), attribute in element.foreign.items():
            if name.endswith(REFERENCE):
                yield attribute.value
