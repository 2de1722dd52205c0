"""``spanwire query`` prints attributes of the broker's objects, and ``spanwire bstat`` a part.

The objects are chosen as in ActiveMQ's query.

spanwire query                                     everything
spanwire query -QQueue=ORDERS.* -xQQueue=*.TEST    some queues
spanwire query -QTopic=* --view EnqueueCount       one attribute of all topics
spanwire query --objname destinationType=Queue     beans of ActiveMQ's names
spanwire query -QQueue=ORDERS --invoke pause       an operation of a bean
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.messages.bean_query import (
    EVERY_BEAN,
    ControlSource,
    chosen_beans,
    complete,
    invoke,
    lines_of,
    pattern_of,
    read_invocation,
    selected,
    shown_value,
    type_pattern,
)
from spanwire.cli.objects import TYPES, ViewedObject, all_objects, chosen
from spanwire.cli.running import control_client
from spanwire.documents.spelling import suggestion
from spanwire.management.beans.bean import Bean
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.model.text import escaped

ADVISORIES: Final = ("Topic", "ActiveMQ.Advisory.*")
INCLUDE: Final = "-Q"
EXCLUDE: Final = "-xQ"


def run(arguments: Sequence[str]) -> int:
    """Print the chosen objects, separated by blank lines, or invoke an operation of each."""
    words, included, excluded = _split(arguments)
    parser = Parser(
        prog="spanwire query",
        description="Attributes of a running broker's objects: -Q TYPE=NAME chooses, -xQ TYPE=NAME leaves out; * and ? "
        f"stand for any text.\nTypes: {', '.join(TYPES)}\n"
        "--objname chooses by the names of ActiveMQ's beans. With --objname or --invoke, attributes and operations\n"
        "are those of the beans, as over Jolokia. Exit status 1 if an operation is not allowed, or refused.",
    )
    placement(parser)
    for name, text in (("objname", "choose beans with these properties"), ("xobjname", "leave out beans with them")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"{text}, such as 'destinationType=Queue,destinationName=ORDERS.*', or a whole name",
        )
    parser.option(
        "invoke", "invoke an operation of each chosen bean, such as 'purge' or 'moveMatchingMessagesTo(n > 1, B)'",
        metavar="OPERATION",
    )  # fmt: skip
    parser.add_argument("--dry-run", "--dryRun", action="store_true", help="with --invoke: show the beans, do nothing")
    parser.option("view", "only these attributes, separated by commas", metavar="NAMES")
    parser.add_argument("--json", action="store_true", help="print the objects as JSON")
    options = parser.parse(words)
    wanted = [name.strip() for name in str(options.view).split(",")] if options.view else []
    if options.objname or options.xobjname or options.invoke is not None:
        names = [*map(pattern_of, options.objname), *(type_pattern(*pair) for pair in included)]
        without = [*map(pattern_of, options.xobjname), *(type_pattern(*pair) for pair in excluded)]
        return _run_on_beans(ControlSource(control_client(options)), options, (names, without), wanted)
    objects = chosen(all_objects(control_client(options)), included, excluded)
    _check_known(wanted, [viewed.attributes for viewed in objects])
    _print(objects, wanted, options.json)
    return 0


def _run_on_beans(
    source: ControlSource, options: argparse.Namespace, names: tuple[list[str], list[str]], wanted: list[str]
) -> int:
    """Print the beans that the first names find and the second do not, or invoke an operation of each."""
    invocation = None if options.invoke is None else read_invocation(str(options.invoke))
    included, excluded = names
    if invocation is not None and not included:
        raise ConfigurationError("--invoke: choose the beans with -Q or --objname")
    beans = asyncio.run(chosen_beans(source, included or [EVERY_BEAN], excluded))
    if not beans:
        raise ConfigurationError("no bean has such a name; spanwire query --objname type=Broker lists all of them")
    if invocation is not None:
        return _invoke(source, beans, invocation, options)
    asyncio.run(complete(source, beans, wanted))
    _check_known(wanted, [bean.attributes for bean in beans])
    if options.json:
        shown = [{"objectName": bean.name, "attributes": selected(bean, wanted)} for bean in beans]
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    else:
        texts = ["".join(f"{escaped(line)}\n" for line in lines_of(bean, wanted)) for bean in beans]
        sys.stdout.write("\n".join(texts))
    return 0


def _invoke(
    source: ControlSource, beans: Sequence[Bean], invocation: tuple[str, list[object]], options: argparse.Namespace
) -> int:
    """Invoke an operation of each bean; return the exit status."""
    operation, words = invocation
    refused = False
    results: list[dict[str, object]] = []
    for bean in beans:
        if options.dry_run:
            results.append({"objectName": bean.name, "value": f"{operation} would be invoked"})
            continue
        try:
            results.append({"objectName": bean.name, "value": asyncio.run(invoke(source, bean, operation, words))})
        except SpanwireError as error:
            refused = True
            sys.stderr.write(f"spanwire query: {escaped(f'{bean.name}: {error}')}\n")
    if options.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
        return int(refused)
    for result in results:
        for line in shown_value(result["value"]).splitlines():
            sys.stdout.write(escaped(f"{result['objectName']}: {line}") + "\n")
    return int(refused)


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


def _check_known(wanted: Sequence[str], objects: Sequence[Mapping[str, object]]) -> None:
    known = sorted({name for attributes in objects for name in attributes})
    for name in wanted:
        if objects and name not in known:
            hint = suggestion(name, known)
            raise ConfigurationError(f"--view: none of these objects has an attribute {name[:60]}{hint}")


def _print(objects: Sequence[ViewedObject], wanted: Sequence[str], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([asdict(viewed) for viewed in objects], indent=2) + "\n")
        return
    sys.stdout.write("\n".join(viewed.text(wanted) for viewed in objects))
