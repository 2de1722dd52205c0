"""Camel routes in Spring XML as the nodes that Camel's YAML would give.

    <beans><bean id class><property name value|ref|bean/></bean>… <camelContext><route>…</route></camelContext></beans>

Attributes and children become names; the elements behind ``<from>`` are its steps.
"""

from __future__ import annotations

from typing import Final

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.pipeline.routes.nodes import Entry, Items, Mapping, Node, Place, Word

LANGUAGES: Final = ("constant", "selector", "sql", "simple", "xpath", "jsonpath", "method", "groovy", "tokenize")
WITH_STEPS: Final = ("filter", "when", "otherwise", "multicast", "pipeline", "split", "aggregate")


def read_camel_xml(content: bytes, file: str) -> Node:
    """The document as a list of beans and routes. Raises `ConfigurationError` with the line."""
    return _CamelDocument(file).nodes(read_xml(content, file))


class _CamelDocument:
    """Turns the elements of one file into nodes. What they mean is left to whoever reads routes."""

    def __init__(self, file: str) -> None:
        self._file: Final = file

    def _place(self, element: Element) -> Place:
        return Place(self._file, element.line)

    def nodes(self, root: Element) -> Node:
        """Beans, then routes. Raises `ConfigurationError` for an element that is neither."""
        place = self._place(root)
        beans: list[Node] = []
        routes: list[Node] = []
        contexts = [root] if root.name in ("camelContext", "routes") else root.children
        if root.name not in ("beans", "camelContext", "routes"):
            raise place.unknown("root element", root.name, ("beans", "camelContext", "routes"))
        for child in contexts:
            if child.name == "bean":
                beans.append(self._bean(child))
            elif child.name in ("camelContext", "routes"):
                for route in child.children:
                    if route.name != "route":
                        raise self._place(route).unknown("element of a camelContext", route.name, ("route",))
                    routes.append(_one(self._place(route), "route", self._route(route)))
            elif child.name not in ("import", "broker"):  # a broker beside the routes is its own process's business
                raise self._place(child).unknown("element", child.name, ("bean", "camelContext"))
        found = [_one(place, "beans", Items(place, beans))] if beans else []
        return Items(place, [*found, *routes])

    def _bean(self, element: Element) -> Node:
        properties: dict[str, Entry] = {}
        for child in element.children:
            place = self._place(child)
            if child.name != "property":
                raise place.unknown("element of a bean", child.name, ("property",))
            name = child.value("name") or ""
            inner = next((each for each in child.children if each.name == "bean"), None)
            if inner is not None:
                refused = "a bean inside a property is not understood; give it an id and refer to it"
                raise self._place(inner).error(refused)
            value = child.value("value")
            reference = child.value("ref")
            text = f"#{reference}" if reference is not None else value or child.text.strip()
            properties[name] = Entry(place, Word(place, text))
        place = self._place(element)
        entries = {
            "name": Entry(place, Word(place, element.value("id") or element.value("name"))),
            "type": Entry(place, Word(place, element.value("class"))),
            "properties": Entry(place, Mapping(place, properties)),
        }
        return Mapping(place, entries)

    def _route(self, element: Element) -> Node:
        place = self._place(element)
        entries = self._attributes(element)
        children = [child for child in element.children if child.name != "description"]
        if not children or children[0].name != "from":
            raise place.error("a route begins with <from uri=…>")
        source = self._attributes(children[0])
        source["steps"] = Entry(place, Items(place, [self._step(child) for child in children[1:]]))
        first = self._place(children[0])
        entries["from"] = Entry(first, Mapping(first, source))
        return Mapping(place, entries)

    def _step(self, element: Element) -> Node:
        return _one(self._place(element), element.name, self._content(element))

    def _content(self, element: Element) -> Node:
        """Attributes and children by name; what has steps gets them as a list."""
        place = self._place(element)
        entries = self._attributes(element)
        steps: list[Node] = []
        whens: list[Node] = []
        for child in element.children:
            if child.name in LANGUAGES:
                entries[child.name] = Entry(self._place(child), Word(self._place(child), child.text.strip()))
            elif element.name == "choice" and child.name == "when":
                whens.append(self._content(child))
            elif element.name in WITH_STEPS:
                steps.append(self._step(child))
            else:
                entries[child.name] = Entry(self._place(child), self._content(child))
        if whens:
            entries["when"] = Entry(place, Items(place, whens))
        if steps:
            entries["steps"] = Entry(place, Items(place, steps))
        return Mapping(place, entries)

    def _attributes(self, element: Element) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for name, attribute in element.attributes.items():
            if attribute.value:
                place = Place(self._file, attribute.line)
                found[name] = Entry(place, Word(place, attribute.value))
        return found


def _one(place: Place, name: str, value: Node) -> Node:
    return Mapping(place, {name: Entry(place, value)})
