"""The page of a question why: a message, queue, topic, subscription, connection or link does not move."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from spanwire.management.control_client import ControlError
from spanwire.management.handles import REFUSED
from spanwire.management.tables.operation_table import WHY, Role
from spanwire.web.arguments import check_arguments
from spanwire.web.calls import Call
from spanwire.web.console import formats
from spanwire.web.console.forms import HOME, read_words
from spanwire.web.console.rendering import page
from spanwire.web.problems import ProblemError

WHY_PATH: Final = f"{HOME}/why"
KINDS: Final = next(argument.choices for argument in WHY.arguments if argument.name == "kind")
MESSAGE: Final = "message"
WORDS: Final = tuple(argument.name for argument in WHY.arguments)
UNKNOWN: Final = "unknown"
CALM: Final = ("dispatching", "healthy", "empty", "acknowledged")  # causes of which nobody has to do anything
COMMAND: Final = re.compile(r"spanwire (?P<verb>why|(?:queue|consumer|link|job) [a-z]+|disconnect) (?P<words>.*)")
ELSEWHERE: Final = " at broker "  # in an advice to ask another broker
# The forms of the commands that an advice names, by their verbs: path, word of the query, lowest role.
FORMS: Final = {
    "queue resume": ("/admin/do/queues/resume", "name", Role.OPERATE),
    "queue retry": ("/admin/do/queues/retry", "name", Role.OPERATE),
    "consumer end": ("/admin/do/consumers/end", "consumer_id", Role.ADMIN),
    "disconnect": ("/admin/do/connections/disconnect", "client", Role.ADMIN),
    "link stop": ("/admin/do/links/stop", "connectors", Role.ADMIN),
    "link start": ("/admin/do/links/start", "connectors", Role.ADMIN),
    "job remove": ("/admin/do/jobs/remove", "job_id", Role.ADMIN),
}
OBJECTS: Final = {
    "queue://": "/admin/queue",
    "topic://": "/admin/topic",
    "connection ": "/admin/connection",
    "link ": "/admin/link",
}  # what the place of an evidence begins with, and the page of such an object
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Seen:
    """One piece of evidence: text, broker, object and time.

    ``target`` is the page of the object, or empty.
    """

    text: str
    broker: str
    place: str
    when_ms: object
    target: str


@dataclass(frozen=True, slots=True)
class Advice:
    """One line of advice: a command within the line is a link to ``target``, the page for the command."""

    text: str
    command: str = ""
    target: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """An explanation for the page."""

    broker: str
    subject: str
    cause: str
    sentence: str
    evidence: tuple[Seen, ...]
    advice: tuple[Advice, ...]

    @property
    def is_calm(self) -> bool:
        """Return True if the cause needs no action."""
        return self.cause in CALM


async def show_why(call: Call) -> Response:
    """Show the form of the question, and the broker's answer. Raises `ProblemError` for wrong arguments."""
    words = read_words(call)
    asked = {name: words.text(name).strip() for name in WORDS}
    fault, kind, explanations = "", asked["kind"], list[Shown]()
    if asked["name"]:
        try:
            kind, explanations = await _answer(call, {name: value for name, value in asked.items() if value})
        except ControlError as error:
            if error.code != REFUSED:
                raise
            fault = str(error)
    return page(
        call,
        "why.html",
        f"Why: {asked['name'][:80]}" if asked["name"] else "Why does it not move?",
        asked=asked,
        kinds=KINDS,
        kind=kind,
        fault=fault,
        explanations=explanations,
        is_unknown=bool(explanations) and all(one.cause == UNKNOWN for one in explanations),
        again=formats.link(WHY_PATH, **asked),
        everywhere=formats.link(WHY_PATH, **{**asked, "kind": MESSAGE, "network": "true"}),
    )


async def _answer(call: Call, arguments: dict[str, object]) -> tuple[str, list[Shown]]:
    check_arguments(WHY.arguments, arguments)
    answer = await call.ask(WHY.command, **arguments)
    rows = answer.get("explanations") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(rows, list):
        raise ProblemError(HTTPStatus.BAD_GATEWAY, "the broker's answer has another form than expected")
    own = str(answer.get("broker"))
    return str(answer.get("kind")), [_shown(row, own, call.role) for row in rows if isinstance(row, dict)]


def _shown(row: Row, own: str, role: Role) -> Shown:
    evidence, advice = row.get("evidence"), row.get("advice")
    return Shown(
        str(row.get("broker")),
        str(row.get("subject")),
        str(row.get("cause")),
        str(row.get("sentence")),
        tuple(_seen(one, own) for one in evidence if isinstance(one, dict)) if isinstance(evidence, list) else (),
        tuple(_advice(str(one), own, row, role) for one in advice) if isinstance(advice, list) else (),
    )


def _seen(row: Row, own: str) -> Seen:
    broker, place = str(row.get("broker")), str(row.get("object"))
    target = ""
    for start, path in OBJECTS.items():
        if broker == own and place.startswith(start):
            name = place if "://" in start else place.removeprefix(start).partition(" to ")[0]
            target = formats.link(path, name=name)
    return Seen(str(row.get("text")), broker, place, row.get("time_ms"), target)


def _advice(text: str, own: str, row: Row, role: Role) -> Advice:
    return advised(text, role) if str(row.get("broker")) == own else Advice(text)


def advised(text: str, role: Role) -> Advice:
    """Return a line of advice about the own broker.

    A command with a page for the role is a link to the page.
    """
    found = COMMAND.search(text)
    if found is None or ELSEWHERE in text:
        return Advice(text)
    try:
        words = shlex.split(found["words"])
    except ValueError:  # an apostrophe in plain words
        return Advice(text)
    target, used = _target(found["verb"], words, role)
    if not target:
        return Advice(text)
    rest = " ".join(words[used:])
    command = text[found.start() :].removesuffix(rest) if rest else text[found.start() :]
    return Advice(text[: found.start()], command.rstrip(), target, f" {rest}" if rest else "")


def _target(verb: str, words: list[str], role: Role) -> tuple[str, int]:
    """Return the page of a command in words, and the number of words used; an empty path without a page."""
    if verb == "why":
        has_kind = words[0] in KINDS and len(words) > 1
        used = 2 if has_kind else 1
        return formats.link(WHY_PATH, kind=words[0] if has_kind else "", name=words[used - 1]), used
    path, word, least = FORMS.get(verb, ("", "", Role.ADMIN))
    if not path or role < least:
        return "", 0
    name = f"queue://{words[0]}" if verb.startswith("queue") and "://" not in words[0] else words[0]
    more = {"selector": words[2]} if words[1:2] == ["--selector"] and len(words) > 2 else {}
    return formats.link(path, **{word: name}, **more), 1 + 2 * len(more)
