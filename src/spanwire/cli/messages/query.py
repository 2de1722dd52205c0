"""``spanwire query`` prints attributes of the broker's objects, and ``spanwire bstat`` a part.

The objects are chosen as in ActiveMQ's query.

spanwire query                                     everything
spanwire query -QQueue=ORDERS.* -xQQueue=*.TEST    some queues
spanwire query -QTopic=* --view EnqueueCount       one attribute of all topics
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.objects import TYPES, ViewedObject, all_objects, chosen
from spanwire.cli.running import control_client
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError

ADVISORIES: Final = ("Topic", "ActiveMQ.Advisory.*")
INCLUDE: Final = "-Q"
EXCLUDE: Final = "-xQ"


def run(arguments: Sequence[str]) -> int:
    """Print the chosen objects, separated by blank lines."""
    words, included, excluded = _split(arguments)
    parser = Parser(
        prog="spanwire query",
        description="Attributes of a running broker's objects: -Q TYPE=NAME chooses, -xQ TYPE=NAME leaves out; * and ? "
        f"stand for any text.\nTypes: {', '.join(TYPES)}",
    )
    placement(parser)
    parser.option("view", "only these attributes, separated by commas", metavar="NAMES")
    parser.add_argument("--json", action="store_true", help="print the objects as JSON")
    options = parser.parse(words)
    objects = chosen(all_objects(control_client(options)), included, excluded)
    wanted = [name.strip() for name in str(options.view).split(",")] if options.view else []
    _check_known(wanted, objects)
    _print(objects, wanted, options.json)
    return 0


def bstat(arguments: Sequence[str]) -> int:
    """Print the broker, its connectors, connections and destinations.

    Durable subscriptions are among them, advisory topics are not.
    """
    parser = Parser(
        prog="spanwire bstat",
        description="Statistics of a running broker, its connections, subscriptions and destinations.",
    )
    placement(parser)
    parser.add_argument("--json", action="store_true", help="print the objects as JSON")
    options = parser.parse(arguments)
    _print(chosen(all_objects(control_client(options), False), [], [ADVISORIES]), [], options.json)
    return 0


def _split(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]], list[tuple[str, str]]]:
    """Separate the choices from the other words; both -QQueue=A and -Q Queue=A are allowed."""
    words: list[str] = []
    included: list[tuple[str, str]] = []
    excluded: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option = next((prefix for prefix in (EXCLUDE, INCLUDE) if word.startswith(prefix)), None)
        if option is None:
            words.append(word)
            continue
        value = word.removeprefix(option) or (rest.pop(0) if rest else "")
        (included if option == INCLUDE else excluded).append(_choice(option, value))
    return words, included, excluded


def _choice(option: str, value: str) -> tuple[str, str]:
    kind, equals, name = value.partition("=")
    if not equals or not name:
        raise ConfigurationError(f"write {option}TYPE=NAME, for example {option}Queue=ORDERS.*")
    if kind not in TYPES:
        raise ConfigurationError(f"{option}: there is no type {kind[:60]}{suggestion(kind, TYPES)}")
    return kind, name


def _check_known(wanted: Sequence[str], objects: Sequence[ViewedObject]) -> None:
    known = sorted({name for viewed in objects for name in viewed.attributes})
    for name in wanted:
        if objects and name not in known:
            hint = suggestion(name, known)
            raise ConfigurationError(f"--view: none of these objects has an attribute {name[:60]}{hint}")


def _print(objects: Sequence[ViewedObject], wanted: Sequence[str], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([asdict(viewed) for viewed in objects], indent=2) + "\n")
        return
    sys.stdout.write("\n".join(viewed.text(wanted) for viewed in objects))
