"""Reads the steps for single messages.

The steps are throttle, delay, log, process, split, aggregate and idempotentConsumer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from spanwire.routes.expressions import LANGUAGE_WORDS, expression_of, value_of
from spanwire.routes.model import (
    JOINED,
    JSON_ARRAY,
    JSONPATH,
    LATEST,
    TOKENIZE,
    XPATH,
    Delay,
    Expression,
    Gather,
    Idempotent,
    Log,
    Process,
    SplitBody,
    Step,
    Throttle,
)
from spanwire.routes.readers.nodes import Location, Mapping, Node, Word, mapping_of, text_of
from spanwire.routes.readers.xpath import xpath_of

REMARKS: Final = ("id", "description")
MAX_MS: Final = 86_400_000  # milliseconds; a day, beyond which a mistake in the unit is likely
MAX_COUNT: Final = 100_000  # messages of a period, a group, or known keys
DEFAULT_KEYS: Final = 10_000  # keys that an idempotent consumer knows
PERIOD_MS: Final = 1_000  # Camel's timePeriodMillis
LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
# Camel's strategies by class, and the words of YAML.
STRATEGIES: Final = {
    "UseLatestAggregationStrategy": LATEST,
    "StringAggregationStrategy": JOINED,
    "GroupedBodyAggregationStrategy": JSON_ARRAY,
    LATEST: LATEST,
    JOINED: JOINED,
    JSON_ARRAY: JSON_ARRAY,
}
ESCAPES: Final = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}
PATH: Final = re.compile(r"\$(?:\.[A-Za-z_]\w*|\[\*\])*")
CONVERTOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}", re.ASCII)
METHOD: Final = "convert"  # of all convertors
StepsReader = Callable[[Node | None], list[Step]]


class MessageStepReader:
    """Reads steps; ``steps`` reads inner steps, and ``classes`` has the classes of beans by name."""

    def __init__(self, steps: StepsReader, classes: dict[str, str]) -> None:
        self._steps: Final[StepsReader] = steps
        self._classes: Final[dict[str, str]] = classes

    def throttle(self, node: Node, location: Location) -> Step:
        """Return the step ``throttle``: so many messages in a period."""
        if isinstance(node, Word):
            return Throttle(location, _number(text_of(node, "throttle"), "throttle", location, 1, MAX_COUNT), PERIOD_MS)
        words = mapping_of(node, "throttle")
        words.check("word of throttle", (*LANGUAGE_WORDS, "timePeriodMillis", *REMARKS))
        count = _constant(expression_of(words), "throttle")
        period = words.text("timePeriodMillis") or str(PERIOD_MS)
        return Throttle(
            location,
            _number(count, "throttle", location, 1, MAX_COUNT),
            _number(period, "timePeriodMillis", location, 1, MAX_MS),
        )

    def delay(self, node: Node, location: Location) -> Step:
        """Return the step ``delay``: milliseconds."""
        if isinstance(node, Word):
            text = text_of(node, "delay")
        else:
            words = mapping_of(node, "delay")
            words.check("word of delay", (*LANGUAGE_WORDS, *REMARKS))
            text = _constant(expression_of(words), "delay")
        return Delay(location, _number(text, "delay", location, 0, MAX_MS))

    def log(self, node: Node, location: Location) -> Step:
        """Return the step ``log`` with a message in the language simple."""
        if isinstance(node, Word):
            return Log(location, value_of(location, node.raw or text_of(node, "log")), "INFO", "")
        words = mapping_of(node, "log")
        words.check("word of log", ("message", "loggingLevel", "logName", *REMARKS))
        level = (words.text("loggingLevel") or "INFO").upper()
        if level not in LEVELS:
            raise location.unknown("loggingLevel", level, LEVELS)
        message = words.node("message")
        if message is None:
            raise location.error("log needs message")
        text = message.raw if isinstance(message, Word) and message.raw else text_of(message, "message")
        return Log(location, value_of(location, text), level, words.text("logName") or "")

    def process(self, node: Node, location: Location) -> Step:
        """Return the step ``process`` or ``bean``: a convertor by name."""
        words = mapping_of(node, "process")
        words.check("word of process", ("ref", "method", "beanType", *REMARKS))
        if "beanType" in words.entries:
            raise words.entries["beanType"].location.error(
                "beanType is a Java class, which does not run here; write ref with the name of a convertor"
            )
        return self.called(words.require("ref", "process"), words.text("method"), location)

    def called(self, name: str, method: str | None, location: Location) -> Step:
        """Return the call of a convertor."""
        name = name.removeprefix("#bean:").removeprefix("#").removeprefix("bean:")
        if CONVERTOR.fullmatch(name) is None:
            raise location.error(f"{name[:60]!r} is no name of a convertor; write letters, digits, - and _")
        if self._classes.get(name):
            raise location.error(
                f"the bean {name} is {self._classes[name][:120]}, a Java class that does not run here; write "
                f"{METHOD}(message) in {name}.py of the directory of --convertors, and remove the bean"
            )
        if (method or METHOD).partition("(")[0] != METHOD:
            raise location.error(f"the function of a convertor is {METHOD}; remove method")
        return Process(location, name)

    def split(self, words: Mapping, location: Location) -> Step:
        """Return the step ``split`` by ``tokenize``, ``jsonpath`` or ``xpath``."""
        words.check("word of split", (TOKENIZE, JSONPATH, XPATH, "expression", "delimiter", "steps", *REMARKS))
        inner = words.node("expression")
        owner = words if inner is None else mapping_of(inner, "expression")
        language = next((name for name in (TOKENIZE, JSONPATH, XPATH) if name in owner.entries), None)
        if language is None:
            raise location.error("split needs tokenize, jsonpath, xpath or sql")
        node = owner.entries[language].value
        if language == XPATH:
            path = xpath_of(node, owner.entries[language].location)
            steps = self._steps(words.node("steps"))
            return SplitBody(path.location, XPATH, path.text, steps, "steps" in words.entries, path.options)
        if isinstance(node, Mapping):
            node.check(f"word of {language}", ("token", "expression", *REMARKS))
            text = node.text("token") or node.require("expression", language)
        else:
            text = text_of(node, language)
        for escape, character in ESCAPES.items():
            text = text.replace(escape, character)
        if language == JSONPATH and PATH.fullmatch(text) is None:
            raise location.error(f"the jsonpath {text[:60]!r} is not understood; there are $.name and $.name[*]")
        if not text:
            raise location.error("tokenize is empty")
        return SplitBody(location, language, text, self._steps(words.node("steps")), "steps" in words.entries)

    def gather(self, words: Mapping, location: Location) -> Step:
        """Return the step ``aggregate`` of messages with the same key, complete by size or time."""
        known = (
            *("correlationExpression", "completionSize", "completionTimeout", "aggregationStrategy", "delimiter"),
            *("steps", *REMARKS),
        )
        words.check("word of aggregate", known)
        key = words.node("correlationExpression")
        if key is None:
            raise location.error("aggregate needs correlationExpression, such as {header: customer}")
        size, timeout = words.text("completionSize"), words.text("completionTimeout")
        if size is None and timeout is None:
            raise location.error("aggregate needs completionSize, completionTimeout, or both")
        strategy = self._class_of(words, "aggregationStrategy") or LATEST
        if strategy not in STRATEGIES:
            raise words.entries["aggregationStrategy"].location.unknown("aggregationStrategy", strategy, STRATEGIES)
        return Gather(
            location,
            expression_of(mapping_of(key, "correlationExpression")),
            None if size is None else _number(size, "completionSize", location, 1, MAX_COUNT),
            None if timeout is None else _number(timeout, "completionTimeout", location, 1, MAX_MS),
            STRATEGIES[strategy],
            words.text("delimiter") or "",
            self._steps(words.node("steps")),
            "steps" in words.entries,
        )

    def idempotent(self, words: Mapping, location: Location) -> Step:
        """Return the step ``idempotentConsumer``: the first message of each key."""
        known = (*LANGUAGE_WORDS, "idempotentRepository", "messageIdRepositoryRef", "cacheSize", "steps", *REMARKS)
        words.check("word of idempotentConsumer", known)
        for name in ("idempotentRepository", "messageIdRepositoryRef"):
            repository = self._class_of(words, name)
            if repository is not None and not repository.endswith(
                ("MemoryIdempotentRepository", "FileIdempotentRepository")
            ):
                raise words.entries[name].location.error(
                    f"{name} {repository[:60]!r} is not supported; leave it out: the keys are kept in the route's state"
                )
        size = words.text("cacheSize") or str(DEFAULT_KEYS)
        return Idempotent(
            location,
            expression_of(words),
            _number(size, "cacheSize", location, 1, MAX_COUNT),
            self._steps(words.node("steps")),
            "steps" in words.entries,
        )

    def _class_of(self, words: Mapping, name: str) -> str | None:
        """Return the class named by a word, directly or as a bean, without the package."""
        text = words.text(name)
        if text is None:
            return None
        bean = text.removeprefix("#class:").removeprefix("#bean:").removeprefix("#")
        return self._classes.get(bean, bean).rpartition(".")[2]


def _constant(expression: Expression, name: str) -> str:
    if "${" in expression.text:
        raise expression.location.error(f"{name} must be a number here, the same for all messages")
    return expression.text


def _number(text: str, name: str, location: Location, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise location.error(f"{name} is {text[:60]!r}, not a whole number") from None
    if not low <= value <= high:
        raise location.error(f"{name} is {value}; it must lie between {low} and {high}")
    return value
