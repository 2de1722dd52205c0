"""Checks the names of an expression in XPath 1.0 before the first message.

lxml finds an unknown prefix, variable or function at an evaluation alone, and takes a relative path from the root
element. In Camel the path begins at the document.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.routes.model import Expression

LITERAL: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
NAMED: Final = re.compile(r"(?<![\w.:$-])([A-Za-z_][\w.-]*):(?!:)[A-Za-z_*]")  # a name with a prefix
VARIABLE: Final = re.compile(r"\$[A-Za-z_][\w.:-]*")
CALL: Final = re.compile(r"(?<![\w.:-])((?:[A-Za-z_][\w.-]*:)?[A-Za-z_][\w.-]*)\s*\(")
# The functions of XPath 1.0, the tests of nodes, and words before a parenthesis that are no functions.
KNOWN_CALLS: Final = frozenset(
    "last position count id local-name namespace-uri name string concat starts-with contains substring-before "
    "substring-after substring string-length normalize-space translate boolean not true false lang number sum floor "
    "ceiling round comment text processing-instruction node and or mod div in:header".split()
)
TOKEN: Final = re.compile(
    r"\s*(::|//|\.\.|!=|<=|>=|[A-Za-z_][\w.-]*(?::(?!:)(?:[A-Za-z_][\w.-]*|\*))?|[0-9.]*[0-9][0-9.]*|''|\S)"
)
OPERATORS: Final = ("and", "or", "div", "mod", "*")  # words that are operators behind an operand
NODE_TESTS: Final = ("comment", "text", "processing-instruction", "node")
ONWARD: Final = ("/", "//", "::", "@")  # in front of a step that is not the first of its path
PARTS: Final = ("(", ",", "[", "|", "+", "-", "=", "!=", "<", "<=", ">", ">=", *ONWARD)  # tokens that are no operand


def check_names(expression: Expression, namespaces: dict[str, str]) -> None:
    """Refuse prefixes, variables, functions and relative paths, which a message would meet later.

    Raises:
        ConfigurationError: the text has the line and the remedy.
    """
    text = LITERAL.sub("''", expression.text)
    shown = expression.text[:60]
    if variable := VARIABLE.search(text):
        raise expression.location.error(
            f"xpath {shown!r}: there are no variables such as {variable[0]}; write in:header('NAME')"
        )
    for match in NAMED.finditer(text):
        if match[1] not in namespaces and match[1] != "xml":
            raise expression.location.error(
                f"xpath {shown!r}: the prefix {match[1]} has no namespace; declare it in the file, in YAML by namespace"
            )
    for match in CALL.finditer(text):
        if match[1] not in KNOWN_CALLS:
            raise expression.location.error(
                f"xpath {shown!r}: there is no function {match[1]}; there are those of XPath 1.0 and in:header"
            )
    step = _first_relative(text)
    if step is not None:
        raise expression.location.error(
            f"xpath {shown!r}: the path that begins with {step} is relative; begin it with / or //"
        )


def _first_relative(text: str) -> str | None:
    """Return the first step of a path outside of predicates that begins neither with / nor with //."""
    tokens = TOKEN.findall(text)
    depth, last, follows_operand = 0, "", False
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        depth += (token == "[") - (token == "]")
        is_operator = follows_operand and token in OPERATORS
        is_call = following == "(" and token not in NODE_TESTS and not is_operator
        is_word = token[0].isalpha() or token[0] == "_"
        is_step = token in ("@", "..", "*") or (token == "." and following in ("/", "//")) or (is_word and not is_call)
        if is_step and not is_operator and depth == 0 and last not in ONWARD:
            return str(token)
        follows_operand = not (is_operator or is_call or token in PARTS)
        last = token
    return None
