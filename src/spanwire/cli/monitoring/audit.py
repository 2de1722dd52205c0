"""``spanwire audit``: prints the equation of each destination, and the traffic of a network's links."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient, ControlError
from spanwire.management.tables.ledger_tables import CAME, LEDGER, LEDGER_LINKS, SINCE_START, WENT
from spanwire.model.text import escaped
from spanwire.network.reports.known_brokers import SILENT

PATIENCE_S: Final = 60.0  # seconds; 100,000 destinations take some
SECOND_LOOK_S: Final = 6.0  # seconds; brokers behind others tell each other every two
ADDS_UP: Final = 0
BROKEN: Final = 3
REMOVED: Final = "removed destinations"
WORDS: Final = {"moved_in": "moved in", "dead_letters": "dead letters", "dead_lettered": "dead-lettered",
                "moved_out": "moved out", "arrived": "arrived over links"}  # fmt: skip
DESCRIPTION: Final = """Show what came to each queue and durable subscription, what left it, and whether that adds up.

  spanwire audit
  spanwire audit 'queue://ORDERS.*'
  spanwire audit --network

"stored" are persistent messages over all restarts and crashes, "since start" all messages since the start of the
broker. With --network the brokers behind links are compared as well: what one forwarded, and what the other got.

Exit status: 0 all adds up, 1 the broker cannot be asked, 2 wrong usage, 3 something does not add up."""

Row = Mapping[str, object]


def run(arguments: Sequence[str]) -> int:
    """Print the equations; return 0, or 3 if one does not add up."""
    parser = Parser(prog="spanwire audit", description=DESCRIPTION)
    parser.add_argument("pattern", nargs="?", metavar="DESTINATION", help="a name such as queue://A, * for any words")
    parser.flag("network", "compare this broker with those behind its links, and these with others")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    client = control_client(options, PATIENCE_S)
    rows = [row for row in _rows(client, LEDGER.command) if _is_asked_for(row, options.pattern)]
    if options.pattern and not rows:
        raise ControlError(f"this broker has no queue or durable subscription {options.pattern[:80]}")
    links = _rows(client, LEDGER_LINKS.command)
    brokers = _brokers(client) if options.network else []
    crossings = compared(brokers)
    if any(one["missing"] or one["extra"] for one in crossings):
        time.sleep(SECOND_LOOK_S)
        brokers = _brokers(client)
        crossings = settled(crossings, compared(brokers))
    if options.json:
        answer = {"destinations": rows, "links": links, "brokers": brokers, "crossings": crossings}
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        producers = _rows(client, "producers") if options.pattern else []
        sys.stdout.write("".join(escaped(line) + "\n" for line in lines(rows, links, producers)))
        if options.network:
            sys.stdout.write("".join(escaped(line) + "\n" for line in network_lines(brokers, crossings)))
    is_broken = any(row.get("difference") for row in rows) or any(one["missing"] or one["extra"] for one in crossings)
    return BROKEN if is_broken else ADDS_UP


def _rows(client: ControlClient, command: str) -> list[Row]:
    answer = client.ask(command)
    if not isinstance(answer, list):
        raise ControlError("the broker answers in another form than expected: it is of another version")
    return [row for row in answer if isinstance(row, dict)]


def _brokers(client: ControlClient) -> list[Row]:
    answer = client.ask("network")
    found = answer.get("brokers") if isinstance(answer, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _is_asked_for(row: Row, pattern: str | None) -> bool:
    if not pattern:
        return True
    name = str(row.get("destination"))
    return any(fnmatchcase(name, one) for one in (pattern, f"queue://{pattern}"))


def lines(rows: Sequence[Row], links: Sequence[Row], producers: Sequence[Row]) -> list[str]:
    """Return the equations and the traffic of links as lines; with producers for the given destinations."""
    shown: list[str] = []
    for row in sorted(rows, key=lambda row: (str(row.get("destination")), row.get("scope") == SINCE_START)):
        if row.get("destination") == REMOVED and not _side(row, CAME).strip("0"):
            continue
        shown += equation(row)
        if row.get("scope") == SINCE_START:
            shown += _senders(row, producers)
    if not producers:  # of the whole broker
        shown += _lost(rows)
    for link in links:
        words = ", ".join(f"{_count(link, name)} {name.replace('_', ' ')}" for name, _ in _attributes())
        shown.append(f"broker {link.get('remote')}: {words}")
    return shown


def _attributes() -> list[tuple[str, str]]:
    return [(one.name, one.meaning) for one in LEDGER_LINKS.attributes if one.name != "remote"]


def equation(row: Row) -> list[str]:
    """Return the equation of a row, and a line for each reason of a fault; sums of 0 are left out."""
    came, went = _side(row, CAME), _side(row, WENT)
    text = f"{row.get('destination')} ({row.get('scope')}): {came} = {went}"
    difference = _count(row, "difference")
    found = [text]
    if difference > 0:
        found.append(f"  does not add up: {difference} came, and neither left nor wait")
    elif difference < 0:
        found.append(f"  does not add up: {-difference} left or wait, and never came")
    suspects = row.get("suspects")
    if difference and isinstance(suspects, list):
        found += [f"  left lately: {one}" for one in suspects]
    lost = _count(row, "lost")
    if lost:
        found.append(f"  lost with the memory before this start: {lost}, which were never in the store")
    duplicates = _count(row, "duplicates")
    if duplicates:
        found.append(f"  not taken: {duplicates} duplicates of messages that had come before")
    return found


def _lost(rows: Sequence[Row]) -> list[str]:
    """Return the line about messages that were only in memory when the run before ended."""
    recent = [row for row in rows if row.get("scope") == SINCE_START]
    if not recent:
        return []
    if any(row.get("lost_is_known") for row in recent):
        total = sum(_count(row, "lost") for row in recent)
        return [f"lost with the memory before this start: {total}, counted as the broker stopped in order"]
    return [
        "lost with the memory before this start: unknown, since the broker was not stopped in order, or starts for the "
        "first time"
    ]


def _side(row: Row, names: Sequence[str]) -> str:
    terms = [f"{WORDS.get(name, name)} {_count(row, name)}" for name in names if _count(row, name)]
    return " + ".join(terms) if terms else "0"


def _senders(row: Row, producers: Sequence[Row]) -> list[str]:
    """Return the senders of a destination's messages: each present producer, and all others together."""
    own = [one for one in producers if one.get("destination") == row.get("destination") and _count(one, "sent")]
    found = [f"  sent by {one.get('producer_id')}: {_count(one, 'sent')}" for one in own]
    rest = _count(row, "sent") - sum(_count(one, "sent") for one in own)
    if producers and rest > 0:
        found.append(f"  sent by producers that are gone, or name a destination with each message: {rest}")
    return found


