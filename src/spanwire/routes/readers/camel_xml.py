"""Reads Camel routes in Spring XML as the nodes that Camel's YAML would give.

    <beans>
      <bean id class><property name value|ref|bean/></bean>…
      <camelContext><endpoint id uri/>… <route>…</route>…</camelContext>
    </beans>

Attributes and children become names; the elements after ``<from>`` become its steps. An element with the source of
placeholder values causes a warning, because the values come from the command line. An element that is not understood
and would change the meaning of the file is an error. Such a part of a bean is an error only if the component of a
broker needs the bean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.routes.model import XPATH
from spanwire.routes.readers.beans import NOT_UNDERSTOOD
from spanwire.routes.readers.camel_failures import FAILURES, CamelFailures
from spanwire.routes.readers.nodes import Entry, Items, Location, Mapping, Node, Word
from spanwire.routes.steps import UNSUPPORTED_STEPS

RAW_LANGUAGES: Final = ("simple",)  # ${…} is a function of Camel there
LANGUAGES: Final = (
    *RAW_LANGUAGES,
    "constant",
    "selector",
    "sql",
    "xpath",
    "jsonpath",
    "method",
    "groovy",
    "tokenize",
    "header",
)
WITH_STEPS: Final = (
    *("filter", "when", "otherwise", "multicast", "pipeline", "split", "aggregate", "idempotentConsumer"),
)
WITHIN: Final = ("correlationExpression",)  # parts of a step that are no steps
MESSAGE: Final = ("log", "message")  # element and attribute with an expression
WITH_ENDPOINT: Final = ("from", "to", "wireTap")
CONTEXTS: Final = ("camelContext", "routes")
ROOTS: Final = ("beans", *CONTEXTS)
TOP_ELEMENTS: Final = ("bean", "camelContext", "routes", "import", "description", "property-placeholder")
CONTEXT_ELEMENTS: Final = ("route", "endpoint", "errorHandler", "onException", "description", "propertyPlaceholder")
ROUTE_ATTRIBUTES: Final = ("autoStartup", "errorHandlerRef")  # those of a context count for its routes
OWN_PROCESS: Final = ("broker",)  # an embedded broker of Camel's process; it changes no route
WITHOUT_EFFECT: Final = (
    "import",
    "annotation-config",
    "annotation-driven",
    "component-scan",
    "jmxAgent",
    "template",
    "consumerTemplate",
    "threadPoolProfile",
)  # without effect here
PLACEHOLDERS: Final = ("property-placeholder", "propertyPlaceholder")
PLACEHOLDER_BEANS: Final = (
    "PropertyPlaceholderConfigurer",
    "PropertySourcesPlaceholderConfigurer",
    "PreferencesPlaceholderConfigurer",
    "BridgePropertyPlaceholderConfigurer",
    "PropertiesComponent",
)
BEAN_ELEMENTS: Final = ("property", "description", "meta")
# Attributes for the life cycle of a bean, which do not change its values.
LIFE: Final = (
    "scope",
    "init-method",
    "destroy-method",
    "depends-on",
    "lazy-init",
    "primary",
    "autowire",
    "autowire-candidate",
)
BEAN_ATTRIBUTES: Final = ("id", "name", "class", *LIFE)
SHORT_PROPERTIES: Final = "http://www.springframework.org/schema/p"  # p:brokerURL="…", p:configuration-ref="…"
REFERENCE: Final = "-ref"
BY_NAME: Final = "ref:"  # prefix of a URI that names an endpoint


@dataclass(frozen=True, slots=True)
class CamelFile:
    """The beans and routes of documents, and a line for each part without effect."""

    node: Node
    warnings: list[str]
    has_routes: bool = True


def read_camel_xml(content: bytes, file: str) -> CamelFile:
    """Return the document as a list of beans and routes.

    Raises:
        ConfigurationError: the document is faulty; the error has the line.
    """
    return camel_file([(read_xml(content, file), file)])


def camel_file(documents: Iterable[tuple[Element, str]]) -> CamelFile:
    """Return the contents of several documents, each with the name of the file.

    Beans of one document may refer to beans of another.

    Raises:
        ConfigurationError: a document is faulty; the error has file and line.
    """
    nodes: list[Node] = []
    warnings: list[str] = []
    location = Location("", 1)
    has_routes = False
    for root, file in documents:
        location = Location(file, root.line)
        document = _CamelDocument(file)
        nodes += document.read(root)
        warnings += document.warnings
        has_routes = has_routes or document.has_routes
    return CamelFile(Items(location, nodes), warnings, has_routes)


class _CamelDocument:
    """Turns the elements of one file into nodes, without an interpretation."""

    def __init__(self, file: str) -> None:
        self._file: Final = file
        self._beans: Final[list[Node]] = []
        self._routes: Final[list[Node]] = []
        self.warnings: Final[list[str]] = []
        self._endpoints: Final[dict[str, str]] = {}  # URIs by id
        self._namespaces: Final[dict[str, str]] = {}  # by prefix, of the whole document

    @property
    def has_routes(self) -> bool:
        """Return True if the document has a route."""
        return bool(self._routes)

    def read(self, root: Element) -> list[Node]:
        """Return beans, then routes.

        Raises:
            ConfigurationError: an element is neither.
        """
        location = self._location(root)
        self._declare(root)
        if root.name not in ROOTS:
            raise location.unknown("root element", root.name, ROOTS)
        for child in [root] if root.name in CONTEXTS else root.children:
            self._top(child)
        beans = [_single_entry(location, "beans", Items(location, self._beans))] if self._beans else []
        return [*beans, *self._routes]

    def _declare(self, element: Element) -> None:
        """Note the namespaces of prefixes; a prefix with several ones is of no use to xpath."""
        for prefix, uri in element.prefixes:
            self._namespaces[prefix] = uri if self._namespaces.get(prefix, uri) == uri else ""
        for child in element.children:
            self._declare(child)

    def _location(self, element: Element) -> Location:
        return Location(self._file, element.line)

    def _warn(self, element: Element, text: str) -> None:
        self.warnings.append(str(self._location(element).error(text)))

    def _top(self, element: Element) -> None:
        if element.name == "bean":
            self._bean(element)
        elif element.name in CONTEXTS:
            self._context(element)
        elif not self._is_ignored(element) and element.name not in OWN_PROCESS:
            raise self._location(element).unknown("element", element.name, TOP_ELEMENTS)

    def _is_ignored(self, element: Element) -> bool:
        """Return True if an element changes no route; warn unless the element is a description."""
        if element.name in PLACEHOLDERS:
            self._warn_of_placeholders(element, f"<{element.name}>")
        elif element.name in WITHOUT_EFFECT:
            self._warn(element, f"<{element.name}> has no effect here")
        else:
            return element.name == "description"
        return True

    def _warn_of_placeholders(self, element: Element, what: str) -> None:
        self._warn(element, f"{what}: its file is not read; give the value of a placeholder with -D NAME=VALUE")

    def _context(self, context: Element) -> None:
        for child in context.children:
            if child.name == "endpoint":
                name, uri = child.value("id"), child.value("uri")
                if not name or not uri:
                    raise self._location(child).error("an endpoint needs id and uri")
                self._endpoints[name] = uri
        failures = CamelFailures(self._file, context)
        for child in context.children:
            if child.name == "route":
                self._routes.append(
                    _single_entry(self._location(child), "route", self._route(child, context, failures))
                )
            elif child.name in FAILURES:
                continue
            elif child.name in UNSUPPORTED_STEPS:
                raise self._location(child).error(
                    f"<{child.name}> of Camel is not supported; {UNSUPPORTED_STEPS[child.name]}"
                )
            elif child.name != "endpoint" and not self._is_ignored(child):
                raise self._location(child).unknown("element of a camelContext", child.name, CONTEXT_ELEMENTS)

    def _bean(self, element: Element) -> str:
        """Add a bean and return the name, invented if missing."""
        location = self._location(element)
        kind = (element.value("class") or "").rpartition(".")[2]
        if kind in PLACEHOLDER_BEANS:
            self._warn_of_placeholders(element, kind)
            return ""
        properties: dict[str, Entry] = {}
        for child in element.children:
            if child.name == "property":
                child_location = self._location(child)
                properties[child.value("name") or ""] = Entry(child_location, self._value(child))
        for (namespace, name), attribute in element.foreign.items():
            if namespace != SHORT_PROPERTIES:
                continue
            text = f"#{attribute.value}" if name.endswith(REFERENCE) else attribute.value
            properties[name.removesuffix(REFERENCE)] = Entry(location, Word(location, text))
        bean = element.value("id") or element.value("name") or f"bean at line {element.line}"
        entries = {
            "name": Entry(location, Word(location, bean)),
            "type": Entry(location, Word(location, element.value("class"))),
            "properties": Entry(location, Mapping(location, properties)),
        }
        fault = self._fault_of(element)
        if fault is not None:
            entries[NOT_UNDERSTOOD] = Entry(fault.location, fault)
        self._beans.append(Mapping(location, entries))
        return bean

    def _fault_of(self, bean: Element) -> Word | None:
        """Return the fault of the first misunderstood part of a bean, with the position."""
        words = [word for word in bean.attributes if word not in BEAN_ATTRIBUTES]
        words += [name for namespace, name in bean.foreign if namespace != SHORT_PROPERTIES]
        children = [child for child in bean.children if child.name not in BEAN_ELEMENTS]
        if not words and not children:
            return None
        location = self._location(bean if words else children[0])
        part = words[0] if words else f"<{children[0].name}>"
        return Word(location, f"{part} of a bean is not understood; write its class and properties out")

    def _value(self, element: Element) -> Word:
        """Return the value of a property: a text, a reference with ``#``, or null.

        For any other element the value is the element's name, which the reader of the property reports if necessary.
        """
        location = self._location(element)
        reference = element.value("ref")
        if reference is not None:
            return Word(location, f"#{reference}")
        value = element.value("value")
        if value is not None or not element.children:
            return Word(location, element.text.strip() if value is None else value)
        child = element.children[0]
        if child.name == "bean":
            return Word(location, f"#{self._bean(child)}")
        if child.name == "ref":
            return Word(location, f"#{child.value('bean') or child.value('local') or child.value('parent') or ''}")
        if child.name == "null":
            return Word(location, None)
        return Word(location, child.text.strip() if child.name == "value" else f"<{child.name}>")

    def _route(self, element: Element, context: Element, failures: CamelFailures) -> Node:
        location = self._location(element)
        entries = self._attributes(context, ROUTE_ATTRIBUTES) | self._attributes(element)
        dead_letter = failures.dead_letter(element, entries.pop("errorHandlerRef", None))
        if dead_letter is not None:
            entries["deadLetter"] = dead_letter
        children = [child for child in element.children if child.name not in ("description", *FAILURES)]
        if not children or children[0].name != "from":
            raise location.error("a route begins with <from uri=…>")
        source = self._attributes(children[0])
        source["steps"] = Entry(location, Items(location, [self._step(child) for child in children[1:]]))
        first = self._location(children[0])
        entries["from"] = Entry(first, Mapping(first, source))
        return Mapping(location, entries)

    def _step(self, element: Element) -> Node:
        return _single_entry(self._location(element), element.name, self._content(element))

    def _content(self, element: Element) -> Node:
        """Return attributes and children by name; steps become a list."""
        location = self._location(element)
        entries = self._attributes(element)
        steps: list[Node] = []
        whens: list[Node] = []
        for child in element.children:
            if child.name in LANGUAGES:
                entries[child.name] = Entry(self._location(child), self._expression(child))
            elif element.name == "choice" and child.name == "when":
                whens.append(self._content(child))
            elif child.name == "description":
                continue
            elif element.name in WITH_STEPS and child.name not in WITHIN:
                steps.append(self._step(child))
            else:
                entries[child.name] = Entry(self._location(child), self._content(child))
        if whens:
            entries["when"] = Entry(location, Items(location, whens))
        if steps:
            entries["steps"] = Entry(location, Items(location, steps))
        return Mapping(location, entries)

    def _expression(self, element: Element) -> Node:
        if element.name == XPATH:
            return self._xpath(element)
        text = element.value("token") or element.text.strip()
        return Word(self._location(element), text, raw=text if element.name in RAW_LANGUAGES else "")

    def _xpath(self, element: Element) -> Node:
        """Return expression, attributes and namespaces, as YAML has them."""
        location = self._location(element)
        words = self._attributes(element)
        words["expression"] = Entry(location, Word(location, element.text.strip()))
        namespaces: list[Node] = []
        for prefix, uri in self._namespaces.items():
            if uri and f"{prefix}:" in element.text:
                entries = {
                    "key": Entry(location, Word(location, prefix)),
                    "value": Entry(location, Word(location, uri)),
                }
                namespaces.append(Mapping(location, entries))
        words["namespace"] = Entry(location, Items(location, namespaces))
        return Mapping(location, words)

    def _attributes(self, element: Element, names: tuple[str, ...] | None = None) -> dict[str, Entry]:
        attributes: dict[str, Entry] = {}
        for name, attribute in element.attributes.items():
            if attribute.value and (names is None or name in names):
                location = Location(self._file, attribute.line)
                raw = attribute.value if (element.name, name) == MESSAGE else ""
                attributes[name] = Entry(location, Word(location, attribute.value, raw=raw))
        if element.name in WITH_ENDPOINT:
            self._resolve(element, attributes)
        return attributes

    def _resolve(self, element: Element, attributes: dict[str, Entry]) -> None:
        """Replace the name of an endpoint by the URI."""
        uri = element.value("uri") or ""
        name = element.value("ref") or (uri.removeprefix(BY_NAME) if uri.startswith(BY_NAME) else None)
        if name is None:
            return
        location = self._location(element)
        if name not in self._endpoints:
            raise location.unknown("endpoint", name, self._endpoints)
        attributes.pop("ref", None)
        attributes["uri"] = Entry(location, Word(location, self._endpoints[name]))


def _single_entry(location: Location, name: str, value: Node) -> Node:
    return Mapping(location, {name: Entry(location, value)})
