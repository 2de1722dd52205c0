"""Writes docs/reference/attacks.md from the table of attacks below and the tests that are named after them.

python tools/generate_attacks_reference.py            # writes the page
python tools/generate_attacks_reference.py --check    # fails if the page is not what table and tests give

A test of attack 7 has a name that begins with ``test_s7_``. Both fail for a test of an attack that is not in the table,
and for an attack of the table without a test, unless the table says what brings it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ROOT / "tests"
TARGET: Final = ROOT / "docs" / "reference" / "attacks.md"
NAME: Final = re.compile(r"^ *(?:async )?def test_(s[0-9]+)_", re.MULTILINE)
HEAD: Final = """\
# Attacks and their tests

Attacks that were found in message brokers, and what Spanwire does about each. `SECURITY.md` in the root directory says
what is promised and how to report a hole. An attack has a number, and the names of its tests begin with this number:
the tests of S7 are `test_s7_…`. A test stays for ever. `tools/generate_attacks_reference.py` writes this page.

Run the tests of one attack with `python -m pytest -k test_s7_`.

| attack | what is tried | what Spanwire does | tests |
|---|---|---|---|
"""


class Attack(NamedTuple):
    """An attack, and what stops it; ``waits_for`` is the part that has the attack's surface and does not exist yet."""

    tried: str
    answer: str
    waits_for: str = ""


ATTACKS: Final[dict[str, Attack]] = {
    "s1": Attack(
        "a class named in an exception command is instantiated",
        "Names of classes and texts stay texts. They choose from a closed set of Python errors.",
    ),
    "s2": Attack(
        "a length field is believed before its bytes are there",
        "Each length is compared with the limit and the bytes left in the frame before anything is allocated.",
    ),
    "s3": Attack(
        "commands before the login", "A table of states lets in the handshake only: small frames, ten seconds."
    ),
    "s4": Attack("a remote shutdown", "Shutdown commands of clients, and of brokers to clients, have no effect."),
    "s5": Attack(
        "an identity in the command instead of that of the session",
        "The session's identity counts. Ids of other connections are refused.",
    ),
    "s6": Attack("take-over of temporary destinations", "The broker knows the owner. Others are refused."),
    "s7": Attack(
        "composite, temporary or decorated names evade authorization",
        "Names are expanded first, and each physical destination is authorized by itself.",
    ),
    "s8": Attack(
        "creation, removal and change of type without the right to it",
        "Each asks for `admin` on the name, also by first use.",
    ),
    "s9": Attack(
        "forged advisories", "No client writes advisory topics, and the broker's own path is no flag of a session."
    ),
    "s10": Attack(
        "deserialization of message bodies", "Bodies are opaque bytes everywhere. A lint bans pickle and its like."
    ),
    "s11": Attack(
        "compression bombs", "Routing never inflates. Where a body is shown or converted, size and ratio are bounded."
    ),
    "s12": Attack("platform details in the handshake", "The broker names its provider and nothing else."),
    "s13": Attack("a frame limit evaded by chunks or renegotiation", "The limit is fixed before the first byte."),
    "s14": Attack(
        "negative or contradictory `content-length`",
        "Digits only, within the limit, else ERROR and the end of the connection.",
    ),
    "s15": Attack(
        "headers that never end", "The block of headers is bounded while it is read, and more closely before the login."
    ),
    "s16": Attack(
        "line ends, NUL and headers in values that are echoed",
        "Values are escaped for the client's version. What cannot be written is refused.",
    ),
    "s17": Attack(
        "names in HTTP paths that lead elsewhere",
        "Paths are matched against a closed list of routes. No path becomes a file name.",
    ),
    "s18": Attack(
        "properties that set headers of an HTTP answer; a GET that consumes",
        "A property gets a prefix and must be a token. Foreign pages and HEAD consume nothing.",
    ),
    "s19": Attack("HTTP without a login, or with too low a role", "Each route has a role, and the default is refusal."),
    "s20": Attack(
        "any method by name, addresses that load a configuration",
        "Operations are a closed list. Addresses of clients and of discovery cannot make brokers or read files.",
    ),
    "s21": Attack(
        "scripts in names and bodies on pages of the console",
        "Every value is escaped, and a policy of the page runs no foreign script.",
    ),
    "s22": Attack(
        "files written or read over HTTP, addresses of blobs",
        "There is no file server. The broker opens no address that a message names.",
    ),
    "s23": Attack(
        "forged requests, frames of other sites, DNS rebinding",
        "Tokens for forms, cookies of the same site, a list of host names, no frames.",
    ),
    "s24": Attack(
        "clients that take their time, contradictory and endless requests",
        "Deadlines and limits of size for each phase, and of connections for each address.",
    ),
    "s25": Attack(
        "secrets in logs",
        "Passwords are a type without a text. All tests run with a canary password and every log level.",
    ),
    "s26": Attack("external entities by XPath selectors", "XPATH and XQUERY are refused before their text is read."),
    "s27": Attack(
        "entities, document types and depth in XML",
        "Document types are refused. Size, depth, elements and attributes are bounded.",
    ),
    "s28": Attack("`LIKE` patterns that take for ever", "The comparison is linear and uses no regular expression."),
    "s29": Attack("deep, long and countless selectors", "Depth, size, nodes and the cache of selectors are bounded."),
    "s30": Attack("odd numbers in selectors", "Numbers have JMS types, and what does not fit is refused."),
    "s31": Attack(
        "empty passwords, anonymous binds and wildcards of LDAP",
        "An empty password never reaches the directory, and names are escaped.",
    ),
    "s32": Attack(
        "TLS without the host name, expired certificates, floods of key updates",
        "Chain and host name are verified before the login. There is no renegotiation.",
    ),
    "s33": Attack(
        "default passwords, guesses, timing",
        "A port for other machines needs a safe password. Guesses are slowed down, comparisons take constant time.",
    ),
    "s34": Attack("wildcards that match more than is allowed", "A message is authorized by its physical destination."),
    "s35": Attack(
        "client ids and subscriptions of others, guessed XA ids",
        "A take-over needs the rights of its user. Ids cannot be guessed.",
    ),
    "s36": Attack("a client that pretends to be a broker", "Commands of brokers need the right of bridges."),
    "s37": Attack(
        "a connection out of the broker to a place of the attacker",
        "Links come from the configuration alone. Those of gossip stay within its networks and number.",
    ),
    "s38": Attack(
        "credentials for whoever answers a discovery",
        "The broker's certificate is verified before the login. What is discovered is not trusted.",
    ),
    "s39": Attack(
        "forged routes, false demand, the id or link of another broker",
        "Demand needs the right to read. Paths and hops are bounded, and a double id is refused.",
    ),
    "s40": Attack(
        "storms: loops, floods of advisories, demand that flaps, schedules",
        "Hops, rates, repeats and schedules are bounded.",
    ),
    "s41": Attack(
        "names of destinations as names of files",
        "No file is named after a destination. Names are at most 1,024 bytes without control characters.",
    ),
    "s42": Attack(
        "damaged, cut, swapped and foreign files in the store",
        "Checksums cover each record, batch and segment. A start refuses, or loses nothing silently.",
    ),
    "s43": Attack(
        "lengths and topics of MQTT",
        "No connector takes MQTT: the first byte ends the connection, and no length is read. Bridges read brokers of "
        "MQTT through a library.",
    ),
    "s44": Attack(
        "depth, entities and size of XMPP streams",
        "Document types and entities are refused. Depth, names and stanzas are bounded while they are read.",
    ),
    "s45": Attack(
        "more destinations, consumers or transactions than a connection may have",
        "Each has a limit. One more is refused, and other clients do not notice.",
    ),
    "s46": Attack(
        "cursors, batches and requests of others at the control destination",
        "Each asks for `admin`, has an owner and an epoch, and is bounded.",
    ),
    "s47": Attack(
        "traces without end or by whoever asks, and false steps",
        "Clients may not mark. Marks end, are few, and bound their messages and selectors. Claims are checked and cut.",
    ),
}