def compared(brokers: Sequence[Row]) -> list[dict[str, object]]:
    """Return for each direction of each link what one end forwarded and the other end got.

    ``extra`` got more than was forwarded and is in flight, ``missing`` got less. Both ends tell of persistent messages.
    """
    ledgers = {str(row.get("name")): _by_remote(row) for row in brokers if isinstance(row.get("ledger"), list)}
    found: list[dict[str, object]] = []
    for name, remotes in ledgers.items():
        for remote, own in remotes.items():
            if remote not in ledgers:
                continue
            forwarded, in_flight = _count(own, "forwarded"), _count(own, "in_flight")
            arrived = _count(ledgers[remote].get(name, {}), "arrived")
            found.append(
                {
                    "from": name,
                    "to": remote,
                    "forwarded": forwarded,
                    "in_flight": in_flight,
                    "arrived": arrived,
                    "missing": max(0, forwarded - arrived),
                    "extra": max(0, arrived - forwarded - in_flight),
                }
            )
    return found


def settled(before: Sequence[Mapping[str, object]], after: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the later comparison; after a movement between both, missing and extra become ``moving``.

    The brokers answer at different moments, so a difference counts only if both comparisons show the same.
    """
    for one in after:
        if one not in before:
            one["moving"] = bool(one["missing"] or one["extra"])
            one["missing"] = one["extra"] = 0
    return after


def _by_remote(row: Row) -> dict[str, Row]:
    ledger = row.get("ledger")
    assert isinstance(ledger, list)
    return {str(one.get("remote")): one for one in ledger if isinstance(one, dict)}


def network_lines(brokers: Sequence[Row], crossings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return a line for each direction of each link, and for each broker without a ledger."""
    shown: list[str] = []
    for one in crossings:
        sides = f"{one['forwarded']} forwarded, {one['in_flight']} in flight; {one['arrived']} arrived"
        shown.append(f"from {one['from']} to {one['to']}: {sides}")
        if one.get("moving"):
            shown.append("  messages cross the link now: ask again when it is quiet")
        if one["missing"]:
            shown.append(f"  does not add up: {one['missing']} were forwarded and have not arrived")
        if one["extra"]:
            shown.append(f"  does not add up: {one['extra']} arrived that were not forwarded, such as second copies")
    for row in brokers:
        if not isinstance(row.get("ledger"), list):
            shown.append(f"broker {row.get('name')}: the knowledge ends here: {_ending(str(row.get('silence') or ''))}")
    known = {str(row.get("name")) for row in brokers}
    named = {remote for row in brokers if isinstance(row.get("ledger"), list) for remote in _by_remote(row)}
    shown += [
        f"broker {name}: the knowledge ends here: no broker has asked it; if it is Spanwire, audit it there"
        for name in sorted(named - known)
    ]
    return shown


def _ending(silence: str) -> str:
    """Return why a broker has no ledger; other brokers than Spanwire have none, whatever else they tell."""
    if not silence or silence == SILENT:
        return "it keeps no ledger, as brokers other than Spanwire"
    return f"it {silence}"


def _count(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
