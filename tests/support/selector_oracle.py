"""A second, slow evaluator of selectors, to judge the first one by. It shares no code with it.

A selector is a nest of tuples, a value is a pair (Java type, Python value). `spelled` writes a selector as text,
`evaluated` decides it as the Java code of a JMS broker would: by the types of its operands, one case after another.

    ("literal", value)  ("property", name)  ("minus", a)  ("calculate", "+", a, b)
    ("compare", "=", a, b)  ("between", negated, a, low, high)  ("like", negated, a, pattern, escape)
    ("in", negated, name, [texts])  ("null", negated, a)  ("and", a, b)  ("or", a, b)  ("not", a)
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

Value = tuple[str, Any]
Node = tuple[Any, ...]

NULL: Value = ("null", None)
_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


class OracleError(Exception):
    """The selector cannot be decided."""


class UnspellableError(Exception):
    """The selector writes a floating-point number into a text, whose spelling by Java has tests of its own."""


def spelled(node: Node) -> str:
    """The selector as text, with parentheses around everything."""
    kind = node[0]
    if kind == "literal":
        return _literal(node[1])
    if kind == "property":
        return str(node[1])
    if kind == "minus":
        return f"(- {spelled(node[1])})"
    if kind in ("calculate", "compare"):
        return f"({spelled(node[2])} {node[1]} {spelled(node[3])})"
    if kind in ("and", "or"):
        return f"({spelled(node[1])} {kind.upper()} {spelled(node[2])})"
    if kind == "not":
        return f"(NOT {spelled(node[1])})"
    word = "NOT " if node[1] else ""
    if kind == "null":
        return f"({spelled(node[2])} IS {word}NULL)"
    if kind == "between":
        return f"({spelled(node[2])} {word}BETWEEN {spelled(node[3])} AND {spelled(node[4])})"
    if kind == "in":
        return f"({node[2]} {word}IN ({', '.join(map(_text, node[3]))}))"
    escape = f" ESCAPE {_text(node[4])}" if node[4] else ""
    return f"({spelled(node[2])} {word}LIKE {_text(node[3])}{escape})"


def _text(text: str) -> str:
    return "'" + "''".join(text.split("'")) + "'"


def _literal(value: Value) -> str:
    if value[0] == "string":
        return _text(value[1])
    if value[0] == "double" and value[1] == float("inf"):
        return "1E999"
    if value[0] == "null":
        return "NULL"
    return str(value[1]).upper()


def evaluated(node: Node, message: dict[str, Value]) -> bool | None:
    """True, False or None for a condition; raises OracleError."""
    kind = node[0]
    if kind == "property":
        value = message.get(node[1], NULL)
        return None if value[0] == "null" else value == ("boolean", True)
    if kind == "literal":
        return None if node[1][0] == "null" else bool(node[1][1])
    if kind in ("and", "or"):
        return _joined(node, message)
    if kind == "not":
        return _opposite(evaluated(node[1], message))
    if kind == "compare":
        if node[1] == "<>":
            return _opposite(_compared("=", _value(node[2], message), _value(node[3], message)))
        left = _value(node[2], message)
        if left[0] == "null" and node[1] != "=":
            return None  # the right side is not even looked at
        return _compared(node[1], left, _value(node[3], message))
    if kind == "null":
        return (_value(node[2], message)[0] == "null") != bool(node[1])
    if kind == "between":
        return _between(node, message)
    subject = message.get(node[2], NULL) if kind == "in" else _value(node[2], message)
    if kind == "in":
        return (subject[1] in node[3]) != bool(node[1]) if subject[0] == "string" else None
    if subject[0] == "null":
        return None
    return (subject[0] == "string" and is_like(subject[1], node[3], node[4])) != bool(node[1])


def _opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _joined(node: Node, message: dict[str, Value]) -> bool | None:
    deciding = node[0] == "or"
    first = evaluated(node[1], message)
    if first is deciding:
        return deciding
    second = evaluated(node[2], message)
    if second is deciding:
        return deciding
    return None if first is None or second is None else not deciding


def _between(node: Node, message: dict[str, Value]) -> bool | None:
    lower: Node = ("compare", "<" if node[1] else ">=", node[2], node[3])
    upper: Node = ("compare", ">" if node[1] else "<=", node[2], node[4])
    return evaluated(("or" if node[1] else "and", lower, upper), message)


def _value(node: Node, message: dict[str, Value]) -> Value:
    """The typed value of any node."""
    if node[0] == "literal":
        value: Value = node[1]
        return value
    if node[0] == "property":
        return message.get(node[1], NULL)
    if node[0] == "minus":
        return _minus(_value(node[1], message))
    if node[0] == "calculate":
        left = _value(node[2], message)
        if left[0] == "null":
            return NULL
        right = _value(node[3], message)
        return NULL if right[0] == "null" else _calculated(node[1], left, right)
    answer = evaluated(node, message)
    return NULL if answer is None else ("boolean", answer)


def _is_floating(value: Value) -> bool:
    return value[0] in ("float", "double")


def _is_number(value: Value) -> bool:
    return _is_floating(value) or value[0] in _BITS


def _minus(value: Value) -> Value:
    if _is_floating(value):
        return value[0], -value[1]
    if value[0] in _BITS:
        kind = "long" if value[0] == "long" else "int"
        return kind, wrapped(-value[1], kind)
    return NULL


def wrapped(value: int, kind: str) -> int:
    size = 1 << _BITS[kind]
    value %= size
    return value - size if value >= size // 2 else value


def _calculated(operator: str, left: Value, right: Value) -> Value:
    if left[0] == "string" and operator == "+":
        if right[0] == "string":
            return "string", left[1] + right[1]
        if right[0] == "boolean":
            return "string", left[1] + str(right[1]).lower()
        if right[0] in _BITS:
            return "string", left[1] + str(right[1])
        raise UnspellableError
    if not _is_number(left) or not _is_number(right):
        raise OracleError
    if operator in "/%" or _is_floating(left) or _is_floating(right):
        return "double", _double(operator, float(left[1]), float(right[1]))
    kind = "long" if "long" in (left[0], right[0]) else "int"
    exact = {"+": left[1] + right[1], "-": left[1] - right[1], "*": left[1] * right[1]}
    return kind, wrapped(exact[operator], kind)


def _double(operator: str, left: float, right: float) -> float:
    if operator == "+":
        return left + right
    if operator == "-":
        return left + -right
    if operator == "*":
        return left * right
    if operator == "%" and left == left and right == right and abs(left) != float("inf") and right != 0:
        if abs(right) == float("inf"):
            return left
        exact = abs(Fraction(left)) % abs(Fraction(right))
        return -float(exact) if _bits(left) < 0 else float(exact)
    if operator == "%":
        return float("nan")
    if right == 0:
        signs = (_bits(left) < 0) != (_bits(right) < 0)
        return float("nan") if left == 0 or left != left else float("-inf" if signs else "inf")
    return left / right


def _bits(value: float) -> int:
    """The bits of a double as a signed number."""
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    return int(bits)


def rank(value: float) -> int:
    """An integer that orders doubles as Java does."""
    if value != value:
        return 1 << 63
    bits = _bits(value)
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1


def nearest_float(value: int) -> float:
    """Found by trying: the float next to the double nearest to `value` whose distance is least, even bits on a tie."""
    (bits,) = struct.unpack(">i", struct.pack(">f", float(value)))
    best: list[tuple[Fraction, int, float]] = []
    for candidate in (bits - 1, bits, bits + 1):
        if candidate < -0x8000_0000:
            continue
        (number,) = struct.unpack(">f", struct.pack(">i", candidate))
        if number == number and abs(number) != float("inf"):
            best.append((abs(Fraction(number) - value), candidate & 1, number))
    return float(min(best)[2])


def _compared(operator: str, left: Value, right: Value) -> bool | None:
    if left[0] == "null" or right[0] == "null":
        if operator == "=":
            return left[0] == right[0] or (None if left[0] == "null" else False)
        return None
    order = _order(left, right)
    if order is None:
        return False
    answers = {"=": order == 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}
    return answers[operator]


def _order(left: Value, right: Value) -> int | None:
    keys: tuple[Any, Any] | None = None
    if left[0] == right[0] == "string":
        keys = (left[1].encode("utf-16-be"), right[1].encode("utf-16-be"))
    elif left[0] == right[0] == "boolean" or (left[0] in _BITS and right[0] in _BITS):
        keys = (left[1], right[1])
    elif left[0] == "double" and right[0] == "float":
        raise OracleError
    elif _is_number(left) and _is_number(right):
        narrow = "float" in (left[0], right[0]) and "double" not in (left[0], right[0])
        keys = (rank(_widened(left, narrow)), rank(_widened(right, narrow)))
    if keys is None:
        return None
    return int(keys[0] > keys[1]) - int(keys[0] < keys[1])


def _widened(value: Value, narrow: bool) -> float:
    if _is_floating(value):
        return float(value[1])
    return nearest_float(value[1]) if narrow else float(value[1])


def is_like(text: str, pattern: str, escape: str | None) -> bool:
    """By a table: cell j of row i says whether i letters of the text fit j signs of the pattern."""
    signs: list[tuple[str, str]] = []
    index = 0
    while index < len(pattern):
        sign = pattern[index]
        if escape and sign == escape and index + 1 < len(pattern) and pattern[index + 1] in "_%" + escape:
            index += 1
            signs.append(("letter", pattern[index]))
        else:
            signs.append(({"%": "run", "_": "any"}.get(sign, "letter"), sign))
        index += 1
    row = [True]
    for kind, _ in signs:
        row.append(row[-1] and kind == "run")
    for letter in text:
        below = [False]
        for column, (kind, sign) in enumerate(signs):
            if kind == "run":
                below.append(below[column] or row[column + 1])
            else:
                below.append(row[column] and (kind == "any" or sign == letter))
        row = below
    return row[-1]
