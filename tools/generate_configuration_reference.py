"""Writes docs/reference/activemq-xml.md from the tables of words that the configuration's readers use.

python tools/generate_configuration_reference.py           rewrites the page
python tools/generate_configuration_reference.py --check   exit 1 when the page is not what the tables give
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from spanwire.registry import TRANSPORT_SCHEMES
from spanwire.service.config.elements import ELEMENTS
from spanwire.service.config.interpretation.addresses import uri
from spanwire.service.config.tables import uri_options
from spanwire.service.config.tables.handling import COMMON, HONOURED, LATER, ONLY, Rule, Words
from spanwire.service.config.values.diagnostics import PLANNED, snake_case

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "activemq-xml.md"
OPTIONS: Final = {
    "of every transport": {**uri_options.SOCKET, **uri_options.WIRE_FORMAT},
    "of `stomp`, `ws`, `wss` and `auto`": uri_options.STOMP,
    "of `xmpp`": uri_options.XMPP,
    "of `ssl`, `wss`, `xmpp` and everything `+ssl`": uri_options.TLS,
    "of `ws` and `wss`": uri_options.WEBSOCKET,
    "of `auto`": uri_options.DETECTION,
}
HEAD: Final = """\
# Words of activemq.xml

Every element and attribute that Spanwire knows, and what becomes of it. TOML spells them in snake_case. Written by
`tools/generate_configuration_reference.py` from the tables that the readers use; [Take over an
activemq.xml](../guides/configuration/take-over-activemq-xml.md) explains the rest.

| status | meaning |
|---|---|
| honoured | does what it does in ActiveMQ Classic |
| only … | honoured with these values; any other is an obstacle, for the reason that is named |
| no effect | accepted, with a warning unless it asks for what holds anyway |
| refused: … | an obstacle with the way round; what it asks for is left out on purpose |
| later: … | an obstacle until a version has the feature that is named |

Obstacles marked *guards* have to do with access. `--skip-unsupported` passes all others. A second table has the values
and defaults of attributes. Words of every element stand here alone:

| words | status |
|---|---|
{common}
"""


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            print(f"{TARGET.name} is not what the tables give: run tools/generate_configuration_reference.py")
            return 1
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, "utf-8")
    return 0


def page() -> str:
    common = [f"| `{word}` | {status(rule, False)} |" for word, rule in COMMON.items()]
    parts = [HEAD.format(common="\n".join(common))]
    parts += [section(name, table) for name, table in ELEMENTS.items()]
    parts.append(transports())
    return "\n".join(parts)


def section(name: str, table: Words) -> str:
    """One element: its attributes and what may stand inside, words of one status in one row."""
    rows: dict[str, list[str]] = {}
    for word, rule in table.settings.items():
        rows.setdefault(status(rule, table.guards), []).append(f"`{word}`")
    for word, rule in table.children.items():
        rows.setdefault(status(rule, table.guards), []).append(f"`<{word}>`")
    lines = [
        f"## {name}",
        "",
        f"TOML: `{snake_case(name.partition(' of ')[0])}`",
        "",
        "| words | status |",
        "|---|---|",
    ]
    for told, found in sorted(rows.items(), key=order):
        lines.append(f"| {', '.join(sorted(found, key=str.lower))} | {told} |")
    return "\n".join([*lines, "", *attributes(table)])


def attributes(table: Words) -> list[str]:
    """Value and default of each attribute that sets a field."""
    rows = [(row.name, row.kind.shown, rows.default_of(row)) for rows in table.tables for row in rows.rows]
    if not rows:
        return []
    lines = ["| attribute | TOML | value | default |", "|---|---|---|---|"]
    rows.sort(key=lambda row: row[0].lower())
    return [
        *lines,
        *(f"| `{name}` | `{snake_case(name)}` | {value} | {default} |" for name, value, default in rows),
        "",
    ]


def order(row: tuple[str, list[str]]) -> tuple[int, str]:
    starts = ("honoured", "only", "no effect", "refused", "later")
    return next(index for index, start in enumerate(starts) if row[0].startswith(start)), row[0]


def status(rule: Rule, all_guard: bool) -> str:
    if rule.kind == HONOURED:
        return "honoured"
    if rule.kind == LATER:
        told = f"{'later' if rule.note in PLANNED else 'refused'}: {rule.note}"
    elif rule.kind == ONLY:
        told = f"only {' or '.join(f'`{value}`' for value in rule.values)}"
        told += f": {rule.note}" if rule.note else ""
    else:
        return f"no effect: {rule.note}"
    return f"{told} (*guards*)" if rule.guards or all_guard else told


def transports() -> str:
    """Schemes and options of a connector's URI."""
    later: dict[str, list[str]] = {}
    for scheme, feature in uri.LATER_SCHEMES.items():
        if scheme not in uri.CLIENT_SCHEMES:
            later.setdefault(feature, []).append(f"`{scheme}`")
    lines = ["## Transports of connectors", "", "| schemes | status |", "|---|---|"]
    lines.append(f"| {', '.join(f'`{scheme}`' for scheme in TRANSPORT_SCHEMES)} | honoured |")
    lines += [f"| {', '.join(schemes)} | later: {feature} |" for feature, schemes in later.items()]
    lines += ["", "Options may begin with `transport.`; `wireformat.` is read as `wireFormat.`.", ""]
    for where, options in OPTIONS.items():
        lines += [f"### Options {where}", "", "| option | value |", "|---|---|"]
        for name, (kind, only) in sorted(options.items(), key=lambda option: option[0].lower()):
            effect = f"; no effect: {uri_options.WITHOUT_EFFECT[name][1]}" if name in uri_options.WITHOUT_EFFECT else ""
            lines.append(f"| `{name}` | {kind if only is None else f'only `{only}`'}{effect} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
