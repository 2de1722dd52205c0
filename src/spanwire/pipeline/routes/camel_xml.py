"""Camel routes in Spring XML as the nodes that Camel's YAML would give.

    <beans><bean id class><property name value|ref|bean/></bean>… <camelContext><route>…</route></camelContext></beans>

Attributes and children become names; the elements behind ``<from>`` are its steps. Document types, and with them
entities, are refused; nothing is fetched.
"""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.nodes import Entry, Items, Mapping, Node, Place, Word
from spanwire.pipeline.routes.yaml_file import MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES

SEPARATOR: Final = " "  # between namespace and name; no URI holds a blank
LANGUAGES: Final = ("constant", "selector", "sql", "simple", "xpath", "jsonpath", "method", "groovy", "tokenize")
WITH_STEPS: Final = ("filter", "when", "otherwise", "multicast", "pipeline", "split", "aggregate")


class Element:
    """An element that is being read."""

    def __init__(self, name: str, place: Place, attributes: dict[str, str]) -> None:
        self.name: Final = name
        self.place: Final = place
        self.attributes: Final = attributes
        self.children: Final[list[Element]] = []
        self.text = ""


class _Builder:
    """Collects elements."""

    def __init__(self, file: str, parser: expat.XMLParserType) -> None:
        self._file: Final = file
        self._parser: Final = parser
        self._open: Final[list[Element]] = []
        self._count = 0
        self.root: Element | None = None

    def _place(self) -> Place:
        return Place(self._file, self._parser.CurrentLineNumber)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1 + len(attributes)
        if self._count > MAX_NODES or len(self._open) >= MAX_DEPTH:
            raise self._place().error(f"more than {MAX_NODES} elements, or more than {MAX_DEPTH} inside each other")
        named = {name: value for name, value in attributes.items() if SEPARATOR not in name}  # xsi: is for editors
        element = Element(tag.rpartition(SEPARATOR)[2], self._place(), named)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, tag: str) -> None:
        self._open.pop()

    def characters(self, data: str) -> None:
        if self._open:
            self._open[-1].text += data

    def doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: bool) -> None:
        raise self._place().error("DOCTYPE is refused; remove it, entities are not expanded")


def read_camel_xml(content: bytes, file: str) -> Node:
    """The document as a list of beans and routes. Raises `ConfigurationError` with the line."""
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{file}: is larger than {MAX_FILE_BYTES} bytes, which no route file needs")
    parser = expat.ParserCreate(namespace_separator=SEPARATOR)
    builder = _Builder(file, parser)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.buffer_text = True
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "not well-formed")
        raise Place(file, error.lineno).error(f"the XML is broken: {reason}") from None
    except (LookupError, ValueError):
        raise Place(file, 1).error("the XML is in an encoding that cannot be read; save it as UTF-8") from None
    root = builder.root
    if root is None:
        raise Place(file, 1).error("the XML holds no element")
    return _document(root)


def _document(root: Element) -> Node:
    beans: list[Node] = []
    routes: list[Node] = []
    contexts = [root] if root.name in ("camelContext", "routes") else root.children
    if root.name not in ("beans", "camelContext", "routes"):
        raise root.place.unknown("root element", root.name, ("beans", "camelContext", "routes"))
    for child in contexts:
        if child.name == "bean":
            beans.append(_bean(child))
        elif child.name in ("camelContext", "routes"):
            for route in child.children:
                if route.name != "route":
                    raise route.place.unknown("element of a camelContext", route.name, ("route",))
                routes.append(_one(route.place, "route", _route(route)))
        elif child.name not in ("import", "broker"):  # a broker beside the routes is its own process's business
            raise child.place.unknown("element", child.name, ("bean", "camelContext"))
    found = [_one(root.place, "beans", Items(root.place, beans))] if beans else []
    return Items(root.place, [*found, *routes])


def _bean(element: Element) -> Node:
    properties: dict[str, Entry] = {}
    for child in element.children:
        if child.name != "property":
            raise child.place.unknown("element of a bean", child.name, ("property",))
        name = child.attributes.get("name", "")
        inner = next((each for each in child.children if each.name == "bean"), None)
        if inner is not None:
            raise inner.place.error("a bean inside a property is not understood; give it an id and refer to it")
        value = child.attributes.get("value")
        reference = child.attributes.get("ref")
        text = f"#{reference}" if reference is not None else value or child.text.strip()
        properties[name] = Entry(child.place, Word(child.place, text))
    place = element.place
    entries = {
        "name": Entry(place, Word(place, element.attributes.get("id") or element.attributes.get("name"))),
        "type": Entry(place, Word(place, element.attributes.get("class"))),
        "properties": Entry(place, Mapping(place, properties)),
    }
    return Mapping(place, entries)


def _route(element: Element) -> Node:
    entries = _attributes(element)
    children = [child for child in element.children if child.name != "description"]
    if not children or children[0].name != "from":
        raise element.place.error("a route begins with <from uri=…>")
    source = _attributes(children[0])
    source["steps"] = Entry(element.place, Items(element.place, [_step(child) for child in children[1:]]))
    entries["from"] = Entry(children[0].place, Mapping(children[0].place, source))
    return Mapping(element.place, entries)


def _step(element: Element) -> Node:
    return _one(element.place, element.name, _content(element))


def _content(element: Element) -> Node:
    """Attributes and children by name; what has steps gets them as a list."""
    entries = _attributes(element)
    steps: list[Node] = []
    whens: list[Node] = []
    for child in element.children:
        if child.name in LANGUAGES:
            entries[child.name] = Entry(child.place, Word(child.place, child.text.strip()))
        elif element.name == "choice" and child.name == "when":
            whens.append(_content(child))
        elif element.name in WITH_STEPS:
            steps.append(_step(child))
        else:
            entries[child.name] = Entry(child.place, _content(child))
    if whens:
        entries["when"] = Entry(element.place, Items(element.place, whens))
    if steps:
        entries["steps"] = Entry(element.place, Items(element.place, steps))
    return Mapping(element.place, entries)


def _attributes(element: Element) -> dict[str, Entry]:
    return {
        name: Entry(element.place, Word(element.place, value)) for name, value in element.attributes.items() if value
    }


def _one(place: Place, name: str, value: Node) -> Node:
    return Mapping(place, {name: Entry(place, value)})
