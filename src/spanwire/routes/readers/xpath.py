"""Reads expressions in Camel's language xpath.

xpath: /order/@id
xpath: {expression: "/o:order/@id", resultType: java.lang.Integer, namespace: [{key: o, value: "urn:orders"}]}
<xpath resultType="java.lang.Integer">/o:order/@id</xpath>     the prefixes are those of the document
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.routes.model import XPATH, Expression
from spanwire.routes.readers.nodes import Location, Mapping, Node, items_of, mapping_of, text_of

MAX_TEXT: Final = 8 * 1024  # characters of an expression; those of people have a few hundred
MAX_NAMESPACES: Final = 100  # of one expression
RESULT: Final = "resultType"
WORDS: Final = (
    "expression",
    RESULT,
    "resultTypeName",
    "namespace",
    "id",
    "trim",
    "preCompile",
    "threadSafety",
    "logNamespaces",
)
# Camel's words for the Java class of a result, without the package, and what they are here.
RESULT_TYPES: Final = {
    "string": "string",
    "boolean": "boolean",
    "number": "number",
    "double": "number",
    "integer": "integer",
    "int": "integer",
    "long": "integer",
    "node": "xml",
    "nodelist": "xml",
    "nodeset": "xml",
}
PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


def xpath_of(node: Node, location: Location) -> Expression:
    """Return the expression of the word ``xpath``.

    Raises:
        ConfigurationError: a word is unknown, or a value wrong. The engine checks the expression itself.
    """
    if not isinstance(node, Mapping):
        return Expression(location, XPATH, _checked(text_of(node, XPATH), location))
    node.check("word of xpath", WORDS)
    text = _checked(node.require("expression", XPATH), location)
    options: dict[str, str] = {}
    for word in (RESULT, "resultTypeName"):
        name = node.text(word)
        if name is not None:
            short = name.rpartition(".")[2].lower()
            if short not in RESULT_TYPES:
                raise node.entries[word].location.unknown(word, name, RESULT_TYPES)
            options[RESULT] = RESULT_TYPES[short]
    namespaces = node.node("namespace")
    for item in [] if namespaces is None else items_of(namespaces, "namespace"):
        words = mapping_of(item, "namespace")
        words.check("word of a namespace", ("key", "value"))
        prefix = words.require("key", "a namespace")
        if PREFIX.fullmatch(prefix) is None:
            raise words.location.error(f"{prefix[:60]!r} is no prefix of a namespace")
        options[f"xmlns:{prefix}"] = words.require("value", "a namespace")
    if len(options) > MAX_NAMESPACES:
        raise location.error(f"xpath has more than {MAX_NAMESPACES} namespaces")
    return Expression(location, XPATH, text, tuple(options.items()))


def _checked(text: str, location: Location) -> str:
    if len(text) > MAX_TEXT:
        raise location.error(f"the expression is longer than {MAX_TEXT} characters")
    return text.strip()