def main() -> int:
    """Write the page, or compare it; return the exit status."""
    found = named_tests()
    problems = list(differences(found, ATTACKS))
    if problems:
        sys.stdout.write("\n".join(problems) + "\n")
        return 1
    text = page(found, ATTACKS)
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            sys.stdout.write(f"{TARGET.name} is not what the tests give: run tools/generate_attacks_reference.py\n")
            return 1
        return 0
    TARGET.write_text(text, "utf-8")
    return 0


def named_tests() -> dict[str, list[str]]:
    """Return the modules with tests of each attack, as paths below tests, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for number in sorted(set(NAME.findall(path.read_text("utf-8")))):
            found[number].append(path.relative_to(TESTS).as_posix())
    return dict(found)


def differences(found: Mapping[str, list[str]], attacks: Mapping[str, Attack]) -> Iterator[str]:
    """Return a line for each test without an attack, and for each attack without a test or a reason."""
    for number, modules in found.items():
        if number not in attacks:
            yield f"tests/{modules[0]}: tests of {number}, which tools/generate_attacks_reference.py does not list"
        elif not attacks[number].answer:
            yield f"{number}: tests/{modules[0]} has tests of it; say in the table what Spanwire does"
    for number, attack in attacks.items():
        if number not in found and not attack.waits_for:
            yield f"{number}: no test has a name that begins with test_{number}_"


def page(found: Mapping[str, list[str]], attacks: Mapping[str, Attack]) -> str:
    """Return the text of the page."""
    lines = []
    for number, attack in attacks.items():
        modules = ", ".join(f"`tests/{module}`" for module in found.get(number, []))
        answer = attack.answer if modules else ""
        lines.append(f"| {number.upper()} | {attack.tried} | {answer} | {modules or f'with {attack.waits_for}'} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
