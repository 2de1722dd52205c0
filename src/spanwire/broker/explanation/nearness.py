"""Nearness of a message to a selector: true terms, and false terms with the message's values."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.selector.expression import And, Expression, MessageValues, Selector, SelectorEvaluationError

MAX_TERMS: Final = 5  # failed terms, and values of one term, that are shown
MAX_SHOWN: Final = 60  # characters of a term or value that are shown


class AskedValues(MessageValues):
    """The values of a message, and the names in an expression."""

    def __init__(self, values: MessageEvaluationContext) -> None:
        self._values: Final[MessageEvaluationContext] = values
        self.asked: Final[dict[str, object]] = {}

    def value(self, name: str) -> object:
        """Return the header or property ``name`` and note the name."""
        value = self._values.value(name)
        self.asked[name] = value
        return value

    def value_type(self, name: str) -> int:
        """Return the JMS type of the number that `value` returned."""
        return self._values.value_type(name)


def nearness(selector: Selector, message: Message, redelivery_count: int, values: MessageEvaluationContext) -> str:
    """Return in words how near ``message`` comes to ``selector``, without a match."""
    root = selector.root
    terms = root.terms if isinstance(root, And) else [root]
    held = 0
    failed: list[str] = []
    values.bind(message, redelivery_count)
    try:
        for term in terms:
            asked = AskedValues(values)
            if _value(term, asked) is True:
                held += 1
            elif len(failed) < MAX_TERMS:
                failed.append(f"{_cut(_bare(term))} fails: {_shown(asked)}")
    except (JmsError, ProtocolError):
        failed.append("the properties of the message cannot be read")
    finally:
        values.release()
    text = "; ".join(failed)
    return text if len(terms) == 1 else f"{held} of {len(terms)} terms hold; {text}"


def _value(term: Expression, values: AskedValues) -> object:
    try:
        return term.evaluate(values)
    except SelectorEvaluationError:
        return None


def _bare(term: Expression) -> str:
    text = str(term)
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _shown(asked: AskedValues) -> str:
    parts: list[str] = []
    for name, value in asked.asked.items():
        if value is None:
            parts.append(f"the message has no {_cut(name)}")
        else:
            shown = f"'{value}'" if isinstance(value, str) else str(value)
            parts.append(f"{_cut(name)} is {_cut(shown)}")
    return ", ".join(parts[:MAX_TERMS]) or "it is never true"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
