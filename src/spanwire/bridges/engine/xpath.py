"""Camel's language xpath: XPath 1.0 on the body of a message, by lxml.

    /order/item[price > 10]/@id
    in:header('region') = 'us'

A body comes from strangers: documents with a DOCTYPE are refused, so there are no entities and nothing is loaded, and
size and depth are bounded. The expression is the operator's. lxml is loaded by the first expression.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, cast

from spanwire.bridges.engine.xpath_names import check_names
from spanwire.bridges.model.message import BridgeMessage
from spanwire.extras import install_command
from spanwire.model.errors import MessageFormatError
from spanwire.model.units import MIB
from spanwire.registry import load
from spanwire.routes.model import Expression
from spanwire.routes.readers.xpath import RESULT

EXTRA: Final = "xpath"
LOADED: Final = "lxml.etree:XPath"  # makes the module an attribute of its package
LXML: Final = "lxml:etree"
MAX_XML_BYTES: Final = MIB  # bytes of a body; a tree of a quarter of a million elements takes some 40 MiB
MAX_XML_DEPTH: Final = 256  # elements inside of each other; libxml2's own limit, far beyond documents of people
MAX_RESULT_BYTES: Final = 16 * MIB  # characters of the nodes of one result: each node may be inside of another one
MAX_REASON: Final = 200  # characters of the library's words in an error
IN: Final = "http://camel.apache.org/xml/in/"  # namespace of Camel's functions on the incoming message
PREFIXES: Final = {"in": IN}
DOCTYPE: Final = re.compile(rb"<!DOCTYPE", re.IGNORECASE)
XMLNS: Final = "xmlns:"  # before a prefix in the options of an expression
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.0+)?")

Header = Callable[[BridgeMessage, str], object]


class XPathExpression:
    """A compiled expression."""

    def __init__(self, expression: Expression, text_of: Callable[[BridgeMessage], str | None], header: Header) -> None:
        """``text_of`` and ``header`` read a message.

        Raises:
            ConfigurationError: the expression is no XPath 1.0, or lxml is not installed; the error has the line.
        """
        self._text_of: Final = text_of
        self._header: Final = header
        self._message: BridgeMessage | None = None  # during an evaluation
        try:
            load(LOADED)
        except ModuleNotFoundError:
            raise expression.location.error(
                f"the language xpath needs the extra {EXTRA}, which is not installed; run: {install_command(EXTRA)}"
            ) from None
        self._etree: Final = cast("Any", load(LXML))
        options = dict(expression.options)
        self._result: Final[str] = options.pop(RESULT, "string")
        namespaces = {name.removeprefix(XMLNS): uri for name, uri in options.items()}
        try:
            self._path: Final[Any] = self._etree.XPath(
                expression.text,
                namespaces={**PREFIXES, **namespaces},
                extensions={(IN, "header"): self._in_header},
                smart_strings=False,
            )
        except self._etree.XPathError as error:
            raise expression.location.error(f"xpath {expression.text[:60]!r}: {_words(error)}") from None
        check_names(expression, {**PREFIXES, **namespaces})

    def _in_header(self, context: object, name: object) -> object:
        """Return a header of the message as a value of XPath; a missing one is the empty string."""
        assert self._message is not None
        value = self._header(self._message, str(name))
        if value is None:
            return ""
        return value if isinstance(value, (bool, float)) else float(value) if isinstance(value, int) else str(value)

    def holds(self, message: BridgeMessage) -> bool:
        """Return the result as XPath's function boolean does. Raises `MessageFormatError`."""
        result = self._evaluate(message)
        if isinstance(result, float):
            return result == result and result != 0.0
        return bool(result)

    def value(self, message: BridgeMessage) -> object:
        """Return the result as a text, or with a ``resultType`` as its type; None for no node.

        Raises:
            MessageFormatError: the body is no XML within the limits, or the result has another type.
        """
        result = self._evaluate(message)
        if self._result == "boolean":
            return self.holds(message)
        if self._result == "xml":
            return "".join(self._texts(result)) if isinstance(result, list) else _text(result)
        if isinstance(result, list):
            if not result:
                return None
            result = self._string(result[0])
        text = _text(result)
        if self._result == "string":
            return text
        try:
            number = float(text)
        except ValueError:
            raise MessageFormatError(f"the result of xpath is {text[:60]!r}, no number") from None
        if self._result == "number":
            return number
        if INTEGER.fullmatch(text.strip()) is None:
            raise MessageFormatError(f"the result of xpath is {text[:60]!r}, no whole number")
        return int(text.strip().partition(".")[0])  # not by way of a float, which is exact to 2^53 only

    def parts(self, message: BridgeMessage, limit: int) -> list[str]:
        """Return each node of the result as a text, an element with its markup. Raises `MessageFormatError`."""
        result = self._evaluate(message)
        if not isinstance(result, list):
            return [_text(result)]
        if len(result) > limit:
            raise MessageFormatError(f"split makes {len(result)} messages, more than {limit}")
        return self._texts(result)

    def _evaluate(self, message: BridgeMessage) -> Any:
        etree = self._etree
        root = self._parsed(self._text_of(message) or "")
        self._message = message
        try:
            return self._path(root)
        except MessageFormatError:
            raise
        except (etree.XPathError, ValueError) as error:  # ValueError: a header holds a control character
            raise MessageFormatError(f"xpath: {_words(error)}") from None
        finally:
            self._message = None

    def _parsed(self, text: str) -> Any:
        """Return the tree of a body. Raises `MessageFormatError`."""
        etree = self._etree
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise MessageFormatError("the body is no XML: it has half of a surrogate pair") from None
        if len(content) > MAX_XML_BYTES:
            raise MessageFormatError(f"the body has {len(content)} bytes, and xpath reads {MAX_XML_BYTES} at most")
        if DOCTYPE.search(content) is not None:
            raise MessageFormatError("the body has a DOCTYPE, which xpath refuses: entities are not expanded")
        # A parser for each body: one that is used again keeps names of all earlier bodies.
        parser = etree.XMLParser(
            encoding="utf-8",
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            dtd_validation=False,
            huge_tree=False,
            recover=False,
        )
        try:
            root = etree.fromstring(content, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise MessageFormatError(f"the body is no XML: {_words(error)}") from None
        return root.getroottree()

    def _texts(self, nodes: list[Any]) -> list[str]:
        texts: list[str] = []
        total = 0
        for node in nodes:
            texts.append(
                self._etree.tostring(node, encoding="unicode", with_tail=False)
                if self._etree.iselement(node)
                else _text(node)
            )
            total += len(texts[-1])
            if total > MAX_RESULT_BYTES:
                raise MessageFormatError(f"the result of xpath is longer than {MAX_RESULT_BYTES} characters")
        return texts

    def _string(self, node: Any) -> str:
        """Return the string value of a node."""
        return (
            str(self._etree.XPath("string()", smart_strings=False)(node))
            if self._etree.iselement(node)
            else _text(node)
        )


def _text(value: object) -> str:
    """Return an atomic value as XPath's function string does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
    if isinstance(value, tuple):  # a namespace node: prefix and URI
        return str(value[1])
    return str(value)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_REASON] or type(error).__name__
