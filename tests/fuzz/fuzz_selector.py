"""Fuzz the selector parser and evaluator: any text gives a Selector or an InvalidSelectorError, and that quickly.

python tests/fuzz/fuzz_selector.py [COUNT [SEED]]      seeded random texts; atheris if it is installed
python tests/fuzz/fuzz_selector.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.parser import CONVERT_STRING_EXPRESSIONS, parse_selector
from tests.fuzz.harness import run  # the path above makes a plain run of this file find it

DEFAULT_COUNT: Final = 100_000
SLOWEST_SECONDS: Final = 1.0  # one text, interpreted, on a busy machine; the target on a quiet one is 5 ms
WORDS: Final = (
    "a b t s 1 0x1F 017 9L 1.5 .5 1e9 'x' '%a_' '' ' ( ) , = <> < > <= >= + - * / % . -- /* */ AND OR NOT IN LIKE "
    "ESCAPE IS NULL BETWEEN TRUE FALSE REGEX REGEX('a*', XPATH JMSPriority é # \\ \n"
).split(" ")


class Message:
    """Every name has a value, of a type that depends on the name."""

    VALUES: Final = (None, True, 7, 2.5, "aab%", b"raw", -(2**63), float("nan"))

    def value(self, name: str) -> object:
        return self.VALUES[len(name + name[:1]) * ord(name[0]) % len(self.VALUES)]

    def value_type(self, name: str) -> int:
        return 0


def run_one(text: str) -> bool:
    """Whether `text` was a selector; anything but InvalidSelectorError escapes."""
    started = time.process_time()
    try:
        selector = parse_selector(text)
    except InvalidSelectorError:
        return False
    assert selector.matches(Message()) in (True, False)
    parse_again = str(selector)
    assert parse_again, "a selector without a text"
    assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {text!r}"
    return True


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls."""
    _ = run_one(data.decode("utf-8", "surrogateescape"))


def grammar(source: random.Random, depth: int) -> str:
    """Mostly a valid selector."""
    if depth == 0:
        return source.choice(("a", "t", "bb", "1", "2.5", "'x%'", "TRUE", "NULL", "JMSPriority"))
    form = source.choice(
        ("{} = {}", "{} < {}", "{} AND {}", "{} OR {}", "NOT {}", "({})", "a IN ('x')", "{} LIKE '_a%b_c%'", "-{}",
         "{} BETWEEN {} AND {}", "{} IS NOT NULL", "{} + {}", "{} / {}", "REGEX('^a*(b|c)+', {})", "{}")
    )  # fmt: skip
    return form.format(*[grammar(source, source.randrange(depth)) for _ in range(3)])


def random_text(source: random.Random) -> str:
    """Words in a row, mostly; sometimes any characters, sometimes one thing very often."""
    kind = source.random()
    if kind < 0.4:
        text = grammar(source, 4)
    elif kind < 0.7:
        text = source.choice((" ", "")).join(source.choices(WORDS, k=source.randrange(1, 30)))
    elif kind < 0.9:
        text = "".join(map(chr, source.choices(range(0x250), k=source.randrange(80))))
    else:
        text = source.choice(WORDS) * source.choice((10, 64, 65, 1000, 9000)) + source.choice(WORDS)
    return CONVERT_STRING_EXPRESSIONS + text if source.random() < 0.2 else text


def loop(source: random.Random, count: int) -> str:
    """Random texts."""
    accepted = sum(run_one(random_text(source)) for _ in range(count))
    return f"selector: {count} texts, {accepted} accepted"


if __name__ == "__main__":
    sys.exit(run(sys.argv, run_bytes, DEFAULT_COUNT, loop))
