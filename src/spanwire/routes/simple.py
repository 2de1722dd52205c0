"""A part of Camel's language simple: texts with the values of a message, and conditions on them.

    Order ${header.number}: ${body}
    ${header.region} == 'us' && ${header.price} > 15

Conditions have ``== != > >= < <=``, ``contains``, ``starts with`` and ``ends with``, joined by ``&&`` and ``||``, of
which ``&&`` binds tighter. Two numbers are compared as numbers. Other functions of the language are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

MAX_TEXT: Final = 8 * 1024  # characters; expressions of people have a few hundred
BODY: Final = "body"
MESSAGE_ID: Final = "id"
HEADER: Final = "header"
FUNCTION: Final = re.compile(r"\$\{([^${}]*)\}")
HEADER_NAME: Final = re.compile(r"(?:in\.)?headers?(?:\.([A-Za-z_][\w.-]*)|\[['\"]?([A-Za-z_][\w.-]*)['\"]?\])")
BODIES: Final = frozenset({"body", "in.body", "bodyAs(String)", "mandatoryBodyAs(String)"})
IDS: Final = frozenset({"id", "exchangeId", "messageId"})
TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<function>\$\{[^${}]*\})|(?P<operator>==|!=|>=|<=|>|<|&&|\|\||"
    r"(?:contains|starts with|startsWith|ends with|endsWith|and|or)\b)|(?P<word>[^\s'\"$&|=<>!]+))"
)
JOINS: Final = {"&&": "&&", "and": "&&", "||": "||", "or": "||"}
NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Function:
    """A value of the message: body, id, or the header ``name``."""

    kind: str
    name: str = ""


Part = str | Function
Operand = Function | bool | int | float | str | None
Lookup = Callable[[Function], object]


@dataclass(frozen=True, slots=True)
class Comparison:
    """An operator between two operands."""

    left: Operand
    operator: str
    right: Operand

    def holds(self, lookup: Lookup) -> bool:
        """Return True if the comparison holds for the values from ``lookup``."""
        left = lookup(self.left) if isinstance(self.left, Function) else self.left
        right = lookup(self.right) if isinstance(self.right, Function) else self.right
        return COMPARE[self.operator](left, right)


@dataclass(frozen=True, slots=True)
class SimpleCondition:
    """Alternatives, each a list of comparisons; all of a list must hold."""

    alternatives: tuple[tuple[Comparison, ...], ...]

    def holds(self, lookup: Lookup) -> bool:
        """Return True if the condition holds."""
        return any(all(one.holds(lookup) for one in every) for every in self.alternatives)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with functions inside."""

    parts: tuple[Part, ...]

    def value(self, lookup: Lookup) -> object:
        """Return the value: the only function's value, or a text."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Function):
            return lookup(self.parts[0])
        return "".join(part if isinstance(part, str) else shown(lookup(part)) for part in self.parts)


def parse_template(text: str) -> Template:
    """Return the template of a text.

    Raises:
        ConfigurationError: a function is unknown.
    """
    _check_length(text)
    parts: list[Part] = []
    end = 0
    for match in FUNCTION.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        parts.append(_function(match[1].strip()))
        end = match.end()
    rest = text[end:]
    if "${" in rest:
        raise ConfigurationError(f"{rest[:60]!r} has ${{ without its end")
    if rest or not parts:
        parts.append(rest)
    return Template(tuple(parts))


def parse_condition(text: str) -> SimpleCondition:
    """Return the condition of a text.

    Raises:
        ConfigurationError: the text is no condition of this part of the language.
    """
    _check_length(text)
    tokens = _tokens(text)
    alternatives: list[list[Comparison]] = [[]]
    position = 0
    while True:
        operands = tokens[position : position + 3]
        if len(operands) < 3 or operands[1][0] != "operator" or operands[1][1] in JOINS:
            raise ConfigurationError(f"{text[:60]!r} is no condition; write ${{header.name}} == 'value'")
        alternatives[-1].append(Comparison(_operand(*operands[0]), operands[1][1], _operand(*operands[2])))
        position += 3
        if position == len(tokens):
            return SimpleCondition(tuple(tuple(every) for every in alternatives))
        kind, word = tokens[position]
        if kind != "operator" or word not in JOINS:
            raise ConfigurationError(f"{text[:60]!r}: there must be && or || before {word[:60]!r}")
        if JOINS[word] == "||":
            alternatives.append([])
        position += 1


def shown(value: object) -> str:
    """Return a value as text; a missing value is empty."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_length(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ConfigurationError(f"the expression is longer than {MAX_TEXT} characters")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ConfigurationError(f"{text[position : position + 60].strip()!r} is not understood in a condition")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


def _operand(kind: str, text: str) -> Operand:
    if kind == "text":
        return text[1:-1]
    if kind == "function":
        return _function(text[2:-1].strip())
    if text in WORDS:
        value = WORDS[text]
        assert value is None or isinstance(value, bool)
        return value
    if NUMBER.fullmatch(text) is None:
        raise ConfigurationError(f"{text[:60]!r} is neither a number nor a function; write texts in quotation marks")
    return float(text) if "." in text else int(text)


def _function(name: str) -> Function:
    if name in BODIES:
        return Function(BODY)
    if name in IDS:
        return Function(MESSAGE_ID)
    match = HEADER_NAME.fullmatch(name)
    if match is None:
        raise ConfigurationError(
            f"the function ${{{name[:60]}}} of simple is not understood; there are ${{body}}, ${{header.NAME}}, ${{id}}"
        )
    return Function(HEADER, match[1] or match[2])


def _number(value: object) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value.strip()) else None


def _is_equal(left: object, right: object) -> bool:
    if left is None or right is None:
        return left is right
    first, second = _number(left), _number(right)
    if first is not None and second is not None:
        return first == second
    return shown(left) == shown(right)


def _order(left: object, right: object) -> int | None:
    """Return the order of two values; None if a value is missing."""
    if left is None or right is None:
        return None
    first, second = _number(left), _number(right)
    if first is not None and second is not None:
        return (first > second) - (first < second)
    return (shown(left) > shown(right)) - (shown(left) < shown(right))


COMPARE: Final[dict[str, Callable[[object, object], bool]]] = {
    "==": _is_equal,
    "!=": lambda left, right: not _is_equal(left, right),
    ">": lambda left, right: _order(left, right) == 1,
    ">=": lambda left, right: _order(left, right) in (0, 1),
    "<": lambda left, right: _order(left, right) == -1,
    "<=": lambda left, right: _order(left, right) in (0, -1),
    "contains": lambda left, right: shown(right) in shown(left),
    "starts with": lambda left, right: shown(left).startswith(shown(right)),
    "startsWith": lambda left, right: shown(left).startswith(shown(right)),
    "ends with": lambda left, right: shown(left).endswith(shown(right)),
    "endsWith": lambda left, right: shown(left).endswith(shown(right)),
}
