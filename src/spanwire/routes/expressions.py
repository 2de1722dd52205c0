"""Expressions of steps: a language with a text."""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.selectors.selector_evaluation import parse
from spanwire.routes.model import CONSTANT, LANGUAGES, SELECTOR, SIMPLE, SQL, XPATH, Expression
from spanwire.routes.readers.nodes import Location, Mapping, Word, mapping_of, text_of
from spanwire.routes.readers.xpath import xpath_of
from spanwire.routes.simple import parse_condition, parse_template

HEADER: Final = "header"  # a header by its name, in place of simple
LANGUAGE_WORDS: Final = (*LANGUAGES, HEADER, "expression")


def expression_of(mapping: Mapping) -> Expression:
    """Return the only expression of a step: a language with its text, directly or under ``expression``."""
    inner = mapping.node("expression")
    owner = mapping if inner is None else mapping_of(inner, "expression")
    if inner is not None:
        owner.check("language", (*LANGUAGES, HEADER))
    languages = [name for name in (*LANGUAGES, HEADER) if name in owner.entries]
    if len(languages) != 1:
        raise mapping.location.error(f"this step needs one of {', '.join((*LANGUAGES, HEADER))}")
    location, node = owner.entries[languages[0]].location, owner.entries[languages[0]].value
    if languages[0] == XPATH:
        return xpath_of(node, location)
    text = node.raw if isinstance(node, Word) and node.raw else text_of(node, languages[0])
    if languages[0] == HEADER:
        return value_of(location, f"${{header.{text}}}")
    expression = Expression(location, languages[0], text)
    if expression.language == SELECTOR:
        try:
            parse(expression.text)
        except ConfigurationError as error:
            raise location.error(str(error).removeprefix("spanwire: ")) from None
    return expression


def condition_of(mapping: Mapping) -> Expression:
    """Return the condition of a step."""
    expression = expression_of(mapping)
    if expression.language == CONSTANT:
        raise expression.location.error("a condition is a selector, simple, xpath or sql")
    if expression.language == SIMPLE:
        try:
            parse_condition(expression.text)
        except ConfigurationError as error:
            raise expression.location.error(str(error)) from None
    return expression


def value_expression(mapping: Mapping) -> Expression:
    """Return the value of a step; a selector is a condition and no value."""
    expression = expression_of(mapping)
    if expression.language == SELECTOR:
        raise expression.location.error("a value is sql, simple, xpath or constant; selector is for conditions")
    return value_of(expression.location, expression.text) if expression.language == SIMPLE else expression


def value_of(location: Location, text: str) -> Expression:
    """Return a text in the language simple as an expression.

    Raises:
        ConfigurationError: a function is unknown.
    """
    try:
        parse_template(text)
    except ConfigurationError as error:
        raise location.error(str(error)) from None
    return Expression(location, SIMPLE, text)


def sql_of(expression: Expression) -> str:
    """Return a value as SQL."""
    if expression.language == SQL:
        return expression.text
    return quote(expression.text)


def quote(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
